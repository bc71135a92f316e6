/*
 * fp8.c - the GEMMs of a linear that reads 8-bit operands
 *
 * All that such GEMMs multiply is dense along k, so the gradient of a weight reads transposed
 * copies. The input is copied again in the backward pass, with the scale of the forward pass, as
 * keeping its copy would cost a byte an element and layer. Activations and the gradients of biases
 * are operations of their own here: the epilogues of these GEMMs have neither. Source:
 * Micikevicius 2022 arXiv:2209.05433.
 */
#include "train/layers/layer.h"

/* A dense view of a buffer of this run for one tensor. */
static struct tensor
view(const struct step *s, enum buffer b, int64_t rows, int64_t columns)
{
	struct tensor t = engine_buffer(s->e, b);

	return tensor_2d(t.data, t.dtype, rows, columns);
}

/* What a copy has to be multiplied by. */
static struct tensor
scale(const struct step *s, const struct fp8_product *p, enum fp8_operand operand,
    const struct tensor *copy)
{
	return fp8_scale(s->e, &(struct fp8_source){ p, operand, false }, copy);
}

/* The same of a transposed one. */
static struct tensor
scale_t(const struct step *s, const struct fp8_product *p, enum fp8_operand operand,
    const struct tensor *copy)
{
	return fp8_scale(s->e, &(struct fp8_source){ p, operand, true }, copy);
}

void
fp8_forward(struct step *s, const struct linear *l)
{
	struct engine *e = s->e;
	struct tensor x = view(s, BUF_FP8_X, l->x.shape[0], l->x.shape[1]);
	struct gemm g = { .c = l->pre.data ? l->pre : l->y,
		.a = x,
		.b = l->fp8->weight,
		.trans_b = true,
		.alpha = 1,
		.bias = l->bias,
		.scale_a = scale(s, l->fp8, FP8_X, &x),
		.scale_b = scale(s, l->fp8, FP8_W, &l->fp8->weight) };

	fp8_copy(e, l->fp8, FP8_X, &(struct quantise){ .x = l->x, .q = x }, s->training);
	e->ops->gemm(e->stream, &g);
	if (l->pre.data)
		e->ops->act_fwd(e->stream, ACT_GELU_TANH, &l->y, &l->pre);
}

/* Copies the gradient of the output both ways, as the weight's gradient needs it transposed. */
void
fp8_input_gradient(struct step *s, const struct linear_grad *l)
{
	struct engine *e = s->e;
	int64_t rows = l->dy.shape[0], out = l->dy.shape[1];
	struct tensor dy = view(s, BUF_FP8_DY, rows, out),
		      all = view(s, BUF_FP8_DY_TRANSPOSED, out, e->mem.shape[BUF_FP8_DY][0]);
	struct gemm g = { .c = l->dx,
		.a = dy,
		.b = l->fp8->transposed,
		.trans_b = true,
		.alpha = 1,
		.scale_a = scale(s, l->fp8, FP8_DY, &dy),
		.scale_b = scale_t(s, l->fp8, FP8_W, &l->fp8->transposed),
		.exact = true };

	fp8_copy(e, l->fp8, FP8_DY,
	    &(struct quantise){
		.x = l->dy, .q = dy, .qt = tensor_columns(&all, l->first_row, rows) },
	    true);
	e->ops->gemm(e->stream, &g);
	if (l->pre.data)
		e->ops->act_bwd(e->stream, ACT_GELU_TANH,
		    &(struct act_grad){ .dx = l->dx, .dy = l->dx, .x = l->pre });
}

void
fp8_weight_gradient(struct step *s, const struct linear_grad *l)
{
	struct engine *e = s->e;
	int64_t rows = l->x.shape[0];
	struct tensor x = view(s, BUF_FP8_X, l->x.shape[1], rows),
		      dy = view(s, BUF_FP8_DY_TRANSPOSED, l->dy.shape[1], rows);
	struct gemm g = { .c = l->dweight,
		.a = dy,
		.b = x,
		.trans_b = true,
		.alpha = 1,
		.beta = s->accumulate ? 1 : 0,
		.scale_a = scale_t(s, l->fp8, FP8_DY, &dy),
		.scale_b = scale_t(s, l->fp8, FP8_X, &x),
		.exact = true };
	struct quantise sums = { .x = l->dy, .sums = l->dbias, .accumulate = s->accumulate };

	if (l->dbias.data)
		e->ops->quantise(e->stream, &sums);
	fp8_copy(e, l->fp8, FP8_X, &(struct quantise){ .x = l->x, .qt = x }, false);
	e->ops->gemm(e->stream, &g);
}
