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
	struct fp8_product *product; /* [layers of the stage][FP8_LINEARS] */
	bool *fresh;                 /* [layers of the stage] */
	int num_layers;
	bool scaled; /* there are scales to go by: those of earlier steps, or of a checkpoint */
};

/* --- opening ---------------------------------------------------------------------------------- */

/* The copies of a layer's weights, one linear after the other. */
static void
place_layer(struct engine *e, const struct block *b)
{
	struct tensor copies = engine_buffer(e, BUF_FP8_WEIGHTS),
		      transposed = engine_buffer(e, BUF_FP8_TRANSPOSED);
	int64_t at = b->fp8 * copies.shape[1];

	for (int i = 0; i < FP8_LINEARS; i++) {
		struct fp8_product *p = &e->fp8->product[b->fp8 * FP8_LINEARS + i];
		struct fp8_weights w = fp8_weights(&e->plan.model, (enum fp8_linear)i);
		struct tensor t = engine_joined(e, false, b->layer, w.first, w.last);

		p->slot =
		    fp8_slot_number(&(struct fp8_slot){ b->layer, (enum fp8_linear)i, FP8_X });
		p->weight =
		    tensor_2d((char *)copies.data + at, copies.dtype, t.shape[0], t.shape[1]);
		if (transposed.data)
			p->transposed = tensor_2d(
			    (char *)transposed.data + at, transposed.dtype, t.shape[1], t.shape[0]);
		at += tensor_elements(&t);
	}
}

/* Factors are 1 until there are others, and each slot knows the largest number of its type. */
static void
set_slots(struct engine *e)
{
	struct tensor scale = engine_buffer(e, BUF_FP8_SCALE),
		      largest = engine_buffer(e, BUF_FP8_LARGEST);
	float *host;

	e->ops->fill(e->stream, &scale, 1);
	if (!largest.data)
		return;
	host = mem_alloc((size_t)largest.shape[0], sizeof *host);
	for (int64_t i = 0; i < largest.shape[0]; i++)
		host[i] =
		    dtype_largest_float8(fp8_type(&e->plan.shape.fp8, fp8_slot_at(i).operand));
	e->backend->copy_in(e->stream, largest.data, host, tensor_bytes(&largest));
	engine_sync(e);
	free(host);
}

int
fp8_open(struct engine *e, struct err *err)
{
	const struct memory_plan *m = &e->mem;
	size_t layers = (size_t)m->shape[BUF_FP8_WEIGHTS][0];

	if (e->plan.shape.fp8.format == FP8_NONE)
		return 0;
	if (!e->ops->quantise)
		return err_set(err, "--fp8-format %s: backend '%s' has no GEMMs of 8-bit operands",
		    fp8_formats[e->plan.shape.fp8.format], e->backend->name);
	e->fp8 = mem_zalloc(1, sizeof *e->fp8);
	e->fp8->num_layers = (int)layers;
	e->fp8->product = mem_zalloc(layers * FP8_LINEARS, sizeof *e->fp8->product);
	e->fp8->fresh = mem_zalloc(layers, sizeof *e->fp8->fresh);
	for (int i = 0; i < m->num_blocks; i++)
		if (m->block[i].fp8 >= 0)
			place_layer(e, &m->block[i]);
	set_slots(e);
	return 0;
}

void
fp8_close(struct engine *e)
{
	if (!e->fp8)
		return;
	free(e->fp8->product);
	free(e->fp8->fresh);
	free(e->fp8);
}

const struct fp8_product *
fp8_product_of(const struct engine *e, const struct block *b, enum fp8_linear linear)
{
	return b->fp8 < 0 ? NULL : &e->fp8->product[b->fp8 * FP8_LINEARS + (int)linear];
}

/* --- copies ----------------------------------------------------------------------------------- */

bool
fp8_by_tensor(const struct engine *e)
{
	return e->fp8 && (e->plan.shape.fp8.recipe != FP8_DELAYED || !e->fp8->scaled);
}

/* The row of a slot. */
static struct tensor
scale_of(const struct engine *e, const struct fp8_product *p, enum fp8_operand operand)
{
	struct tensor all = engine_buffer(e, BUF_FP8_SCALE);

	all = tensor_rows(&all, p->slot + (int)operand, 1);
	return tensor_flat(&all);
}

struct tensor
fp8_inverse(const struct engine *e, const struct fp8_product *p, enum fp8_operand operand)
{
	struct tensor row = scale_of(e, p, operand);

	return tensor_rows(&row, SCALE_INVERSE, 1);
}

void
fp8_copy(struct engine *e, const struct fp8_product *p, enum fp8_operand operand,
    const struct quantise *q, bool record)
{
	struct tensor amax = engine_buffer(e, BUF_FP8_AMAX);
	struct quantise copy = *q;

	copy.scale = scale_of(e, p, operand);
	copy.kind = fp8_by_tensor(e) ? QUANTISE_CURRENT : QUANTISE_DELAYED;
	if (record && amax.data)
		copy.amax = tensor_rows(&amax, p->slot + (int)operand, 1);
	e->ops->quantise(e->stream, &copy);
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
	for (int i = 0; i < FP8_LINEARS; i++) {
		const struct fp8_product *p = fp8_product_of(e, b, (enum fp8_linear)i);
		struct fp8_weights w = fp8_weights(&e->plan.model, (enum fp8_linear)i);

		fp8_copy(e, p, FP8_W,
		    &(struct quantise){ .x = engine_joined(e, false, b->layer, w.first, w.last),
			.q = p->weight,
			.qt = p->transposed },
		    true);
	}
	e->fp8->fresh[b->fp8] = true;
}

void
fp8_enter(struct step *s, const struct moves *of, const struct leg *leg)
{
	struct engine *e = s->e;

	for (int i = leg->first; e->fp8 && i < leg->end; i++) {
		const struct block *b = &e->mem.block[of->move[i].block];

		if (b->fp8 >= 0 && !e->fp8->fresh[b->fp8])
			copy_weights(e, b);
	}
}

bool
fp8_begins(const struct engine *e)
{
	return e->plan.shape.fp8.recipe == FP8_DELAYED && fp8_by_tensor(e);
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
		over[i]->ops->all_reduce(COMM_HERE(over[i]), e->stream, &s.amax, REDUCE_MAX);
	e->ops->scales(e->stream, &s);
	e->fp8->scaled = true;
}

struct tensor
fp8_slots(const struct engine *e, enum fp8_state state)
{
	static const enum buffer of[FP8_STATES] = {
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
