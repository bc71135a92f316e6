/* generation.c - the plan and the memory of generation, from those of the run */
#include "lib/model/generation.h"
#include "lib/base/int64.h"

/* Positions of a prompt in a pass: enough rows for GEMMs, and few that a short prompt wastes. */
enum { PASS_MAX = 128 };

/* Passes over the longest prompt are equal. */
static int64_t
pass_length(int64_t prompt)
{
	return int64_div_up(prompt, int64_div_up(prompt, PASS_MAX));
}

struct run_plan
generation_plan(const struct run_plan *p, const struct generation *g)
{
	struct run_plan x = *p;
	struct train_shape *s = &x.shape;

	s->micro_batch_size = x.eval_micro_batch_size = g->batch;
	s->num_microbatches = 1;
	s->fp8.format = FP8_NONE;
	s->reset_attention_mask = true;
	x.layout.sequence_parallel = false;
	if (!g->keeps) {
		if (x.layout.context_parallel_size == 1)
			s->seq_length = int64_min(s->seq_length, g->prompt + g->new);
		return x;
	}
	s->seq_length = pass_length(g->prompt);
	s->kept_positions = generation_prompt(&x, g->prompt) + g->new;
	return x;
}

int64_t
generation_prompt(const struct run_plan *p, int64_t tokens)
{
	return int64_div_up(tokens, p->shape.seq_length) * p->shape.seq_length;
}

struct run_plan
generation_decoding(const struct run_plan *p)
{
	struct run_plan x = *p;

	x.shape.seq_length = 1;
	return x;
}

/* What lasts for the run stays where it is. Nothing of a pass over one position is larger. */
void
generation_memory(struct memory_plan *m, const struct run_plan *p,
    const struct memory_plan *prompts, const int coord[AX_COUNT])
{
	memory_plan(m, &p->model, &p->layout, &p->shape, coord);
	for (int i = 0; i < m->num_buffers; i++)
		if (m->buffer[i].level == RUN)
			m->buffer[i].offset = memory_buffer(prompts, m->buffer[i].number)->offset;
}
