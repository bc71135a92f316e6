/*
 * mlp.c - the MLP block: norm, up projection (and gate beside it), activation, down projection,
 * residual sum
 *
 * Column-parallel in, row-parallel out, as in attention.c: a tensor rank has f / t columns of
 * gate and of up side by side, so the activation needs no neighbour. Activations are numbered in
 * one order in lib/model and in train/ops.h, which is asserted below.
 */
#include "lib/model/block/mlp.h"
#include "train/layers/fp8.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/norm.h"
#include "train/layers/residual.h"

enum { ALIGNED = 64 }; /* rows of a weight that GEMMs take at full rate */

_Static_assert((int)ACTIVATION_GEGLU_TANH == (int)ACT_GEGLU_TANH &&
	(int)ACTIVATION_SWIGLU == (int)ACT_SWIGLU && (int)ACTIVATION_RELU2 == (int)ACT_RELU2 &&
	(int)ACTIVATION_GELU_ERF == (int)ACT_GELU_ERF &&
	(int)ACTIVATION_QUICK_GEGLU == (int)ACT_QUICK_GEGLU,
    "activations in one order");

/* The first of the joined projections. Gate and up lie one after the other, so one GEMM makes both
 * halves of a row. */
static int
fc1(const struct engine *e)
{
	return model_gated(&e->plan.model) ? MLP_GATE : MLP_UP;
}

/* As fc1; a model without biases has no such parameter and the tensor is empty. */
static int
fc1_bias(const struct engine *e)
{
	return model_gated(&e->plan.model) ? MLP_GATE_BIAS : MLP_UP_BIAS;
}

/* Whether the activation's output is made in 8 bits; then it has no buffer. */
static bool
in_8(const struct engine *e)
{
	return memory_buffer(&e->mem, MLP_ACT_OUT)->bytes == 0;
}

/* The tanh GELU runs in the epilogues of the GEMMs on both sides of it, if they read 16 bits. */
static bool
fused(const struct engine *e)
{
	return e->plan.model.activation == ACTIVATION_GELU_TANH && !in_8(e);
}

/* Whether the backward pass recomputes what the buffer holds: it is scratch, or there is none. */
static bool
is_recomputed(const struct engine *e, int b)
{
	return memory_buffer(&e->mem, b)->bytes == 0 ||
	    memory_buffer(&e->mem, b)->place == ARENA_SCRATCH;
}

/* From the norm's output to the activation's input; where they are one operation, to its output. */
static void
project_up(const struct layer *l, struct step *s, const struct tensor *normed)
{
	struct engine *e = s->e;
	struct tensor act = layer_buffer(l, s, MLP_ACT_OUT), up = layer_buffer(l, s, MLP_FC1_OUT);
	struct linear in = {
		.x = *normed,
		.y = fused(e) ? act : up,
		.weight = engine_joined(e, false, l->block->layer, fc1(e), MLP_UP),
		.bias = engine_joined(e, false, l->block->layer, fc1_bias(e), MLP_UP_BIAS),
		.fp8 = fp8_gemm_of(e, l->block, FP8_FC1),
	};

	if (fused(e))
		in.pre = up;
	column_forward(s, &in);
}

/* From the up projection's output to what the down projection reads. */
static void
activate(const struct layer *l, struct step *s, struct linear *down)
{
	struct engine *e = s->e;
	struct act a = { .kind = (enum act_kind)e->plan.model.activation,
		.y = down->x,
		.x = layer_buffer(l, s, MLP_FC1_OUT),
		.gate = layer_gate(e) };
	const int64_t size[] = { a.x.shape[0], down->weight.shape[1] };

	if (fused(e))
		return;
	if (in_8(e)) {
		a.copies = fp8_input(s, down->fp8, size);
		down->x = a.copies.q;
	}
	e->ops->act_fwd(e->stream, &a);
}

/* As project_up and activate, with the norm of x before them. */
static void
up_step(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct engine *e = s->e;
	struct linear up = { .x = *x,
		.y = layer_buffer(l, s, MLP_ACT_OUT),
		.weight = engine_joined(e, false, l->block->layer, fc1(e), MLP_UP),
		.bias = engine_joined(e, false, l->block->layer, fc1_bias(e), MLP_UP_BIAS) };
	struct linear_step p = { .norm = norm_joined(l, s, &up.x),
		.product = layer_buffer(l, s, MLP_FC1_OUT) };

	p.act = (struct act){ .kind = (enum act_kind)e->plan.model.activation,
		.y = up.y,
		.x = p.product,
		.gate = layer_gate(e) };
	linear_step(s, &up, &p);
}

/* Saves the up projection's output and the activation's, unless the backward pass recomputes them.
 * One sum over the tensor group, in row_forward. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor normed;
	struct linear down = { .x = layer_buffer(l, s, MLP_ACT_OUT),
		.y = norm_branch(l, s),
		.weight = engine_weight(e, l->block->layer, MLP_DOWN),
		.bias = engine_weight(e, l->block->layer, MLP_DOWN_BIAS),
		.fp8 = fp8_gemm_of(e, l->block, FP8_FC2) };

	if (linears_join(s)) {
		up_step(l, s, x);
		branch_forward(l, s, &down, y, x);
		return;
	}
	normed = norm_forward(l, s, x);
	project_up(l, s, &normed);
	/* Recomputed only for the backward pass, which recomputes the activation itself. */
	if (!y->data && !l->block->post && is_recomputed(e, MLP_ACT_OUT))
		return;
	activate(l, s, &down);
	if (!y->data && !l->block->post)
		return;
	if (y->data) {
		branch_forward(l, s, &down, y, x);
	} else {
		row_forward(s, &down);
		norm_branch_forward(l, s);
	}
}

