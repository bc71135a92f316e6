/*
 * delta.c - the block of linear attention by the gated delta rule: what norm, projections,
 * convolution, states and output hold
 *
 * A layer saves what is projected, [T, 2 (n d + m e + m)], and the output of the rule, [T, m e],
 * for n heads of keys of width d and m heads of values of width e. The backward pass computes the
 * states once more. Key heads, with their heads of values, are cut over tensor ranks. Source: Yang
 * 2024, arXiv:2412.06464; docs/math.md 2.12.
 */
#include "lib/model/block/delta.h"
#include "lib/base/int64.h"
#include "lib/model/block/rows.h"
#include "lib/model/recurrence.h"
#include "lib/model/work.h"

struct delta_widths
delta_widths(const struct model_config *c, int64_t ranks)
{
	int64_t n = c->linear_num_key_heads / ranks, m = c->linear_num_value_heads / ranks,
		key = n * c->linear_key_head_dim, value = m * c->linear_value_head_dim;

	return (struct delta_widths){ n, m, key, value };
}

static struct delta_widths
local(const struct sizes *z)
{
	return delta_widths(z->model, z->layout->tensor_model_parallel_size);
}

/* What the convolution takes, and what is projected in all. */
static int64_t
convolved(const struct delta_widths *w)
{
	return 2 * w->key + w->value;
}

static int64_t
projected(const struct delta_widths *w)
{
	return convolved(w) + w->value + 2 * w->heads;
}

int64_t
delta_chunk(int64_t positions)
{
	int64_t n = 1;

	while (n * n < positions)
		n++;
	return n;
}

/* Samples that a GPU goes through at once: with fewer heads some of its multiprocessors would have
 * nothing to do. */
static int64_t
samples_at_once(const struct sizes *z, const struct delta_widths *w)
{
	const int64_t heads = 64;

	return int64_min(z->shape->micro_batch_size, int64_div_up(heads, w->heads));
}

/* Rows of the scratch of the rule, which is that of the CPU or of a GPU. */
static int64_t
state_rows(const struct sizes *z, const struct delta_widths *w)
{
	struct recurrence_shape s = { z->seq, w->heads, z->model->linear_key_head_dim,
		z->model->linear_value_head_dim };
	int64_t chunk = delta_chunk(z->seq),
		states = z->trains ? int64_div_up(z->seq, chunk) + chunk + 1 : 1,
		work = samples_at_once(z, w) * recurrence_work(&s, z->trains);

	return int64_max(states * w->key, int64_div_up(work, w->value / w->key_heads));
}

/* All that is projected is one matrix, and so are the filters. One norm weight serves all heads, so
 * that a tensor rank has the gradient from its own. */
