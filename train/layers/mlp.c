/*
 * mlp.c - the MLP block: norm, up projection (and gate beside it), activation, down projection,
 * residual sum
 *
 * Column-parallel in, row-parallel out, as in attention.c: a tensor rank has f / t columns of
 * gate and of up side by side, so the activation needs no neighbour. Activations are numbered in
 * one order in lib/model and in train/ops.h, which is asserted below.
 */
#include "train/layers/layer.h"

static const struct norm_place norm2 = { ROLE_MLP_NORM, ROLE_MLP_NORM_BIAS, BUF_NORM2_MEAN,
	BUF_NORM2_RSTD };

_Static_assert((int)ACTIVATION_GEGLU_TANH == (int)ACT_GEGLU_TANH &&
	(int)ACTIVATION_SWIGLU == (int)ACT_SWIGLU && (int)ACTIVATION_RELU2 == (int)ACT_RELU2 &&
	(int)ACTIVATION_GELU_ERF == (int)ACT_GELU_ERF,
    "activations in one order");

/* The first of the joined projections. Gate and up lie one behind the other, so one product
 * makes both halves of a row. */
static enum role
fc1(const struct engine *e)
{
	return model_gated(&e->plan.model) ? ROLE_GATE : ROLE_UP;
}

/* As fc1; a model without biases has no such parameter and the tensor is empty. */
static enum role
fc1_bias(const struct engine *e)
{
	return model_gated(&e->plan.model) ? ROLE_GATE_BIAS : ROLE_UP_BIAS;
}

/* Saves the norm's output, the up projection's and the activation's. One sum over the tensor
 * group, in row_forward; the down projection's bias comes with the residual sum. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor m = step_buffer(s, BUF_NORM2_OUT, l->local),
		      up = step_buffer(s, BUF_FC1_OUT, l->local);
	struct tensor act = step_buffer(s, BUF_ACT_OUT, l->local),
		      branch = engine_buffer(e, BUF_BRANCH);
	struct tensor weight = engine_joined(e, false, l->index, fc1(e), ROLE_UP);
	struct tensor bias = engine_joined(e, false, l->index, fc1_bias(e), ROLE_UP_BIAS);
	struct tensor down = engine_weight(e, l->index, ROLE_DOWN);

	norm_forward(l, s, &norm2, &m, x);
	column_forward(s, &up, &m, &weight, &bias);
	e->ops->act_fwd(e->stream, (enum act_kind)e->plan.model.activation, &act, &up);
	row_forward(s, &branch, &act, &down);
	residual_forward(l, s, SITE_MLP_OUT, ROLE_DOWN_BIAS, y, x);
}

/* As in attention.c, dx is turned in place from the gradient of the block's output to that of
 * its input. One sum over the tensor group, in column_backward. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor up = step_buffer(s, BUF_FC1_OUT, l->local), dup = engine_buffer(e, BUF_DFC1);
	struct tensor dact = engine_buffer(e, BUF_DACT), dnorm = engine_buffer(e, BUF_DNORM);
	struct linear_grad down = {
		.dx = dact,
		.dy = residual_backward(l, s, SITE_MLP_OUT, dx),
		.x = step_buffer(s, BUF_ACT_OUT, l->local),
		.weight = engine_weight(e, l->index, ROLE_DOWN),
		.dweight = engine_grad(e, l->index, ROLE_DOWN),
		.dbias = engine_grad(e, l->index, ROLE_DOWN_BIAS),
	};
	struct linear_grad in = {
		.dx = dnorm, .dy = dup, .x = step_buffer(s, BUF_NORM2_OUT, l->local),
		.weight = engine_joined(e, false, l->index, fc1(e), ROLE_UP),
		.dweight = engine_joined(e, true, l->index, fc1(e), ROLE_UP),
		.dbias = engine_joined(e, true, l->index, fc1_bias(e), ROLE_UP_BIAS),
	};
	struct norm_flow flow = { *dx, dnorm, *x };

	row_backward(s, &down);
	e->ops->act_bwd(e->stream, (enum act_kind)e->plan.model.activation,
	    &(struct act_grad){ .dx = dup, .dy = dact, .x = up });
	column_backward(s, &in);
	norm_backward(l, s, &norm2, &flow);
}

const struct layer_kind layer_mlp = { "mlp", forward, backward };
