/*
 * attention.c - the attention block: norm, q k v, norms of their heads, rotation, attention over
 * this rank's heads, projection, residual sum; or q k v from latents (latent.c)
 *
 * Tokens are rows of [T, h], T = s b with the sample fastest; a tensor rank has n / t heads and the
 * groups that they read. Column-parallel q k v and row-parallel projection, so one sum over the
 * tensor group each way (Shoeybi 2019, arXiv:1909.08053). What the backward pass needs stays in the
 * slot of the micro batch; the rest is scratch that the next layer reuses.
 */
#include "lib/model/block/attention.h"
#include "train/layers/context.h"
#include "train/layers/latent.h"
#include "train/layers/linear.h"
#include "train/layers/norm.h"
#include "train/layers/residual.h"
#include "train/layers/rotate.h"

/* q, k and v as column slices of one array, after the gate in models that have it; with norms, q
 * and k as slices of a second one. */
struct qkv {
	struct tensor gate, q, k, v, rotated; /* rotated: q and k, side by side */
	int num_heads, num_groups, head_dim;
};

/* Columns of the gate in a row. */
static int64_t
gate_width(const struct engine *e)
{
	const struct model_config *c = &e->plan.model;

	return c->attention_output_gate
	    ? c->num_attention_heads / e->plan.layout.tensor_model_parallel_size * c->kv_channels
	    : 0;
}

/* The columns after those of the gate. */
static struct tensor
after_gate(const struct engine *e, const struct tensor *qkv)
{
	int64_t first = gate_width(e);

	return tensor_columns(qkv, first, qkv->shape[1] - first);
}

/* Views, no copies: the gate, q, k and v of a token lie side by side in a row of
 * [T, (n + 2 g) d / t] or [T, 2 (n + g) d / t], which one GEMM writes. With fewer groups than
 * tensor ranks each rank holds one group, a copy of its neighbours'. qk [T, (n + g) d / t] holds q
 * and k after their norms, if there are any. */
static struct qkv
views(const struct engine *e, const struct tensor *qkv, const struct tensor *qk)
{
	const struct model_config *c = &e->plan.model;
	struct tensor plain = after_gate(e, qkv), normed = qk->data ? *qk : plain;
	struct qkv r = {
		.num_heads =
		    (int)(c->num_attention_heads / e->plan.layout.tensor_model_parallel_size),
		.num_groups = (int)layout_local_groups(&e->plan.layout, c),
		.head_dim = (int)c->kv_channels,
	};
	int64_t q = (int64_t)r.num_heads * r.head_dim, k = (int64_t)r.num_groups * r.head_dim,
		v = r.num_groups * model_value_dim(c);

	r.gate = tensor_columns(qkv, 0, gate_width(e));
	r.q = tensor_columns(&normed, 0, q);
	r.k = tensor_columns(&normed, q, k);
	r.v = tensor_columns(&plain, q + k, v);
	r.rotated = tensor_columns(&normed, 0, q + k);
	return r;
}

/* What attention reads in a layer. */
static struct qkv
saved_views(const struct layer *l, const struct step *s)
{
	struct tensor qkv = layer_buffer(l, s, ATTENTION_QKV),
		      qk = layer_buffer(l, s, ATTENTION_QK);

	return views(s->e, &qkv, &qk);
}

/* What is normed in a row: the heads of q, or those of k. */
enum normed { NORMED_Q, NORMED_K, NORMED };

/* What is computed at a time. */
enum heads { HEADS_Q = 1 << NORMED_Q, HEADS_KV = 1 << NORMED_K, HEADS_ALL = HEADS_Q | HEADS_KV };

static const struct {
	int weight, bias;
} norm_roles[NORMED] = {
	{ ATTENTION_Q_NORM, ATTENTION_Q_NORM_BIAS },
	{ ATTENTION_K_NORM, ATTENTION_K_NORM_BIAS },
};

/* Their columns of [T, (n + g) d / t or more]. */
static struct tensor
normed_columns(const struct tensor *t, const struct qkv *v, enum normed i)
{
	int64_t q = v->q.shape[1];

	return i == NORMED_Q ? tensor_columns(t, 0, q) : tensor_columns(t, q, v->k.shape[1]);
}

