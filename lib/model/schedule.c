/*
 * schedule.c - lists of actions
 *
 * First all stages are timed, with a forward pass of 1 and a backward pass of 2: the start of each
 * pass follows from the order of passes on each stage and from their dependencies. Then each
 * exchange gets a time, between the end of the pass that makes its message and the start of the one
 * that reads it, the same on both sides; a stage issues it before its first pass that starts no
 * earlier. Finally one walk over the list assigns all numbers.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/model/passes.h"
#include "lib/model/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { FORWARD_TIME = 1, BACKWARD_TIME = 2 };

/* --- order of passes -------------------------------------------------------------------------- */

struct pass {
	bool backward;
	int microbatch, chunk;
};

/* Passes of one direction on a stage. */
static int
one_way(const struct schedule_shape *s)
{
	return s->num_microbatches * s->num_chunks;
}

static int
num_passes(const struct schedule_shape *s)
{
	return one_way(s) * (s->training ? 2 : 1);
}

/* The k-th pass of one direction: micro batches go group by group, each through all chunks. */
static struct pass
nth(const struct schedule_shape *s, int k, bool backward)
{
	int group = k / (s->group_size * s->num_chunks), first = group * s->group_size,
	    left = s->num_microbatches - first, size = left < s->group_size ? left : s->group_size,
	    at = k - first * s->num_chunks, chunk = at / size;

	return (struct pass){ backward, first + at % size,
		backward ? s->num_chunks - 1 - chunk : chunk };
}

/* The i-th pass of a stage: forward passes as a warm-up, pairs of one forward and one backward
 * pass, and the backward passes that are left. */
static struct pass
pass_at(const struct schedule_shape *s, int stage, int i)
{
	int n = one_way(s), ahead = s->num_stages - stage - 1, warm_up, k;

	if (s->num_chunks > 1)
		ahead = 2 * ahead + (s->num_chunks - 1) * s->group_size;
	warm_up = s->training && ahead < n && !s->gpipe ? ahead : n;
	k = i - warm_up;
	if (k < 0)
		return nth(s, i, false);
	if (k < 2 * (n - warm_up))
		return nth(s, k % 2 ? k / 2 : warm_up + k / 2, k % 2);
	return nth(s, k - (n - warm_up), true);
}

/* All passes of all stages, timed. */
static void
time_passes(struct passes *t, const struct schedule_shape *s)
{
	int n = s->num_stages * s->num_chunks;
	struct pass_cost *cost = mem_alloc((size_t)n, sizeof *cost);

	for (int i = 0; i < n; i++)
		cost[i] = (struct pass_cost){ FORWARD_TIME, BACKWARD_TIME };
	passes_init(t, s->num_stages, s->num_chunks, s->num_microbatches, num_passes(s));
	for (int r = 0; r < s->num_stages; r++)
		for (int i = 0; i < t->num_passes; i++) {
			struct pass p = pass_at(s, r, i);

			t->pass[r * t->num_passes + i] =
			    (struct timed_pass){ p.backward, p.microbatch, p.chunk, 0, 0 };
		}
	passes_time(t, cost);
	free(cost);
}

/* --- exchanges -------------------------------------------------------------------------------- */

/* A message of a stage; messages are sorted by time, with ties in the same order on both sides. */
struct exchange {
	double time;
	struct action action;
	int virtual_stage; /* that sends */
};

static int
by_time(const void *a, const void *b)
{
	const struct exchange *x = a, *y = b;
	bool back[] = { x->action.kind >= ACTION_RECV_BACKWARD,
		y->action.kind >= ACTION_RECV_BACKWARD };

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (back[0] != back[1])
		return back[0] - back[1];
	if (x->virtual_stage != y->virtual_stage)
		return x->virtual_stage - y->virtual_stage;
	return x->action.microbatch - y->action.microbatch;
}

/* A stage's passes and exchanges in the making. */
struct plan {
	const struct schedule_shape *s;
	struct passes times;
};

static const struct timed_pass *
timed_pass(const struct plan *t, int stage, int i)
{
	return &t->times.pass[stage * t->times.num_passes + i];
}

/* Adds the receive for pass i of stage `to` if the list is that stage's, and the send if it is the
 * source's. The input is exchanged as late as possible, but no earlier than it is made: between
 * passes at the end of the pass before i; beside passes, at its start. */
