/*
 * moe.c - the block of experts: what router, experts and the expert of all tokens hold
 *
 * Matrices of the local experts of a layer lie next to each other, gate and up of each in turn and
 * then all down projections: [E_l, 2f, h] and [E_l, h, f] for grouped GEMMs. Source:
 * spec/training.md 10.
 */
#include "lib/model/block/ffn.h"
#include "lib/model/work.h"

#include <stddef.h>

/* Tensor ranks hold rows of their own, so the gradient of the router is a partial sum on each. That
 * of the biases of experts is the number of tokens sent to each, which moves them (optim). */
static const struct param_row params[] = {
	FFN_NORM_PARAMS,
	{ "decoder.layers.%d.mlp.router.weight", ROLE_ROUTER, ALWAYS, { D_EXPERTS, D_HIDDEN },
	    SHARD_NONE, 0, INIT_NORMAL, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.router.expert_bias", ROLE_EXPERT_BIAS, IF_EXPERT_BIAS,
	    { D_EXPERTS }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.experts.%d.linear_gate.weight", ROLE_EXPERT_GATE, IF_GATED,
	    { D_EXPERT_FFN, D_HIDDEN }, SHARD_NONE, 0, INIT_NORMAL, PARAM_EXPERT, { 0, 0 } },
	{ "decoder.layers.%d.mlp.experts.%d.linear_up.weight", ROLE_EXPERT_UP, ALWAYS,
	    { D_EXPERT_FFN, D_HIDDEN }, SHARD_NONE, 0, INIT_NORMAL, PARAM_EXPERT | PARAM_JOINED,
	    { 0, 0 } },
	{ "decoder.layers.%d.mlp.experts.%d.linear_down.weight", ROLE_EXPERT_DOWN, ALWAYS,
	    { D_HIDDEN, D_EXPERT_FFN }, SHARD_NONE, 0, INIT_RESIDUAL, PARAM_EXPERT, { 0, 0 } },
	{ "decoder.layers.%d.mlp.shared_experts.linear_gate.weight", ROLE_SHARED_GATE,
	    IF_SHARED_GATED, { D_SHARED_FFN, D_HIDDEN }, SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.shared_experts.linear_up.weight", ROLE_SHARED_UP, IF_SHARED,
	    { D_SHARED_FFN, D_HIDDEN }, SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
	{ "decoder.layers.%d.mlp.shared_experts.linear_down.weight", ROLE_SHARED_DOWN, IF_SHARED,
	    { D_HIDDEN, D_SHARED_FFN }, SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
	FFN_POST_NORM_PARAMS,
	{ .name = NULL },
};

static const struct buffer_row buffers[] = {
	FFN_BUFFERS,
	{ .name = NULL },
};

/* Experts have no biases. */
static const struct block_residual residual = { ROLE_DOWN_BIAS };

/* The router's product is not counted, as in Megatron-LM. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], h = dim[D_HIDDEN], f = c->moe_ffn_hidden_size,
		shared = dim[D_SHARED_FFN], both = model_gated(c) ? 2 : 1;

	work_product(w, rows * c->moe_router_topk, both * f, h);
	work_product(w, rows * c->moe_router_topk, h, f);
	if (shared) {
		work_product(w, rows, both * shared, h);
		work_product(w, rows, h, shared);
	}
	work_post_norm(w, c, dim);
}

const struct block_kind block_moe = { "moe", params, buffers, BUF_MLP_INPUT, &ffn_norm,
	&ffn_post_norm, &residual, work };