/* Their statistics out of all, whose rows of T are as many as the heads of q and k: those of q are
 * first. None where there are none. */
static struct tensor
normed_stats(const struct tensor *all, int64_t heads, enum normed i)
{
	struct tensor part = *all;

	if (!all->data)
		return *all;
	part = tensor_rows(all, i == NORMED_Q ? 0 : all->shape[0] - heads, heads);
	return tensor_flat(&part);
}

/* One of the norms: LayerNorm or RMSNorm of the d elements of a head, as in Megatron-LM
 * core/transformer/attention.py, or of the elements of all heads, as in OLMo 2: the weight's length
 * tells. */
static struct norm
qk_norm(const struct layer *l, const struct step *s, const struct qkv *v, enum normed i)
{
	const struct block *b = l->block;
	struct tensor all = layer_buffer(l, s, ATTENTION_QKV), qkv = after_gate(s->e, &all),
		      mean = layer_buffer(l, s, ATTENTION_QK_MEAN),
		      rstd = layer_buffer(l, s, ATTENTION_QK_RSTD);
	struct norm n = {
		.y = normed_columns(&v->rotated, v, i),
		.x = normed_columns(&qkv, v, i),
		.weight = engine_weight(s->e, b->layer, norm_roles[i].weight),
		.bias = engine_weight(s->e, b->layer, norm_roles[i].bias),
		.eps = s->e->plan.model.norm_epsilon,
		.shift = model_norm_shift(&s->e->plan.model),
	};

	n.mean = normed_stats(&mean, norm_heads(&n.x, &n.weight), i);
	n.rstd = normed_stats(&rstd, norm_heads(&n.x, &n.weight), i);
	return n;
}

/* Rotates q and k, or their gradients back. Keys are rotated before they are kept, so the backward
 * pass rotates the gradients of q and k by the negative angle. */
static void
rotate(const struct layer *l, struct step *s, const struct qkv *v, enum heads which, bool backward)
{
	struct rope r = {
		.x = which == HEADS_ALL ? v->rotated
		    : which == HEADS_Q  ? v->q
					: v->k,
		.num_heads =
		    (which & HEADS_Q ? v->num_heads : 0) + (which & HEADS_KV ? v->num_groups : 0),
		.head_dim = v->head_dim,
		.interleaved = s->e->plan.model.rotary_interleaved,
		.backward = backward,
	};

	rotate_heads(l, s, &r);
}

/* From the output of the GEMM to the input of attention: norms of q and k, then positions. */
static void
prepare(const struct layer *l, struct step *s, enum heads which)
{
	struct qkv v = saved_views(l, s);

	for (int i = 0; s->e->plan.model.qk_layernorm && i < NORMED; i++) {
		struct norm n = qk_norm(l, s, &v, i);

		if (which >> i & 1)
			s->e->ops->norm_fwd(s->e->stream, &n);
	}
	rotate(l, s, &v, which, false);
}

/* Recomputes them in the backward pass where the outputs of the norms were not saved. */
static void
recompute_prepared(const struct layer *l, struct step *s)
{
	if (s->e->plan.model.qk_layernorm &&
	    memory_buffer(&s->e->mem, ATTENTION_QK)->place == ARENA_SCRATCH)
		prepare(l, s, HEADS_ALL);
}

/* Backward through prepare: from attention's gradients to dqkv, that of the GEMM's output. */
static void
prepare_backward(const struct layer *l, struct step *s, const struct qkv *d,
    const struct tensor *dqkv, enum heads which)
{
	struct engine *e = s->e;
	struct qkv v = saved_views(l, s);
	struct tensor normed = after_gate(e, dqkv);

	rotate(l, s, d, which, true);
	for (int i = 0; e->plan.model.qk_layernorm && i < NORMED; i++) {
		struct norm n = qk_norm(l, s, &v, i);
		struct norm_grad g = {
			.dx = normed_columns(&normed, &v, i),
			.dy = normed_columns(&d->rotated, &v, i),
			.x = n.x,
			.weight = n.weight,
			.mean = n.mean,
			.rstd = n.rstd,
			.dweight = engine_grad(e, l->block->layer, norm_roles[i].weight),
			.dbias = engine_grad(e, l->block->layer, norm_roles[i].bias),
			.accumulate = s->accumulate,
			.writes_dx = true,
			.shift = n.shift,
		};

		if (which >> i & 1)
			e->ops->norm_bwd(e->stream, &g);
	}
}

