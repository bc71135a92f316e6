/*
 * delta.c - the block of linear attention: norm, projections, short convolutions of q k v, states
 * of the gated delta rule over this rank's heads, norm and gate of their output, projection,
 * residual sum
 *
 * Tensor ranks share heads of keys, each with its heads of values: column-parallel projections into
 * them and a row-parallel one out of them. The backward pass computes all but the GEMMs and the
 * output of the rule once more. Source: Yang 2024, arXiv:2412.06464; docs/math.md 2.12.
 */
#include "lib/model/block/delta.h"
#include "train/layers/linear.h"
#include "train/layers/norm.h"
#include "train/layers/residual.h"

/* Column slices of what is projected, or of its gradient. */
struct parts {
	struct tensor qkv, gate, beta, decay;
};

static struct delta_widths
widths_of(const struct engine *e)
{
	return delta_widths(&e->plan.model, e->plan.layout.tensor_model_parallel_size);
}

static struct parts
parts_of(const struct engine *e, const struct tensor *projected)
{
	struct delta_widths n = widths_of(e);
	int64_t qkv = 2 * n.key + n.value;

	return (struct parts){ tensor_columns(projected, 0, qkv),
		tensor_columns(projected, qkv, n.value),
		tensor_columns(projected, qkv + n.value, n.heads),
		tensor_columns(projected, qkv + n.value + n.heads, n.heads) };
}

static struct parts
saved_parts(const struct layer *l, const struct step *s)
{
	struct tensor projected = layer_buffer(l, s, DELTA_PROJECTED);

	return parts_of(s->e, &projected);
}

/* The rows of a layer in a buffer of what a generation keeps, `rows` for each sample; none. */
static struct tensor
kept(const struct layer *l, const struct step *s, int buffer, int64_t rows)
{
	struct tensor all = engine_buffer(s->e, buffer);
	int64_t n = rows * s->e->plan.shape.micro_batch_size;

	return all.data ? tensor_rows(&all, l->block->of_kind * n, n) : all;
}

static struct short_conv
convolution(const struct layer *l, struct step *s)
{
	struct engine *e = s->e;

	return (struct short_conv){ .y = layer_buffer(l, s, DELTA_CONVOLVED),
		.x = saved_parts(l, s).qkv,
		.weight = engine_joined(e, false, l->block->layer, DELTA_CONV_Q, DELTA_CONV_V),
		.first = step_buffer(s, BUF_DOCUMENTS, 0),
		.before = kept(l, s, DELTA_KEPT_INPUTS, e->plan.model.linear_conv_kernel_dim - 1),
		.position = step_buffer(s, BUF_KEPT, 0),
		.micro_batch = (int)e->plan.shape.micro_batch_size };
}

/* The same description serves both passes. */
static struct delta_rule
rule(const struct layer *l, struct step *s)
{
	struct engine *e = s->e;
	struct delta_widths n = widths_of(e);
	struct tensor qkv = layer_buffer(l, s, DELTA_CONVOLVED);
	struct parts p = saved_parts(l, s);

	return (struct delta_rule){ .out = layer_buffer(l, s, DELTA_OUT),
		.q = tensor_columns(&qkv, 0, n.key),
		.k = tensor_columns(&qkv, n.key, n.key),
		.v = tensor_columns(&qkv, 2 * n.key, n.value),
		.beta = p.beta,
		.decay = p.decay,
		.decay_log = engine_weight(e, l->block->layer, DELTA_DECAY_LOG),
		.decay_bias = engine_weight(e, l->block->layer, DELTA_DECAY_BIAS),
		.first = step_buffer(s, BUF_DOCUMENTS, 0),
		.state = kept(l, s, DELTA_KEPT_STATES, n.key),
		.work = layer_buffer(l, s, DELTA_WORK),
		.position = step_buffer(s, BUF_KEPT, 0),
		.micro_batch = (int)e->plan.shape.micro_batch_size,
		.num_key_heads = (int)n.key_heads,
		.num_value_heads = (int)n.heads };
}

/* The norm of each head of the rule's output, whose weight is stored as it is in every model, and
 * that times SiLU of the gate. Returns the latter. */
static struct tensor
output(const struct layer *l, struct step *s, bool has_stats)
{
	struct engine *e = s->e;
	struct norm n = { .y = layer_buffer(l, s, DELTA_NORMED),
		.x = layer_buffer(l, s, DELTA_OUT),
		.weight = engine_weight(e, l->block->layer, DELTA_OUT_NORM),
		.eps = e->plan.model.norm_epsilon,
		.has_stats = has_stats };
	struct tensor rstd = layer_buffer(l, s, DELTA_OUT_RSTD);
	struct glu g = { .y = layer_buffer(l, s, DELTA_GATED),
		.x = n.y,
		.z = saved_parts(l, s).gate,
		.silu = true };

	n.rstd = tensor_flat(&rstd);
	e->ops->norm_fwd(e->stream, &n);
	e->ops->glu(e->stream, &g);
	return g.y;
}

