/*
 * workspace.h - the workspace of fast attention
 *
 * cuDNN's backward pass accumulates dq in F32, with grouped heads keeps dk and dv of every query
 * head, and in its deterministic form the gradients of all scores. What our own for Hopper works
 * in, hopper.h tells. The workspace is a scratch buffer of the memory plan and shared with other
 * phases of the step (memory.c). Source: docs/gpu.md 1.4 to 1.6; the answers of cuDNN 9.19 for
 * compute capability 9.0.
 */
#ifndef MODEL_BLOCK_WORKSPACE_H
#define MODEL_BLOCK_WORKSPACE_H

#include "lib/model/hopper.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes for the backward pass, a multiple of 256. 0 for the forward pass, which makes do with the
 * device's own workspace, and where more than ATTENTION_WORKSPACE_MAX would be needed: the tiled
 * kernels, which need none, are used then. */
#define ATTENTION_WORKSPACE_MAX ((uint64_t)8 << 30)
uint64_t attention_workspace(const struct attention_shape *s);

/* Whether attention of our own for Hopper serves all backward passes of a run; HOPPER_PERHAPS
 * counts as yes if `maybe`. */
bool hopper_serves(const struct model_config *c, const struct train_shape *s, bool maybe);

/* The workspace of a run: the largest that any of its calls needs; 0 where attention that needs one
 * cannot be used. */
uint64_t attention_run_workspace(
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

#endif
