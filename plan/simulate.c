/* simulate.c - lists of actions, stage by stage as far as each can go, until all are done */
#include "plan/simulate.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdlib.h>

enum { SENDS, RECEIVES, SIDES, KINDS = ACTION_SEND_BACKWARD - ACTION_RECV_FORWARD + 1 };

/* From one virtual stage to the next or back. Negative times are not known yet. */
struct message {
	double ready[SIDES]; /* when each side has come to it */
	double sent, end;    /* when it has left, and when it has been received */
};

/* A stage on its way through its list. */
struct stage {
	const struct simulation *s;
	int at;      /* the next action */
	double time; /* when the one before it has ended */
	/* beside passes: the next message of each kind, an index of the list, and when the one
	 * before it has passed */
	int next[KINDS];
	double passed[KINDS];
	struct message *landed[KINDS]; /* of receives: not taken yet */
	/* when the last message of each slot and stage output has been received or has left; NULL:
	 * none that is waited for */
	const double **slot, **stage_output;
};

struct sim {
	const struct simulation *s;
	struct simulated *out;
	struct message *message; /* by the virtual stage that sends, direction and micro batch */
	struct stage *stage;
};

static bool
is_pass(const struct action *a)
{
	return a->kind <= ACTION_BACKWARD;
}

bool
simulated_pass(const struct sim_event *v)
{
	return is_pass(&v->action);
}

static bool
is_send(const struct action *a)
{
	return a->kind == ACTION_SEND_FORWARD || a->kind == ACTION_SEND_BACKWARD;
}

static bool
is_back(const struct action *a)
{
	return a->kind >= ACTION_RECV_BACKWARD;
}

/* The virtual stage that sends the message of an action. */
static int
sender(const struct sim *x, const struct action *a, int stage)
{
	int at = a->chunk * x->s->shape->num_stages + stage;

	return is_send(a) ? at : is_back(a) ? at + 1 : at - 1;
}

static struct message *
message_of(const struct sim *x, const struct action *a, int stage)
{
	int from = sender(x, a, stage);

	return &x->message[(2 * from + is_back(a)) * x->s->shape->num_microbatches + a->microbatch];
}

