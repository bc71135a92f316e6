/*
 * fp8.c - copies of weights, and scales
 *
 * Where the copies of a linear lie follows from its layer's number among those of the stage; their
 * addresses never change, so passes that read them can be recorded.
 */
#include "lib/base/mem.h"
#include "train/engine/fp8.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(
    (int)FP8_SCALE_ROW == (int)SCALE_ROW, "a row of scales, for the plan and for operations");

struct fp8_copies {
	struct linear_list linears[BLOCK_COUNT]; /* of each kind of block */
	struct fp8_gemm (*gemm)[FP8_LINEARS];    /* of each layer of the stage, by block.fp8 */
	bool (*fresh)[FP8_LINEARS];              /* likewise: of a block all or none */
	int num_layers;
	bool scaled; /* there are scales to go by: those of earlier steps, or of a checkpoint */
};

/* --- opening ---------------------------------------------------------------------------------- */

/* The weights that a linear's operand is made of. */
static struct tensor
weights_of(const struct engine *e, const struct block *b, const struct linear_row *linear)
{
	return (linear->experts ? engine_experts : engine_joined)(
	    e, false, b->layer, linear->first, linear->last);
}

/* The linears of a block. */
static const struct linear_list *
linears_of(const struct engine *e, const struct block *b)
{
	return &e->fp8->linears[block_number(b->kind)];
}

/* The next elements of a buffer as a matrix; none where there is no buffer. */
static struct tensor
take(const struct engine *e, int from, int64_t *at, int64_t rows, int64_t columns)
{
	struct tensor all = engine_buffer(e, from);

	if (!all.data)
		return all;
	all = tensor_2d(
	    (char *)all.data + (size_t)*at * dtype_size(all.dtype), all.dtype, rows, columns);
	*at += rows * columns;
	return all;
}

/* The copies of a block's weights, and of blocks of these their scales, one linear after the other;
 * at: how much of each buffer is taken. */
static void
place_block(struct engine *e, const struct block *b, int64_t at[4])
{
	const struct linear_list *all = linears_of(e, b);

	for (const struct linear_row *l = all->row; l < all->row + all->count; l++) {
		struct fp8_gemm *p = &e->fp8->gemm[b->fp8][l->linear];
		struct fp8_slot x = { b->layer, l->linear, FP8_X };
		struct tensor t = weights_of(e, b, l);
		int64_t out = t.shape[0], in = t.shape[1];
		struct fp8_squares s = fp8_squares(out, in), transposed = fp8_squares(in, out);

		p->linear = l;
		p->slot = fp8_slot_number(&e->plan.model, &x);
		p->weight = take(e, BUF_FP8_WEIGHTS, &at[0], out, in);
		p->transposed = take(e, BUF_FP8_TRANSPOSED, &at[1], in, out);
		p->squares = take(e, BUF_FP8_SQUARES, &at[2], s.rows, s.columns);
		p->squares_transposed = take(
		    e, BUF_FP8_SQUARES_TRANSPOSED, &at[3], transposed.rows, transposed.columns);
	}
}

/* Factors are 1 until there are others, and each slot knows the largest number of its type. */
static void
set_slots(struct engine *e)
{
	struct tensor scale = engine_buffer(e, BUF_FP8_SCALE),
		      largest = engine_buffer(e, BUF_FP8_LARGEST);
	float *host;

	if (scale.data)
		e->ops->fill(e->stream, &(struct fill){ scale, 1 });
	if (!largest.data)
		return;
	host = mem_alloc((size_t)largest.shape[0], sizeof *host);
	for (int64_t i = 0; i < largest.shape[0]; i++)
		host[i] = dtype_largest_float8(
		    fp8_type(&e->plan.shape.fp8, fp8_slot_at(&e->plan.model, i).operand));
	e->backend->copy_in(e->stream, largest.data, host, tensor_bytes(&largest));
	engine_sync(e);
	free(host);
}