/* The sinks of this rank's heads in the type of sums: learned ones, or zeros. */
static void
make_sinks(const struct layer *l, struct step *s)
{
	const struct ops *ops = s->e->ops;
	struct tensor sinks = layer_buffer(l, s, ATTENTION_SINKS),
		      weight = engine_weight(s->e, l->block->layer, ATTENTION_SINK);

	if (weight.data)
		ops->cast(s->e->stream, &(struct pair){ sinks, weight });
	else if (sinks.data)
		ops->fill(s->e->stream, &(struct fill){ sinks, 0 });
}

/* Of learned ones the gradient, to which the micro batches of a step add. */
static struct tensor
sink_gradient(const struct layer *l, struct step *s)
{
	struct tensor d = engine_grad(s->e, l->block->layer, ATTENTION_SINK);

	if (d.data && !s->accumulate)
		s->e->ops->fill(s->e->stream, &(struct fill){ d, 0 });
	return d;
}

/* The same description serves both passes: the backward pass reads out and lse, recomputes the
 * weights, and regenerates the dropout masks. Masks are numbered by head over all tensor ranks, so
 * they do not depend on the layout. */
static struct attention
core(const struct layer *l, struct step *s)
{
	struct engine *e = s->e;
	struct qkv v = saved_views(l, s);
	struct attention a = {
		.out = layer_buffer(l, s, ATTENTION_OUT),
		.lse = layer_buffer(l, s, ATTENTION_LSE),
		.q = v.q,
		.k = v.k,
		.v = v.v,
		.first = step_buffer(s, BUF_DOCUMENTS, 0),
		.sink = layer_buffer(l, s, ATTENTION_SINKS),
		.micro_batch = (int)e->plan.shape.micro_batch_size,
		.num_heads = v.num_heads,
		.num_groups = v.num_groups,
		.head_dim = v.head_dim,
		.value_dim = (int)model_value_dim(&e->plan.model),
		.scale = model_score_scale(&e->plan.model),
		.softcap = e->plan.model.attn_logit_softcapping,
		.window = layer_window(&e->plan.model, l->block->layer),
		.drop = layer_dropout(l, s, SITE_ATTENTION, e->plan.model.attention_dropout),
	};

	a.drop.first_row = 0;
	a.drop.width = e->plan.model.num_attention_heads;
	a.drop.first_column = (int64_t)v.num_heads * e->coord[AX_TP];
	return a;
}

/* d: the views of the gradients of what it reads. */
static struct attention_grad
core_gradient(const struct layer *l, struct step *s, const struct qkv *d)
{
	return (struct attention_grad){ .fwd = core(l, s),
		.dout = layer_buffer(l, s, ATTENTION_DOUT),
		.dq = d->q,
		.dk = d->k,
		.dv = d->v,
		.dsink = sink_gradient(l, s),
		.delta = layer_buffer(l, s, ATTENTION_DELTA),
		.work = layer_buffer(l, s, ATTENTION_WORK) };
}

/* The largest scores of the micro batch, by head, join those in the layer's row of BUF_SCORES; in
 * the backward pass, where q and k are there however little is kept. */
static void
measure(const struct layer *l, struct step *s, const struct attention *a)
{
	struct tensor scores = engine_buffer(s->e, BUF_SCORES);
	struct attention_max m = { .fwd = *a };
	int64_t row = layer_transforms_before(&s->e->plan.model, l->block->layer);

	if (!scores.data)
		return;
	m.max = tensor_rows(&scores, row * a->num_heads, a->num_heads);
	context_kind_of(&s->e->plan)->max(s, &m);
}

static bool
has_latents(const struct step *s)
{
	return s->e->plan.model.multi_latent_attention;
}

/* Whether GEMMs of q run while k and v, or their gradients, are on their way between context
 * ranks. All columns of an operand in 8 bits are made at once, and tensor ranks have rows on their
 * way instead; of latents q is not before k and v. */
