/*
 * mask.h - dropout as kernels need it
 */
#ifndef TRAIN_CUDA_MASK_H
#define TRAIN_CUDA_MASK_H

#include "train/ops.h"

#include <math.h>

/* struct dropout in the form that a kernel needs; p = 0 keeps all. */
struct mask {
	bool on;
	uint32_t least; /* kept when the 24 bits drawn are at least this */
	float keep;     /* 1 / (1 - p) */
	uint64_t key;
	uint32_t stream, step;
	int64_t first_sample, seq_length, first_position, second_position, turn, width,
	    first_column, first_row;
	int micro_batch;
};

/* The comparison of rng_uniform with p in whole numbers: u 2^-24 >= p when u >= ceil(p 2^24). */
static inline struct mask
mask_of(const struct dropout *d)
{
	struct mask m;

	m.on = d->p > 0;
	m.least = (uint32_t)ceil(d->p * 16777216.0);
	m.keep = (float)(1 / (1 - d->p));
	m.key = d->key;
	m.stream = d->stream;
	m.step = d->step;
	m.first_sample = d->first_sample;
	m.seq_length = d->seq_length;
	m.first_position = d->first_position;
	m.second_position = d->second_position;
	m.turn = d->turn;
	m.width = d->width;
	m.first_column = d->first_column;
	m.first_row = d->first_row;
	m.micro_batch = d->micro_batch;
	return m;
}

#endif