void
fp8_open(struct engine *e)
{
	const struct memory_plan *m = &e->mem;
	struct sizes z =
	    sizes_of_rank(&e->plan.model, &e->plan.layout, &e->plan.shape, e->coord[AX_PP]);
	int64_t at[4] = { 0 };

	if (e->plan.shape.fp8.format == FP8_NONE)
		return;
	e->fp8 = mem_zalloc(1, sizeof *e->fp8);
	for (const struct block_kind *const *k = block_kinds; *k; k++)
		e->fp8->linears[block_number(*k)] = block_linears(*k, &z);
	for (int i = 0; i < m->num_blocks; i++)
		if (m->block[i].fp8 >= 0)
			e->fp8->num_layers = m->block[i].fp8 + 1;
	e->fp8->gemm = mem_zalloc((size_t)e->fp8->num_layers, sizeof *e->fp8->gemm);
	e->fp8->fresh = mem_zalloc((size_t)e->fp8->num_layers, sizeof *e->fp8->fresh);
	for (int i = 0; i < m->num_blocks; i++)
		if (m->block[i].fp8 >= 0)
			place_block(e, &m->block[i], at);
	set_slots(e);
}

void
fp8_close(struct engine *e)
{
	if (!e->fp8)
		return;
	free(e->fp8->gemm);
	free(e->fp8->fresh);
	free(e->fp8);
}

const struct fp8_gemm *
fp8_gemm_of(const struct engine *e, const struct block *b, enum fp8_linear linear)
{
	return b->fp8 < 0 ? NULL : &e->fp8->gemm[b->fp8][linear];
}

/* --- copies ----------------------------------------------------------------------------------- */

bool
fp8_at_once(const struct engine *e)
{
	return e->fp8 && (e->plan.shape.fp8.recipe != FP8_DELAYED || !e->fp8->scaled);
}

/* The ranks that hold parts of a tensor of one micro batch take the largest of each other. */
static void
share_largest(const void *sharer, struct stream *st, const struct tensor *largest)
{
	const struct groups *g = &((const struct engine *)sharer)->groups;
	struct comm *over[] = { g->tp, g->cp };

	for (size_t i = 0; i < sizeof over / sizeof *over; i++)
		if (over[i]->size > 1)
			over[i]->ops->all_reduce(
			    COMM_HERE(over[i]), st, &(struct comm_reduce){ *largest, REDUCE_MAX });
}

/* Of the weights of a layer's experts, and of the rows that come to these, so do the ranks that
 * hold the experts. */
static void
share_experts(const void *sharer, struct stream *st, const struct tensor *largest)
{
	struct comm *ep = ((const struct engine *)sharer)->groups.ep;

	share_largest(sharer, st, largest);
	if (ep->size > 1)
		ep->ops->all_reduce(
		    COMM_HERE(ep), st, &(struct comm_reduce){ *largest, REDUCE_MAX });
}

/* Scales of a whole tensor: the row of its slot. */
static struct tensor
row_of(const struct engine *e, const struct fp8_gemm *p, enum fp8_operand operand)
{
	struct tensor all = engine_buffer(e, BUF_FP8_SCALE);

	all = tensor_rows(&all, p->slot + (int)operand, 1);
	return tensor_flat(&all);
}

/* The buffer of the scales of blocks that are not of weights. */
static int
lines_of(const struct fp8_source *of)
{
	const struct linear_row *linear = of->gemm->linear;

	if (linear->experts)
		return BUF_FP8_EXPERT_LINES;
	if (of->operand == FP8_X)
		return BUF_FP8_X_LINES;
	if (!of->transposed)
		return BUF_FP8_DY_LINES;
	return linear->waits ? BUF_FP8_FC2_DY_TRANSPOSED_LINES : BUF_FP8_DY_TRANSPOSED_LINES;
}

/* Scales of blocks of weights are kept; those of other operands are of the linear at work. */
struct tensor
fp8_scale(const struct engine *e, const struct fp8_source *of, const struct tensor *t)
{
	struct tensor all;

	if (e->plan.shape.fp8.recipe != FP8_BLOCKWISE) {
		all = row_of(e, of->gemm, of->operand);
		return tensor_rows(&all, SCALE_INVERSE, 1);
	}
	if (of->operand == FP8_W)
		return of->transposed ? of->gemm->squares_transposed : of->gemm->squares;
	all = engine_buffer(e, lines_of(of));
	return tensor_2d(all.data, all.dtype, fp8_lines(t->shape[1]), t->shape[0]);
}

