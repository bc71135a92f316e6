/*
 * timing.c - pairs of timers on the compute stream
 *
 * A step has one span per timed call; timers are created on first use and reused in every step, so
 * a run creates all of them in its first step.
 */
#include "lib/base/mem.h"
#include "train/engine/timing.h"
#include "train/watch/observe.h"

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
	[SPAN_ACTIVATION_OFFLOAD] = { "activation-offload", 1, WAIT_ACTIVATION_OFFLOAD },
	[SPAN_CLIP] = { "optimizer-clip-main-grad", 1, WAIT_NONE },
	[SPAN_TOTALS] = { "totals-all-gather", 1, WAIT_NONE },
	[SPAN_OPTIMIZER] = { "optimizer", 1, WAIT_NONE },
	[SPAN_BETWEEN] = { "between-steps", 1, WAIT_NONE },
};

/* A span; it has ended if `to` was recorded. */
struct interval {
	struct event *from, *to;
	enum span kind;
	bool ended;
};

struct timing {
	bool on;
	struct interval
	    *pair; /* of the step; the first `made` have timers, kept for the next one */
	int count, made, room;
	int open[SPAN_COUNT]; /* 1 + index of the pair begun last; 0: none is open */
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
	free(t->pair);
	free(t);
}

void
timing_watch(struct engine *e, bool on)
{
	e->timing->on = on;
}

/* Adds a pair with its timers. */
static struct interval *
next_pair(struct engine *e)
{
	struct timing *t = e->timing;

	if (t->count == t->room) {
		t->room = 2 * t->room + 64;
		t->pair = mem_realloc(t->pair, (size_t)t->room, sizeof *t->pair);
	}
	if (t->count == t->made) {
		t->pair[t->made].from = e->backend->timer(e->device);
		t->pair[t->made++].to = e->backend->timer(e->device);
	}
	return &t->pair[t->count++];
}

void
timing_begin(struct engine *e, enum span s)
{
	struct observer *o = e->stream->observer;
	struct interval *p;

	if (!e->timing->on)
		return;
	if (o && span_kinds[s].wait != WAIT_NONE)
		o->before(o, e->stream);
	p = next_pair(e);
	p->kind = s;
	p->ended = false;
	e->timing->open[s] = e->timing->count;
	e->backend->record(e->stream, p->from);
}

void
timing_end(struct engine *e, enum span s)
{
	struct op_call call = { .name = span_kinds[s].name };
	struct observer *o = e->stream->observer;
	struct timing *t = e->timing;
	struct interval *p;

	if (!t->on || !t->open[s])
		return;
	p = &t->pair[t->open[s] - 1];
	t->open[s] = 0;
	p->ended = true;
	e->backend->record(e->stream, p->to);
	if (o && span_kinds[s].wait != WAIT_NONE)
		o->after(o, e->stream, &call);
}

void
timing_read(struct engine *e, struct spans *sum)
{
	struct timing *t = e->timing;

	for (const struct interval *p = t->pair; p < t->pair + t->count; p++) {
		if (!p->ended)
			continue;
		sum->elapsed[p->kind] += e->backend->elapsed(p->from, p->to);
		sum->computed[p->kind] += e->backend->computed(p->from, p->to);
	}
	memset(t->open, 0, sizeof t->open);
	t->count = 0;
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
