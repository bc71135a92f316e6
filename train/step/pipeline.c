/*
 * pipeline.c - runs the schedule's list of actions
 *
 * The schedule gives one stage's actions in order and the messages of each exchange; it is made in
 * lib/model, where it is tested without running anything. Here each action becomes a pass or a
 * message.
 */
#include "train/engine/fp8.h"
#include "train/engine/p2p.h"
#include "train/engine/activation_offload.h"
#include "train/engine/timing.h"
#include "train/engine/dp_comm.h"
#include "train/step/model.h"
#include "train/step/pipeline.h"

#include <stdlib.h>

enum { TAG_FORWARD = 1, TAG_BACKWARD = 2 };

/* Micro batches alternate over the data ranks, so a global batch has the same samples for any
 * number of data ranks; only the grouping differs. */
int64_t
pipeline_first_sample(const struct run_plan *plan, int64_t step, int microbatch, int data_rank)
{
	return step +
	    (microbatch * plan->layout.data_parallel_size + data_rank) *
	    plan->shape.micro_batch_size;
}

/* The place of what the head tells of a micro batch's tokens: losses and masks, and as much again
 * of the likeliest tokens. */
size_t
pipeline_loss_bytes(const struct engine *e)
{
	const struct train_shape *s = &e->plan.shape;
	size_t each = dtype_size(memory_compute(s->dtype)) + 4;

	return (size_t)run_rows(&e->plan) * (s->likeliest ? 2 * each : each);
}

/* The pass of an action, or of an exchange: its places and sample numbers. It is cheap to
 * recompute, so there is no table of passes in flight. */
static struct step
step_of(const struct pipeline *p, const struct action *a)
{
	return (struct step){
		.e = p->e,
		.microbatch = a->microbatch,
		.chunk = a->chunk,
		.slot = a->slot,
		.tail = a->tail,
		.batch = a->batch,
		.stage_output = a->stage_output,
		.training = p->training,
		.accumulate = a->microbatch > 0 && !engine_shards(p->e, SHARDING_GRADS),
		.last = a->microbatch == p->num_microbatches - 1 && !p->rehearsal,
		.iteration = p->iteration,
		.first_sample = pipeline_first_sample(
		    &p->e->plan, p->first_sample, a->microbatch, p->e->coord[AX_DP]),
		.kept = p->kept,
		.logits = p->logits,
		.first_logits = p->first_logits,
		.losses = p->losses
		    ? (char *)p->losses + (size_t)a->microbatch * pipeline_loss_bytes(p->e)
		    : NULL,
	};
}

/* In one segment, or in those between which data ranks communicate or saved activations move.
 * Places and samples follow from the action, so dropout regenerates the masks of the forward pass.
 * The micro batch belongs to the loader and is copied to the device before the first chunk runs. */
static void
pass(const struct pipeline *p, const struct action *a)
{
	bool back = a->kind == ACTION_BACKWARD;
	enum pass_kind kind = back ? PASS_BACKWARD : p->training ? PASS_FORWARD : PASS_EVALUATION;
	const struct pass_items *m = &p->e->items[a->chunk][kind];
	struct step s = step_of(p, a);
	bool items = activation_offload_begin(&s, back),
	     busy = (dp_comm_begin(&s, back) || items) && m->num_segments > 2;

	if (!back && a->chunk == 0) {
		struct batch batch;

		timing_begin(p->e, SPAN_BATCH);
		p->load(p->ctx, s.microbatch, &batch);
		timing_end(p->e, SPAN_BATCH);
		step_load(&s, &batch);
	}
	p2p_await(p->e, a);
	timing_begin(p->e, back ? SPAN_BACKWARD : SPAN_FORWARD);
	for (int i = busy ? 1 : 0; i < (busy ? m->num_segments : 1); i++) {
		dp_comm_enter(&s, m, &m->segment[i]);
		activation_offload_enter(&s, m, &m->segment[i]);
		fp8_enter(&s, m, &m->segment[i]);
		replay_segment(p->replay, &s, m, &m->segment[i]);
		activation_offload_leave(&s, m, &m->segment[i]);
		dp_comm_leave(&s, &m->item[m->segment[i].end - 1]);
	}
	timing_end(p->e, back ? SPAN_BACKWARD : SPAN_FORWARD);
}

