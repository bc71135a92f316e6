/* attention.c - the attention block: what norm, q k v, attention and projection hold */
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

#include <stddef.h>

/* q, k and v are cut along their outputs, the projection along its input. All heads of q share one
 * norm weight, and so do those of k, so a tensor rank has the gradient of its own heads; where
 * ranks hold copies of a group, each has the gradient from its own queries, and their sum counts
 * the group once. */
static const struct param_row params[] = {
	{ "decoder.layers.%d.input_layernorm.weight", ROLE_INPUT_NORM, IF_PRE_NORM, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.input_layernorm.bias", ROLE_INPUT_NORM_BIAS, IF_PRE_LAYERNORM,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.self_attention.linear_q.weight", ROLE_Q, ALWAYS, { D_Q, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.self_attention.linear_k.weight", ROLE_K, ALWAYS, { D_KV, D_HIDDEN },
	    SHARD_GROUPS, 0, INIT_NORMAL, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
	{ "decoder.layers.%d.self_attention.linear_v.weight", ROLE_V, ALWAYS, { D_KV, D_HIDDEN },
	    SHARD_GROUPS, 0, INIT_NORMAL, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
	{ "decoder.layers.%d.self_attention.linear_q.bias", ROLE_Q_BIAS, IF_QKV_BIAS, { D_Q },
	    SHARD_EQUAL, 0, INIT_ZERO, 0, { 0, 0 } },
	{ "decoder.layers.%d.self_attention.linear_k.bias", ROLE_K_BIAS, IF_QKV_BIAS, { D_KV },
	    SHARD_GROUPS, 0, INIT_ZERO, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
	{ "decoder.layers.%d.self_attention.linear_v.bias", ROLE_V_BIAS, IF_QKV_BIAS, { D_KV },
	    SHARD_GROUPS, 0, INIT_ZERO, PARAM_JOINED, { SUM_GROUPS, SUM_GROUPS } },
	{ "decoder.layers.%d.self_attention.q_layernorm.weight", ROLE_Q_NORM, IF_QK_NORM,
	    { D_Q_NORM }, SHARD_NONE, 0, INIT_ONE, 0, { SUM_TENSOR, SUM_TENSOR } },
	{ "decoder.layers.%d.self_attention.q_layernorm.bias", ROLE_Q_NORM_BIAS, IF_QK_LAYERNORM,
	    { D_Q_NORM }, SHARD_NONE, 0, INIT_ZERO, 0, { SUM_TENSOR, SUM_TENSOR } },
	{ "decoder.layers.%d.self_attention.k_layernorm.weight", ROLE_K_NORM, IF_QK_NORM,
	    { D_K_NORM }, SHARD_NONE, 0, INIT_ONE, 0, { SUM_TENSOR, SUM_TENSOR } },
	{ "decoder.layers.%d.self_attention.k_layernorm.bias", ROLE_K_NORM_BIAS, IF_QK_LAYERNORM,
	    { D_K_NORM }, SHARD_NONE, 0, INIT_ZERO, 0, { SUM_TENSOR, SUM_TENSOR } },
	{ "decoder.layers.%d.self_attention.linear_proj.weight", ROLE_PROJ, ALWAYS,
	    { D_HIDDEN, D_Q }, SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.self_attention.linear_proj.bias", ROLE_PROJ_BIAS, IF_PROJ_BIAS,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.post_self_attn_layernorm.weight", ROLE_POST_ATTN_NORM, IF_POST_NORM,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.post_self_attn_layernorm.bias", ROLE_POST_ATTN_NORM_BIAS,
	    IF_POST_LAYERNORM, { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ .name = NULL },
};

static const struct named_row buffers[] = {
	/* the residual stream */
	{ "layer input", BUF_LAYER_INPUT, LAYER, ALWAYS, STREAM, { D_ROWS, D_HIDDEN }, 0 },
	{ "norm 1 mean", BUF_NORM1_MEAN, LAYER, IF_PRE_LAYERNORM, REAL, { D_ROWS, D_ONE }, 0 },
	{ "norm 1 rstd", BUF_NORM1_RSTD, LAYER, IF_PRE_NORM, REAL, { D_ROWS, D_ONE }, 0 },
	{ "norm 1 output", BUF_NORM1_OUT, LAYER, IF_NORM_OUT, ACT, { D_ROWS, D_HIDDEN },
	    FWD | QKV_BWD, RECOMPUTE_LAYERNORM },
	{ "q, k, v", BUF_QKV, LAYER, ALWAYS, ACT, { D_TOKENS, D_QKV }, 0 },
	/* q and k of BUF_QKV after their norms, rotated in place with RoPE */
	{ "q, k norm output", BUF_QK, LAYER, IF_QK_NORM, ACT, { D_TOKENS, D_QK }, FWD | ATTN_BWD,
	    RECOMPUTE_LAYERNORM },
	{ "q, k norm mean", BUF_QK_MEAN, LAYER, IF_QK_LAYERNORM, REAL, { D_NORMS, D_TOKENS }, 0 },
	{ "q, k norm rstd", BUF_QK_RSTD, LAYER, IF_QK_NORM, REAL, { D_NORMS, D_TOKENS }, 0 },
	{ "log-sum-exp", BUF_LSE, LAYER, ALWAYS, REAL, { D_HEADS, D_HELD }, 0 },
	{ "attention output", BUF_ATTN_OUT, LAYER, ALWAYS, ACT, { D_TOKENS, D_Q }, 0 },
	{ "projection output", BUF_PROJ_OUT, LAYER, IF_POST_NORM, ACT, { D_ROWS, D_HIDDEN }, 0 },
	{ "post norm 1 mean", BUF_POST1_MEAN, LAYER, IF_POST_LAYERNORM, REAL, { D_ROWS, D_ONE },
	    0 },
	{ "post norm 1 rstd", BUF_POST1_RSTD, LAYER, IF_POST_NORM, REAL, { D_ROWS, D_ONE }, 0 },
	{ "attention output gradient", BUF_DATTN, STEP, IF_TRAINING, ACT, { D_TOKENS, D_Q },
	    ATTN_BWD },
	{ "q, k, v gradient", BUF_DQKV, STEP, IF_TRAINING, ACT, { D_TOKENS, D_QKV },
	    ATTN_BWD | QKV_BWD },
	{ "q, k norm output gradient", BUF_DQK, STEP, IF_QK_NORM_TRAINING, ACT, { D_TOKENS, D_QK },
	    ATTN_BWD | QKV_BWD },
	{ "attention delta", BUF_DELTA, STEP, IF_TRAINING, REAL, { D_HEADS, D_HELD }, ATTN_BWD },
	/* of all positions, k beside v */
	{ "gathered k, v", BUF_CONTEXT_KEYS, STEP, IF_GATHER, ACT, { D_ALL_TOKENS, D_PAIR },
	    FWD | ATTN_BWD },
	/* of those from the queries of this rank, and then of the own ones from those of all */
	{ "partial k, v gradient", BUF_CONTEXT_PARTIAL, STEP, IF_GATHER_TRAINING, ACT,
	    { D_KEYS_PARTIAL, D_PAIR }, ATTN_BWD | QKV_BWD },
	{ "other ranks' k, v gradient", BUF_CONTEXT_SLOTS, STEP, IF_GATHER_TRAINING, ACT,
	    { D_KEYS_OTHERS, D_PAIR }, ATTN_BWD | QKV_BWD },
	/* of all positions and some heads: as many elements as of some positions and all heads */
	{ "q, k, v of some heads", BUF_CONTEXT_QKV, STEP, IF_HEADS, ACT, { D_TOKENS, D_QKV },
	    FWD | ATTN_BWD },
	{ "output of some heads", BUF_CONTEXT_OUT, STEP, IF_HEADS, ACT, { D_ALL_TOKENS, D_Q_SOME },
	    FWD | ATTN_BWD },
	{ "output gradient of some heads", BUF_CONTEXT_DOUT, STEP, IF_HEADS_TRAINING, ACT,
	    { D_ALL_TOKENS, D_Q_SOME }, ATTN_BWD },
	{ "q, k, v gradient of some heads", BUF_CONTEXT_DQKV, STEP, IF_HEADS_TRAINING, ACT,
	    { D_TOKENS, D_QKV }, ATTN_BWD | QKV_BWD },
	/* at most q, k, v, the output and its gradient */
	{ "packed heads", BUF_CONTEXT_PACKED, STEP, IF_HEADS, ACT, { D_TOKENS, D_PACKED },
	    FWD | ATTN_BWD | QKV_BWD },
	{ "attention workspace", BUF_ATTN_WORK, STEP, IF_TRAINING, F32, { D_ATTN_WORK, D_ONE },
	    ATTN_BWD },
	{ .name = NULL },
};

static const struct block_norm norm = { ROLE_INPUT_NORM, ROLE_INPUT_NORM_BIAS, BUF_NORM1_MEAN,
	BUF_NORM1_RSTD, BUF_LAYER_INPUT, BUF_NORM1_OUT };
static const struct block_norm post = { ROLE_POST_ATTN_NORM, ROLE_POST_ATTN_NORM_BIAS,
	BUF_POST1_MEAN, BUF_POST1_RSTD, BUF_PROJ_OUT, BUF_BRANCH };
static const struct block_residual residual = { ROLE_PROJ_BIAS };

static bool
in(const struct model_config *c, int64_t layer)
{
	return layer >= 0 && layer < c->num_layers;
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

/* Norm and residual sum read and write the residual stream and a branch, with twice as many passes
 * backward as forward, hence the 3. The other kernels are RoPE, attention and the norms of q and of
 * k, which have nothing to add to: two passes forward and three backward. The norm's output is
 * gathered once more for the gradient of the weight. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], h = dim[D_HIDDEN];

	work_gemm(w, rows, dim[D_QKV], h);
	work_gemm(w, rows, h, dim[D_Q]);
	w->attention = 4 * (double)rows * keys_seen(c, (double)dim[D_SEQ]) * (double)dim[D_Q];
	w->elements = w->stream = 3 * 2 * (double)h * (double)dim[D_ROWS];
	w->kernels = 4;
	work_post_norm(w, c, dim);
	w->reductions = 2;
	w->sent = (double)dim[D_SENT];
	w->exchanges = 3;
	w->scatters = 5;
	w->overlap = true;
	if (c->qk_layernorm) {
		w->elements += (2 + 3) * (double)dim[D_QK] * (double)rows;
		w->kernels += 2;
	}
}

const struct block_kind block_attention = { "attention", in, params, buffers, BUF_LAYER_INPUT,
	&norm, &post, &residual, work, { FP8_QKV, FP8_FC1 } };
