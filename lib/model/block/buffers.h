/*
 * buffers.h - the numbers of buffers: those of a rank that belong to no block, or to several; a
 * block has its own in its header
 */
#ifndef MODEL_BLOCK_BUFFERS_H
#define MODEL_BLOCK_BUFFERS_H

#include "lib/model/block/list.h"
#include "lib/model/optim_rule.h"

/* The number of a kind of block is in those of its buffers and parameters, which begin with
 * BLOCK_x << BLOCK_SHIFT. */
enum { BLOCK_SHIFT = 7, BLOCK_NUMBERS = BLOCK_COUNT << BLOCK_SHIFT };

/* Described in lib/model/rank_buffers.c. */
/* clang-format off */
enum rank_buffer {
	BUF_RECEIVE, BUF_WEIGHTS, BUF_WEIGHT_SLOTS, BUF_GRADS, BUF_GRAD_SLOTS, BUF_BF16_GRADS,
	BUF_DATA_RANK_GRADS, BUF_MASTER, BUF_LOW_BITS,
	/* the first state of the update rule, and the others after it */
	BUF_STATE, BUF_STATE_LAST = BUF_STATE + OPTIM_STATES_MAX - 1,
	/* of what the host updates */
	BUF_HOST_WEIGHTS, BUF_HOST_MASTER, BUF_HOST_LOW_BITS,
	BUF_HOST_STATE, BUF_HOST_STATE_LAST = BUF_HOST_STATE + OPTIM_STATES_MAX - 1,
	BUF_AVERAGE, BUF_STAGING_RING, BUF_ROPE, BUF_WINDOW_ROPE, BUF_SCALARS, BUF_SCORES,
	BUF_ROUTER_SUMS, BUF_ROUTER_LOADS, BUF_HASHES,
	BUF_FP8_WEIGHTS, BUF_FP8_TRANSPOSED, BUF_FP8_SCALE, BUF_FP8_AMAX,
	BUF_FP8_HISTORY, BUF_FP8_LARGEST, BUF_FP8_SQUARES, BUF_FP8_SQUARES_TRANSPOSED,
	BUF_TOKENS, BUF_LABELS, BUF_POSITIONS, BUF_LOSS_MASK, BUF_DOCUMENTS,
	BUF_KEPT,
	BUF_LATER_LABELS, BUF_LATER_MASK, BUF_LATER_POSITIONS, BUF_STAGE_OUTPUT,
	BUF_GATHERED, BUF_DGATHERED, BUF_PARTIAL_SUMS, BUF_PARTIAL,
	BUF_BRANCH, BUF_DBRANCH, BUF_DPOST, BUF_DSUM, BUF_DNORM,
	BUF_FP8_X, BUF_FP8_X_LINES, BUF_FP8_DY, BUF_FP8_DY_LINES,
	BUF_FP8_DY_TRANSPOSED, BUF_FP8_DY_TRANSPOSED_LINES,
	BUF_FP8_FC2_DY_TRANSPOSED, BUF_FP8_FC2_DY_TRANSPOSED_LINES,
	BUF_FP8_EXPERT, BUF_FP8_EXPERT_LINES,
	BUF_UPDATES, BUF_UPDATES_GATHERED, BUF_MATRIX, BUF_MATRIX_NEXT, BUF_GRAM, BUF_GRAM_NEXT,
};
/* clang-format on */

/* Where a buffer exists: once per run, on the device or the host, per head of a slot of saved
 * activations, per layer of a slot that predicts later tokens, per layer of a slot, the same for
 * layers that are recomputed too, per micro batch or stage output of the schedule, or in
 * scratch. */
enum level { RUN, HOST, HEADS, LATER, LAYER, KEPT, BATCH, STAGE_OUTPUT, STEP };

#endif