static int
add_exchange(const struct plan *t, int stage, int to, int i, struct exchange *out)
{
	const struct timed_pass *p = timed_pass(t, to, i),
				*before = i > 0 ? timed_pass(t, to, i - 1) : NULL;
	int num_stages = t->s->num_stages,
	    source = passes_source(&t->times, p->chunk * num_stages + to, p->backward), n = 0;
	struct exchange x = { .virtual_stage = source };
	double made, latest;

	if (source < 0)
		return 0;
	made = passes_end(&t->times, source, p->microbatch, p->backward);
	latest = !before ? made : t->s->overlap ? before->start : before->end;
	x.time = made > latest ? made : latest;
	x.action = (struct action){ p->backward ? ACTION_RECV_BACKWARD : ACTION_RECV_FORWARD,
		p->microbatch, p->chunk, -1, -1, -1, -1, 0 };
	if (to == stage)
		out[n++] = x;
	x.action.kind = p->backward ? ACTION_SEND_BACKWARD : ACTION_SEND_FORWARD;
	x.action.chunk = source / num_stages;
	if (source % num_stages == stage)
		out[n++] = x;
	return n;
}

/* The exchanges of a stage, with the stages before and after it. */
static int
exchanges(const struct plan *t, int stage, struct exchange **out)
{
	int p = t->s->num_stages, n = 0;
	int side[3] = { stage, (stage + 1) % p, (stage + p - 1) % p };
	int sides = p < 3 ? p : 3;

	*out = mem_alloc((size_t)num_passes(t->s) * 4, sizeof **out);
	for (int k = 0; k < sides; k++)
		for (int i = 0; i < num_passes(t->s); i++)
			n += add_exchange(t, stage, side[k], i, *out + n);
	qsort(*out, (size_t)n, sizeof **out, by_time);
	return n;
}

/* --- numbers ---------------------------------------------------------------------------------- */

/* A sent stage output stays reserved until its exchange has ended; beside passes, until the next
 * pass has.
 */
enum state { FREE, TAKEN, RESTING };

/* An allocator of numbers, the lowest free one first. */
struct pool {
	unsigned char *state; /* enum state */
	int most;             /* the largest count ever in use */
};

static int
take(struct pool *p)
{
	int i = 0;

	while (p->state[i] != FREE)
		i++;
	p->state[i] = TAKEN;
	p->most = i + 1 > p->most ? i + 1 : p->most;
	return i;
}

/* The numbers that a stage uses. */
struct numbering {
	const struct schedule_shape *s;
	int stage;
	struct pool slots, tails, batches, stage_outputs;
	int *slot, *tail, *output, *gradient; /* by chunk and micro batch */
	int *batch;                           /* by micro batch */
};

/* Frees the reserved stage outputs. */
static void
rested(struct numbering *n)
{
	for (int i = 0; i < n->stage_outputs.most; i++)
		if (n->stage_outputs.state[i] == RESTING)
			n->stage_outputs.state[i] = FREE;
}

/* Gives what a forward pass saves a slot, and a tail where its chunk has one. */
static void
take_slot(struct numbering *n, const struct action *a)
{
	const struct schedule_shape *s = n->s;
	int at = a->chunk * s->num_microbatches + a->microbatch;

	n->slot[at] = take(&n->slots);
	if (s->layers && s->layers[a->chunk * s->num_stages + n->stage] > s->slot_layers)
		n->tail[at] = take(&n->tails);
}

/* Assigns the numbers that a pass has not received with a message, as at the ends of the pipeline.
 */