static void
rule_params(struct param_list *to, const struct model_config *c)
{
	struct delta_widths w = delta_widths(c, 1);
	int64_t h = c->hidden_size, taps = c->linear_conv_kernel_dim;
	const struct param_row rows[] = {
		{ "linear_attention.linear_q.weight", DELTA_Q, true, { w.key, h }, SHARD_EQUAL, 0,
		    INIT_NORMAL, 0, { 0, 0 } },
		{ "linear_attention.linear_k.weight", DELTA_K, true, { w.key, h }, SHARD_EQUAL, 0,
		    INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.linear_v.weight", DELTA_V, true, { w.value, h }, SHARD_EQUAL, 0,
		    INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.linear_gate.weight", DELTA_GATE, true, { w.value, h },
		    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.linear_beta.weight", DELTA_BETA, true, { w.heads, h },
		    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.linear_decay.weight", DELTA_DECAY, true, { w.heads, h },
		    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.conv_q.weight", DELTA_CONV_Q, true, { w.key, taps },
		    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
		{ "linear_attention.conv_k.weight", DELTA_CONV_K, true, { w.key, taps },
		    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.conv_v.weight", DELTA_CONV_V, true, { w.value, taps },
		    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "linear_attention.decay_log", DELTA_DECAY_LOG, true, { w.heads }, SHARD_EQUAL, 0,
		    INIT_LOG, 0, { 0, 0 } },
		{ "linear_attention.decay_bias", DELTA_DECAY_BIAS, true, { w.heads }, SHARD_EQUAL,
		    0, INIT_UNSHIFTED_ONE, 0, { 0, 0 } },
		{ "linear_attention.out_layernorm.weight", DELTA_OUT_NORM, true,
		    { c->linear_value_head_dim }, SHARD_NONE, 0, INIT_UNSHIFTED_ONE, 0,
		    { SUM_TENSOR, SUM_TENSOR } },
		{ "linear_attention.linear_proj.weight", DELTA_PROJ, true, { h, w.value },
		    SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

static void
params(struct param_list *to, const struct model_config *c)
{
	bool pre = model_pre_norm(c), post = model_post_norm(c), biased = model_norm_biases(c);
	int64_t h = c->hidden_size;
	const struct param_row first[] = { NORM_ROWS(
	    "input_layernorm", DELTA_NORM, pre, biased, h, 0) };
	const struct param_row last[] = { NORM_ROWS(
	    "post_self_attn_layernorm", DELTA_POST_NORM, post, biased, h, 0) };

	state_params(to, first, sizeof first / sizeof *first);
	rule_params(to, c);
	state_params(to, last, sizeof last / sizeof *last);
}

/* Norms of the block's input and of its branch. */
static void
state_norms(struct buffer_list *to, const struct sizes *z)
{
	bool pre = model_pre_norm(z->model), post = model_post_norm(z->model),
	     means = model_norm_means(z->model);
	int64_t r = z->rows, h = z->hidden;
	const struct buffer_row rows[] = {
		{ "layer input", DELTA_INPUT, LAYER, true, RESIDUAL, { r, h } },
		{ "norm 1 mean", DELTA_NORM_MEAN, LAYER, pre && means, COMPUTE, { r } },
		{ "norm 1 rstd", DELTA_NORM_RSTD, LAYER, pre, COMPUTE, { r } },
		{ "norm 1 output", DELTA_NORM_OUT, LAYER, pre, ACT, { r, h }, FWD | QKV_BWD,
		    RECOMPUTE_LAYERNORM },
		{ "projection output", DELTA_PROJ_OUT, LAYER, post, ACT, { r, h } },
		{ "post norm 1 mean", DELTA_POST_MEAN, LAYER, post && means, COMPUTE, { r } },
		{ "post norm 1 rstd", DELTA_POST_RSTD, LAYER, post, COMPUTE, { r } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

static void
state_rule(struct buffer_list *to, const struct sizes *z)
{
	struct delta_widths w = local(z);
	bool trains = z->trains;
	int64_t t = z->tokens;
	const struct buffer_row rows[] = {
		{ "projected", DELTA_PROJECTED, LAYER, true, ACT, { t, projected(&w) } },
		{ "convolved", DELTA_CONVOLVED, STEP, true, ACT, { t, convolved(&w) },
		    FWD | ATTN_BWD },
		{ "linear attention output", DELTA_OUT, LAYER, true, ACT, { t, w.value } },
		{ "output norm rstd", DELTA_OUT_RSTD, LAYER, true, COMPUTE, { w.heads, t } },
		{ "output norm output", DELTA_NORMED, STEP, true, ACT, { t, w.value },
		    FWD | ATTN_BWD },
		{ "gated output", DELTA_GATED, STEP, true, ACT, { t, w.value }, FWD | ATTN_BWD },
		{ "states", DELTA_WORK, STEP, true, COMPUTE,
		    { state_rows(z, &w), w.value / w.key_heads }, FWD | ATTN_BWD },
		{ "projected gradient", DELTA_DPROJECTED, STEP, trains, ACT, { t, projected(&w) },
		    ATTN_BWD | QKV_BWD },
		{ "convolved gradient", DELTA_DCONVOLVED, STEP, trains, ACT, { t, convolved(&w) },
		    ATTN_BWD },
		{ "gated output gradient", DELTA_DGATED, STEP, trains, ACT, { t, w.value },
		    ATTN_BWD },
		{ "linear attention output gradient", DELTA_DOUT, STEP, trains, ACT, { t, w.value },
		    ATTN_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Of a run that generates text: the last inputs of the convolution and the states after the last
 * position, of the stage's blocks of the kind one after the other. */
static void
state_kept(struct buffer_list *to, const struct sizes *z)
{
	struct delta_widths w = local(z);
	int64_t samples =
	    block_count(&block_delta, z->model, z->layout, z->pp) * z->shape->micro_batch_size;
	const struct buffer_row rows[] = {
		{ "kept inputs", DELTA_KEPT_INPUTS, RUN, true, ACT,
		    { (z->model->linear_conv_kernel_dim - 1) * samples, convolved(&w) } },
		{ "kept states", DELTA_KEPT_STATES, RUN, true, COMPUTE,
		    { w.key * samples, w.value / w.key_heads } },
	};

	if (z->shape->kept_positions)
		state_buffers(to, rows, sizeof rows / sizeof *rows);
}

static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	state_norms(to, z);
	state_rule(to, z);
	state_kept(to, z);
}

static const struct block_norm norm = { DELTA_NORM, DELTA_NORM_BIAS, DELTA_NORM_MEAN,
	DELTA_NORM_RSTD, DELTA_INPUT, DELTA_NORM_OUT };
static const struct block_norm post = { DELTA_POST_NORM, DELTA_POST_NORM_BIAS, DELTA_POST_MEAN,
	DELTA_POST_RSTD, DELTA_PROJ_OUT, BUF_BRANCH };
static const struct block_residual residual = { DELTA_PROJ_BIAS };

static bool
in(const struct model_config *c, int64_t layer)
{
	return layer >= 0 && layer < c->num_layers && layer_is_linear(c, layer);
}

/* The convolution, the norm of the output and its gate read what they take and write as much;
 * backward they are computed again, and their gradients read twice as much. */
static void
work(struct work *w, const struct sizes *z)
{
	struct delta_widths x = local(z);
	double t = (double)z->tokens, conv = t * (double)convolved(&x), value = t * (double)x.value;

	work_gemm(w, z->tokens, projected(&x), z->hidden);
	work_gemm(w, z->tokens, z->hidden, x.value);
	w->recurrence = 6 * value * (double)z->model->linear_key_head_dim;
	work_norm(w, z);
	work_branch(w, z);
	w->forward.act += 2 * conv + 5 * value;
	w->forward.kernels += 3;
	w->backward.act += 5 * conv + 13 * value;
	w->backward.kernels += 8;
	w->reductions = 2;
	w->scatters = 5;
}

const struct block_kind block_delta = { "delta", in, params, buffers, DELTA_INPUT, &norm, &post,
	&residual, work, NULL };
