/*
 * hopper_run.h - how backward passes of attention for compute capability 9.0 are run
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_RUN_H
#define TRAIN_CUDA_ATTENTION_HOPPER_RUN_H

#include <stdbool.h>

/* On how many multiprocessors, 0: all; whether parts of dq wait for their turns, which only a test
 * or a benchmark switches off, since some of them are lost then; whether heads of a group share
 * columns even where these are few. */
struct hopper_run {
	int blocks;
	bool in_order, together;
};

#endif
