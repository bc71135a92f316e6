/*
 * save.c - what a checkpoint of this rank consists of
 *
 * Every rank writes one file with the boxes it is responsible for, so that each element of the
 * model is written exactly once and all data ranks share the work. Names and boxes are those of the
 * global tensors: nothing in the files depends on the layout, which is why a run may resume under
 * another one. Pieces are declared before any is written because the file's header needs all sizes.
 * A save is a directory beside the others until rank 0 renames it and updates the tracker: until
 * then the previous checkpoint is the latest.
 */
#include "train/engine/fp8.h"
#include "train/state/optim_record.h"
#include "train/state/save.h"

size_t
save_piece_bytes(const struct save_piece *p)
{
	return tensor_bytes(&p->from) + (p->low_bits.data ? tensor_bytes(&p->low_bits) : 0);
}

enum dtype
save_piece_dtype(const struct save_piece *p)
{
	return p->low_bits.data ? DTYPE_F32 : p->from.dtype;
}

/* What is stored of each parameter: a buffer, and the name of the state that it holds; NULL: the
 * masters. */
struct kept {
	int buffer;
	const char *state;
	int number; /* of a state of the update rule, which may not be kept of all; -1 */
};

/* Visits it of every shard. Only owners write: one rank writes a parameter that several tensor
 * ranks hold whole, and of a shard what its optimizer owns, or an equal share when every data rank
 * owns all of it. The flat range cuts a shard into at most a few boxes: ends of rows and the block
 * between them. */
static int
visit_kept(const struct save_walk *w, const struct kept *k, struct err *err)
{
	struct engine *e = w->e;
	const struct shards *shards = &e->mem.shards;

	for (int i = 0; i < shards->count; i++) {
		const struct shard *s = &shards->item[i];
		const struct param *p = &e->table[s->param];
		struct slice slice[SLICE_FLAT_MAX];
		struct part owned = engine_optim_part_of(e, s), share = shard_share(shards, s),
			    own = part_cut(&owned, share.first, share.count);
		bool has = k->number < 0 || engine_keeps(e, s->bucket, k->number);
		bool first = bucket_first_copy(&shards->bucket[s->bucket]);
		int n = s->owner && has && first ? shard_slices(s, &own, slice) : 0;

		for (int b = 0; b < n; b++) {
			struct part part = part_cut(&own, own.first, slice_elements(&slice[b]));
			struct save_piece piece = {
				.from = k->state ? engine_part(e, k->buffer, &part)
						 : engine_masters(e, &part),
				.host =
				    k->buffer == BUF_AVERAGE || engine_updated_on_host(e, &part),
				.param = p,
				.slice = &slice[b],
			};

			if (!k->state)
				piece.low_bits = engine_part(e, BUF_LOW_BITS, &part);
			source_name(p, k->state, piece.name);
			if (w->visit(w->ctx, &piece, err) < 0)
				return -1;
			own = part_cut(&own, part.first + part.count, own.count);
		}
	}
	return 0;
}

/* The slots of 8-bit operands, which all ranks hold: the first one writes them. */
static int
visit_slots(const struct save_walk *w, struct err *err)
{
	for (int i = 0; i < FP8_STATES; i++) {
		struct tensor t = fp8_slots(w->e, (enum fp8_state)i);
		struct param p = fp8_state_param(&w->e->plan.model, (enum fp8_state)i, t.shape[1]);
		struct slice whole = slice_whole(p.ndim, p.shape);
		struct save_piece piece = { .from = t, .param = &p, .slice = &whole };

		if (!t.data || w->e->rank > 0)
			continue;
		snprintf(piece.name, sizeof piece.name, "%s", p.name);
		if (w->visit(w->ctx, &piece, err) < 0)
			return -1;
	}
	return 0;
}

/* Weights stand in for a master copy that the run does not need. */
int
save_pieces(const struct save_walk *w, bool optimizer_state, struct err *err)
{
	const struct memory_plan *m = &w->e->mem;
	struct kept kept[2 + OPTIM_STATES_MAX];
	int n = 0, states = optimizer_state ? optim_num_states(m->rule) : 0;

	kept[n++] = (struct kept){ BUF_MASTER, NULL, -1 };
	for (int s = 0; s < states; s++)
		kept[n++] = (struct kept){ BUF_STATE + s, m->rule->states[s], s };
	if (memory_buffer(m, BUF_AVERAGE)->bytes)
		kept[n++] = (struct kept){ BUF_AVERAGE, STATE_AVERAGE, -1 };
	for (int k = 0; k < n; k++)
		if (visit_kept(w, &kept[k], err) < 0)
			return -1;
	return visit_slots(w, err);
}

/* The table of lib/ckpt/state prints it. */
void
save_state_text(
    const struct train_config *c, const struct progress *p, const char *data, struct str *out)
{
	struct str schedule = { 0 }, losses = { 0 }, passed = { 0 };
	struct run_state s;

	state_init(&s);
	s.iteration = p->iteration;
	s.consumed_train_samples = p->consumed_samples;
	s.optimizer_steps = p->optimizer_steps;
	s.skipped_iterations = p->skipped;
	s.skipped_samples = p->skipped_samples;
	s.passed_samples = p->passed_samples;
	spike_print(&p->spikes, &losses, &passed);
	s.recent_losses = losses.buf;
	s.rewound = passed.buf;
	s.loss_scale = c->scaler.scale;
	s.loss_scale_of = "mean";
	s.loss_scale_growth = c->scaler.growth;
	s.loss_scale_hysteresis = c->scaler.hysteresis_left;
	s.seed = c->o.seed;
	s.dtype = dtype_name(c->plan.shape.dtype);
	optim_record(&c->optim, &s);
	lr_print(&c->schedule, &schedule);
	s.schedule = schedule.buf;
	if (c->tokenizer)
		s.tokenizer = tokenizer_hash(c->tokenizer);
	state_print(&s, out);
	str_adds(out, data);
	str_add(out, c->origin.buf, c->origin.len);
	str_release(&schedule);
	str_release(&losses);
	str_release(&passed);
}
