/*
 * flops.h - model FLOPs of a training step, as Megatron-LM counts them now
 *
 * Forward, gradient of the input and of the weight (factor 3), causal attention counted half,
 * recomputation not counted, the padded vocabulary of the layout. Source: spec/training.md 14.1;
 * Megatron-LM training.py num_floating_point_operations.
 */
#ifndef MODEL_FLOPS_H
#define MODEL_FLOPS_H

#include "lib/model/config.h"

/* FLOPs of a step over `samples` sequences of seq_length tokens; padded_vocab as layout_vocab gives
 * it. */
double model_flops(
    const struct model_config *c, int64_t samples, int64_t seq_length, int64_t padded_vocab);

#endif
