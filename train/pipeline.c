/* pipeline.c - runs the schedule's list of actions */
#include "train/pipeline.h"
#include "lib/model/schedule.h"

#include <stdlib.h>

enum { TAG_FORWARD = 1, TAG_BACKWARD = 2 };

int64_t
pipeline_first_sample(const struct run_plan *plan, int64_t step, int microbatch, int data_rank)
{
	return step +
	    (microbatch * plan->layout.data_parallel_size + data_rank) *
	    plan->shape.micro_batch_size;
}

/* The pass of a micro batch: its slot in the saved arena and the numbers of its samples. */
static struct step
step_of(const struct pipeline *p, int microbatch)
{
	return (struct step){
		.e = p->e,
		.slot = microbatch % p->e->mem.num_slots,
		.training = p->training,
		.iteration = p->iteration,
		.first_sample = pipeline_first_sample(
		    &p->e->plan, p->first_sample, microbatch, p->e->coord[AX_DP]),
		.logits = p->logits,
	};
}

static void
forward(const struct pipeline *p, int microbatch)
{
	struct step s = step_of(p, microbatch);
	struct batch batch;

	p->load(p->ctx, microbatch, &batch);
	step_load(&s, &batch);
	step_forward(&s);
}

static void
backward(const struct pipeline *p, int microbatch)
{
	struct step s = step_of(p, microbatch);

	step_backward(&s);
}

/* The message of one communication action. */
static struct p2p
message(const struct pipeline *p, const struct action *a)
{
	struct step s = step_of(p, a->microbatch);
	struct tensor dx = engine_buffer(p->e, BUF_DX);
	int stage = p->e->groups.pp->rank;

	switch (a->kind) {
	case ACTION_RECV_FORWARD:
		return (struct p2p){ false, stage - 1, TAG_FORWARD, step_input(&s) };
	case ACTION_SEND_FORWARD:
		return (struct p2p){ true, stage + 1, TAG_FORWARD, step_output(&s) };
	case ACTION_RECV_BACKWARD: return (struct p2p){ false, stage + 1, TAG_BACKWARD, dx };
	case ACTION_SEND_BACKWARD: return (struct p2p){ true, stage - 1, TAG_BACKWARD, dx };
	default: BUG("action %d is no message", (int)a->kind);
	}
}

/* Issues the run of messages that starts at a as one exchange; returns how many they are. */
static int
exchange(const struct pipeline *p, const struct action *a, int left)
{
	enum { GROUP_MAX = 4 };
	struct comm *pp = p->e->groups.pp;
	struct p2p m[GROUP_MAX];
	int n = 0;

	while (n < left && n < GROUP_MAX && a[n].group == a->group && a[n].kind > ACTION_BACKWARD) {
		m[n] = message(p, &a[n]);
		n++;
	}
	pp->ops->exchange(pp, p->e->stream, m, n);
	return n;
}

void
pipeline_run(const struct pipeline *p)
{
	int stages = p->e->groups.pp->size, stage = p->e->groups.pp->rank, i = 0, n;
	struct action *list;

	n = p->training ? schedule_1f1b(stages, stage, p->num_microbatches, &list)
	                : schedule_forward(stages, stage, p->num_microbatches, &list);
	while (i < n) {
		if (list[i].kind == ACTION_FORWARD)
			forward(p, list[i++].microbatch);
		else if (list[i].kind == ACTION_BACKWARD)
			backward(p, list[i++].microbatch);
		else
			i += exchange(p, &list[i], n - i);
	}
	free(list);
}