static bool
q_alone(const struct step *s, const struct fp8_gemm *fp8)
{
	return s->e->context.stream && s->e->groups.tp->size == 1 && !fp8 && !has_latents(s);
}

/* The columns of the gate and q, or those of k and v. */
static struct position_range
columns_of(const struct qkv *v, enum heads which)
{
	int64_t q = v->gate.shape[1] + v->q.shape[1], kv = v->k.shape[1] + v->v.shape[1];

	return which == HEADS_Q ? (struct position_range){ 0, q }
				: (struct position_range){ q, kv };
}

/* Rows of a matrix or of a vector, if there is one. */
static struct tensor
rows_of(const struct tensor *t, const struct position_range *r)
{
	return t->data ? tensor_rows(t, r->first, r->count) : *t;
}

/* The rows of a layer in a buffer of what a generation keeps. */
static struct tensor
kept_rows(const struct layer *l, const struct step *s, int buffer)
{
	const struct train_shape *shape = &s->e->plan.shape;
	struct tensor all = engine_buffer(s->e, buffer);
	int64_t n = shape->kept_positions * shape->micro_batch_size;

	return tensor_rows(&all, l->block->of_kind * n, n);
}

/* Keys or values of the pass join those that are kept, from position s->kept on. What attention
 * then reads is all of them, to the last of the pass. */
static void
keep(const struct layer *l, struct step *s, int buffer, struct tensor *x)
{
	struct tensor all = kept_rows(l, s, buffer), own;
	int64_t before = s->kept * s->e->plan.shape.micro_batch_size;

	own = tensor_rows(&all, before, x->shape[0]);
	s->e->ops->cast(s->e->stream, &(struct pair){ own, *x });
	*x = tensor_rows(&all, 0, before + x->shape[0]);
}

/* Whether the pass is over one position of each sample: an operation of its own keeps that one's
 * keys, with arguments that are the same for every position. */
static bool
is_one_position(const struct step *s)
{
	return s->e->plan.shape.kept_positions && s->e->plan.shape.seq_length == 1;
}

/* Attention of a run that keeps keys sees those of earlier passes. */
static void
keep_all(const struct layer *l, struct step *s, struct attention *a)
{
	if (!s->e->plan.shape.kept_positions || is_one_position(s))
		return;
	keep(l, s, ATTENTION_KEPT_KEYS, &a->k);
	keep(l, s, ATTENTION_KEPT_VALUES, &a->v);
}

/* From q, k and v to the heads' outputs. */
static void
attend(const struct layer *l, struct step *s, const struct attention *a)
{
	if (is_one_position(s))
		s->e->ops->attention_step(s->e->stream,
		    &(struct attention_step){ .fwd = *a,
			.keys = kept_rows(l, s, ATTENTION_KEPT_KEYS),
			.values = kept_rows(l, s, ATTENTION_KEPT_VALUES),
			.position = step_buffer(s, BUF_KEPT, 0) });
	else
		context_kind_of(&s->e->plan)->fwd(s, a);
}

/* From the block's norm to the input of attention: some of q, k and v. */
static void
make_heads(const struct layer *l, struct step *s, const struct linear *all, enum heads which)
{
	struct qkv v = saved_views(l, s);
	struct position_range c = columns_of(&v, which);
	struct linear part = *all;

	part.y = tensor_columns(&all->y, c.first, c.count);
	part.weight = rows_of(&all->weight, &c);
	part.bias = rows_of(&all->bias, &c);
	forward_gemm(s, &part);
	prepare(l, s, which);
}

/* Back from the gradients of some of them to that of the weight's part. */
static void
heads_backward(const struct layer *l, struct step *s, const struct qkv *d,
    const struct linear_grad *all, enum heads which)
{
	struct position_range c = columns_of(d, which);

	prepare_backward(l, s, d, &all->dy, which);
	weight_gradient_of(s, all, &c);
}

/* The input of q, k and v in the backward pass. */
static void
begin_input(const struct layer *l, struct step *s, const struct tensor *x, struct linear_grad *qkv)
{
	qkv->x = norm_recompute(l, s, x, NORM_WEIGHT);
	column_backward_begin(s, qkv);
}

/* The first of what is joined to k and v. */
static int
first_joined(const struct engine *e)
{
	return gate_width(e) ? ATTENTION_GATE : ATTENTION_Q;
}