static void
number_pass(struct numbering *n, struct action *a)
{
	int at = a->chunk * n->s->num_microbatches + a->microbatch;
	bool back = a->kind == ACTION_BACKWARD, first = n->stage == 0 && a->chunk == 0,
	     last = n->stage == n->s->num_stages - 1 && a->chunk == n->s->num_chunks - 1;
	int *stage_output = back ? &n->gradient[at] : &n->output[at];

	if (!n->s->overlap)
		rested(n);
	if (n->slot[at] < 0)
		take_slot(n, a);
	if (n->batch[a->microbatch] < 0)
		n->batch[a->microbatch] = take(&n->batches);
	if (*stage_output < 0 && (back || !last))
		*stage_output = take(&n->stage_outputs);
	a->slot = n->slot[at];
	a->tail = n->tail[at];
	a->batch = n->batch[a->microbatch];
	a->stage_output = *stage_output;
	if (n->s->overlap)
		rested(n);
	if (back || !n->s->training) {
		n->slots.state[a->slot] = FREE;
		if (a->tail >= 0)
			n->tails.state[a->tail] = FREE;
	}
	if (n->s->training ? back && a->chunk == 0 : a->chunk == n->s->num_chunks - 1)
		n->batches.state[a->batch] = FREE;
	if (back && first)
		n->stage_outputs.state[*stage_output] = FREE;
}

static void
number_exchange(struct numbering *n, struct action *a)
{
	int at = a->chunk * n->s->num_microbatches + a->microbatch;

	switch (a->kind) {
	case ACTION_RECV_FORWARD:
		take_slot(n, a);
		a->slot = n->slot[at];
		a->tail = n->tail[at];
		break;
	case ACTION_RECV_BACKWARD:
		a->stage_output = n->gradient[at] = take(&n->stage_outputs);
		break;
	case ACTION_SEND_FORWARD: a->stage_output = n->output[at]; break;
	case ACTION_SEND_BACKWARD: a->stage_output = n->gradient[at]; break;
	default: BUG("action %d is not an exchange", (int)a->kind);
	}
	if (a->kind == ACTION_SEND_FORWARD || a->kind == ACTION_SEND_BACKWARD)
		n->stage_outputs.state[a->stage_output] = RESTING;
}

/* --- the list --------------------------------------------------------------------------------- */

/* Exchanges of equal time are a group; a pass closes the group before it. */
static int
build(const struct plan *t, struct numbering *n, const struct exchange *x, int num_exchanges,
    struct action *out)
{
	int count = 0, next = 0, group = 0;

	for (int i = 0; i <= num_passes(t->s); i++) {
		const struct timed_pass *p =
		    i < num_passes(t->s) ? timed_pass(t, n->stage, i) : NULL;

		for (; next < num_exchanges && (!p || x[next].time <= p->start); next++) {
			if (next > 0 && x[next].time > x[next - 1].time) {
				group++;
				if (!t->s->overlap)
					rested(n);
			}
			out[count] = x[next].action;
			out[count].group = group;
			number_exchange(n, &out[count++]);
		}
		if (!p)
			break;
		out[count] = (struct action){ p->backward ? ACTION_BACKWARD : ACTION_FORWARD,
			p->microbatch, p->chunk, -1, -1, -1, -1, ++group };
		number_pass(n, &out[count++]);
		group++;
	}
	return count;
}

/* The list of a stage, from the times of all. */
static int
make(const struct plan *t, int stage, struct action **out, struct schedule_use *use)
{
	const struct schedule_shape *s = t->s;
	size_t all = (size_t)one_way(s);
	struct numbering n = { s, stage, .slots.state = mem_zalloc(all, 1),
		.tails.state = mem_zalloc(all, 1), .batches.state = mem_zalloc(all, 1),
		.stage_outputs.state = mem_zalloc(2 * all, 1),
		.slot = mem_alloc(5 * all, sizeof *n.slot) };
	struct exchange *x;
	int num_exchanges, count;

	memset(n.slot, 0xff, 5 * all * sizeof *n.slot); /* -1: none yet */
	n.tail = n.slot + all;
	n.output = n.tail + all;
	n.gradient = n.output + all;
	n.batch = n.gradient + all;
	num_exchanges = exchanges(t, stage, &x);
	*out = mem_alloc((size_t)(num_passes(s) + num_exchanges), sizeof **out);
	count = build(t, &n, x, num_exchanges, *out);
	*use = (struct schedule_use){ n.slots.most, n.tails.most, n.batches.most,
		n.stage_outputs.most };
	free(x);
	free(n.slots.state);
	free(n.tails.state);
	free(n.batches.state);
	free(n.stage_outputs.state);
	free(n.slot);
	return count;
}

