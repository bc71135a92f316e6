/*
 * latent.c - queries, keys and values from latents
 *
 * With x the output of the block's norm: c_q = norm(W_qd x) and q = W_qu c_q, or q = W_q x; [c, r]
 * = W_kd x, c = norm(c), and [k, v] of all heads = W_ku c. The end of a head of q rotates, and so
 * does r, which is the end of the key of every head. Projections down are of the rank's own rows,
 * and so are sums of gradients of latents; projections up are column parallel. Heads are never
 * absorbed into latents, which would take more operations but for a single query. Source:
 * DeepSeek-AI 2024, arXiv:2405.04434, section 2.1; docs/math.md 2.10.
 */
#include "train/layers/latent.h"
#include "lib/model/block/latent.h"
#include "train/layers/linear.h"
#include "train/layers/rotate.h"

/* One of both latents: its parameters, what is saved of it, its norm, and their gradients. */
struct role {
	int down, weight, up;
	int saved, rstd, normed, d, dnormed;
};

static const struct role of_q = { LATENT_Q_DOWN, LATENT_Q_NORM, LATENT_Q_UP, LATENT_Q,
	LATENT_Q_RSTD, LATENT_Q_NORMED, LATENT_DQ, LATENT_DQ_NORMED };
static const struct role of_kv = { LATENT_KV_DOWN, LATENT_KV_NORM, LATENT_KV_UP, LATENT_KV,
	LATENT_KV_RSTD, LATENT_KV_NORMED, LATENT_DKV, LATENT_DKV_NORMED };

/* Queries without a latent are projected from x. */
static bool
has_latent_of_q(const struct step *s)
{
	return s->e->plan.model.q_lora_rank > 0;
}

static int
up_of_q(const struct step *s)
{
	return has_latent_of_q(s) ? of_q.up : LATENT_Q_WHOLE;
}

/* The columns of t that are normed, and those after them, which rotate. */
static struct tensor
normed_part(const struct tensor *t, const struct tensor *weight)
{
	return tensor_columns(t, 0, weight->shape[0]);
}

static struct tensor
rotated_part(const struct tensor *t, const struct tensor *weight)
{
	return tensor_columns(t, weight->shape[0], t->shape[1] - weight->shape[0]);
}

static void
project_down(const struct layer *l, struct step *s, const struct role *r, const struct tensor *x)
{
	struct linear down = { .x = *x,
		.y = layer_buffer(l, s, r->saved),
		.weight = engine_weight(s->e, l->block->layer, r->down) };

	forward_gemm(s, &down);
}

/* All rows of the norm of a latent, beside what rotates; the buffer itself where those are the
 * rank's own. */
static struct tensor
norm_latent(const struct layer *l, struct step *s, const struct role *r)
{
	struct engine *e = s->e;
	struct tensor from = layer_buffer(l, s, r->saved), to = layer_buffer(l, s, r->normed),
		      weight = engine_weight(e, l->block->layer, r->weight),
		      shared = rotated_part(&from, &weight), there = rotated_part(&to, &weight);
	struct norm n = { .y = normed_part(&to, &weight),
		.x = normed_part(&from, &weight),
		.weight = weight,
		.rstd = layer_buffer(l, s, r->rstd),
		.eps = model_latent_epsilon(&e->plan.model),
		.shift = model_norm_shift(&e->plan.model) };

	e->ops->norm_fwd(e->stream, &n);
	if (shared.shape[1] > 0)
		e->ops->cast(e->stream, &(struct pair){ there, shared });
	return gather_rows(s, &to);
}

/* The end of each head of q, or what all keys share. */
static void
rotate(const struct layer *l, struct step *s, const struct tensor *x, int num_heads, bool backward)
{
	int width = (int)(x->shape[1] / num_heads);
	struct rope r = { .x = *x,
		.num_heads = num_heads,
		.head_dim = width,
		.first = width - (int)s->e->plan.model.qk_pos_emb_head_dim,
		.interleaved = true,
		.backward = backward };

	rotate_heads(l, s, &r);
}

static void
make_keys(const struct layer *l, struct step *s, const struct attention *a)
{
	struct engine *e = s->e;
	struct tensor all = norm_latent(l, s, &of_kv),
		      weight = engine_weight(e, l->block->layer, of_kv.weight);
	struct linear up = { .x = normed_part(&all, &weight),
		.y = layer_buffer(l, s, LATENT_KV_HEADS),
		.weight = engine_weight(e, l->block->layer, of_kv.up) };
	struct latent_heads h = { a->k, a->v, up.y, rotated_part(&all, &weight), a->num_heads };

	forward_gemm(s, &up);
	rotate(l, s, &h.rope, 1, false);
	e->ops->latent_heads(e->stream, &h);
}

static void
make_queries(
    const struct layer *l, struct step *s, const struct attention *a, const struct tensor *x)
{
	struct linear up = { .x = has_latent_of_q(s) ? norm_latent(l, s, &of_q) : gather_rows(s, x),
		.y = a->q,
		.weight = engine_weight(s->e, l->block->layer, up_of_q(s)) };

	forward_gemm(s, &up);
	rotate(l, s, &a->q, a->num_heads, false);
}

