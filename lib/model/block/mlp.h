/*
 * mlp.h - the numbers of an MLP's parameters and buffers, after those of ffn.h
 */
#ifndef MODEL_BLOCK_MLP_H
#define MODEL_BLOCK_MLP_H

#include "lib/model/block/ffn.h"

/* clang-format off */
enum mlp_param {
	MLP_GATE = (BLOCK_mlp << BLOCK_SHIFT) + FFN_PARAMS, MLP_UP, MLP_GATE_BIAS, MLP_UP_BIAS,
	MLP_DOWN, MLP_DOWN_BIAS,
};
/* clang-format on */

enum mlp_buffer {
	MLP_INPUT = BLOCK_mlp << BLOCK_SHIFT,
	MLP_FC1_OUT = MLP_INPUT + FFN_BUFFERS,
	MLP_ACT_OUT,
	MLP_DACT,
};

#endif
