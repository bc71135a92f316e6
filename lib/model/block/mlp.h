/*
 * mlp.h - the numbers of an MLP's buffers
 */
#ifndef MODEL_BLOCK_MLP_H
#define MODEL_BLOCK_MLP_H

#include "lib/model/block/ffn.h"

enum mlp_buffer {
	MLP_INPUT = BLOCK_mlp << BLOCK_SHIFT, /* the first of enum ffn_buffer */
	MLP_FC1_OUT = MLP_INPUT + FFN_BUFFERS,
	MLP_ACT_OUT,
	MLP_DACT,
};

#endif
