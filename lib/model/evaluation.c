/* evaluation.c - the plan and the memory of evaluations, from those of the run */
#include "lib/model/evaluation.h"
#include "lib/base/int64.h"

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

struct run_plan
evaluation_tasks(const struct run_plan *p)
{
	struct run_plan x = *p;

	x.shape.reset_attention_mask = x.shape.likeliest = true;
	return x;
}

/* No backward pass keeps a micro batch waiting, so one slot is enough. */
static struct train_shape
evaluation_shape(const struct run_plan *p)
{
	struct train_shape s = p->shape;

	s.micro_batch_size = evaluation_micro_batch(p);
	s.num_microbatches = 1;
	return s;
}

/* Messages of stages land at the beginning of the arena of what lasts for the run: there is room
 * for those of training and of evaluations, so that all after them lies in one place for both. m is
 * the plan of micro batches of so many samples. */
static void
reserve_messages(struct memory_plan *m, const struct run_plan *p, int64_t samples)
{
	int64_t most = int64_max(p->shape.micro_batch_size, evaluation_micro_batch(p));
	uint64_t had = memory_aligned(memory_buffer(m, BUF_RECEIVE)->bytes), more;
	struct buffer *receive = m->at[BUF_RECEIVE] ? &m->buffer[m->at[BUF_RECEIVE] - 1] : NULL;

	if (!receive)
		return;
	receive->shape[0] = receive->shape[0] / samples * most;
	receive->bytes = receive->bytes / (uint64_t)samples * (uint64_t)most;
	more = memory_aligned(receive->bytes) - had;
	for (int i = 0; i < m->num_buffers; i++)
		if (m->buffer[i].level == RUN && m->buffer[i].number != BUF_RECEIVE)
			m->buffer[i].offset += more;
	m->arena[ARENA_PARAMS] += more;
}

void
evaluation_memory(struct memory_plan *m, const struct run_plan *p, const int coord[AX_COUNT])
{
	struct train_shape s = evaluation_shape(p);

	memory_plan(m, &p->model, &p->layout, &s, coord);
	reserve_messages(m, p, s.micro_batch_size);
}

/* Enlarges the arenas; what passes leave on the host is of training. Releases the evaluation's. */
static void
make_room(struct memory_plan *m, struct memory_plan *evaluation)
{
	for (int a = 0; a < ARENA_HOST; a++)
		if (evaluation->arena[a] > m->arena[a])
			m->arena[a] = evaluation->arena[a];
	memory_release(evaluation);
}

/* Whether evaluations of data have another layout than training. */
static bool
differs(const struct run_plan *p)
{
	return evaluation_micro_batch(p) > p->shape.micro_batch_size;
}

void
run_memory(struct memory_plan *m, const struct run_plan *p, const int coord[AX_COUNT])
{
	struct run_plan tasks = evaluation_tasks(p);
	struct memory_plan evaluation;

	memory_plan(m, &p->model, &p->layout, &p->shape, coord);
	reserve_messages(m, p, p->shape.micro_batch_size);
	if (differs(p)) {
		evaluation_memory(&evaluation, p, coord);
		make_room(m, &evaluation);
	}
	if (p->tasks) {
		evaluation_memory(&evaluation, &tasks, coord);
		make_room(m, &evaluation);
	}
}

/* Room for an evaluation in the plan of a stage. */
static void
make_room_stage(struct memory_plan *m, struct memory_stages *x, const struct run_plan *p, int stage)
{
	struct train_shape s = evaluation_shape(p);
	struct memory_plan evaluation;

	memory_plan_stage(&evaluation, x, &s, stage);
	reserve_messages(&evaluation, p, s.micro_batch_size);
	make_room(m, &evaluation);
}

void
run_memory_stage(
    struct memory_plan *m, struct memory_stages *x, const struct run_plan *p, int stage)
{
	struct run_plan tasks = evaluation_tasks(p);

	memory_plan_stage(m, x, &p->shape, stage);
	reserve_messages(m, p, p->shape.micro_batch_size);
	if (differs(p))
		make_room_stage(m, x, p, stage);
	if (p->tasks)
		make_room_stage(m, x, &tasks, stage);
}
