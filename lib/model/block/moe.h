/*
 * moe.h - the numbers of the parameters and buffers of a block of experts, after those of ffn.h
 */
#ifndef MODEL_BLOCK_MOE_H
#define MODEL_BLOCK_MOE_H

#include "lib/model/block/ffn.h"

/* clang-format off */
enum moe_param {
	MOE_ROUTER = (BLOCK_moe << BLOCK_SHIFT) + FFN_PARAMS, MOE_EXPERT_BIAS,
	MOE_EXPERT_GATE, MOE_EXPERT_UP, MOE_EXPERT_DOWN,
	MOE_SHARED_GATE, MOE_SHARED_UP, MOE_SHARED_DOWN,
	MOE_DOWN_BIAS, /* which no model has */
};
/* clang-format on */

/* clang-format off */
enum moe_buffer {
	MOE_INPUT = BLOCK_moe << BLOCK_SHIFT,
	MOE_LOGITS = MOE_INPUT + FFN_BUFFERS,
	MOE_TOPK, MOE_TOPK_WEIGHT, MOE_PERMUTATION, MOE_EXPERT_ROWS, MOE_LOAD,
	MOE_CHOSEN, MOE_KEPT, MOE_DTOPK_WEIGHT, MOE_DLOGITS,
	MOE_IN, MOE_WEIGHT, MOE_UP, MOE_ACT, MOE_OUT, MOE_DACT, MOE_DWEIGHT,
	MOE_ROUND_IN, MOE_ROUND_WEIGHT, MOE_ROUND_UP,
	MOE_ROUTED, MOE_ROUTED_WEIGHT, MOE_ROUTED_INPUT,
	MOE_SHARED_FC1_OUT, MOE_SHARED_ACT, MOE_SHARED_DACT,
};
/* clang-format on */

#endif
