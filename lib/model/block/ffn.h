/*
 * ffn.h - what the second blocks of layers, MLP and experts, hold alike: norms, input and output
 *
 * Layers of one stage may have either, so both state the same rows.
 */
#ifndef MODEL_BLOCK_FFN_H
#define MODEL_BLOCK_FFN_H

#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"

/* clang-format off */
/* The first and the last rows of parameters. */
#define FFN_NORM_PARAMS \
	{ "decoder.layers.%d.pre_mlp_layernorm.weight", ROLE_MLP_NORM, IF_PRE_NORM, { D_HIDDEN }, \
	    SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } }, \
	{ "decoder.layers.%d.pre_mlp_layernorm.bias", ROLE_MLP_NORM_BIAS, IF_PRE_LAYERNORM, \
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } }
#define FFN_POST_NORM_PARAMS \
	{ "decoder.layers.%d.post_mlp_layernorm.weight", ROLE_POST_MLP_NORM, IF_POST_NORM, \
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ONE, 0, { 0, SUM_TENSOR } }, \
	{ "decoder.layers.%d.post_mlp_layernorm.bias", ROLE_POST_MLP_NORM_BIAS, IF_POST_LAYERNORM, \
	    { D_HIDDEN }, SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } }

/* Of parallel blocks the residual sum alone reads the input. norm_out: the condition on the output
 * of the norm in 16 bits. */
#define FFN_BUFFERS(norm_out) \
	{ "mlp input", BUF_MLP_INPUT, LAYER, IF_SERIAL, STREAM, { D_ROWS, D_HIDDEN }, 0 }, \
	{ "mlp input", BUF_MLP_INPUT, STEP, IF_PARALLEL, STREAM, { D_ROWS, D_HIDDEN }, FWD }, \
	{ "norm 2 mean", BUF_NORM2_MEAN, LAYER, IF_PRE_LAYERNORM, REAL, { D_ROWS, D_ONE }, 0 }, \
	{ "norm 2 rstd", BUF_NORM2_RSTD, LAYER, IF_PRE_NORM, REAL, { D_ROWS, D_ONE }, 0 }, \
	{ "norm 2 output", BUF_NORM2_OUT, LAYER, norm_out, ACT, { D_ROWS, D_HIDDEN }, \
	    FWD | MLP_BWD, RECOMPUTE_LAYERNORM }, \
	{ "fc2 output", BUF_FC2_OUT, LAYER, IF_POST_NORM, ACT, { D_ROWS, D_HIDDEN }, 0 }, \
	{ "post norm 2 mean", BUF_POST2_MEAN, LAYER, IF_POST_LAYERNORM, REAL, { D_ROWS, D_ONE }, \
	    0 }, \
	{ "post norm 2 rstd", BUF_POST2_RSTD, LAYER, IF_POST_NORM, REAL, { D_ROWS, D_ONE }, 0 }
/* clang-format on */

/* Of the input, and of the branch. */
extern const struct block_norm ffn_norm, ffn_post_norm;

#endif
