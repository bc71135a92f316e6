/*
 * moe.h - the numbers of the buffers of a block of experts
 */
#ifndef MODEL_BLOCK_MOE_H
#define MODEL_BLOCK_MOE_H

#include "lib/model/block/ffn.h"

enum moe_buffer {
	MOE_INPUT = BLOCK_moe << BLOCK_SHIFT, /* the first of enum ffn_buffer */
};

#endif
