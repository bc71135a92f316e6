/* mlp.c - the MLP block: what norm, up projection (with its gate), activation and down projection
 * hold */
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

#include <stddef.h>

/* Gate and up are cut along their outputs, down along its input. */
static const struct param_row params[] = {
	{ "decoder.layers.%d.pre_mlp_layernorm.weight", ROLE_MLP_NORM, IF_PRE_NORM, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.pre_mlp_layernorm.bias", ROLE_MLP_NORM_BIAS, IF_PRE_LAYERNORM,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.mlp.linear_gate.weight", ROLE_GATE, IF_GATED, { D_FFN, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_up.weight", ROLE_UP, ALWAYS, { D_FFN, D_HIDDEN },
	    SHARD_EQUAL, 0, INIT_NORMAL, PARAM_JOINED, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_gate.bias", ROLE_GATE_BIAS, IF_GATED_BIAS, { D_FFN },
	    SHARD_EQUAL, 0, INIT_ZERO, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_up.bias", ROLE_UP_BIAS, IF_MLP_BIAS, { D_FFN }, SHARD_EQUAL,
	    0, INIT_ZERO, PARAM_JOINED, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_down.weight", ROLE_DOWN, ALWAYS, { D_HIDDEN, D_FFN },
	    SHARD_EQUAL, 1, INIT_RESIDUAL, 0, { 0, 0 } },
	{ "decoder.layers.%d.mlp.linear_down.bias", ROLE_DOWN_BIAS, IF_MLP_BIAS, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.post_mlp_layernorm.weight", ROLE_POST_MLP_NORM, IF_POST_NORM,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } },
	{ "decoder.layers.%d.post_mlp_layernorm.bias", ROLE_POST_MLP_NORM_BIAS, IF_POST_LAYERNORM,
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ .name = NULL },
};

/* The output of a gated activation is never saved: its backward pass recomputes it over the
 * gradient that it reads, so it needs no place of its own. */
static const struct buffer_row buffers[] = {
	{ "mlp input", BUF_MLP_INPUT, LAYER, IF_SERIAL, STREAM, { D_ROWS, D_HIDDEN }, 0 },
	/* which the residual sum alone reads */
	{ "mlp input", BUF_MLP_INPUT, STEP, IF_PARALLEL, STREAM, { D_ROWS, D_HIDDEN }, FWD },
	{ "norm 2 mean", BUF_NORM2_MEAN, LAYER, IF_PRE_LAYERNORM, REAL, { D_ROWS, D_ONE }, 0 },
	{ "norm 2 rstd", BUF_NORM2_RSTD, LAYER, IF_PRE_NORM, REAL, { D_ROWS, D_ONE }, 0 },
	{ "norm 2 output", BUF_NORM2_OUT, LAYER, IF_PRE_NORM, ACT, { D_ROWS, D_HIDDEN },
	    FWD | MLP_BWD, RECOMPUTE_LAYERNORM },
	{ "fc1 output", BUF_FC1_OUT, LAYER, ALWAYS, ACT, { D_TOKENS, D_FC1 }, FWD | MLP_BWD,
	    RECOMPUTE_MLP },
	{ "activation output", BUF_ACT_OUT, LAYER, IF_UNGATED, ACT, { D_TOKENS, D_FFN },
	    FWD | MLP_BWD, RECOMPUTE_MLP | RECOMPUTE_ACTIVATION },
	{ "activation output", BUF_ACT_OUT, STEP, IF_GATED, ACT, { D_TOKENS, D_FFN }, FWD },
	{ "fc2 output", BUF_FC2_OUT, LAYER, IF_POST_NORM, ACT, { D_ROWS, D_HIDDEN }, 0 },
	{ "post norm 2 mean", BUF_POST2_MEAN, LAYER, IF_POST_LAYERNORM, REAL, { D_ROWS, D_ONE },
	    0 },
	{ "post norm 2 rstd", BUF_POST2_RSTD, LAYER, IF_POST_NORM, REAL, { D_ROWS, D_ONE }, 0 },
	/* the gradient at the activation's output, or at its input when that is fused */
	{ "activation gradient", BUF_DACT, STEP, IF_TRAINING, ACT, { D_TOKENS, D_FFN }, MLP_BWD },
	{ .name = NULL },
};

static const struct block_norm norm = { ROLE_MLP_NORM, ROLE_MLP_NORM_BIAS, BUF_NORM2_MEAN,
	BUF_NORM2_RSTD, BUF_MLP_INPUT, BUF_NORM2_OUT };
static const struct block_norm post = { ROLE_POST_MLP_NORM, ROLE_POST_MLP_NORM_BIAS, BUF_POST2_MEAN,
	BUF_POST2_RSTD, BUF_FC2_OUT, BUF_BRANCH };
static const struct block_residual residual = { ROLE_DOWN_BIAS };

/* Norm, activation and residual sum, with twice as many passes backward as forward, hence the 3.
 * Collectives as in attention.c. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], h = dim[D_HIDDEN], fc1 = dim[D_FC1], f = dim[D_FFN];

	work_product(w, rows, fc1, h);
	w->product[0].recompute = RECOMPUTE_MLP;
	work_product(w, rows, h, f);
	w->elements =
	    3 * (2 * (double)h * (double)dim[D_ROWS] + ((double)fc1 + (double)f) * (double)rows);
	w->stream = 3 * 2 * (double)h * (double)dim[D_ROWS];
	w->kernels = 3;
	work_post_norm(w, c, dim);
	w->reductions = 2;
	w->scatters = 5;
	w->beside = true;
}

const struct block_kind block_mlp = { "mlp", params, buffers, BUF_MLP_INPUT, &norm, &post,
	&residual, work };
