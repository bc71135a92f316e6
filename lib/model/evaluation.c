/* evaluation.c - the plan and the memory of evaluations, from those of the run */
#include "lib/model/evaluation.h"

int64_t
evaluation_micro_batch(const struct run_plan *p)
{
	return p->eval_micro_batch_size ? p->eval_micro_batch_size : p->shape.micro_batch_size;
}

struct run_plan
evaluation_plan(const struct run_plan *p)
{
	struct run_plan x = *p;

	x.shape.micro_batch_size = evaluation_micro_batch(p);
	x.shape.num_microbatches = run_microbatches(&x, x.eval_batch_size);
	return x;
}

/* No backward pass keeps a micro batch waiting, so one slot is enough. */
void
evaluation_memory(struct memory_plan *m, const struct run_plan *p, const int coord[AX_COUNT])
{
	struct train_shape s = p->shape;

	s.micro_batch_size = evaluation_micro_batch(p);
	s.num_microbatches = 1;
	memory_plan(m, &p->model, &p->layout, &s, coord);
}

void
run_memory(struct memory_plan *m, const struct run_plan *p, const int coord[AX_COUNT])
{
	struct memory_plan evaluation;

	memory_plan(m, &p->model, &p->layout, &p->shape, coord);
	if (evaluation_micro_batch(p) <= p->shape.micro_batch_size)
		return;
	evaluation_memory(&evaluation, p, coord);
	/* What passes leave on the host is of training. */
	for (int a = 0; a < ARENA_HOST; a++)
		if (evaluation.arena[a] > m->arena[a])
			m->arena[a] = evaluation.arena[a];
	memory_release(&evaluation);
}