/* The message of one communication action. Messages are received where the pass reads and sent from
 * where it wrote, without copies. The stage after the last one is the first, with the next chunk.
 */
static struct p2p
message(const struct pipeline *p, const struct action *a)
{
	struct step s = step_of(p, a);
	int n = p->e->groups.pp->size, stage = p->e->groups.pp->rank, after = (stage + 1) % n,
	    before = (stage + n - 1) % n;

	switch (a->kind) {
	case ACTION_RECV_FORWARD: return (struct p2p){ false, before, TAG_FORWARD, step_input(&s) };
	case ACTION_SEND_FORWARD:
		return (struct p2p){ true, after, TAG_FORWARD, step_stage_output(&s) };
	case ACTION_RECV_BACKWARD:
		return (struct p2p){ false, after, TAG_BACKWARD, step_stage_output(&s) };
	case ACTION_SEND_BACKWARD:
		return (struct p2p){ true, before, TAG_BACKWARD, step_stage_output(&s) };
	default: BUG("action %d is no message", (int)a->kind);
	}
}

/* The span in which an exchange of these kinds of messages is timed; bit k is kind k. */
static enum span
exchange_span(unsigned kinds)
{
	enum {
		RF = 1U << ACTION_RECV_FORWARD,
		SF = 1U << ACTION_SEND_FORWARD,
		RB = 1U << ACTION_RECV_BACKWARD,
		SB = 1U << ACTION_SEND_BACKWARD
	};

	switch (kinds) {
	case RF: return SPAN_RECV_FORWARD;
	case SF: return SPAN_SEND_FORWARD;
	case RB: return SPAN_RECV_BACKWARD;
	case SB: return SPAN_SEND_BACKWARD;
	case SF | RB: return SPAN_SEND_FORWARD_RECV_BACKWARD;
	case SB | RF: return SPAN_SEND_BACKWARD_RECV_FORWARD;
	default: return SPAN_EXCHANGE;
	}
}

/* Issues the messages from a on as one exchange and returns their number. They are passed to the
 * communicator together, because blocking sends on both sides of a pair would never end. */
static int
exchange(const struct pipeline *p, const struct action *a, int left)
{
	enum { GROUP_MAX = 4 };
	struct p2p m[GROUP_MAX];
	unsigned kinds = 0;
	int n = 0;

	while (n < left && n < GROUP_MAX && a[n].group == a->group && a[n].kind > ACTION_BACKWARD) {
		m[n] = message(p, &a[n]);
		kinds |= 1U << a[n].kind;
		n++;
	}
	p2p_exchange(p->e, a, m, n, exchange_span(kinds));
	return n;
}

/* Collective over the pipeline and tensor groups. Queues everything and does not wait for the
 * device. */
void
pipeline_run(const struct pipeline *p)
{
	struct schedule_shape shape = memory_schedule(
	    &p->e->mem, &p->e->plan.layout, p->rehearsal ? 1 : p->num_microbatches, p->training);
	const struct schedule_use *has = &p->e->mem.use;
	struct schedule_use use;
	struct action *list;
	int n, i = 0;

	timing_begin(p->e, SPAN_FORWARD_BACKWARD);
	n = schedule_make(&shape, p->e->coord[AX_PP], &list, &use);
	if (use.slots > has->slots || use.tails > has->tails || use.batches > has->batches ||
	    use.stage_outputs > has->stage_outputs)
		BUG("a step of %d micro batches needs more than was planned",
		    shape.num_microbatches);
	while (i < n)
		if (list[i].kind == ACTION_FORWARD || list[i].kind == ACTION_BACKWARD)
			pass(p, &list[i++]);
		else
			i += exchange(p, &list[i], n - i);
	p2p_settle(p->e);
	free(list);
	timing_end(p->e, SPAN_FORWARD_BACKWARD);
}
