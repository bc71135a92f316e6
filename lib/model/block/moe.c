/*
 * moe.c - the block of experts: what router, experts and the shared expert hold
 *
 * Matrices of the local experts of a layer lie next to each other, gate and up of each in turn and
 * then all down projections: [E_l, 2f, h] and [E_l, h, f] for grouped GEMMs. So do their biases,
 * [E_l, 2f] and [E_l, h], of which ranks that share an expert have parts: of the output each adds
 * its columns, and their sum has all of them. Source: docs/math.md 5.
 */
#include "lib/model/block/moe.h"
#include "lib/model/block/linears.h"
#include "lib/model/capacity.h"
#include "lib/model/work.h"

/* Tensor ranks hold rows of their own, so the gradients of the router and of the weight of the
 * shared expert are partial sums on each, and so are those of experts that every rank has. These
 * come last, since where ranks share them they are reduced among others than the rest of the layer.
 * The gradient of the biases of experts is the number of tokens sent to each, which moves them
 * (optim). */
static void
params(struct param_list *to, const struct model_config *c)
{
	bool gated = model_gated(c), bias = c->mlp_bias;
	int64_t h = c->hidden_size, f = c->moe_ffn_hidden_size,
		f_all = c->moe_shared_expert_intermediate_size;
	const struct param_row rows[] = {
		{ "mlp.router.weight", MOE_ROUTER, true, { c->num_experts, h }, SHARD_NONE, 0,
		    INIT_NORMAL, 0, { 0, SUM_TENSOR } },
		{ "mlp.router.bias", MOE_ROUTER_BIAS, bias, { c->num_experts }, SHARD_NONE, 0,
		    INIT_ZERO, 0, { 0, SUM_TENSOR } },
		{ "mlp.router.expert_bias", MOE_EXPERT_BIAS, c->moe_router_enable_expert_bias,
		    { c->num_experts }, SHARD_NONE, 0, INIT_ZERO, PARAM_BALANCE,
		    { 0, SUM_TENSOR } },
		{ "mlp.shared_experts.gate_weight", MOE_SHARED_WEIGHT, c->moe_shared_expert_gate,
		    { 1, h }, SHARD_NONE, 0, INIT_NORMAL, 0, { 0, SUM_TENSOR } },
		{ "mlp.shared_experts.linear_gate.weight", MOE_SHARED_GATE, f_all > 0 && gated,
		    { f_all, h }, SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
		{ "mlp.shared_experts.linear_up.weight", MOE_SHARED_UP, f_all > 0, { f_all, h },
		    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
		{ "mlp.shared_experts.linear_down.weight", MOE_SHARED_DOWN, f_all > 0, { h, f_all },
		    SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
		{ "mlp.experts.%d.linear_gate.weight", MOE_EXPERT_GATE, gated, { f, h },
		    SHARD_EXPERT_TENSOR, 0, INIT_NORMAL, PARAM_EXPERT, { 0, SUM_TENSOR } },
		{ "mlp.experts.%d.linear_up.weight", MOE_EXPERT_UP, true, { f, h },
		    SHARD_EXPERT_TENSOR, 0, INIT_NORMAL, PARAM_EXPERT | PARAM_JOINED,
		    { 0, SUM_TENSOR } },
		{ "mlp.experts.%d.linear_down.weight", MOE_EXPERT_DOWN, true, { h, f },
		    SHARD_EXPERT_TENSOR, 1, INIT_RESIDUAL, PARAM_EXPERT, { 0, SUM_TENSOR } },
		{ "mlp.experts.%d.linear_gate.bias", MOE_EXPERT_GATE_BIAS, gated && bias, { f },
		    SHARD_EXPERT_TENSOR, 0, INIT_ZERO, PARAM_EXPERT, { 0, SUM_TENSOR } },
		{ "mlp.experts.%d.linear_up.bias", MOE_EXPERT_UP_BIAS, bias, { f },
		    SHARD_EXPERT_TENSOR, 0, INIT_ZERO, PARAM_EXPERT | PARAM_JOINED,
		    { 0, SUM_TENSOR } },
		{ "mlp.experts.%d.linear_down.bias", MOE_EXPERT_DOWN_BIAS, bias, { h },
		    SHARD_EXPERT_TENSOR, 0, INIT_ZERO, PARAM_EXPERT, { 0, SUM_TENSOR } },
	};

	ffn_norm_params(to, c, MOE_INPUT);
	state_params(to, rows, sizeof rows / sizeof *rows);
	ffn_post_norm_params(to, c, MOE_INPUT);
}

/* The phases of scratch that both passes use. */
enum { BOTH = FWD | MLP_BWD };

/* Columns on a tensor rank of the shared expert; 0: there is none. */
static int64_t
shared_ffn(const struct sizes *z)
{
	return z->model->moe_shared_expert_intermediate_size /
	    z->layout->tensor_model_parallel_size;
}

/* Columns of an expert in the slice of a rank. */
static int64_t
expert_ffn(const struct sizes *z)
{
	return z->model->moe_ffn_hidden_size / layout_expert_slices(z->layout);
}

/* A row for each of the k experts of a row, or for each of their slices. */
static int64_t
routed(const struct sizes *z)
{
	return z->rows * z->model->moe_router_topk * layout_expert_slices(z->layout);
}

/* Of the router. Top-k indices are kept where layers are recomputed, so that they are found only
 * once. Where rows are dropped, those that chose an expert are counted, and which of them it takes
 * is kept. */
static void
state_router(struct buffer_list *to, const struct sizes *z)
{
	const struct model_config *c = z->model;
	bool drops = z->shape->expert_capacity > 0,
	     sequences = c->moe_router_load_balancing_type == BALANCING_SEQ_AUX_LOSS;
	int64_t r = z->rows, e = c->num_experts, k = c->moe_router_topk,
		n = layout_expert_slices(z->layout), ranks = layout_expert_holders(z->layout),
		hosts = layout_expert_hosts(z->layout),
		groups = sequences ? z->shape->micro_batch_size : 1;
	const struct buffer_row rows[] = {
		{ "router logits", MOE_LOGITS, LAYER, true, COMPUTE, { r, e } },
		{ "choice of experts", MOE_TOPK, KEPT, true, I32, { r, k } },
		{ "weights of choice", MOE_TOPK_WEIGHT, LAYER, true, COMPUTE, { r, k } },
		/* of the own host's tokens, then of those of the other hosts */
		{ "places of rows", MOE_PERMUTATION, LAYER, true, I32, { hosts * r, k * n } },
		/* likewise, from each rank that shares them, for each slice of a host's experts */
		{ "rows of experts", MOE_EXPERT_ROWS, LAYER, true, I32, { ranks, e * n / hosts } },
		{ "own rows of experts", MOE_OWN_ROWS, LAYER, hosts > 1, I32, { 1, e * n } },
		{ "choice that is kept", MOE_CHOICE, STEP, drops && hosts > 1, I32, { r, k }, FWD },
		{ "load of experts", MOE_LOAD, LAYER, true, I32, { groups, e } },
		{ "rows that chose experts", MOE_CHOSEN, LAYER, drops, I32, { 1, e * n } },
		{ "rows that are kept", MOE_KEPT, KEPT, drops, COMPUTE, { r, k } },
		{ "weights of choice gradient", MOE_DTOPK_WEIGHT, STEP, z->trains, COMPUTE,
		    { r, k }, MLP_BWD },
		{ "router logits gradient", MOE_DLOGITS, STEP, z->trains, COMPUTE, { r, e },
		    MLP_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Of the experts: of the rows that arrive, in the first round of each host's tokens and, in
 * scratch, in those after it; and of rows on their way between ranks that share experts, once more
 * in the backward pass for rounds after the first. Outputs of activations are never saved, and
 * neither are those of experts: the weight of a row multiplies its activation, whose gradient gives
 * that of the weight. */
static void
state_experts(struct buffer_list *to, const struct sizes *z)
{
	const struct received_rows in = capacity_received(z->model, z->layout, z->shape);
	bool trains = z->trains, rounds = in.rounds > 1,
	     ranks = layout_expert_holders(z->layout) > 1;
	int64_t p = in.round, h = z->hidden, f = expert_ffn(z), fc1 = sizes_gated(z, f),
		n = routed(z), saved = p * layout_expert_hosts(z->layout);
	const struct buffer_row rows[] = {
		{ "expert input", MOE_IN, LAYER, true, ACT, { saved, h } },
		{ "weights of rows", MOE_WEIGHT, LAYER, true, COMPUTE, { saved } },
		{ "expert fc1 output", MOE_UP, LAYER, true, ACT, { saved, fc1 } },
		{ "round input", MOE_ROUND_IN, STEP, rounds, ACT, { p, h }, BOTH },
		{ "round weights of rows", MOE_ROUND_WEIGHT, STEP, rounds, COMPUTE, { p }, BOTH },
		{ "round fc1 output", MOE_ROUND_UP, STEP, rounds, ACT, { p, fc1 }, BOTH },
		{ "expert activation", MOE_ACT, STEP, true, ACT, { p, f }, BOTH },
		/* or its gradient, and then that of the input */
		{ "expert output", MOE_OUT, STEP, true, ACT, { p, h }, BOTH },
		{ "expert activation gradient", MOE_DACT, STEP, trains, ACT, { p, f }, MLP_BWD },
		{ "weights of rows gradient", MOE_DWEIGHT, STEP, trains, COMPUTE, { p }, MLP_BWD },
		{ "rows for all experts", MOE_ROUTED, STEP, ranks, ACT, { n, h }, BOTH },
		{ "weights for all experts", MOE_ROUTED_WEIGHT, STEP, ranks, COMPUTE, { n }, BOTH },
		{ "rows for all experts again", MOE_ROUTED_INPUT, STEP, rounds && trains, ACT,
		    { n, h }, MLP_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* What passes between hosts that share experts: the rows of each of the others, with their choices
 * and weights, which rounds after the first need once more in the backward pass; the sums that go
 * back to one of them at a time; and those that come back, in the order of hosts. */
static void
state_turns(struct buffer_list *to, const struct sizes *z)
{
	const struct received_rows in = capacity_received(z->model, z->layout, z->shape);
	int64_t hosts = layout_expert_hosts(z->layout), r = z->rows, h = z->hidden,
		k = z->model->moe_router_topk, others = (hosts - 1) * r;
	bool any = hosts > 1, trains = any && z->trains, kept = trains && in.rounds > 1;
	const struct buffer_row rows[] = {
		{ "rows of other hosts", MOE_GUESTS, LAYER, kept, ACT, { others, h } },
		{ "rows of other hosts", MOE_GUESTS, STEP, any && !kept, ACT, { others, h }, FWD },
		{ "choice of other hosts", MOE_GUEST_CHOICE, STEP, any, I32, { others, k }, FWD },
		{ "weights of other hosts", MOE_GUEST_WEIGHT, LAYER, kept, COMPUTE, { others, k } },
		{ "weights of other hosts", MOE_GUEST_WEIGHT, STEP, any && !kept, COMPUTE,
		    { others, k }, FWD },
		{ "gradients of other hosts", MOE_GUEST_GRAD, STEP, trains, ACT, { others, h },
		    MLP_BWD },
		{ "sums for another host", MOE_GUEST_SUM, STEP, any, ACT, { r, h }, BOTH },
		{ "weight gradients for another host", MOE_GUEST_DWEIGHT, STEP, trains, COMPUTE,
		    { r, k }, MLP_BWD },
		{ "sums of hosts", MOE_HOST_SUMS, STEP, any, ACT, { hosts * r, h }, BOTH },
		{ "weight gradients of hosts", MOE_HOST_DWEIGHT, STEP, trains, COMPUTE,
		    { hosts * r, k }, MLP_BWD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* Rows are sent to experts in 16 bits, so that the norm's output has these. */
static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	bool weighted = z->model->moe_shared_expert_gate;
	int64_t t = z->tokens, r = z->rows, h = z->hidden, f = shared_ffn(z),
		fc1 = sizes_gated(z, f);
	const struct buffer_row rows[] = {
		{ "shared fc1 output", MOE_SHARED_FC1_OUT, LAYER, f, ACT, { t, fc1 } },
		{ "shared activation", MOE_SHARED_ACT, STEP, f, ACT, { t, f }, BOTH },
		{ "shared activation gradient", MOE_SHARED_DACT, STEP, f && z->trains, ACT,
		    { t, f }, MLP_BWD },
		{ "shared weight logits", MOE_SHARED_LOGITS, LAYER, weighted, COMPUTE, { r, 1 } },
		{ "shared expert output", MOE_SHARED_OUT, LAYER, weighted, ACT, { r, h } },
		{ "shared weight logits gradient", MOE_SHARED_DLOGITS, STEP, weighted && z->trains,
		    COMPUTE, { r, 1 }, MLP_BWD },
		{ "shared expert output gradient", MOE_SHARED_DOUT, STEP, weighted && z->trains,
		    ACT, { r, h }, MLP_BWD },
	};

	ffn_buffers(to, z, MOE_INPUT, true);
	state_router(to, z);
	state_experts(to, z);
	state_turns(to, z);
	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

/* As in mlp.c, of all experts of the rank; and of the shared expert. */
static void
linears(struct linear_list *to, const struct sizes *z)
{
	bool gated = model_gated(z->model);
	int expert = gated ? MOE_EXPERT_GATE : MOE_EXPERT_UP,
	    shared = gated ? MOE_SHARED_GATE : MOE_SHARED_UP;
	int64_t h = z->hidden, f = expert_ffn(z), s = shared_ffn(z),
		n = z->model->num_experts / layout_expert_ranks(z->layout);
	const struct linear_row rows[] = {
		{ FP8_EXPERT_FC1, expert, MOE_EXPERT_UP, sizes_gated(z, f), h, n, true },
		{ FP8_EXPERT_FC2, MOE_EXPERT_DOWN, MOE_EXPERT_DOWN, h, f, n, true },
		{ FP8_SHARED_FC1, shared, MOE_SHARED_UP, sizes_gated(z, s), h, 1 },
		{ FP8_SHARED_FC2, MOE_SHARED_DOWN, MOE_SHARED_DOWN, h, s, 1, .waits = true },
	};

	state_linears(to, rows, s > 0 ? 4 : 2);
}

static const struct block_norm norm = FFN_NORM_OF(MOE_INPUT), post = FFN_POST_NORM_OF(MOE_INPUT);
static const struct block_residual residual = { MOE_DOWN_BIAS };

static bool
in(const struct model_config *c, int64_t layer)
{
	return layer_transforms(c, layer) && layer_has_experts(c, layer);
}

/* The GEMMs of the router and of the shared expert's weight are not counted, as in Megatron-LM.
 * Rows are spread and summed in each pass, and their gradients read once more for the weights; the
 * activations are those of an MLP with as many rows. Between ranks rows are laid side by side
 * before they go and after they came. The other kernels choose experts, count rows and find their
 * places. */
static void
work(struct work *w, const struct sizes *z)
{
	int64_t rows = z->tokens, h = z->hidden, n = routed(z), f = expert_ffn(z),
		fc1 = sizes_gated(z, f), f_all = shared_ffn(z), fc1_all = sizes_gated(z, f_all),
		local = z->model->num_experts / layout_expert_ranks(z->layout);
	double moved = 2 * (double)h * ((double)z->rows + (double)n);

	work_gemm(w, n, fc1, h);
	work_gemm(w, n, h, f);
	for (int i = 0; i < 2; i++) {
		w->gemm[i].gradient_in_16 = w->gemm[i].grouped = true;
		w->gemm[i].count = local;
	}
	work_norm(w, z);
	work_activation(w, z, (double)f * (double)n);
	w->forward.act += moved;
	w->forward.kernels += 8;
	w->backward.act += moved + (double)h * (double)n;
	w->backward.kernels += 8;
	if (z->model->mlp_bias) {
		w->forward.act += 2 * (double)(fc1 + h) * (double)n;
		w->forward.kernels += 2;
		w->backward.act += (double)(fc1 + 2 * h) * (double)n;
		w->backward.kernels += 3;
	}
	if (layout_expert_holders(z->layout) > 1) {
		w->routed = (double)n * (double)h;
		w->routings = 4;
		w->forward.act += 2 * 2 * w->routed;
		w->backward.act += 2 * 2 * w->routed;
	}
	if (f_all) {
		work_gemm(w, rows, fc1_all, h);
		work_gemm(w, rows, h, f_all);
		work_activation(w, z, (double)f_all * (double)rows);
		w->reductions = 2;
		w->scatters = 5;
	}
	if (z->model->moe_shared_expert_gate) {
		w->forward.act += 3 * (double)h * (double)z->rows;
		w->forward.kernels += 2;
		w->backward.act += 6 * (double)h * (double)z->rows;
		w->backward.kernels += 3;
	}
	work_branch(w, z);
}

const struct block_kind block_moe = { "moe", in, params, buffers, MOE_INPUT, &norm, &post,
	&residual, work, linears };
