/*
 * attention.h - what tests and benchmarks say to the attention of a GPU
 */
#ifndef TRAIN_CUDA_ATTENTION_ATTENTION_H
#define TRAIN_CUDA_ATTENTION_ATTENTION_H

#include "train/cuda/attention/hopper_run.h"

/* How backward passes for compute capability 9.0 are run from now on. */
struct device;
void cuda_attention_run(struct device *d, struct hopper_run how);

#endif
