/*
 * latent.c - what attention holds whose queries, keys and values are projected up from latents
 *
 * A layer saves the latents before their norms, [R, ranks] in place of q, k and v of all heads;
 * the backward pass makes the heads again. Projections down and norms are whole on every tensor
 * rank, projections up are cut by heads. Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1;
 * docs/math.md 2.10.
 */
#include "lib/model/block/latent.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

struct latent_sizes
latent_sizes_of(const struct model_config *c)
{
	if (!c->multi_latent_attention)
		return (struct latent_sizes){ 0, 0 };
	return (struct latent_sizes){ c->q_lora_rank, c->kv_lora_rank + c->qk_pos_emb_head_dim };
}

/* Elements of a head of what keys and values are projected up to. */
static int64_t
head_width(const struct model_config *c)
{
	return c->qk_head_dim + c->v_head_dim;
}

/* The gradients of what is whole are complete where rows are, and partial sums where tensor ranks
 * have rows of their own. */
void
latent_params(struct param_list *to, const struct model_config *c)
{
	struct latent_sizes n = latent_sizes_of(c);
	int64_t h = c->hidden_size, q = c->num_attention_heads * c->kv_channels,
		kv = c->num_attention_heads * head_width(c), r = c->kv_lora_rank;
	bool latent = c->multi_latent_attention, down = n.q > 0;
	const struct param_row rows[] = {
		{ "self_attention.linear_q_down_proj.weight", LATENT_Q_DOWN, down, { n.q, h },
		    SHARD_NONE, 0, INIT_NORMAL, 0, { 0, SUM_TENSOR } },
		{ "self_attention.q_latent_layernorm.weight", LATENT_Q_NORM, down, { n.q },
		    SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } },
		{ "self_attention.linear_q_up_proj.weight", LATENT_Q_UP, down, { q, n.q },
		    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
		{ "self_attention.linear_q_proj.weight", LATENT_Q_WHOLE, latent && !down, { q, h },
		    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
		{ "self_attention.linear_kv_down_proj.weight", LATENT_KV_DOWN, latent, { n.kv, h },
		    SHARD_NONE, 0, INIT_NORMAL, 0, { 0, SUM_TENSOR } },
		{ "self_attention.kv_latent_layernorm.weight", LATENT_KV_NORM, latent, { r },
		    SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } },
		{ "self_attention.linear_kv_up_proj.weight", LATENT_KV_UP, latent, { kv, r },
		    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

/* What is projected up to, or its gradient, has one place. */
void
latent_buffers(struct buffer_list *to, const struct sizes *z, int64_t heads)
{
	enum { PASSES = FWD | ATTN_BWD | QKV_BWD };
	struct latent_sizes n = latent_sizes_of(z->model);
	int64_t r = z->rows;
	bool q = n.q > 0, trains = z->trains;
	const struct buffer_row rows[] = {
		{ "latents of q", LATENT_Q, LAYER, q, ACT, { r, n.q } },
		{ "latents of q rstd", LATENT_Q_RSTD, LAYER, q, COMPUTE, { r } },
		{ "latents of k, v", LATENT_KV, LAYER, true, ACT, { r, n.kv } },
		{ "latents of k, v rstd", LATENT_KV_RSTD, LAYER, true, COMPUTE, { r } },
		{ "norm of latents of q", LATENT_Q_NORMED, STEP, q, ACT, { r, n.q }, PASSES },
		{ "norm of latents of k, v", LATENT_KV_NORMED, STEP, true, ACT, { r, n.kv },
		    PASSES },
		{ "k, v of heads", LATENT_KV_HEADS, STEP, true, ACT,
		    { z->tokens, heads * head_width(z->model) }, PASSES },
		{ "latents of q gradient", LATENT_DQ, STEP, trains && q, ACT, { r, n.q }, QKV_BWD },
		{ "norm of latents of q gradient", LATENT_DQ_NORMED, STEP, trains && q, ACT,
		    { r, n.q }, QKV_BWD },
		{ "latents of k, v gradient", LATENT_DKV, STEP, trains, ACT, { r, n.kv }, QKV_BWD },
		{ "norm of latents of k, v gradient", LATENT_DKV_NORMED, STEP, trains, ACT,
		    { r, n.kv }, QKV_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Those up are computed once more in the backward pass. Heads of k and v are put together, and
 * their gradients taken apart. */
void
latent_work(struct work *w, const struct sizes *z, int64_t heads)
{
	const struct model_config *c = z->model;
	struct latent_sizes n = latent_sizes_of(c);
	double moved =
		   2 * (double)z->tokens * (double)heads * (double)(c->kv_channels + c->v_head_dim),
	       normed = 2 * (double)z->rows * (double)(n.q + n.kv);

	if (n.q)
		work_gemm(w, z->rows, n.q, c->hidden_size);
	work_gemm(w, z->rows, n.kv, c->hidden_size);
	work_gemm(w, z->tokens, heads * c->kv_channels, n.q ? n.q : c->hidden_size);
	w->gemm[w->num_gemms - 1].repeated = true;
	work_gemm(w, z->tokens, heads * head_width(c), c->kv_lora_rank);
	w->gemm[w->num_gemms - 1].repeated = true;
	w->forward.act += moved + normed;
	w->forward.kernels += 5;
	w->backward.act += 2 * moved + 3 * normed;
	w->backward.kernels += 12;
}
