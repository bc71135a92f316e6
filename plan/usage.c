/* usage.c - the bytes of slots, tails and batches that are in use */
#include "plan/usage.h"
#include "lib/base/mem.h"
#include "lib/model/memory.h"

#include <math.h>
#include <stdlib.h>

/* A stage's numbers that are taken, and the bytes of what is. */
struct held {
	const struct memory_plan *m;
	const struct run_plan *plan;
	int stage;
	bool *slot, *batch;
	double bytes;
};

/* Whether a chunk has more layers than a slot. */
static bool
has_tail(const struct held *h, int chunk)
{
	int64_t first, count;

	layout_layers(&h->plan->layout, &h->plan->model,
	    layout_stage(&h->plan->layout, h->stage, chunk), &first, &count);
	return count > h->m->slot_layers;
}

static double
slot_bytes(const struct held *h, int chunk)
{
	return (double)h->m->slot_bytes + (has_tail(h, chunk) ? (double)h->m->tail_bytes : 0);
}

/* What an action takes when it begins. */
static void
take(struct held *h, const struct action *a)
{
	if (a->slot >= 0 && a->kind != ACTION_BACKWARD && !h->slot[a->slot]) {
		h->slot[a->slot] = true;
		h->bytes += slot_bytes(h, a->chunk);
	}
	if (a->batch >= 0 && !h->batch[a->batch]) {
		h->batch[a->batch] = true;
		h->bytes += (double)h->m->batch_bytes;
	}
}

/* What a pass leaves when it ends. */
static void
leave(struct held *h, const struct action *a)
{
	if (a->kind != ACTION_BACKWARD)
		return;
	h->slot[a->slot] = false;
	h->bytes -= slot_bytes(h, a->chunk);
	if (a->chunk == 0) {
		h->batch[a->batch] = false;
		h->bytes -= (double)h->m->batch_bytes;
	}
}

static void
add(struct usage *u, double time, double bytes)
{
	u->time[u->count] = time;
	u->bytes[u->count++] = bytes;
	u->most = fmax(u->most, bytes);
}

/* The actions of a stage take what they need in the order of the list, passes leave it. */
static void
follow(struct usage *u, struct held *h, const struct sim_stage *s)
{
	u->time = mem_alloc(2 * (size_t)s->count + 1, sizeof *u->time);
	u->bytes = mem_alloc(2 * (size_t)s->count + 1, sizeof *u->bytes);
	add(u, 0, h->bytes);
	for (int i = 0; i < s->count; i++) {
		const struct sim_event *v = &s->event[i];

		take(h, &v->action);
		add(u, v->start, h->bytes);
		leave(h, &v->action);
		if (v->action.kind == ACTION_BACKWARD)
			add(u, v->end, h->bytes);
	}
}

/* No order of passes has more slots or batches, also one for which the plan has no room. */
static size_t
most_numbers(const struct run_plan *plan)
{
	return (size_t)plan->shape.num_microbatches * (size_t)layout_chunks(&plan->layout);
}

struct usage *
usage_of(const struct run_plan *plan, const struct simulated *x)
{
	struct usage *u = mem_zalloc((size_t)x->num_stages, sizeof *u);
	struct memory_stages stages;

	memory_stages_init(&stages, &plan->model, &plan->layout, &plan->shape);
	for (int r = 0; r < x->num_stages; r++) {
		struct memory_plan m;
		struct held h = { &m, plan, r, NULL, NULL, 0 };

		memory_plan_stage(&m, &stages, &plan->shape, r);
		h.slot = mem_zalloc(most_numbers(plan), sizeof *h.slot);
		h.batch = mem_zalloc(most_numbers(plan), sizeof *h.batch);
		u[r].allocated = (double)memory_total(&m);
		h.bytes = u[r].allocated - (double)m.use.slots * (double)m.slot_bytes -
		    (double)m.use.tails * (double)m.tail_bytes -
		    (double)m.use.batches * (double)m.batch_bytes;
		follow(&u[r], &h, &x->stage[r]);
		free(h.slot);
		free(h.batch);
		memory_release(&m);
	}
	memory_stages_release(&stages);
	return u;
}

void
usage_free(struct usage *u, int num_stages)
{
	for (int r = 0; u && r < num_stages; r++) {
		free(u[r].time);
		free(u[r].bytes);
	}
	free(u);
}
