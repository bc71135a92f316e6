/*
 * attention.c - the attention block: norm, q k v, rotation, attention over this rank's heads,
 * projection, residual sum
 *
 * Tokens are rows of [T, h], T = s b with the sample fastest; a tensor rank has n / t heads and
 * the groups that they read. Column-parallel q k v and row-parallel projection, so one sum over
 * the tensor group each way (Shoeybi 2019, arXiv:1909.08053). What the backward pass needs stays
 * in the slot of the micro batch; the rest is scratch that the next layer uses again.
 */
#include "train/layers/layer.h"

#include <math.h>

/* q, k and v as column slices of one array. */
struct qkv {
	struct tensor q, k, v, turned; /* turned: q and k, side by side */
	int num_heads, num_groups, head_dim;
};

/* Views, no copies: q, k and v of a token lie side by side in a row of [T, (n + 2 g) d / t],
 * which one product writes. With fewer groups than tensor ranks each rank holds one group, a
 * copy of its neighbours'. */
static struct qkv
views(const struct engine *e, const struct tensor *qkv)
{
	const struct model_config *c = &e->plan.model;
	struct qkv r = {
		.num_heads =
		    (int)(c->num_attention_heads / e->plan.layout.tensor_model_parallel_size),
		.num_groups = (int)layout_local_groups(&e->plan.layout, c),
		.head_dim = (int)c->kv_channels,
	};
	int64_t q = (int64_t)r.num_heads * r.head_dim, k = (int64_t)r.num_groups * r.head_dim;

	r.q = tensor_columns(qkv, 0, q);
	r.k = tensor_columns(qkv, q, k);
	r.v = tensor_columns(qkv, q + k, k);
	r.turned = tensor_columns(qkv, 0, q + k);
	return r;
}

/* Turns q and k, or their gradients back. Keys are rotated before they are kept, so the backward
 * pass turns the gradients of q and k back by the negative angle. Nothing to do for learned
 * positions. */
static void
rotate(struct step *s, const struct qkv *v, bool backward)
{
	struct engine *e = s->e;
	struct rope r = {
		.table = engine_buffer(e, BUF_ROPE),
		.positions = step_buffer(s, BUF_POSITIONS, 0),
		.x = v->turned,
		.num_heads = v->num_heads + v->num_groups,
		.head_dim = v->head_dim,
		.rotary_dim = (int)model_rotary_dim(&e->plan.model),
		.interleaved = e->plan.model.rotary_interleaved,
		.backward = backward,
	};

	if (e->plan.model.position == POSITION_ROPE)
		e->ops->rope(e->stream, &r);
}

/* The same description serves both passes: the backward pass reads out and lse, recomputes the
 * weights, and draws the dropout masks again. Masks are numbered by head over all tensor ranks,
 * so they do not depend on the layout. */
static struct attention
core(const struct layer *l, struct step *s)
{
	struct engine *e = s->e;
	struct tensor qkv = step_buffer(s, BUF_QKV, l->block->local);
	struct qkv v = views(e, &qkv);
	struct attention a = {
		.out = step_buffer(s, BUF_ATTN_OUT, l->block->local),
		.lse = step_buffer(s, BUF_LSE, l->block->local),
		.q = v.q,
		.k = v.k,
		.v = v.v,
		.first = step_buffer(s, BUF_DOCUMENTS, 0),
		.micro_batch = (int)e->plan.shape.micro_batch_size,
		.num_heads = v.num_heads,
		.num_groups = v.num_groups,
		.head_dim = v.head_dim,
		.scale = 1.0 / sqrt((double)v.head_dim),
		.window = e->plan.model.window_size,
		.drop = layer_dropout(l, s, SITE_ATTENTION, e->plan.model.attention_dropout),
	};

	a.drop.width = e->plan.model.num_attention_heads;
	a.drop.first_column = (int64_t)v.num_heads * e->coord[AX_TP];
	return a;
}

/* Saves the norm's output, q k v, the attention's output and lse. One sum over the tensor group,
 * in row_forward. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct linear in = {
		.x = norm_forward(l, s, x),
		.y = step_buffer(s, BUF_QKV, l->block->local),
		.weight = engine_joined(e, false, l->block->layer, ROLE_Q, ROLE_V),
		.bias = engine_joined(e, false, l->block->layer, ROLE_Q_BIAS, ROLE_V_BIAS),
	};
	struct qkv v = views(e, &in.y);
	struct attention att = core(l, s);
	struct linear proj = { .x = att.out,
		.y = engine_buffer(e, BUF_BRANCH),
		.weight = engine_weight(e, l->block->layer, ROLE_PROJ),
		.bias = engine_weight(e, l->block->layer, ROLE_PROJ_BIAS) };

	column_forward(s, &in);
	rotate(s, &v, false);
	e->ops->attention_fwd(e->stream, &att);
	row_forward(s, &proj);
	residual_forward(l, s, y, x);
}

/* dx holds the gradient of the block's output and then of its input: the norm's share is added
 * to what passes along the residual. One sum over the tensor group, in column_backward.
 * BUF_DATTN, BUF_DQKV and the others are scratch of this call. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor dqkv = engine_buffer(e, BUF_DQKV), dnorm = engine_buffer(e, BUF_DNORM);
	struct qkv d = views(e, &dqkv);
	struct attention_grad att = { .fwd = core(l, s),
		.dout = engine_buffer(e, BUF_DATTN),
		.dq = d.q,
		.dk = d.k,
		.dv = d.v,
		.delta = engine_buffer(e, BUF_DELTA),
		.work = engine_buffer(e, BUF_ATTN_WORK) };
	struct linear_grad proj = {
		.dx = att.dout,
		.dy = residual_backward(l, s, dx),
		.x = att.fwd.out,
		.weight = engine_weight(e, l->block->layer, ROLE_PROJ),
		.dweight = engine_grad(e, l->block->layer, ROLE_PROJ),
		.dbias = residual_dbias(l, s),
	};
	struct linear_grad qkv = {
		.dx = dnorm,
		.dy = dqkv,
		.weight = engine_joined(e, false, l->block->layer, ROLE_Q, ROLE_V),
		.dweight = engine_joined(e, true, l->block->layer, ROLE_Q, ROLE_V),
		.dbias = engine_joined(e, true, l->block->layer, ROLE_Q_BIAS, ROLE_V_BIAS),
	};
	struct norm_flow flow = { *dx, dnorm, *x };

	row_backward(s, &proj);
	weight_backward(s, &proj);
	e->ops->attention_bwd(e->stream, &att);
	rotate(s, &d, true);
	column_backward(s, &qkv);
	qkv.x = norm_again(l, s, x);
	weight_backward(s, &qkv);
	norm_backward(l, s, &flow);
}

/* What the engine knows of the block. */
const struct layer_kind layer_attention = { &block_attention, SITE_ATTENTION_OUT, forward,
	backward };