void
latent_recompute(
    const struct layer *l, struct step *s, const struct attention *a, const struct tensor *x)
{
	make_keys(l, s, a);
	make_queries(l, s, a, x);
}

void
latent_forward(
    const struct layer *l, struct step *s, const struct attention *a, const struct tensor *x)
{
	project_down(l, s, &of_kv, x);
	if (has_latent_of_q(s))
		project_down(l, s, &of_q, x);
	latent_recompute(l, s, a, x);
}

/* From dy, the gradient of what `from` [R,w] is projected up to, that of the weight. */
static void
up_gradient(const struct layer *l, struct step *s, int weight, const struct tensor *dy,
    const struct tensor *from)
{
	struct tensor all = gather_rows(s, from),
		      dweight = engine_grad(s->e, l->block->layer, weight);
	struct linear_grad up = {
		.dy = *dy, .x = tensor_columns(&all, 0, dweight.shape[1]), .dweight = dweight
	};

	weight_gradient(s, &up);
}

/* From the gradient of the norm of a latent back to dx, which is written, or added to. */
static void
down_backward(const struct layer *l, struct step *s, const struct role *r, const struct tensor *x,
    const struct tensor *dx, bool add)
{
	struct engine *e = s->e;
	struct tensor saved = layer_buffer(l, s, r->saved), d = layer_buffer(l, s, r->d),
		      dnormed = layer_buffer(l, s, r->dnormed),
		      weight = engine_weight(e, l->block->layer, r->weight),
		      shared = rotated_part(&dnormed, &weight), there = rotated_part(&d, &weight);
	struct norm_grad n = { .dx = normed_part(&d, &weight),
		.x = normed_part(&saved, &weight),
		.dy = normed_part(&dnormed, &weight),
		.weight = weight,
		.rstd = layer_buffer(l, s, r->rstd),
		.dweight = engine_grad(e, l->block->layer, r->weight),
		.accumulate = s->accumulate,
		.writes_dx = true,
		.shift = model_norm_shift(&e->plan.model) };
	struct linear_grad down = {
		.dy = d, .x = *x, .dweight = engine_grad(e, l->block->layer, r->down)
	};
	struct gemm input = { .c = *dx,
		.a = d,
		.b = engine_weight(e, l->block->layer, r->down),
		.alpha = 1,
		.beta = add ? 1 : 0 };

	e->ops->norm_bwd(e->stream, &n);
	if (shared.shape[1] > 0)
		e->ops->cast(e->stream, &(struct pair){ there, shared });
	weight_gradient(s, &down);
	e->ops->gemm(e->stream, &input);
}

static void
queries_backward(const struct layer *l, struct step *s, const struct tensor *dq,
    const struct tensor *x, const struct tensor *dx)
{
	bool latent = has_latent_of_q(s);
	struct tensor from = latent ? layer_buffer(l, s, of_q.normed) : *x,
		      to = latent ? layer_buffer(l, s, of_q.dnormed) : *dx;
	struct linear_grad up = { .dx = partial_sums(s, &to),
		.dy = *dq,
		.weight = engine_weight(s->e, l->block->layer, up_of_q(s)) };

	input_gradient(s, &up);
	scatter_sums(s, &to);
	up_gradient(l, s, up_of_q(s), dq, &from);
	if (latent)
		down_backward(l, s, &of_q, x, dx, false);
}

/* The heads' shares of the gradient of what they share are added up over tensor ranks with those
 * of the latent. */
static void
keys_backward(const struct layer *l, struct step *s, const struct attention_grad *g,
    const struct tensor *x, const struct tensor *dx)
{
	struct engine *e = s->e;
	struct tensor to = layer_buffer(l, s, of_kv.dnormed), partial = partial_sums(s, &to),
		      from = layer_buffer(l, s, of_kv.normed),
		      weight = engine_weight(e, l->block->layer, of_kv.weight);
	struct latent_heads_grad h = { layer_buffer(l, s, LATENT_KV_HEADS),
		rotated_part(&partial, &weight), g->dk, g->dv, g->fwd.num_heads };
	struct linear_grad up = { .dx = normed_part(&partial, &weight),
		.dy = h.dkv,
		.weight = engine_weight(e, l->block->layer, of_kv.up) };

	e->ops->latent_heads_grad(e->stream, &h);
	rotate(l, s, &h.drope, 1, true);
	input_gradient(s, &up);
	scatter_sums(s, &to);
	up_gradient(l, s, of_kv.up, &h.dkv, &from);
	down_backward(l, s, &of_kv, x, dx, true);
}

void
latent_backward(const struct layer *l, struct step *s, const struct attention_grad *g,
    const struct tensor *x, const struct tensor *dx)
{
	rotate(l, s, &g->dq, g->fwd.num_heads, true);
	queries_backward(l, s, &g->dq, x, dx);
	keys_backward(l, s, g, x, dx);
}
