/*
 * norm.c - the norms of a block's input and of its branch; their parameters are whole on every
 * tensor rank
 *
 * x and y are [R, h], whole or the rank's own rows, so nothing is communicated. Mean and 1 / sigma
 * are saved per token; the mean and the bias are missing in RMSNorm, as tensors without data. Which
 * norms a block has is in its place in the list; one without a norm of its input reads x itself.
 */
#include "train/layers/fp8.h"
#include "train/layers/layer.h"
#include "train/layers/linear.h"
#include "train/layers/norm.h"

/* Where the weights of one of the layer's norms are. */
static const struct block_norm *
weights_of(const struct layer *l, const struct block_norm *p)
{
	return p == l->block->norm ? l->block->weights : p;
}

/* Whether the backward pass has been through the other block of the layer, whose norm has the same
 * weights. */
static bool
has_gradient(const struct layer *l, const struct step *s, const struct block_norm *p)
{
	return s->e->plan.model.shared_parallel_norm && l->block->parallel && p == l->block->norm &&
	    l->block->reads == l->block->kind->input;
}

/* The arguments of one of the layer's norms, of x. */
static struct norm
forward_of(
    const struct layer *l, struct step *s, const struct block_norm *p, const struct tensor *x)
{
	struct engine *e = s->e;
	const struct block_norm *w = weights_of(l, p);

	return (struct norm){
		.y = step_buffer(s, p->out, l->block->local),
		.x = *x,
		.weight = engine_weight(e, l->block->layer, w->weight),
		.bias = engine_weight(e, l->block->layer, w->bias),
		.mean = step_buffer(s, p->mean, l->block->local),
		.rstd = step_buffer(s, p->rstd, l->block->local),
		.eps = e->plan.model.norm_epsilon,
		.shift = model_norm_shift(&e->plan.model),
	};
}

/* The arguments of the backward pass of a norm. */
static struct norm_grad
backward_of(
    const struct layer *l, struct step *s, const struct block_norm *p, const struct norm_flow *f)
{
	struct engine *e = s->e;
	const struct block_norm *w = weights_of(l, p);

	return (struct norm_grad){
		.dx = f->dx,
		.dy = f->dy,
		.x = f->x,
		.weight = engine_weight(e, l->block->layer, w->weight),
		.mean = step_buffer(s, p->mean, l->block->local),
		.rstd = step_buffer(s, p->rstd, l->block->local),
		.dweight = engine_grad(e, l->block->layer, w->weight),
		.dbias = engine_grad(e, l->block->layer, w->bias),
		.accumulate = s->accumulate || has_gradient(l, s, p),
		.shift = model_norm_shift(&e->plan.model),
	};
}

/* --- of the input ----------------------------------------------------------------------------- */

/* Arguments of the layer's norm of x. One without a buffer is made in 8 bits. */
struct norm
norm_of(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct norm n = forward_of(l, s, l->block->norm, x);

	if (!n.y.data)
		n.copies = fp8_input(s, fp8_gemm_of(s->e, l->block, l->kind->reads), x->shape);
	return n;
}

/* What is read of it. */
static struct tensor
output_of(const struct norm *n)
{
	return n->y.data ? n->y : n->copies.q.data ? n->copies.q : n->copies.qt;
}

/* What the layer reads; x is its input in the order of layers. */
static struct tensor
read_by(const struct layer *l, struct step *s, const struct tensor *x)
{
	return l->block->parallel ? step_buffer(s, l->block->reads, l->block->local) : *x;
}

/* Called in the layer's own forward pass, or for it by the layer before. */
void
norm_take(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct norm n = norm_of(l, s, x);

	s->e->ops->norm_fwd(s->e->stream, &n);
}

/* For most layers the residual sum of the layer before has computed the norm; the first of a stage,
 * or after the embedding, computes it here. */
struct tensor
norm_forward(const struct layer *l, struct step *s, const struct tensor *x)
{
	struct tensor in = read_by(l, s, x);
	struct norm n;

	if (!l->block->norm)
		return in;
	n = norm_of(l, s, &in);
	if (!l->block->norm_taken || linears_join(s))
		s->e->ops->norm_fwd(s->e->stream, &n);
	return output_of(&n);
}

struct norm
norm_joined(const struct layer *l, struct step *s, struct tensor *x)
{
	*x = read_by(l, s, x);
	return l->block->norm ? norm_of(l, s, x) : (struct norm){ .y.data = NULL };
}

/* Writes the statistics again, with the same bits. */
struct tensor
norm_recompute(const struct layer *l, struct step *s, const struct tensor *x, enum norm_use use)
{
	struct tensor in = read_by(l, s, x);
	struct norm n;

	if (!l->block->norm)
		return in;
	n = norm_of(l, s, &in);
	n.has_stats = true;
	if (!n.y.data && use == NORM_WEIGHT)
		n.copies =
		    fp8_input_transposed(s, fp8_gemm_of(s->e, l->block, l->kind->reads), in.shape);
	if (!n.y.data || memory_buffer(&s->e->mem, l->block->norm->out)->place == ARENA_SCRATCH)
		s->e->ops->norm_fwd(s->e->stream, &n);
	return output_of(&n);
}

/* The destination of the column sums of the gradient that layer l leaves in dx, which are the
 * gradient of the bias before it; or none. That bias is added just before the sum that makes this
 * layer's input, so its gradient is that of the input summed over the tokens. */
static struct tensor
residual_sums(const struct layer *l, struct step *s)
{
	const struct layer *before = l->bias_before;
	struct tensor none = { .data = NULL };

	if (!before)
		return none;
	return engine_grad(s->e, before->block->layer, before->block->kind->residual->bias);
}

/* Adds to f->dx, which holds the residual's gradient. As residual_forward takes the norm after it,
 * this takes the gradient of the bias before it. */
void
norm_backward(const struct layer *l, struct step *s, const struct norm_flow *f)
{
	struct engine *e = s->e;
	struct norm_flow flow = { f->dx, f->dy, read_by(l, s, &f->x) };
	struct norm_grad n;

	if (!l->block->norm) {
		e->ops->add(e->stream, &(struct pair){ f->dx, f->dy });
		return;
	}
	n = backward_of(l, s, l->block->norm, &flow);
	n.dx_sum = residual_sums(l, s);
	e->ops->norm_bwd(e->stream, &n);
}

/* --- of the branch ---------------------------------------------------------------------------- */

struct tensor
norm_branch(const struct layer *l, struct step *s)
{
	return step_buffer(s, l->block->post ? l->block->post->in : BUF_BRANCH, l->block->local);
}

void
norm_branch_forward(const struct layer *l, struct step *s)
{
	struct tensor x = norm_branch(l, s);
	struct norm n;

	if (!l->block->post)
		return;
	n = forward_of(l, s, l->block->post, &x);
	s->e->ops->norm_fwd(s->e->stream, &n);
}

struct tensor
norm_branch_backward(const struct layer *l, struct step *s, const struct tensor *dy)
{
	struct engine *e = s->e;
	struct norm_flow f = { .dy = *dy };
	struct norm_grad n;

	if (!l->block->post)
		return *dy;
	f.dx = engine_buffer(e, BUF_DPOST);
	f.x = norm_branch(l, s);
	n = backward_of(l, s, l->block->post, &f);
	n.writes_dx = true;
	e->ops->norm_bwd(e->stream, &n);
	return f.dx;
}
