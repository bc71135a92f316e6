/*
 * turns.c - tokens on their way to the experts of other hosts, and back
 *
 * Messages are queued on a stream of their own, in the same order on all ranks: first all that go
 * out, then the sums of one turn after the other. Turn i is of the i-th host after the own one, so
 * that all hosts receive from different ones, and a rank that takes rows from there sends its own
 * to the i-th host before it.
 */
#include "train/layers/turns.h"
#include "lib/model/block/moe.h"
#include "train/engine/timing.h"
#include "train/layers/dispatch.h"

int
turns_count(const struct engine *e)
{
	return (int)layout_expert_hosts(&e->plan.layout);
}

/* --- messages --------------------------------------------------------------------------------- */

/* What goes to the host of one turn, and what comes from that of another. */
struct passing {
	int to, from;
	struct tensor out[3], in[3];
	int count;
};

/* The host that is i hosts after the own one; i may be negative. */
static int
host_after(const struct step *s, int i)
{
	const struct comm *rail = s->e->groups.ep_rail;

	return (rail->rank + rail->size + i) % rail->size;
}

static void
pass(struct step *s, const struct passing *p)
{
	struct comm *rail = s->e->groups.ep_rail;
	struct p2p message[2 * 3];

	for (int i = 0; i < p->count; i++) {
		message[2 * i] = (struct p2p){ true, p->to, i, p->out[i] };
		message[2 * i + 1] = (struct p2p){ false, p->from, i, p->in[i] };
	}
	rail->ops->exchange(COMM_HERE(rail), s->e->experts.stream,
	    &(struct comm_messages){ message, 2 * p->count });
}

/* What is computed until here may be sent. */
static void
hand_over(struct step *s)
{
	struct engine *e = s->e;

	e->backend->record(e->stream, e->experts.ready);
	e->backend->wait(e->experts.stream, e->experts.ready);
}

/* Computation waits, which counts as that for exchanges of rows. */
static void
await(struct step *s, struct event *ev)
{
	timing_begin(s->e, SPAN_TENSOR);
	s->e->backend->wait(s->e->stream, ev);
	timing_end(s->e, SPAN_TENSOR);
}

/* Part i of an array of as many equal ones as parts. */
static struct tensor
part_of(const struct tensor *t, int i, int parts)
{
	int64_t rows = t->shape[0] / parts;

	return tensor_rows(t, i * rows, rows);
}

/* What a turn after the first has of a buffer for other hosts. */
static struct tensor
guest(const struct layer *l, const struct step *s, int number, int turn)
{
	struct tensor all = layer_buffer(l, s, number);

	return part_of(&all, turn - 1, turns_count(s->e) - 1);
}

/* --- out -------------------------------------------------------------------------------------- */

/* A row that is dropped has no choice. */
static struct tensor
own_choice(const struct layer *l, const struct step *s)
{
	struct tensor kept = layer_buffer(l, s, MOE_CHOICE);

	return kept.data ? kept : layer_buffer(l, s, MOE_TOPK);
}

void
turns_begin(const struct layer *l, struct step *s, const struct tensor *x)
{
	int turns = turns_count(s->e);

	if (turns > 1)
		hand_over(s);
	for (int i = 1; i < turns; i++) {
		struct passing p = { host_after(s, -i), host_after(s, i),
			{ *x, own_choice(l, s), layer_buffer(l, s, MOE_TOPK_WEIGHT) },
			{ guest(l, s, MOE_GUESTS, i), guest(l, s, MOE_GUEST_CHOICE, i),
			    guest(l, s, MOE_GUEST_WEIGHT, i) },
			3 };

		pass(s, &p);
		s->e->backend->record(s->e->experts.stream, s->e->experts.arrived[i]);
	}
}

void
turns_begin_backward(const struct layer *l, struct step *s, const struct tensor *dy)
{
	int turns = turns_count(s->e);

	if (turns > 1)
		hand_over(s);
	for (int i = 1; i < turns; i++) {
		struct passing p = { host_after(s, -i), host_after(s, i), { *dy },
			{ guest(l, s, MOE_GUEST_GRAD, i) }, 1 };

		pass(s, &p);
		s->e->backend->record(s->e->experts.stream, s->e->experts.arrived[i]);
	}
}