/* Saves the norm's output, what is projected, and the output of the rule. One sum over the tensor
 * group, in row_forward. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct linear in = { .x = norm_forward(l, s, x),
		.y = layer_buffer(l, s, DELTA_PROJECTED),
		.weight = engine_joined(e, false, l->block->layer, DELTA_Q, DELTA_DECAY) };
	struct linear proj = { .y = norm_branch(l, s),
		.weight = engine_weight(e, l->block->layer, DELTA_PROJ) };
	struct short_conv conv;
	struct delta_rule r;

	column_forward(s, &in);
	conv = convolution(l, s);
	e->ops->short_conv(e->stream, &conv);
	r = rule(l, s);
	e->ops->delta_rule(e->stream, &r);
	proj.x = output(l, s, false);
	row_forward(s, &proj);
	residual_forward(l, s, y, x);
}

/* From the gradient of the gated output to that of the rule's, and of the gate. */
static void
output_backward(const struct layer *l, struct step *s, const struct parts *d)
{
	struct engine *e = s->e;
	struct tensor dgated = layer_buffer(l, s, DELTA_DGATED),
		      rstd = layer_buffer(l, s, DELTA_OUT_RSTD);
	struct glu_grad g = { .dx = dgated,
		.dz = d->gate,
		.dy = dgated,
		.x = layer_buffer(l, s, DELTA_NORMED),
		.z = saved_parts(l, s).gate,
		.silu = true };
	struct norm_grad n = { .dx = layer_buffer(l, s, DELTA_DOUT),
		.x = layer_buffer(l, s, DELTA_OUT),
		.dy = dgated,
		.weight = engine_weight(e, l->block->layer, DELTA_OUT_NORM),
		.rstd = tensor_flat(&rstd),
		.dweight = engine_grad(e, l->block->layer, DELTA_OUT_NORM),
		.accumulate = s->accumulate,
		.writes_dx = true };

	e->ops->glu_grad(e->stream, &g);
	e->ops->norm_bwd(e->stream, &n);
}

/* From there to the gradient of all that is projected. */
static void
rule_backward(const struct layer *l, struct step *s, const struct parts *d)
{
	struct engine *e = s->e;
	struct tensor dqkv = layer_buffer(l, s, DELTA_DCONVOLVED);
	struct delta_widths n = widths_of(e);
	struct short_conv conv = convolution(l, s);
	struct delta_rule_grad r = { .fwd = rule(l, s),
		.dq = tensor_columns(&dqkv, 0, n.key),
		.dk = tensor_columns(&dqkv, n.key, n.key),
		.dv = tensor_columns(&dqkv, 2 * n.key, n.value),
		.dbeta = d->beta,
		.ddecay = d->decay,
		.ddecay_log = engine_grad(e, l->block->layer, DELTA_DECAY_LOG),
		.ddecay_bias = engine_grad(e, l->block->layer, DELTA_DECAY_BIAS),
		.dout = layer_buffer(l, s, DELTA_DOUT),
		.chunk = delta_chunk(e->plan.shape.seq_length),
		.accumulate = s->accumulate };
	struct short_conv_grad g = { .fwd = conv,
		.dx = d->qkv,
		.dweight = engine_joined(e, true, l->block->layer, DELTA_CONV_Q, DELTA_CONV_V),
		.dy = dqkv,
		.accumulate = s->accumulate };

	e->ops->short_conv(e->stream, &conv);
	e->ops->delta_rule_grad(e->stream, &r);
	e->ops->short_conv_grad(e->stream, &g);
}

/* dx changes in place from the gradient of the block's output to that of its input. One sum over
 * the tensor group, in column_backward. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor dprojected = layer_buffer(l, s, DELTA_DPROJECTED),
		      dnorm = engine_buffer(e, BUF_DNORM);
	struct parts d = parts_of(e, &dprojected);
	struct linear_grad proj = { .dx = layer_buffer(l, s, DELTA_DGATED),
		.dy = residual_backward(l, s, dx),
		.x = output(l, s, true),
		.weight = engine_weight(e, l->block->layer, DELTA_PROJ),
		.dweight = engine_grad(e, l->block->layer, DELTA_PROJ) };
	struct linear_grad in = { .dx = dnorm,
		.dy = dprojected,
		.weight = engine_joined(e, false, l->block->layer, DELTA_Q, DELTA_DECAY),
		.dweight = engine_joined(e, true, l->block->layer, DELTA_Q, DELTA_DECAY) };

	row_backward(s, &proj);
	weight_gradient(s, &proj);
	output_backward(l, s, &d);
	rule_backward(l, s, &d);
	in.x = norm_recompute(l, s, x, NORM_WEIGHT);
	column_backward_begin(s, &in);
	column_backward(s, &in);
	weight_gradient(s, &in);
	column_backward_end(s);
	norm_backward(l, s, &(struct norm_flow){ *dx, dnorm, *x });
}

/* The block's row for the engine. */
static const enum use uses[] = { OP_delta_rule, OP_delta_rule_grad, OP_glu, OP_glu_grad,
	OP_norm_bwd, OP_norm_fwd, OP_short_conv, OP_short_conv_grad, USES_END };

const struct layer_kind layer_delta = { &block_delta, SITE_ATTENTION_OUT, forward, backward,
	.uses = uses };
