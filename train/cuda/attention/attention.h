/*
 * attention.h - what tests and benchmarks say to the attention of a GPU
 */
#ifndef TRAIN_CUDA_ATTENTION_ATTENTION_H
#define TRAIN_CUDA_ATTENTION_ATTENTION_H

#include "train/cuda/attention/hopper_run.h"

/* How backward passes for compute capability 9.0 are run from now on. Found by its name in the
 * opened object: tests/gpu_attention.h. */
struct device;
__attribute__((visibility("default"))) void cuda_attention_run(
    struct device *d, struct hopper_run how);

#endif