int
schedule_make(
    const struct schedule_shape *s, int stage, struct action **out, struct schedule_use *use)
{
	struct plan t = { .s = s };
	int count;

	time_passes(&t.times, s);
	count = make(&t, stage, out, use);
	passes_release(&t.times);
	return count;
}

void
schedule_make_all(
    const struct schedule_shape *s, struct action **out, int *count, struct schedule_use *use)
{
	struct plan t = { .s = s };

	time_passes(&t.times, s);
	for (int i = 0; i < s->num_stages; i++)
		count[i] = make(&t, i, &out[i], &use[i]);
	passes_release(&t.times);
}

struct schedule_shape
schedule_short(const struct schedule_shape *s, int *period)
{
	struct schedule_shape few = *s;
	int enough =
	    s->num_chunks > 1 ? SCHEDULE_STEADY * s->group_size : s->num_stages + SCHEDULE_STEADY;

	*period = s->num_chunks > 1 ? s->group_size : 1;
	if (s->num_microbatches > enough)
		few.num_microbatches = enough + (s->num_microbatches - enough) % *period;
	return few;
}

void
schedule_count(const struct schedule_shape *s, int stage, struct schedule_use *use)
{
	int period;
	struct schedule_shape few = schedule_short(s, &period);
	struct action *list;

	schedule_make(&few, stage, &list, use);
	free(list);
}

/* The uses of all stages. */
static void
count_all(const struct schedule_shape *s, struct schedule_use *use)
{
	struct action **list = mem_alloc((size_t)s->num_stages, sizeof *list);
	int *count = mem_alloc((size_t)s->num_stages, sizeof *count);

	schedule_make_all(s, list, count, use);
	for (int i = 0; i < s->num_stages; i++)
		free(list[i]);
	free(list);
	free(count);
}

static size_t
layers_bytes(const struct schedule_shape *s)
{
	return (size_t)(s->num_stages * s->num_chunks) * sizeof *s->layers;
}

/* Of shapes with as many stages and chunks. */
static bool
same_layers(const struct schedule_shape *a, const struct schedule_shape *b)
{
	if (!a->layers || !b->layers)
		return a->layers == b->layers;
	return a->slot_layers == b->slot_layers && !memcmp(a->layers, b->layers, layers_bytes(a));
}

/* A copy of the layers, which outlives those that were given. */
static int *
keep_layers(const struct schedule_shape *s)
{
	int *layers = s->layers ? mem_alloc(layers_bytes(s), 1) : NULL;

	return layers ? memcpy(layers, s->layers, layers_bytes(s)) : NULL;
}

static bool
same_shape(const struct schedule_shape *a, const struct schedule_shape *b)
{
	return a->num_stages == b->num_stages && a->num_chunks == b->num_chunks &&
	    a->num_microbatches == b->num_microbatches && a->group_size == b->group_size &&
	    a->training == b->training && a->overlap == b->overlap && a->gpipe == b->gpipe &&
	    same_layers(a, b);
}

void
schedule_counts_get(
    struct schedule_counts *c, const struct schedule_shape *s, int stage, struct schedule_use *use)
{
	int period;
	struct schedule_shape short_one = schedule_short(s, &period);
	int i = 0;

	while (i < c->count && !same_shape(&c->item[i].shape, &short_one))
		i++;
	if (i == c->count) {
		c->item = mem_realloc(c->item, (size_t)++c->count, sizeof *c->item);
		c->item[i].shape = short_one;
		c->item[i].layers = keep_layers(&short_one);
		c->item[i].shape.layers = c->item[i].layers;
		c->item[i].use = mem_alloc((size_t)s->num_stages, sizeof *c->item[i].use);
		count_all(&short_one, c->item[i].use);
	}
	*use = c->item[i].use[stage];
}

void
schedule_counts_release(struct schedule_counts *c)
{
	for (int i = 0; i < c->count; i++) {
		free(c->item[i].layers);
		free(c->item[i].use);
	}
	free(c->item);
	*c = (struct schedule_counts){ 0 };
}

bool
schedule_fits(const struct schedule_shape *s)
{
	int left = s->num_microbatches % s->group_size;

	return s->num_chunks == 1 || !s->training ||
	    (s->group_size >= s->num_stages && s->num_microbatches >= s->group_size &&
		(left == 0 || left >= s->num_stages));
}