void
turns_leave(struct step *s)
{
	int turns = turns_count(s->e);

	if (turns > 1)
		await(s, s->e->experts.arrived[turns - 1]);
}

/* --- a turn ----------------------------------------------------------------------------------- */

void
turn_await(struct step *s, int turn)
{
	if (turn > 0)
		await(s, s->e->experts.arrived[turn]);
}

void
turn_place(const struct layer *l, struct step *s, int turn)
{
	struct tensor choice = turn ? guest(l, s, MOE_GUEST_CHOICE, turn) : own_choice(l, s);

	if (turns_count(s->e) > 1)
		dispatch_place(l, s, turn, &choice);
}

struct turn
rows_of_turn(const struct layer *l, const struct step *s, int turn, const struct turn *own)
{
	struct turn t = *own;

	t.weight = layer_buffer(l, s, MOE_TOPK_WEIGHT);
	if (turn == 0)
		return t;
	t.x = guest(l, s, MOE_GUESTS, turn);
	t.weight = guest(l, s, MOE_GUEST_WEIGHT, turn);
	if (own->dy.data)
		t.dy = guest(l, s, MOE_GUEST_GRAD, turn);
	return t;
}

/* --- back ------------------------------------------------------------------------------------- */

/* Of what hosts send back, or this one leaves there itself, the part of a host. */
static struct turn_sums
of_host(const struct layer *l, const struct step *s, int host)
{
	struct tensor y = layer_buffer(l, s, MOE_HOST_SUMS),
		      dweight = layer_buffer(l, s, MOE_HOST_DWEIGHT);
	int hosts = turns_count(s->e);
	struct turn_sums t = { part_of(&y, host, hosts), dweight };

	if (dweight.data)
		t.dweight = part_of(&dweight, host, hosts);
	return t;
}

/* What a turn left there has been sent before the next one writes to it. */
struct turn_sums
turn_sums(const struct layer *l, struct step *s, int turn, const struct turn_sums *own)
{
	if (turns_count(s->e) == 1)
		return *own;
	if (turn == 0)
		return of_host(l, s, host_after(s, 0));
	if (turn > 1)
		await(s, s->e->experts.summed);
	return (struct turn_sums){ layer_buffer(l, s, MOE_GUEST_SUM),
		layer_buffer(l, s, MOE_GUEST_DWEIGHT) };
}

void
turn_return(const struct layer *l, struct step *s, int turn, bool backward)
{
	struct passing p = { host_after(s, turn), host_after(s, -turn),
		{ layer_buffer(l, s, MOE_GUEST_SUM), layer_buffer(l, s, MOE_GUEST_DWEIGHT) },
		.count = backward ? 2 : 1 };
	struct turn_sums in = of_host(l, s, p.from);

	p.in[0] = in.y;
	p.in[1] = in.dweight;
	hand_over(s);
	pass(s, &p);
	s->e->backend->record(s->e->experts.stream, s->e->experts.summed);
}

/* y = the sum over hosts of all, which has as many of it, or y += it. */
static void
add_hosts(struct step *s, const struct tensor *y, const struct tensor *all, bool accumulate)
{
	struct tensor flat = tensor_flat(y);
	struct sum sum = { .y = flat,
		.x = flat,
		.others = tensor_2d(all->data, all->dtype, turns_count(s->e), flat.shape[0]),
		.own = accumulate ? 0 : -1 };

	s->e->ops->sum(s->e->stream, &sum);
}

/* A choice is on one host, and its weight's gradient elsewhere zero. */
void
turns_end(const struct layer *l, struct step *s, const struct turn_sums *own, bool accumulate,
    bool backward)
{
	struct tensor y = layer_buffer(l, s, MOE_HOST_SUMS),
		      dweight = layer_buffer(l, s, MOE_HOST_DWEIGHT);

	if (turns_count(s->e) == 1)
		return;
	await(s, s->e->experts.summed);
	add_hosts(s, &own->y, &y, accumulate);
	if (backward)
		add_hosts(s, &own->dweight, &dweight, false);
}