/* The gradient at the activation's input and the activation go into 8 bits, for the three GEMMs
 * that read them. The gradient of a bias is summed from 16. */
static void
gradient_in_8(struct step *s, struct act_grad *a, struct linear_grad *down, struct linear_grad *in)
{
	a->dx_copies = fp8_output_gradient(s, in->fp8, a->x.shape);
	a->y_copies = fp8_input_transposed(s, down->fp8, a->dy.shape);
	in->dy = a->dx_copies.q;
	down->x = a->y_copies.qt;
	if (!in->dbias.data)
		return;
	a->dx = a->x;
	a->dx_copies.sums = in->dbias;
	a->dx_copies.accumulate = s->accumulate;
	in->dbias.data = NULL;
}

/*
 * From the gradient at the activation's output, down's dx, to that at its input, in's dy. The
 * latter takes the place of the input itself, and an activation that was not saved that of its
 * gradient: each element is read before it is written.
 */
static void
through_activation(
    const struct layer *l, struct step *s, struct linear_grad *down, struct linear_grad *in)
{
	struct engine *e = s->e;
	struct act_grad a = { .kind = (enum act_kind)e->plan.model.activation,
		.dy = down->dx,
		.x = layer_buffer(l, s, MLP_FC1_OUT),
		.gate = layer_gate(e) };

	if (in_8(e)) {
		gradient_in_8(s, &a, down, in);
	} else {
		in->dy = a.dx = a.x;
		if (is_recomputed(e, MLP_ACT_OUT))
			down->x = a.y = a.dy;
	}
	e->ops->act_bwd(e->stream, &a);
}

/* The gradient of fc1's weight, the largest GEMM, in two parts: one beside the sum over tensor
 * ranks, the other beside the rows that the layer before gathers first. */
static void
finish(
    const struct layer *l, struct step *s, const struct linear_grad *in, const struct norm_flow *f)
{
	int64_t rows = in->dweight.shape[0], half = rows / 2 / ALIGNED * ALIGNED;
	struct position_range last;

	if (in->fp8 || !l->block->passes || !rows_overlap(s)) {
		weight_gradient(s, in);
		column_backward_end(s);
		norm_backward(l, s, f);
		return;
	}
	last = (struct position_range){ half, rows - half };
	weight_gradient_of(s, in, &(struct position_range){ 0, half });
	column_backward_end(s);
	norm_backward(l, s, f);
	row_backward_begin(s, &f->dx);
	weight_gradient_of(s, in, &last);
}

/* As in attention.c, dx changes in place from the gradient of the block's output to that of its
 * input. One sum over the tensor group, in column_backward. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct linear_grad down = {
		.dx = layer_buffer(l, s, MLP_DACT),
		.dy = residual_backward(l, s, dx),
		.x = layer_buffer(l, s, MLP_ACT_OUT),
		.weight = engine_weight(e, l->block->layer, MLP_DOWN),
		.dweight = engine_grad(e, l->block->layer, MLP_DOWN),
		.dbias = residual_dbias(l, s),
		.fp8 = fp8_gemm_of(e, l->block, FP8_FC2),
	};
	struct linear_grad in = {
		.dx = engine_buffer(e, BUF_DNORM),
		.dy = down.dx,
		.weight = engine_joined(e, false, l->block->layer, fc1(e), MLP_UP),
		.dweight = engine_joined(e, true, l->block->layer, fc1(e), MLP_UP),
		.dbias = engine_joined(e, true, l->block->layer, fc1_bias(e), MLP_UP_BIAS),
		.fp8 = fp8_gemm_of(e, l->block, FP8_FC1),
	};
	struct norm_flow flow = { *dx, in.dx, *x };

	if (is_recomputed(e, MLP_FC1_OUT)) {
		in.x = norm_recompute(l, s, x, NORM_FORWARD);
		project_up(l, s, &in.x);
	}
	if (fused(e)) {
		down.pre = layer_buffer(l, s, MLP_FC1_OUT);
		if (is_recomputed(e, MLP_ACT_OUT) && !is_recomputed(e, MLP_FC1_OUT))
			e->ops->act_fwd(e->stream,
			    &(struct act){ .kind = ACT_GELU_TANH, .y = down.x, .x = down.pre });
	}
	row_backward(s, &down);
	if (!fused(e))
		through_activation(l, s, &down, &in);
	weight_gradient(s, &down);
	if (!in.x.data || dtype_is_float8(in.x.dtype))
		in.x = norm_recompute(l, s, x, NORM_WEIGHT);
	column_backward_begin(s, &in);
	column_backward(s, &in);
	finish(l, s, &in, &flow);
}

static const enum use uses[] = { OP_act_bwd, OP_act_fwd, OP_linear_step, USES_END };

const struct layer_kind layer_mlp = { &block_mlp, SITE_MLP_OUT, forward, backward, FP8_FC1,
	.uses = uses };
