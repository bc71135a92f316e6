/*
 * fp8.c - the GEMMs of a linear that reads 8-bit operands
 *
 * All that such GEMMs multiply is dense along k, so the gradient of a weight reads transposed
 * copies. The input is copied again in the backward pass, with the scale of the forward pass, as
 * keeping its copy would cost a byte an element and layer. Activations and the gradients of biases
 * are operations of their own here: the epilogues of these GEMMs have neither. Source:
 * Micikevicius 2022 arXiv:2209.05433.
 */
#include "train/layers/fp8.h"
#include "train/layers/layer.h"

/* A dense view of a buffer of this run for one tensor. */
static struct tensor
view(const struct step *s, int b, int64_t rows, int64_t columns)
{
	struct tensor t = engine_buffer(s->e, b);

	return tensor_2d(t.data, t.dtype, rows, columns);
}

/* What a copy has to be multiplied by. */
static struct tensor
scale(const struct step *s, const struct fp8_gemm *p, enum fp8_operand operand,
    const struct tensor *copy)
{
	return fp8_scale(s->e, &(struct fp8_source){ p, operand, false }, copy);
}

/* The scale of a transposed copy. */
static struct tensor
scale_t(const struct step *s, const struct fp8_gemm *p, enum fp8_operand operand,
    const struct tensor *copy)
{
	return fp8_scale(s->e, &(struct fp8_source){ p, operand, true }, copy);
}

/* --- copies ----------------------------------------------------------------------------------- */

struct quantise
fp8_input(struct step *s, const struct fp8_gemm *p, const int64_t size[2])
{
	struct quantise q = { .q = view(s, BUF_FP8_X, size[0], size[1]) };

	return fp8_copies(s->e, p, FP8_X, &q, s->training);
}

/* By the scale of the forward pass. */
struct quantise
fp8_input_transposed(struct step *s, const struct fp8_gemm *p, const int64_t size[2])
{
	struct quantise q = { .qt = view(s, BUF_FP8_X, size[1], size[0]) };

	return fp8_copies(s->e, p, FP8_X, &q, false);
}

/* Of all T rows. */
static struct tensor
transposed_dy(const struct step *s, const struct fp8_gemm *p, int64_t out)
{
	int b = p->linear->waits ? BUF_FP8_FC2_DY_TRANSPOSED : BUF_FP8_DY_TRANSPOSED;

	return view(s, b, out, memory_buffer(&s->e->mem, BUF_FP8_DY)->shape[0]);
}

struct quantise
fp8_output_gradient(struct step *s, const struct fp8_gemm *p, const int64_t size[2])
{
	struct quantise q = { .q = view(s, BUF_FP8_DY, size[0], size[1]),
		.qt = transposed_dy(s, p, size[1]) };

	return fp8_copies(s->e, p, FP8_DY, &q, true);
}

/* Copies what nothing has copied before: x [rows, columns]. */
static void
copy(const struct step *s, const struct quantise *q, const struct tensor *x)
{
	struct quantise call = *q;

	call.x = *x;
	if (!dtype_is_float8(x->dtype))
		s->e->ops->quantise(s->e->stream, &call);
}

/* --- GEMMs ------------------------------------------------------------------------------------ */

void
fp8_forward(struct step *s, const struct linear *l)
{
	struct engine *e = s->e;
	struct quantise x = fp8_input(s, l->fp8, l->x.shape);
	struct gemm g = { .c = l->pre.data ? l->pre : l->y,
		.a = dtype_is_float8(l->x.dtype) ? l->x : x.q,
		.b = l->fp8->weight,
		.trans_b = true,
		.alpha = 1,
		.bias = l->bias,
		.scale_a = scale(s, l->fp8, FP8_X, &x.q),
		.scale_b = scale(s, l->fp8, FP8_W, &l->fp8->weight) };

	copy(s, &x, &l->x);
	e->ops->gemm(e->stream, &g);
	if (l->pre.data)
		e->ops->act_fwd(
		    e->stream, &(struct act){ .kind = ACT_GELU_TANH, .y = l->y, .x = l->pre });
}

/* Rows of dy that are a part of all have their columns of the transpose. */
void
fp8_input_gradient(struct step *s, const struct linear_grad *l)
{
	struct engine *e = s->e;
	struct quantise dy = fp8_output_gradient(s, l->fp8, l->dy.shape);
	struct gemm g = { .c = l->dx,
		.a = dy.q,
		.b = l->fp8->transposed,
		.trans_b = true,
		.alpha = 1,
		.scale_a = scale(s, l->fp8, FP8_DY, &dy.q),
		.scale_b = scale_t(s, l->fp8, FP8_W, &l->fp8->transposed),
		.exact = true };

	dy.qt = tensor_columns(&dy.qt, l->first_row, l->dy.shape[0]);
	copy(s, &dy, &l->dy);
	e->ops->gemm(e->stream, &g);
	if (l->pre.data)
		e->ops->act_bwd(e->stream,
		    &(struct act_grad){
			.kind = ACT_GELU_TANH, .dx = l->dx, .dy = l->dx, .x = l->pre });
}

void
fp8_weight_gradient(struct step *s, const struct linear_grad *l)
{
	struct engine *e = s->e;
	bool made = dtype_is_float8(l->x.dtype);
	const int64_t size[] = { l->dy.shape[0], l->x.shape[made ? 0 : 1] };
	struct quantise x = fp8_input_transposed(s, l->fp8, size);
	struct tensor dy = transposed_dy(s, l->fp8, l->dy.shape[1]);
	struct gemm g = { .c = l->dweight,
		.a = dy,
		.b = x.qt,
		.trans_b = true,
		.alpha = 1,
		.beta = s->accumulate ? 1 : 0,
		.scale_a = scale_t(s, l->fp8, FP8_DY, &dy),
		.scale_b = scale_t(s, l->fp8, FP8_X, &x.qt),
		.exact = true };
	struct quantise sums = { .x = l->dy, .sums = l->dbias, .accumulate = s->accumulate };

	if (l->dbias.data)
		e->ops->quantise(e->stream, &sums);
	copy(s, &x, &l->x);
	e->ops->gemm(e->stream, &g);
}

/* Both kinds of rows take turns in one buffer. */
void
fp8_grouped(struct step *s, const struct fp8_gemm *p, const struct grouped *gemm)
{
	struct engine *e = s->e;
	bool forward = gemm->kind == GROUPED_FORWARD;
	enum fp8_operand rows = forward ? FP8_X : FP8_DY;
	struct grouped g = *gemm;
	struct quantise q = { .q = view(s, BUF_FP8_EXPERT, g.a.shape[0], g.a.shape[1]) };

	q.q.dtype = fp8_type(&e->plan.shape.fp8, rows);
	q = fp8_copies(e, p, rows, &q, s->training);
	q.counts = g.counts;
	q.first = g.first;
	copy(s, &q, &g.a);
	g.a = q.q;
	g.b = forward ? p->weight : p->transposed;
	g.scale_a = scale(s, p, rows, &g.a);
	g.scale_b = (forward ? scale : scale_t)(s, p, FP8_W, &g.b);
	e->ops->grouped(e->stream, &g);
}
