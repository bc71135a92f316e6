/*
 * timing.c - pairs of timers on the compute stream
 *
 * A step has one span per timed call; timers are created on first use and reused in every step, so
 * a run creates all of them in its first step. A recording has timers of its own, which each launch
 * passes: of several launches in a step the last one's times stand for all.
 */
#include "lib/base/mem.h"
#include "train/engine/observe.h"
#include "train/engine/timing.h"

#include <stdlib.h>
#include <string.h>

const struct span_kind span_kinds[SPAN_COUNT] = {
	[SPAN_STEP] = { "interval-time", 1, WAIT_NONE },
	[SPAN_FORWARD_BACKWARD] = { "forward-backward", 1, WAIT_NONE },
	[SPAN_FORWARD] = { "forward-compute", 2, WAIT_NONE },
	[SPAN_BACKWARD] = { "backward-compute", 2, WAIT_NONE },
	[SPAN_BATCH] = { "batch-generator", 2, WAIT_BATCH },
	[SPAN_RECV_FORWARD] = { "forward-recv", 2, WAIT_PIPELINE },
	[SPAN_SEND_FORWARD] = { "forward-send", 2, WAIT_PIPELINE },
	[SPAN_RECV_BACKWARD] = { "backward-recv", 2, WAIT_PIPELINE },
	[SPAN_SEND_BACKWARD] = { "backward-send", 2, WAIT_PIPELINE },
	[SPAN_SEND_FORWARD_RECV_BACKWARD] = { "forward-send-backward-recv", 2, WAIT_PIPELINE },
	[SPAN_SEND_BACKWARD_RECV_FORWARD] = { "backward-send-forward-recv", 2, WAIT_PIPELINE },
	[SPAN_EXCHANGE] = { "forward-backward-send-forward-backward-recv", 2, WAIT_PIPELINE },
	[SPAN_TENSOR] = { "tensor-parallel-comm", 2, WAIT_TENSOR },
	[SPAN_CONTEXT] = { "context-parallel-comm", 2, WAIT_CONTEXT },
	[SPAN_GRADS] = { "all-grads-sync", 1, WAIT_NONE },
	[SPAN_TENSOR_GRADS] = { "layernorm-grads-all-reduce", 1, WAIT_TENSOR },
	[SPAN_EMBEDDING_GRADS] = { "embedding-grads-all-reduce", 1, WAIT_PIPELINE },
	[SPAN_REDUCE] = { "data-parallel-grads-sync", 1, WAIT_DATA },
	[SPAN_GATHER] = { "params-all-gather", 1, WAIT_DATA },
	[SPAN_RETURN] = { "optimizer-offload", 1, WAIT_NONE },
	[SPAN_STASH] = { "activation-offload", 1, WAIT_STASH },
	[SPAN_CLIP] = { "optimizer-clip-main-grad", 1, WAIT_NONE },
	[SPAN_TOTALS] = { "totals-all-gather", 1, WAIT_NONE },
	[SPAN_OPTIMIZER] = { "optimizer", 1, WAIT_NONE },
	[SPAN_BETWEEN] = { "between-steps", 1, WAIT_NONE },
};

/* A span; it has ended if `to` was recorded. */
struct pair {
	struct event *from, *to;
	enum span kind;
	bool ended;
};

struct pairs {
	struct pair *pair; /* the first `made` have timers */
	int count, made, room;
	int open[SPAN_COUNT]; /* 1 + index of the pair begun last; 0: none is open */
};

struct kept_spans {
	struct pairs pairs;
	int launches; /* since the last reading */
	struct kept_spans *next;
};

struct timing {
	bool on;
	struct pairs step;           /* the timers are kept for the next one */
	struct kept_spans *kept;     /* spans are of this recording; NULL: of the step */
	struct kept_spans *launched; /* since the last reading */
};

struct timing *
timing_new(void)
{
	return mem_zalloc(1, sizeof(struct timing));
}

/* The timers belong to the device and are freed with it. */
void
timing_free(struct timing *t)
{
	if (!t)
		return;
	free(t->step.pair);
	free(t);
}

void
timing_watch(struct engine *e, bool on)
{
	e->timing->on = on;
}

/* Adds a pair with its timers. */
static struct pair *
next_pair(struct engine *e, struct pairs *p)
{
	if (p->count == p->room) {
		p->room = 2 * p->room + 64;
		p->pair = mem_realloc(p->pair, (size_t)p->room, sizeof *p->pair);
	}
	if (p->count == p->made) {
		p->pair[p->made].from = e->backend->timer(e->device);
		p->pair[p->made++].to = e->backend->timer(e->device);
	}
	return &p->pair[p->count++];
}

/* Where spans are added now; NULL: nowhere. A recording has its spans whether or not this launch of
 * it is timed. */
static struct pairs *
pairs_now(struct timing *t)
{
	if (t->kept)
		return &t->kept->pairs;
	return t->on ? &t->step : NULL;
}

void
timing_begin(struct engine *e, enum span s)
{
	struct observer *o = e->stream->observer;
	struct pairs *now = pairs_now(e->timing);
	struct pair *p;

	if (!now)
		return;
	if (o && span_kinds[s].wait != WAIT_NONE)
		o->before(o, e->stream);
	p = next_pair(e, now);
	p->kind = s;
	p->ended = false;
	now->open[s] = now->count;
	e->backend->record(e->stream, p->from);
}

void
timing_end(struct engine *e, enum span s)
{
	struct op_call call = { .name = span_kinds[s].name };
	struct observer *o = e->stream->observer;
	struct pairs *now = pairs_now(e->timing);
	struct pair *p;

	if (!now || !now->open[s])
		return;
	p = &now->pair[now->open[s] - 1];
	now->open[s] = 0;
	p->ended = true;
	e->backend->record(e->stream, p->to);
	if (o && span_kinds[s].wait != WAIT_NONE)
		o->after(o, e->stream, &call);
}

static void
add(const struct backend *b, const struct pairs *pairs, int times, struct spans *sum)
{
	for (const struct pair *p = pairs->pair; p < pairs->pair + pairs->count; p++) {
		if (!p->ended)
			continue;
		sum->elapsed[p->kind] += times * b->elapsed(p->from, p->to);
		sum->computed[p->kind] += times * b->computed(p->from, p->to);
	}
}

void
timing_read(struct engine *e, struct spans *sum)
{
	struct timing *t = e->timing;

	add(e->backend, &t->step, 1, sum);
	memset(t->step.open, 0, sizeof t->step.open);
	t->step.count = 0;
	for (; t->launched; t->launched = t->launched->next) {
		add(e->backend, &t->launched->pairs, t->launched->launches, sum);
		t->launched->launches = 0;
	}
}

/* --- recordings ------------------------------------------------------------------------------- */

void
timing_keep(struct engine *e)
{
	e->timing->kept = mem_zalloc(1, sizeof *e->timing->kept);
}

struct kept_spans *
timing_kept(struct engine *e)
{
	struct kept_spans *k = e->timing->kept;

	e->timing->kept = NULL;
	return k;
}

void
kept_spans_free(struct kept_spans *k)
{
	if (k)
		free(k->pairs.pair);
	free(k);
}

void
timing_launched(struct engine *e, struct kept_spans *k)
{
	struct timing *t = e->timing;

	if (!t->on || k->launches++ > 0)
		return;
	k->next = t->launched;
	t->launched = k;
}

double
timing_waited(const double seconds[SPAN_COUNT], enum span_wait w)
{
	double sum = 0;

	for (int s = 0; s < SPAN_COUNT; s++)
		if (span_kinds[s].wait == w)
			sum += seconds[s];
	return sum;
}
