/*
 * head.h - the numbers of the head's parameters and buffers
 */
#ifndef MODEL_BLOCK_HEAD_H
#define MODEL_BLOCK_HEAD_H

#include "lib/model/block/buffers.h"

enum head_param { HEAD_NORM = BLOCK_head << BLOCK_SHIFT, HEAD_NORM_BIAS, HEAD_OUTPUT };

/* clang-format off */
enum head_buffer {
	HEAD_INPUT = BLOCK_head << BLOCK_SHIFT,
	HEAD_NORM_MEAN, HEAD_NORM_RSTD, HEAD_NORM_OUT, HEAD_GRAD,
	HEAD_LOGITS, HEAD_STATS, HEAD_LOSS, HEAD_ZLOSS, HEAD_BEST, HEAD_BEST_TOKEN,
};
/* clang-format on */

#endif