/* What the projection reads: the output of attention, or that times sigmoids of the gate. */
static struct tensor
gated_output(const struct layer *l, struct step *s)
{
	struct qkv v = saved_views(l, s);
	struct glu g = { .y = layer_buffer(l, s, ATTENTION_GATED),
		.x = layer_buffer(l, s, ATTENTION_OUT),
		.z = v.gate };

	if (!g.y.data)
		return g.x;
	s->e->ops->glu(s->e->stream, &g);
	return g.y;
}

/* From the gradient of the gated output, in place, to that of attention's; and of the gate. */
static void
gate_backward(const struct layer *l, struct step *s, const struct qkv *d, const struct tensor *dout)
{
	struct qkv v = saved_views(l, s);
	struct glu_grad g = { *dout, d->gate, *dout, layer_buffer(l, s, ATTENTION_OUT), v.gate,
		false };

	if (gate_width(s->e))
		s->e->ops->glu_grad(s->e->stream, &g);
}

/* Saves the norm's output, q k v, the attention's output and lse. One sum over the tensor group,
 * in row_forward. */
static void
forward(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct engine *e = s->e;
	struct linear in = {
		.x = *x,
		.y = layer_buffer(l, s, ATTENTION_QKV),
		.weight = engine_joined(e, false, l->block->layer, first_joined(e), ATTENTION_V),
		.bias =
		    engine_joined(e, false, l->block->layer, ATTENTION_Q_BIAS, ATTENTION_V_BIAS),
		.fp8 = fp8_gemm_of(e, l->block, FP8_QKV),
	};
	const struct context_kind *context = context_kind_of(&e->plan);
	struct attention att = core(l, s);
	struct linear proj = { .y = norm_branch(l, s),
		.weight = engine_weight(e, l->block->layer, ATTENTION_PROJ),
		.bias = engine_weight(e, l->block->layer, ATTENTION_PROJ_BIAS),
		.fp8 = fp8_gemm_of(e, l->block, FP8_PROJ) };
	bool joined = linears_join(s) && !has_latents(s);

	make_sinks(l, s);
	if (!joined)
		in.x = norm_forward(l, s, x);
	if (joined) {
		struct linear_step p = { .norm = norm_joined(l, s, &in.x) };

		linear_step(s, &in, &p);
		prepare(l, s, HEADS_ALL);
	} else if (has_latents(s)) {
		latent_forward(l, s, &att, &in.x);
		keep_all(l, s, &att);
		context->begin(s, &att);
	} else if (q_alone(s, in.fp8)) {
		make_heads(l, s, &in, HEADS_KV);
		context->begin(s, &att);
		make_heads(l, s, &in, HEADS_Q);
	} else {
		column_forward(s, &in);
		prepare(l, s, HEADS_ALL);
		keep_all(l, s, &att);
		context->begin(s, &att);
	}
	attend(l, s, &att);
	proj.x = gated_output(l, s);
	branch_forward(l, s, &proj, y, x);
}

/* Whether the input of q, k and v is there before the backward pass. */
static bool
has_input(const struct layer *l, const struct engine *e)
{
	return !l->block->norm || memory_buffer(&e->mem, ATTENTION_NORM_OUT)->place == ARENA_SAVED;
}

/* What attention reads and is not kept. */
static void
recompute_heads(
    const struct layer *l, struct step *s, const struct attention *a, const struct tensor *x)
{
	struct tensor normed;

	if (!has_latents(s)) {
		recompute_prepared(l, s);
		return;
	}
	normed = norm_recompute(l, s, x, NORM_WEIGHT);
	latent_recompute(l, s, a, &normed);
}

/* From the gradients of q, k and v back to that of the norm's output; proj: whose weight's gradient
 * is made beside the sum of that, or NULL. */
static void
input_backward(const struct layer *l, struct step *s, const struct attention_grad *att,
    struct linear_grad *qkv, const struct linear_grad *proj)
{
	const struct context_kind *context = context_kind_of(&s->e->plan);
	struct tensor dqk = layer_buffer(l, s, ATTENTION_DQK);
	struct qkv d = views(s->e, &qkv->dy, &dqk);
	enum heads first = context->keys_first ? HEADS_KV : HEADS_Q;