struct quantise
fp8_copies(const struct engine *e, const struct fp8_gemm *p, enum fp8_operand operand,
    const struct quantise *q, bool record)
{
	struct tensor amax = engine_buffer(e, BUF_FP8_AMAX);
	struct quantise copy = *q;

	if (e->plan.shape.fp8.recipe == FP8_BLOCKWISE) {
		copy.kind = QUANTISE_BLOCK;
		copy.scale = fp8_scale(e, &(struct fp8_source){ p, operand, false }, &q->q);
		copy.scale_t = fp8_scale(e, &(struct fp8_source){ p, operand, true }, &q->qt);
	} else {
		copy.kind = fp8_at_once(e) ? QUANTISE_CURRENT : QUANTISE_DELAYED;
		copy.scale = row_of(e, p, operand);
		copy.share = p->linear->experts ? share_experts : share_largest;
		copy.sharer = e;
	}
	if (record && amax.data)
		copy.amax = tensor_rows(&amax, p->slot + (int)operand, 1);
	return copy;
}

void
fp8_stale(struct engine *e)
{
	if (e->fp8)
		memset(e->fp8->fresh, 0, (size_t)e->fp8->num_layers * sizeof *e->fp8->fresh);
}

/* A record of weights counts in evaluations too: the copies that they make also serve the next
 * step. */
static void
copy_weights(struct engine *e, const struct block *b)
{
	const struct linear_list *all = linears_of(e, b);

	for (int i = 0; i < all->count; i++) {
		const struct fp8_gemm *p = fp8_gemm_of(e, b, all->row[i].linear);
		struct quantise q = {
			.x = weights_of(e, b, p->linear), .q = p->weight, .qt = p->transposed
		};

		q = fp8_copies(e, p, FP8_W, &q, true);
		if (q.x.data)
			e->ops->quantise(e->stream, &q);
		e->fp8->fresh[b->fp8][all->row[i].linear] = true;
	}
}

void
fp8_enter(struct step *s, const struct pass_items *of, const struct segment *segment)
{
	struct engine *e = s->e;

	for (int i = segment->first; e->fp8 && i < segment->end; i++) {
		const struct block *b = &e->mem.block[of->item[i].block];

		if (b->fp8 >= 0 && linears_of(e, b)->count &&
		    !e->fp8->fresh[b->fp8][linears_of(e, b)->row[0].linear])
			copy_weights(e, b);
	}
}

bool
fp8_begins(const struct engine *e)
{
	return e->plan.shape.fp8.recipe == FP8_DELAYED && fp8_at_once(e);
}

/* --- scales ----------------------------------------------------------------------------------- */

/* Stages fill in slots of their own layers, so a maximum over them completes the rest: every rank
 * has all, and any one can save them. A save under way may still read them. */
void
fp8_step(struct engine *e)
{
	const struct fp8 *f = &e->plan.shape.fp8;
	struct comm *over[] = { e->groups.tp, e->groups.dp, e->groups.pp };
	struct scales s = { .history = engine_buffer(e, BUF_FP8_HISTORY),
		.amax = engine_buffer(e, BUF_FP8_AMAX),
		.scale = engine_buffer(e, BUF_FP8_SCALE),
		.largest = engine_buffer(e, BUF_FP8_LARGEST),
		.margin = f->margin,
		.most_recent = f->most_recent };

	if (!s.history.data)
		return;
	if (e->held)
		e->backend->wait(e->stream, e->held);
	for (size_t i = 0; i < sizeof over / sizeof *over; i++)
		over[i]->ops->all_reduce(
		    COMM_HERE(over[i]), e->stream, &(struct comm_reduce){ s.amax, REDUCE_MAX });
	e->ops->scales(e->stream, &s);
	e->fp8->scaled = true;
}

struct tensor
fp8_slots(const struct engine *e, enum fp8_state state)
{
	static const int of[FP8_STATES] = {
		[FP8_SCALE] = BUF_FP8_SCALE, [FP8_HISTORY] = BUF_FP8_HISTORY
	};
	struct tensor none = { .data = NULL };

	return e->fp8 && e->plan.shape.fp8.recipe == FP8_DELAYED ? engine_buffer(e, of[state])
								 : none;
}

void
fp8_resumed(struct engine *e)
{
	e->fp8->scaled = true;
	fp8_stale(e);
}