static double
seconds_of(const struct sim *x, const struct action *a, int stage)
{
	int p = x->s->shape->num_stages, from = sender(x, a, stage) % p;

	return x->s->message(x->s->ctx, is_back(a) ? (from + p - 1) % p : from);
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Whether what a pass waits for is known; then *start is no earlier. */
static bool
arrived(const double **of, int number, double *start)
{
	const double *when = number < 0 ? NULL : of[number];

	if (!when)
		return true;
	if (*when < 0)
		return false;
	*start = fmax(*start, *when);
	of[number] = NULL;
	return true;
}

static bool
run_pass(struct sim *x, int r, struct sim_event *v)
{
	const struct action *a = &v->action;
	struct stage *g = &x->stage[r];
	double start = g->time, seconds;

	if (!arrived(g->slot, a->slot, &start) ||
	    !arrived(g->stage_output, a->stage_output, &start))
		return false;
	seconds = x->s->pass(x->s->ctx, a->chunk * x->s->shape->num_stages + r, a->microbatch,
	    a->kind == ACTION_BACKWARD);
	v->start = start;
	v->end = g->time = start + seconds;
	x->out->stage[r].passes += seconds;
	g->at++;
	return true;
}

/* --- exchanges that hold a stage up ----------------------------------------------------------- */

/* The events from at on that are issued as one. */
static int
group_length(const struct sim_stage *t, int at)
{
	int n = 1;

	while (at + n < t->count && t->event[at + n].action.group == t->event[at].action.group)
		n++;
	return n;
}

/* Comes to an exchange, and ends it if all other sides have come to theirs. */
static bool
run_exchange(struct sim *x, int r)
{
	struct sim_stage *t = &x->out->stage[r];
	struct stage *g = &x->stage[r];
	struct sim_event *v = &t->event[g->at];
	int n = group_length(t, g->at);
	double begin = 0, end = 0;

	for (int i = 0; i < n; i++)
		message_of(x, &v[i].action, r)->ready[!is_send(&v[i].action)] = g->time;
	for (int i = 0; i < n; i++) {
		struct message *m = message_of(x, &v[i].action, r);

		if (m->ready[SENDS] < 0 || m->ready[RECEIVES] < 0)
			return false;
		begin = fmax(begin, fmax(m->ready[SENDS], m->ready[RECEIVES]));
		m->sent = m->end =
		    fmax(m->ready[SENDS], m->ready[RECEIVES]) + seconds_of(x, &v[i].action, r);
		end = fmax(end, m->end);
	}
	for (int i = 0; i < n; i++) {
		v[i].start = g->time;
		v[i].end = end;
	}
	t->messages += end - begin;
	g->time = end;
	g->at += n;
	return true;
}

/* --- messages beside passes ------------------------------------------------------------------- */

/* Queues a message. */
static void
issue(struct sim *x, int r, const struct action *a)
{
	struct stage *g = &x->stage[r];
	struct message *m = message_of(x, a, r);
	const double **port =
	    a->kind == ACTION_RECV_FORWARD ? &g->slot[a->slot] : &g->stage_output[a->stage_output];

	m->ready[!is_send(a)] = g->time;
	*port = is_send(a) ? &m->sent : &m->end;
	g->at++;
}

/* The next event of this kind that a stage has queued; NULL: none. */
static struct sim_event *
head(struct sim *x, int r, enum action_kind kind)
{
	struct stage *g = &x->stage[r];
	int *i = &g->next[kind - ACTION_RECV_FORWARD];

	while (*i < g->at && x->out->stage[r].event[*i].action.kind != kind)
		++*i;
	return *i < g->at ? &x->out->stage[r].event[*i] : NULL;
}

/* The next messages of a kind, on the side that sends and on the side that receives. */
struct ends {
	struct sim_event *send, *receive; /* NULL: none is queued */
	struct message *sent, *received;
	double *left, *taken; /* when the one before it did */
	struct message **landed;
	int *sends, *receives; /* index of the next */
};

/* False when the sender has queued none. */
static bool
next_message(struct sim *x, int r, enum action_kind kind, int to, struct ends *e)
{
	int send = kind - ACTION_RECV_FORWARD, receive = send - 1; /* the receive of a send */
	struct stage *g = &x->stage[r], *h = &x->stage[to];

	*e = (struct ends){ head(x, r, kind), head(x, to, kind - 1), .left = &g->passed[send],
		.taken = &h->passed[receive], .landed = &h->landed[receive],
		.sends = &g->next[send], .receives = &h->next[receive] };
	if (e->send)
		e->sent = message_of(x, &e->send->action, r);
	if (e->receive)
		e->received = message_of(x, &e->receive->action, to);
	return e->send || *e->landed;
}

/* Passes on a message for which both sides are ready. */
static bool
pass_through(struct ends *e, double seconds)
{
	struct message *m = e->sent;

	if (!e->send || !e->receive || e->received != m)
		return false;
	e->send->start = e->receive->start =
	    fmax(fmax(m->ready[SENDS], m->ready[RECEIVES]), fmax(*e->left, *e->taken));
	m->sent = m->end = e->send->start + seconds;
	e->send->end = e->receive->end = *e->left = *e->taken = m->end;
	++*e->sends;
	++*e->receives;
	return true;
}

/* Takes the message that has landed, or else lets one land. Taking it is a copy inside the
 * receiver's memory, which counts as nothing. */
static bool
land(struct ends *e, double seconds)
{
	struct message *m = *e->landed;

	if (m && e->receive && e->received == m) {
		e->receive->start = fmax(fmax(m->ready[RECEIVES], m->sent), *e->taken);
		m->end = e->receive->end = *e->taken = e->receive->start;
		*e->landed = NULL;
		++*e->receives;
		return true;
	}
	if (m || !e->send)
		return false;
	m = *e->landed = e->sent;
	e->send->start = fmax(m->ready[SENDS], fmax(*e->left, *e->taken));
	m->sent = e->send->end = *e->left = e->send->start + seconds;
	++*e->sends;
	return true;
}

/* Passes on the messages of a kind of sends that are the next on both sides. */
static bool
pass_on(struct sim *x, int r, enum action_kind kind)
{
	int p = x->s->shape->num_stages, link = kind == ACTION_SEND_FORWARD ? r : (r + p - 1) % p,
	    to = kind == ACTION_SEND_FORWARD ? (r + 1) % p : link;
	bool lands = x->s->lands && x->s->lands(x->s->ctx, link), moved = false;
	double seconds = x->s->message(x->s->ctx, link);
	struct ends e;

	while (next_message(x, r, kind, to, &e) &&
	    (lands ? land(&e, seconds) : pass_through(&e, seconds)))
		moved = true;
	return moved;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Runs a stage as far as it can go; returns whether it went on. */
static bool
advance(struct sim *x, int r)
{
	struct sim_stage *t = &x->out->stage[r];
	struct stage *g = &x->stage[r];
	int before = g->at;

	while (g->at < t->count) {
		struct sim_event *v = &t->event[g->at];

		if (is_pass(&v->action)) {
			if (!run_pass(x, r, v))
				break;
		} else if (x->s->shape->overlap) {
			issue(x, r, &v->action);
		} else if (!run_exchange(x, r)) {
			break;
		}
	}
	return g->at > before;
}

static void
open_stage(struct sim *x, int r, const struct action *list, int count, struct schedule_use use)
{
	struct sim_stage *t = &x->out->stage[r];
	struct stage *g = &x->stage[r];

	t->count = count;
	t->event = mem_zalloc((size_t)count, sizeof *t->event);
	for (int i = 0; i < count; i++)
		t->event[i].action = list[i];
	g->slot = mem_zalloc((size_t)(use.slots + use.stage_outputs) + 1, sizeof *g->slot);
	g->stage_output = g->slot + use.slots;
}

static void
run(struct sim *x)
{
	int p = x->s->shape->num_stages;
	bool moved = true;

	while (moved) {
		moved = false;
		for (int r = 0; r < p; r++)
			moved |= advance(x, r);
		for (int r = 0; r < p && x->s->shape->overlap; r++) {
			moved |= pass_on(x, r, ACTION_SEND_FORWARD);
			moved |= pass_on(x, r, ACTION_SEND_BACKWARD);
		}
	}
	for (int r = 0; r < p; r++)
		if (x->stage[r].at < x->out->stage[r].count)
			BUG("stage %d cannot continue at action %d", r, x->stage[r].at);
}

void
simulate(const struct simulation *s, struct simulated *out)
{
	int p = s->shape->num_stages;
	size_t messages =
	    2 * (size_t)(p * s->shape->num_chunks) * (size_t)s->shape->num_microbatches;
	struct action **list = mem_alloc((size_t)p, sizeof *list);
	struct schedule_use *use = mem_alloc((size_t)p, sizeof *use);
	int *count = mem_alloc((size_t)p, sizeof *count);
	struct sim x = { s, out, mem_alloc(messages, sizeof *x.message),
		mem_zalloc((size_t)p, sizeof *x.stage) };

	*out = (struct simulated){ p, mem_zalloc((size_t)p, sizeof *out->stage), 0 };
	for (size_t i = 0; i < messages; i++)
		x.message[i] = (struct message){ { -1, -1 }, -1, -1 };
	schedule_make_all(s->shape, list, count, use);
	for (int r = 0; r < p; r++)
		open_stage(&x, r, list[r], count[r], use[r]);
	run(&x);
	for (int r = 0; r < p; r++) {
		for (int i = 0; i < count[r]; i++)
			out->total = fmax(out->total, out->stage[r].event[i].end);
		free(x.stage[r].slot);
		free(list[r]);
	}
	free(x.message);
	free(x.stage);
	free(list);
	free(use);
	free(count);
}

void
simulated_release(struct simulated *x)
{
	for (int r = 0; r < x->num_stages; r++)
		free(x->stage[r].event);
	free(x->stage);
	*x = (struct simulated){ 0 };
}

/* --- the bound -------------------------------------------------------------------------------- */

static double
both_passes(const struct simulation *s, int virtual_stage)
{
	return s->pass(s->ctx, virtual_stage, 0, false) + s->pass(s->ctx, virtual_stage, 0, true);
}

/* What messages hold a stage up between its first pass and its last: those of one kind never pass
 * together. */
static double
held_up(const struct simulation *s, int stage)
{
	const struct schedule_shape *w = s->shape;
	int p = w->num_stages, sends = w->num_microbatches * w->num_chunks,
	    forward = stage == p - 1 ? sends - w->num_microbatches : sends,
	    back = stage == 0 ? sends - w->num_microbatches : sends - 1;

	if (w->overlap || p == 1)
		return 0;
	return fmax(
	    forward * s->message(s->ctx, stage), back * s->message(s->ctx, (stage + p - 1) % p));
}

/* A stage's passes of a micro batch. */
static double
own_passes(const struct simulation *s, int stage)
{
	double own = 0;

	for (int j = 0; j < s->shape->num_chunks; j++)
		own += both_passes(s, j * s->shape->num_stages + stage);
	return own;
}

static double
busiest(const struct simulation *s)
{
	double most = 0;

	for (int r = 0; r < s->shape->num_stages; r++)
		most = fmax(most, own_passes(s, r));
	return most;
}

double
simulate_bound(const struct simulation *s)
{
	const struct schedule_shape *w = s->shape;
	double before = 0, bound = 0;

	for (int r = 0; r < w->num_stages; r++) {
		double own = held_up(s, r) + w->num_microbatches * own_passes(s, r);

		bound = fmax(bound, before + own);
		before += both_passes(s, r) + 2 * s->message(s->ctx, r);
	}
	return bound;
}

/* --- the total -------------------------------------------------------------------------------- */

/* When the last virtual stage has run a micro batch forward. */
static double
passed_forward(const struct simulated *x, const struct schedule_shape *w, int microbatch)
{
	const struct sim_stage *t = &x->stage[w->num_stages - 1];
	int i = 0;

	while (t->event[i].action.kind != ACTION_FORWARD ||
	    t->event[i].action.chunk != w->num_chunks - 1 ||
	    t->event[i].action.microbatch != microbatch)
		i++;
	return t->event[i].end;
}

/* Micro batches that are enough to see how much each further group adds, up to so many passes. */
static int
enough(const struct schedule_shape *w, int period)
{
	enum { PASSES = 2048 };
	int groups = PASSES / (2 * w->num_stages * w->num_chunks * period);

	groups = groups > SCHEDULE_STEADY ? groups : SCHEDULE_STEADY + 1;
	return groups * period + w->num_microbatches % period;
}

/* Each further group adds what the last but one of few has added, which the end of the others does
 * not change, but no less than the busiest stage works on it. */
double
simulate_total(const struct simulation *s)
{
	struct schedule_shape w = *s->shape;
	struct simulation with = *s;
	struct simulated x;
	int period = w.num_chunks > 1 ? w.group_size : w.num_stages, few = enough(&w, period),
	    last = few - 1 - period;
	double total, group = 0;

	with.shape = &w;
	if (w.num_microbatches > few)
		w.num_microbatches = few;
	simulate(&with, &x);
	total = x.total;
	if (s->shape->num_microbatches > few)
		group = fmax(period * busiest(s),
		    passed_forward(&x, &w, last) - passed_forward(&x, &w, last - period));
	simulated_release(&x);
	return total + (s->shape->num_microbatches - w.num_microbatches) / period * group;
}