	if (q_alone(s, qkv->fp8)) {
		heads_backward(l, s, &d, qkv, first);
		context->end(s, att);
		heads_backward(l, s, &d, qkv, (enum heads)(HEADS_ALL & ~first));
		input_gradient(s, qkv);
		return;
	}
	context->end(s, att);
	prepare_backward(l, s, &d, &qkv->dy, HEADS_ALL);
	column_backward(s, qkv);
	if (proj)
		weight_gradient(s, proj);
	weight_gradient(s, qkv);
	column_backward_end(s);
}

/* dx holds the gradient of the block's output and then of its input: the norm's share is added
 * to what passes along the residual. One sum over the tensor group, in column_backward.
 * ATTENTION_DOUT, ATTENTION_DQKV and the others are scratch of this call. Keys of other context
 * ranks come beside the projection's GEMMs, and rows of other tensor ranks beside attention where
 * they are kept: what is recomputed has no place until then. */
static void
backward(const struct layer *l, struct step *s, const struct tensor *dx, const struct tensor *x)
{
	struct engine *e = s->e;
	struct tensor dqkv = layer_buffer(l, s, ATTENTION_DQKV),
		      dqk = layer_buffer(l, s, ATTENTION_DQK), dnorm = engine_buffer(e, BUF_DNORM);
	struct qkv d = views(e, &dqkv, &dqk);
	struct attention_grad att = core_gradient(l, s, &d);
	const struct context_kind *context = context_kind_of(&e->plan);
	struct linear_grad proj = {
		.dx = att.dout,
		.dy = residual_backward(l, s, dx),
		.weight = engine_weight(e, l->block->layer, ATTENTION_PROJ),
		.dweight = engine_grad(e, l->block->layer, ATTENTION_PROJ),
		.dbias = residual_dbias(l, s),
		.fp8 = fp8_gemm_of(e, l->block, FP8_PROJ),
	};
	struct linear_grad qkv = {
		.dx = dnorm,
		.dy = dqkv,
		.weight = engine_joined(e, false, l->block->layer, first_joined(e), ATTENTION_V),
		.dweight = engine_joined(e, true, l->block->layer, first_joined(e), ATTENTION_V),
		.dbias =
		    engine_joined(e, true, l->block->layer, ATTENTION_Q_BIAS, ATTENTION_V_BIAS),
		.fp8 = fp8_gemm_of(e, l->block, FP8_QKV),
	};
	bool latent = has_latents(s), kept = has_input(l, e) && !latent;
	/* beside the sum of dnorm, which takes longer than the gradient of qkv's weight alone */
	bool later = rows_overlap(s) && !proj.fp8 && !latent;

	recompute_heads(l, s, &att.fwd, x);
	make_sinks(l, s);
	context->begin_bwd(s, &att.fwd);
	proj.x = gated_output(l, s);
	row_backward(s, &proj);
	gate_backward(l, s, &d, &att.dout);
	context->give_dout(s, &att);
	if (!later)
		weight_gradient(s, &proj);
	if (kept)
		begin_input(l, s, x, &qkv);
	context->bwd(s, &att);
	measure(l, s, &att.fwd);
	if (latent) {
		struct tensor normed = norm_recompute(l, s, x, NORM_WEIGHT);

		context->end(s, &att);
		latent_backward(l, s, &att, &normed, &dnorm);
	} else {
		if (!kept)
			begin_input(l, s, x, &qkv);
		input_backward(l, s, &att, &qkv, later ? &proj : NULL);
	}
	norm_backward(l, s, &(struct norm_flow){ *dx, dnorm, *x });
}

/* The block's row for the engine. */
static const enum use uses[] = { OP_attention_bwd, OP_attention_fwd, OP_attention_max,
	OP_attention_step, OP_cast, OP_fill, OP_glu, OP_glu_grad, OP_latent_heads,
	OP_latent_heads_grad, OP_linear_step, OP_norm_bwd, OP_norm_fwd, OP_rope, USES_END };

const struct layer_kind layer_attention = { &block_attention, SITE_ATTENTION_OUT, forward, backward,
	FP8_QKV, .uses = uses };
