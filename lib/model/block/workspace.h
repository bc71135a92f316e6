/*
 * workspace.h - the workspace of fast attention
 *
 * cuDNN's backward pass accumulates dq in F32, with grouped heads keeps dk and dv of every query
 * head, and in its deterministic form the gradients of all scores. The workspace is a scratch
 * buffer of the memory plan and shared with other phases of the step (memory.c). Source:
 * docs/gpu.md 1.4 and 1.5; the answers of cuDNN 9.19 for compute capability 9.0.
 */
#ifndef MODEL_BLOCK_WORKSPACE_H
#define MODEL_BLOCK_WORKSPACE_H

#include "lib/model/layout.h"
#include "lib/model/shape.h"

#include <stdbool.h>
#include <stdint.h>

/* One call of a rank; queries and keys of a sample. */
struct attention_shape {
	int64_t micro_batch_size, num_queries, num_keys, num_heads, num_groups, head_dim;
	bool backward, deterministic;
};

/* Bytes for the backward pass, a multiple of 256. 0 for the forward pass, which makes do with the
 * device's own workspace, and where more than ATTENTION_WORKSPACE_MAX would be needed: the tiled
 * kernels, which need none, are used then. */
#define ATTENTION_WORKSPACE_MAX ((uint64_t)8 << 30)
uint64_t attention_workspace(const struct attention_shape *s);

/* The workspace of a run: the largest that any of its calls needs; 0 where attention that needs one
 * cannot be used. */
uint64_t attention_run_workspace(
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

#endif
