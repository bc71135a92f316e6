/* attention.c - the attention block: what norm, q k v, attention and projection hold */
#include "lib/model/block/attention.h"
#include "lib/model/block/latent.h"
#include "lib/model/block/linears.h"
#include "lib/model/block/rows.h"
#include "lib/model/block/workspace.h"
#include "lib/model/work.h"

/* The gate, q, k and v are cut along their outputs, sinks by heads, the projection along its input.
 * All heads of q share one norm weight, and so do those of k, so a tensor rank has the gradient of
 * its own heads; where ranks hold copies of a group, each has the gradient from its own queries,
 * and their sum counts the group once. */
static void
head_params(struct param_list *to, const struct model_config *c)
{
	bool heads = !c->multi_latent_attention, normed = c->qk_layernorm && heads,
	     biased = model_norm_biases(c), whole = c->qk_layernorm_hidden_dim;
	int64_t h = c->hidden_size, d = c->kv_channels, q = c->num_attention_heads * d,
		kv = c->num_query_groups * d, q_norm = whole ? q : d, k_norm = whole ? kv : d;
	const struct param_row rows[] = {
		{ "self_attention.linear_gate.weight", ATTENTION_GATE, c->attention_output_gate,
		    { q, h }, SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
		{ "self_attention.linear_q.weight", ATTENTION_Q, heads, { q, h }, SHARD_EQUAL, 0,
		    INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "self_attention.linear_k.weight", ATTENTION_K, heads, { kv, h }, SHARD_GROUPS, 0,
		    INIT_NORMAL, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
		{ "self_attention.linear_v.weight", ATTENTION_V, heads, { kv, h }, SHARD_GROUPS, 0,
		    INIT_NORMAL, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
		{ "self_attention.linear_q.bias", ATTENTION_Q_BIAS, c->qkv_bias, { q }, SHARD_EQUAL,
		    0, INIT_ZERO, 0, { 0, 0 } },
		{ "self_attention.linear_k.bias", ATTENTION_K_BIAS, c->qkv_bias, { kv },
		    SHARD_GROUPS, 0, INIT_ZERO, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
		{ "self_attention.linear_v.bias", ATTENTION_V_BIAS, c->qkv_bias, { kv },
		    SHARD_GROUPS, 0, INIT_ZERO, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
		NORM_ROWS("self_attention.q_layernorm", ATTENTION_Q_NORM, normed, biased, q_norm,
		    SUM_TENSOR),
		NORM_ROWS("self_attention.k_layernorm", ATTENTION_K_NORM, normed, biased, k_norm,
		    SUM_TENSOR),
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

static void
params(struct param_list *to, const struct model_config *c)
{
	bool pre = model_pre_norm(c), post = model_post_norm(c), biased = model_norm_biases(c);
	int64_t h = c->hidden_size, out = c->num_attention_heads * model_value_dim(c);
	const struct param_row first[] = { NORM_ROWS(
	    "input_layernorm", ATTENTION_NORM, pre, biased, h, 0) };
	const struct param_row rows[] = {
		{ "self_attention.core_attention.softmax_offset", ATTENTION_SINK,
		    c->softmax_type == SOFTMAX_LEARNABLE, { c->num_attention_heads }, SHARD_EQUAL,
		    0, INIT_NORMAL, 0, { 0, 0 } },
		{ "self_attention.linear_proj.weight", ATTENTION_PROJ, true, { h, out },
		    SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
		{ "self_attention.linear_proj.bias", ATTENTION_PROJ_BIAS, c->proj_bias, { h },
		    SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
		NORM_ROWS("post_self_attn_layernorm", ATTENTION_POST_NORM, post, biased, h, 0),
	};

	state_params(to, first, sizeof first / sizeof *first);
	head_params(to, c);
	latent_params(to, c);
	state_params(to, rows, sizeof rows / sizeof *rows);
}

/* Of the heads of a tensor rank: the channels of q, k and v, those of the output, and those of its
 * gate, if it has one. */
struct heads {
	int64_t count, groups, q, k, v, out, gate;
};

static struct heads
heads_of(const struct sizes *z)
{
	int64_t n = z->model->num_attention_heads / z->layout->tensor_model_parallel_size,
		g = layout_local_groups(z->layout, z->model), d = z->model->kv_channels,
		e = model_value_dim(z->model);

	return (struct heads){ n, g, n * d, g * d, g * e, n * e,
		z->model->attention_output_gate ? n * e : 0 };
}

/* What a layer keeps, and the gradients of the backward pass. q and k after their norms are rotated
 * in place with RoPE. */
static void
state_own(struct buffer_list *to, const struct sizes *z)
{
	const struct model_config *c = z->model;
	struct heads n = heads_of(z);
	bool pre = model_pre_norm(c), post = model_post_norm(c), trains = z->trains,
	     means = model_norm_means(c), latent = c->multi_latent_attention,
	     normed = c->qk_layernorm && !latent,
	     in_16 = !fp8_makes_norms(z->layout, &z->shape->fp8), gated = n.gate > 0;
	unsigned norm_phases = latent ? FWD | ATTN_BWD | QKV_BWD : FWD | QKV_BWD;
	int64_t t = z->tokens, r = z->rows, h = z->hidden, qkv = n.q + n.k + n.v + n.gate,
		qk = n.q + n.k, lines = n.count * z->shape->micro_batch_size,
		norms = c->qk_layernorm_hidden_dim ? 2 : n.count + n.groups,
		work = (int64_t)(attention_run_workspace(c, z->layout, z->shape) / sizeof(float));
	const struct buffer_row rows[] = {
		{ "layer input", ATTENTION_INPUT, LAYER, true, RESIDUAL, { r, h } },
		{ "norm 1 mean", ATTENTION_NORM_MEAN, LAYER, pre && means, COMPUTE, { r } },
		{ "norm 1 rstd", ATTENTION_NORM_RSTD, LAYER, pre, COMPUTE, { r } },
		{ "norm 1 output", ATTENTION_NORM_OUT, LAYER, pre && in_16, ACT, { r, h },
		    norm_phases, RECOMPUTE_LAYERNORM },
		{ "q, k, v", ATTENTION_QKV, latent ? STEP : LAYER, true, ACT, { t, qkv },
		    latent ? FWD | ATTN_BWD : 0 },
		{ "q, k norm output", ATTENTION_QK, LAYER, normed, ACT, { t, qk }, FWD | ATTN_BWD,
		    RECOMPUTE_LAYERNORM },
		{ "q, k norm mean", ATTENTION_QK_MEAN, LAYER, normed && means, COMPUTE,
		    { norms, t } },
		{ "q, k norm rstd", ATTENTION_QK_RSTD, LAYER, normed, COMPUTE, { norms, t } },
		{ "log-sum-exp", ATTENTION_LSE, LAYER, true, COMPUTE, { lines, z->held } },
		{ "attention output", ATTENTION_OUT, LAYER, true, ACT, { t, n.out } },
		{ "gated output", ATTENTION_GATED, STEP, gated, ACT, { t, n.out },
		    FWD | ATTN_BWD | QKV_BWD },
		{ "sinks", ATTENTION_SINKS, STEP, c->softmax_type != SOFTMAX_VANILLA, COMPUTE,
		    { n.count }, FWD | ATTN_BWD },
		{ "projection output", ATTENTION_PROJ_OUT, LAYER, post, ACT, { r, h } },
		{ "post norm 1 mean", ATTENTION_POST_MEAN, LAYER, post && means, COMPUTE, { r } },
		{ "post norm 1 rstd", ATTENTION_POST_RSTD, LAYER, post, COMPUTE, { r } },
		{ "attention output gradient", ATTENTION_DOUT, STEP, trains, ACT, { t, n.out },
		    ATTN_BWD },
		{ "q, k, v gradient", ATTENTION_DQKV, STEP, trains, ACT, { t, qkv },
		    ATTN_BWD | QKV_BWD },
		{ "q, k norm output gradient", ATTENTION_DQK, STEP, trains && normed, ACT,
		    { t, qk }, ATTN_BWD | QKV_BWD },
		{ "attention delta", ATTENTION_DELTA, STEP, trains, COMPUTE, { lines, z->held },
		    ATTN_BWD },
		{ "attention workspace", ATTENTION_WORK, STEP, trains, F32, { work }, ATTN_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Context ranks gather keys and values: of all positions, k beside v. Their gradients are of those
 * from the queries of this rank, and then of the own ones from those of all: of all positions and,
 * from the queries of the first stretch, of the first half; and of one stretch, from each of the
 * other ranks. Or they exchange positions for heads: of all positions and some heads, as many
 * elements as of some positions and all heads; at most q, k, v, the output and its gradient are
 * packed. */
static void
state_context(struct buffer_list *to, const struct sizes *z)
{
	struct heads n = heads_of(z);
	bool heads = z->shape->context_form == CONTEXT_HEADS, trains = z->trains, gather = !heads,
	     gather_trains = gather && trains, heads_train = heads && trains;
	int64_t c = z->layout->context_parallel_size, t = z->tokens, all = z->all_tokens,
		kv = n.k + n.v, qkv = n.q + kv, some = n.out / c,
		piece = all / (POSITION_RANGES * c);
	const struct buffer_row rows[] = {
		{ "gathered k, v", ATTENTION_CONTEXT_KEYS, STEP, gather, ACT, { all, kv },
		    FWD | ATTN_BWD },
		{ "partial k, v gradient", ATTENTION_CONTEXT_PARTIAL, STEP, gather_trains, ACT,
		    { 3 * c * piece, kv }, ATTN_BWD | QKV_BWD },
		{ "other ranks' k, v gradient", ATTENTION_CONTEXT_SUMS, STEP, gather_trains, ACT,
		    { (c - 1) * piece, kv }, ATTN_BWD | QKV_BWD },
		{ "q, k, v of some heads", ATTENTION_CONTEXT_QKV, STEP, heads, ACT, { t, qkv },
		    FWD | ATTN_BWD },
		{ "output of some heads", ATTENTION_CONTEXT_OUT, STEP, heads, ACT, { all, some },
		    FWD | ATTN_BWD },
		{ "output gradient of some heads", ATTENTION_CONTEXT_DOUT, STEP, heads_train, ACT,
		    { all, some }, ATTN_BWD },
		{ "q, k, v gradient of some heads", ATTENTION_CONTEXT_DQKV, STEP, heads_train, ACT,
		    { t, qkv }, ATTN_BWD | QKV_BWD },
		{ "packed heads", ATTENTION_CONTEXT_PACKED, STEP, heads, ACT,
		    { t, qkv + 2 * n.out }, FWD | ATTN_BWD | QKV_BWD },
	};

	if (c > 1)
		state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Keys, which are rotated, and values of all positions that are generated: of the stage's blocks of
 * the kind one after the other, position by position, the sample fastest. */
static void
state_kept(struct buffer_list *to, const struct sizes *z)
{
	struct heads n = heads_of(z);
	int64_t rows = block_count(&block_attention, z->model, z->layout, z->pp) *
	    z->shape->kept_positions * z->shape->micro_batch_size;
	const struct buffer_row buffers[] = {
		{ "kept keys", ATTENTION_KEPT_KEYS, RUN, true, ACT, { rows, n.k } },
		{ "kept values", ATTENTION_KEPT_VALUES, RUN, true, ACT, { rows, n.v } },
	};

	if (z->shape->kept_positions)
		state_buffers(to, buffers, sizeof buffers / sizeof *buffers);
}

static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	state_own(to, z);
	if (z->model->multi_latent_attention)
		latent_buffers(to, z, heads_of(z).count);
	state_context(to, z);
	state_kept(to, z);
}

/* None read latents in 8 bits. */
static void
linears(struct linear_list *to, const struct sizes *z)
{
	struct heads n = heads_of(z);
	const struct linear_row rows[] = {
		{ FP8_QKV, n.gate ? ATTENTION_GATE : ATTENTION_Q, ATTENTION_V,
		    n.q + n.k + n.v + n.gate, z->hidden, 1 },
		{ FP8_PROJ, ATTENTION_PROJ, ATTENTION_PROJ, z->hidden, n.out, 1 },
	};

	if (!z->model->multi_latent_attention)
		state_linears(to, rows, sizeof rows / sizeof *rows);
}

static const struct block_norm norm = { ATTENTION_NORM, ATTENTION_NORM_BIAS, ATTENTION_NORM_MEAN,
	ATTENTION_NORM_RSTD, ATTENTION_INPUT, ATTENTION_NORM_OUT };
static const struct block_norm post = { ATTENTION_POST_NORM, ATTENTION_POST_NORM_BIAS,
	ATTENTION_POST_MEAN, ATTENTION_POST_RSTD, ATTENTION_PROJ_OUT, BUF_BRANCH };
static const struct block_residual residual = { ATTENTION_PROJ_BIAS };

_Static_assert((ATTENTION_CONTEXT_PACKED & ((1 << BLOCK_SHIFT) - 1)) < LATENT_FIRST &&
	(ATTENTION_POST_NORM_BIAS & ((1 << BLOCK_SHIFT) - 1)) < LATENT_FIRST,
    "numbers of latents are above all others of the block");

static bool
in(const struct model_config *c, int64_t layer)
{
	return layer_transforms(c, layer) && !layer_is_linear(c, layer);
}

/* Keys that a query sees, on average over the model's layers too: blocks of a kind are priced
 * alike, and the sum over a model is exact. Query i sees at most the last w keys: the window is
 * shorter at the start of the sequence, hence the quadratic term. */
static double
keys_seen(const struct model_config *c, double s)
{
	double w = (double)c->window_size,
	       skipped = (double)pattern_count(&c->window_attn_skip_freq, c->num_layers) /
	    (double)c->num_layers;

	if (!c->window_size || w >= s)
		return s / 2;
	return skipped * s / 2 + (1 - skipped) * (w - w * w / (2 * s));
}

/* Elements to other context ranks, in both passes: k and v go to all in each, and their gradients
 * back. Of heads q, k, v and the output change places in the forward pass; backward these, the
 * gradient of the output, and those of q, k and v. */
static int64_t
sent(const struct sizes *z)
{
	struct heads n = heads_of(z);
	int64_t c = z->layout->context_parallel_size;
	bool heads = z->shape->context_form == CONTEXT_HEADS;

	return z->tokens * (c - 1) * 3 * (heads ? (n.q + n.k + n.v + n.out) / c : n.k + n.v);
}

/* The share of layers that rotate. */
static double
rotating(const struct model_config *c)
{
	if (c->position != POSITION_ROPE)
		return 0;
	return 1 - (double)pattern_count(&c->no_rope_freq, c->num_layers) / (double)c->num_layers;
}

/* Rotary positions read and write q and k in either pass, and take the norms of heads with them,
 * whose backward pass reads their inputs too. The norm's output is gathered once more for the
 * gradient of the weight. */
static void
work(struct work *w, const struct sizes *z)
{
	const struct model_config *c = z->model;
	struct heads n = heads_of(z);
	int64_t rows = z->tokens, h = z->hidden;
	bool latent = c->multi_latent_attention, normed = c->qk_layernorm && !latent;
	double heads = (double)(n.q + n.k) * (double)rows, rotated = normed ? 1 : rotating(c);

	if (latent)
		latent_work(w, z, n.count);
	else
		work_gemm(w, rows, n.q + n.k + n.v + n.gate, h);
	work_gemm(w, rows, h, n.out);
	w->attention = 2 * (double)rows * keys_seen(c, (double)z->seq) * (double)(n.q + n.out);
	work_norm(w, z);
	work_branch(w, z);
	w->forward.act += 2 * rotated * heads;
	w->forward.kernels += rotated > 0;
	w->backward.act += (2 * rotated + (normed ? 1 : 0)) * heads;
	w->backward.kernels += (rotated > 0) + normed;
	if (n.gate) {
		w->forward.act += 3 * (double)n.gate * (double)rows;
		w->forward.kernels++;
		w->backward.act += 8 * (double)n.gate * (double)rows;
		w->backward.kernels += 2;
	}
	w->reductions = 2;
	w->sent = (double)sent(z);
	w->exchanges = 3;
	w->scatters = 5;
	w->overlap = !latent;
}

const struct block_kind block_attention = { "attention", in, params, buffers, ATTENTION_INPUT,
	&norm, &post, &residual, work, linears };
