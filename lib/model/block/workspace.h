/*
 * workspace.h - the memory that fast attention takes beside its arguments
 *
 * cuDNN's backward pass adds dq up in F32, with grouped heads keeps dk and dv of every query head,
 * and in its deterministic form the gradients of all scores. They are a scratch buffer of the
 * memory plan, which other phases of the step use too (memory.c). Source: spec/gpu.md 1.4 and 1.5;
 * what cuDNN 9.19 answers for compute capability 9.0.
 */
#ifndef MODEL_BLOCK_WORKSPACE_H
#define MODEL_BLOCK_WORKSPACE_H

#include "lib/model/layout.h"
#include "lib/model/shape.h"

#include <stdbool.h>
#include <stdint.h>

/* One call of a rank. */
struct attention_shape {
	int64_t micro_batch_size, seq_length, num_heads, num_groups, head_dim;
	bool backward, deterministic;
};

/* Bytes of the backward pass; a multiple of 256. 0 forward, which needs less than any device has
 * for an operation, and where more than ATTENTION_WORKSPACE_MAX would be needed: the tiled kernels,
 * which need none, serve then. */
#define ATTENTION_WORKSPACE_MAX ((uint64_t)8 << 30)
uint64_t attention_workspace(const struct attention_shape *s);

/* The same of a run: no more than any of its calls needs. 0 where no attention that takes any can
 * serve. */
uint64_t attention_run_workspace(
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

#endif
