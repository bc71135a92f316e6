/*
 * moe.c - the block of experts: what router, experts and the expert of all tokens hold
 *
 * Matrices of the local experts of a layer lie next to each other, gate and up of each in turn and
 * then all down projections: [E_l, 2f, h] and [E_l, h, f] for grouped GEMMs. Source:
 * docs/math.md 5.
 */
#include "lib/model/block/moe.h"
#include "lib/model/work.h"

#include <stddef.h>

/* Tensor ranks hold rows of their own, so the gradient of the router is a partial sum on each, and
 * so are those of experts that every rank has. They come last, since where ranks share them they
 * are reduced among others than the rest of the layer. The gradient of the biases of experts is the
 * number of tokens sent to each, which moves them (optim). */
static const struct param_row params[] = {
	FFN_NORM_PARAMS,
	{ "decoder.layers.%d.mlp.router.weight", ROLE_ROUTER, ALWAYS, { D_EXPERTS, D_HIDDEN },
	    SHARD_NONE, 0, INIT_NORMAL, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.router.expert_bias", ROLE_EXPERT_BIAS, IF_EXPERT_BIAS,
	    { D_EXPERTS }, SHARD_NONE, 0, INIT_ZERO, PARAM_BALANCE, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.shared_experts.linear_gate.weight", ROLE_SHARED_GATE,
	    IF_SHARED_GATED, { D_SHARED_FFN, D_HIDDEN }, SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.shared_experts.linear_up.weight", ROLE_SHARED_UP, IF_SHARED,
	    { D_SHARED_FFN, D_HIDDEN }, SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
	{ "decoder.layers.%d.mlp.shared_experts.linear_down.weight", ROLE_SHARED_DOWN, IF_SHARED,
	    { D_HIDDEN, D_SHARED_FFN }, SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.experts.%d.linear_gate.weight", ROLE_EXPERT_GATE, IF_GATED,
	    { D_EXPERT_FFN, D_HIDDEN }, SHARD_EXPERT_TENSOR, 0, INIT_NORMAL, PARAM_EXPERT,
	    { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.experts.%d.linear_up.weight", ROLE_EXPERT_UP, ALWAYS,
	    { D_EXPERT_FFN, D_HIDDEN }, SHARD_EXPERT_TENSOR, 0, INIT_NORMAL,
	    PARAM_EXPERT | PARAM_JOINED, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.experts.%d.linear_down.weight", ROLE_EXPERT_DOWN, ALWAYS,
	    { D_HIDDEN, D_EXPERT_FFN }, SHARD_EXPERT_TENSOR, 1, INIT_RESIDUAL, PARAM_EXPERT,
	    { 0, SUM_TENSOR } },
	FFN_POST_NORM_PARAMS,
	{ .name = NULL },
};

/* Rows in the order of experts are k for each row of the rank, to each of the ranks that share an
 * expert, or what arrives. Outputs of activations are never saved, and neither are those of
 * experts: the weight of a row multiplies its activation, whose gradient gives that of the weight.
 * A choice is kept where layers are recomputed, so that it is made only once. */
static const struct named_row buffers[] = {
	{ "router logits", BUF_ROUTER_LOGITS, LAYER, ALWAYS, REAL, { D_ROWS, D_EXPERTS }, 0 },
	{ "choice of experts", BUF_CHOICE, KEPT, ALWAYS, I32, { D_ROWS, D_TOPK }, 0 },
	{ "weights of choice", BUF_CHOICE_WEIGHT, LAYER, ALWAYS, REAL, { D_ROWS, D_TOPK }, 0 },
	{ "places of rows", BUF_PLACE, LAYER, ALWAYS, I32, { D_ROWS, D_TOPK_SLICES }, 0 },
	/* from each rank that shares them, for each of their slices */
	{ "rows of experts", BUF_EXPERT_ROWS, LAYER, ALWAYS, I32, { D_EXPERT_RANKS, D_SLICES }, 0 },
	{ "load of experts", BUF_EXPERT_LOAD, LAYER, ALWAYS, I32, { D_SCOPES, D_EXPERTS }, 0 },
	/* where rows are dropped: those that chose an expert, and which of them it takes */
	{ "rows that chose experts", BUF_EXPERT_CHOSEN, LAYER, IF_CAPACITY, I32,
	    { D_ONE, D_SLICES }, 0 },
	{ "rows that are kept", BUF_KEPT, KEPT, IF_CAPACITY, REAL, { D_ROWS, D_TOPK }, 0 },
	{ "expert input", BUF_EXPERT_IN, LAYER, ALWAYS, ACT, { D_ARRIVING, D_HIDDEN }, 0 },
	{ "weights of rows", BUF_EXPERT_WEIGHT, LAYER, ALWAYS, REAL, { D_ARRIVING, D_ONE }, 0 },
	{ "expert fc1 output", BUF_EXPERT_UP, LAYER, ALWAYS, ACT, { D_ARRIVING, D_EXPERT_FC1 }, 0 },
	{ "rows for all experts", BUF_ROUTED, STEP, IF_EXPERT_RANKS, ACT, { D_ROUTED, D_HIDDEN },
	    FWD | MLP_BWD },
	{ "weights for all experts", BUF_ROUTED_WEIGHT, STEP, IF_EXPERT_RANKS, REAL,
	    { D_ROUTED, D_ONE }, FWD | MLP_BWD },
	/* of windows after the first, which alone is kept: what would be, and in the backward pass
	 * the rows that it came from */
	{ "rows for all experts again", BUF_ROUTED_INPUT, STEP, IF_WINDOWS_TRAINING, ACT,
	    { D_ROUTED, D_HIDDEN }, MLP_BWD },
	{ "window input", BUF_WINDOW_IN, STEP, IF_WINDOWS, ACT, { D_ARRIVING, D_HIDDEN },
	    FWD | MLP_BWD },
	{ "window weights of rows", BUF_WINDOW_WEIGHT, STEP, IF_WINDOWS, REAL,
	    { D_ARRIVING, D_ONE }, FWD | MLP_BWD },
	{ "window fc1 output", BUF_WINDOW_UP, STEP, IF_WINDOWS, ACT, { D_ARRIVING, D_EXPERT_FC1 },
	    FWD | MLP_BWD },
	{ "expert activation", BUF_EXPERT_ACT, STEP, ALWAYS, ACT, { D_ARRIVING, D_EXPERT_FFN },
	    FWD | MLP_BWD },
	/* or its gradient, and then that of the input */
	{ "expert output", BUF_EXPERT_OUT, STEP, ALWAYS, ACT, { D_ARRIVING, D_HIDDEN },
	    FWD | MLP_BWD },
	{ "expert activation gradient", BUF_EXPERT_DACT, STEP, IF_TRAINING, ACT,
	    { D_ARRIVING, D_EXPERT_FFN }, MLP_BWD },
	/* of one grouped GEMM: input or output gradient */
	{ "fp8 rows of experts", BUF_FP8_EXPERT, STEP, IF_FP8, F8, { D_ARRIVING, D_FP8_EXPERT },
	    FWD | MLP_BWD },
	{ "fp8 scales of rows of experts", BUF_FP8_EXPERT_LINES, STEP, IF_FP8_BLOCKS, F32,
	    { D_FP8_EXPERT_LINES, D_ONE }, FWD | MLP_BWD },
	{ "weights of rows gradient", BUF_EXPERT_DWEIGHT, STEP, IF_TRAINING, REAL,
	    { D_ARRIVING, D_ONE }, MLP_BWD },
	{ "weights of choice gradient", BUF_DCHOICE_WEIGHT, STEP, IF_TRAINING, REAL,
	    { D_ROWS, D_TOPK }, MLP_BWD },
	{ "router logits gradient", BUF_DLOGITS, STEP, IF_TRAINING, REAL, { D_ROWS, D_EXPERTS },
	    MLP_BWD },
	{ "shared fc1 output", BUF_SHARED_UP, LAYER, IF_SHARED, ACT, { D_TOKENS, D_SHARED_FC1 },
	    0 },
	{ "shared activation", BUF_SHARED_ACT, STEP, IF_SHARED, ACT, { D_TOKENS, D_SHARED_FFN },
	    FWD | MLP_BWD },
	{ "shared activation gradient", BUF_SHARED_DACT, STEP, IF_SHARED_TRAINING, ACT,
	    { D_TOKENS, D_SHARED_FFN }, MLP_BWD },
	/* as in mlp.c */
	{ "fp8 transposed fc2 output gradient", BUF_FP8_FC2_DY_TRANSPOSED, STEP,
	    IF_FP8_SHARED_TRAINING, F8_GRAD, { D_HIDDEN, D_TOKENS }, MLP_BWD },
	{ "fp8 scales of transposed fc2 output gradient", BUF_FP8_FC2_DY_TRANSPOSED_LINES, STEP,
	    IF_FP8_SHARED_BLOCKS_TRAINING, F32, { D_TOKEN_LINES, D_HIDDEN }, MLP_BWD },
	{ .name = NULL },
};

/* Rows are sent to experts in 16 bits, so that the norm's output has these. */
static void
state(struct buffer_list *to, const struct sizes *z)
{
	ffn_buffers(to, z, MOE_INPUT, true);
}

static const struct block_norm norm = FFN_NORM(MOE_INPUT), post = FFN_POST_NORM(MOE_INPUT);
/* Experts have no biases. */
static const struct block_residual residual = { ROLE_DOWN_BIAS };

static bool
in(const struct model_config *c, int64_t layer)
{
	return layer >= 0 && layer < c->num_layers && layer_has_experts(c, layer);
}

/* The router's GEMM is not counted, as in Megatron-LM. Rows are spread and summed in each pass;
 * the others of the experts' passes are those of an MLP with as many rows. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], h = dim[D_HIDDEN], routed = dim[D_ROUTED],
		f = dim[D_EXPERT_FFN], fc1 = dim[D_EXPERT_FC1];

	work_gemm(w, routed, fc1, h);
	work_gemm(w, routed, h, f);
	w->gemm[0].wide_gradient = w->gemm[1].wide_gradient = true;
	w->elements = 3 *
	    (2 * (double)h * (double)dim[D_ROWS] +
		((double)fc1 + (double)f + 4 * (double)h) * (double)routed);
	w->stream = 3 * 2 * (double)h * (double)dim[D_ROWS];
	w->kernels = 9;
	if (dim[D_EXPERT_RANKS] > 1) {
		w->routed = (double)routed * (double)h;
		w->routings = 4;
	}
	if (dim[D_SHARED_FFN]) {
		work_gemm(w, rows, dim[D_SHARED_FC1], h);
		work_gemm(w, rows, h, dim[D_SHARED_FFN]);
		w->elements += 3 * (double)(dim[D_SHARED_FC1] + dim[D_SHARED_FFN]) * (double)rows;
		w->kernels++;
		w->reductions = 2;
		w->scatters = 5;
	}
	work_post_norm(w, c, dim);
}

const struct block_kind block_moe = { "moe", in, params, buffers, MOE_INPUT, &norm, &post,
	&residual, work, { FP8_EXPERT_FC1, FP8_LINEARS }, state };
