/*
 * delta.h - the numbers of the parameters and buffers of a block of linear attention, and the
 * chunks in which its states are computed again
 */
#ifndef MODEL_BLOCK_DELTA_H
#define MODEL_BLOCK_DELTA_H

#include "lib/model/block/buffers.h"
#include "lib/model/config.h"

#include <stdint.h>

/* clang-format off */
enum delta_param {
	DELTA_NORM = BLOCK_delta << BLOCK_SHIFT, DELTA_NORM_BIAS,
	DELTA_Q, DELTA_K, DELTA_V, DELTA_GATE, DELTA_BETA, DELTA_DECAY,
	DELTA_CONV_Q, DELTA_CONV_K, DELTA_CONV_V, DELTA_DECAY_LOG, DELTA_DECAY_BIAS,
	DELTA_OUT_NORM, DELTA_PROJ, DELTA_POST_NORM, DELTA_POST_NORM_BIAS, DELTA_PROJ_BIAS,
};
enum delta_buffer {
	DELTA_INPUT = BLOCK_delta << BLOCK_SHIFT,
	DELTA_NORM_MEAN, DELTA_NORM_RSTD, DELTA_NORM_OUT,
	DELTA_PROJECTED, DELTA_CONVOLVED, DELTA_OUT, DELTA_OUT_RSTD, DELTA_NORMED, DELTA_GATED,
	DELTA_PROJ_OUT, DELTA_POST_MEAN, DELTA_POST_RSTD,
	DELTA_DPROJECTED, DELTA_DCONVOLVED, DELTA_DGATED, DELTA_DOUT, DELTA_WORK,
	DELTA_KEPT_INPUTS, DELTA_KEPT_STATES,
};
/* clang-format on */

/* Heads of keys and of values of each of so many tensor ranks, and the channels of all of them. */
struct delta_widths {
	int64_t key_heads, heads, key, value;
};
struct delta_widths delta_widths(const struct model_config *c, int64_t ranks);
/* Positions of a chunk: as many as chunks, so that the states of both are few. */
int64_t delta_chunk(int64_t positions);

#endif
