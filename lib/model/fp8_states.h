/*
 * fp8_states.h - what checkpoints have of the slots of 8-bit operands
 */
#ifndef MODEL_FP8_STATES_H
#define MODEL_FP8_STATES_H

#include "lib/model/config.h"
#include "lib/model/params.h"

/* What a checkpoint of a run with delayed scaling has of its slots: F32 [slots, columns],
 * FP8_SCALE_ROW columns of scales and one of the history for each step. */
enum fp8_state { FP8_SCALE, FP8_HISTORY, FP8_STATES };
/* The tensor, as a parameter that is of no layer and no block. */
struct param fp8_state_param(const struct model_config *c, enum fp8_state state, int64_t columns);

#endif
