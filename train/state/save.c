/*
 * save.c - what a checkpoint of this rank consists of
 *
 * Every rank writes one file with the boxes it is responsible for, so that each element of the
 * model is written exactly once and all data ranks share the work. Names and boxes are those of
 * the global tensors: nothing in the files depends on the layout, which is why a run may resume
 * under another one. Declaring comes before writing because the file's header needs all sizes. A
 * save is a directory beside the others until rank 0 renames it and moves the tracker: until
 * then the previous checkpoint is the latest.
 */
#include "train/state/save.h"

#include <stdio.h>

/* What is written of each parameter: the buffer it comes from and the ending of its name. */
static const struct {
	enum buffer buffer;
	const char *ending;
} stored[] = { { BUF_MASTER, "" }, { BUF_EXP_AVG, ".exp_avg" }, { BUF_EXP_AVG_SQ, ".exp_avg_sq" } };

enum { STORED = sizeof stored / sizeof *stored };

/* The flat range that this rank writes: its optimizer's, or an equal share when every data rank
 * has all. Every shard buffer is padded to a multiple of the data ranks, so the division is
 * exact. */
static void
writing_range(const struct engine *e, int64_t *first, int64_t *count)
{
	*count = e->mem.shards.elements / e->plan.layout.data_parallel_size;
	*first = *count * e->coord[AX_DP];
}

/* Elements [first, first + count) of what is stored as number k; data NULL when the run has
 * none. Weights stand in for a master copy that the run does not need. */
static struct tensor
source(const struct engine *e, int k, int64_t first, int64_t count)
{
	struct tensor t = engine_buffer(e, stored[k].buffer);

	if (k == 0 && !t.data) {
		t = engine_buffer(e, BUF_WEIGHTS);
		return tensor_rows(&t, first, count);
	}
	return t.data ? tensor_rows(&t, first - e->own_first, count) : t;
}

/* One box of a shard: elements [at, at + n) of the flat buffer. A moment that the rule does not
 * keep is passed over. */
static int
visit_box(const struct save_walk *w, const struct param *p, int k, const struct slice *box,
    int64_t at, struct err *err)
{
	struct save_piece piece = {
		.device = source(w->e, k, at, slice_elements(box)), .param = p, .box = box
	};

	if (!piece.device.data)
		return 0;
	snprintf(piece.name, sizeof piece.name, "%s%s", p->name, stored[k].ending);
	return w->visit(w->ctx, &piece, err);
}

/* Only owners write: a parameter that is whole on several tensor ranks is written by one. Boxes
 * are what the flat range leaves of a shard, at most a few rows' ends and the block between. */
int
save_pieces(const struct save_walk *w, bool optimizer_state, struct err *err)
{
	int64_t first, count;

	writing_range(w->e, &first, &count);
	for (int k = 0; k < (optimizer_state ? STORED : 1); k++)
		for (int i = 0; i < w->e->mem.shards.count; i++) {
			const struct shard *s = &w->e->mem.shards.item[i];
			struct slice box[SLICE_FLAT_MAX];
			int n = s->owner ? shard_pieces(s, first, count, box) : 0;
			int64_t at = first > s->offset ? first : s->offset;

			for (int b = 0; b < n; b++) {
				if (visit_box(w, &w->e->table[s->param], k, &box[b], at, err) < 0)
					return -1;
				at += slice_elements(&box[b]);
			}
		}
	return 0;
}

/* The table of lib/ckpt/state prints it. */
void
save_state_text(
    const struct train_config *c, const struct progress *p, const char *data, struct str *out)
{
	struct str schedule = { 0 };
	struct run_state s;

	state_init(&s);
	s.iteration = p->iteration;
	s.consumed_train_samples = p->consumed_samples;
	s.optimizer_steps = p->optimizer_steps;
	s.skipped_iterations = p->skipped;
	s.loss_scale = c->scaler.scale;
	s.loss_scale_of = "mean";
	s.loss_scale_growth = c->scaler.growth;
	s.loss_scale_hysteresis = c->scaler.hysteresis_left;
	s.seed = c->o.seed;
	s.dtype = dtype_name(c->plan.shape.dtype);
	optim_record(&c->optim, &s);
	train_schedule_line(&c->schedule, &schedule);
	s.schedule = schedule.buf;
	if (c->tokenizer)
		s.tokenizer = tokenizer_hash(c->tokenizer);
	state_print(&s, out);
	str_adds(out, data);
	str_release(&schedule);
}
