/*
 * random_box.h - random parts of tensors; the test program sets the seed
 */
#ifndef TESTS_RANDOM_BOX_H
#define TESTS_RANDOM_BOX_H

#include "lib/base/rng.h"
#include "lib/base/slice.h"

static struct mt19937 rng;

/* Uniform in low..high inclusive. */
static inline int64_t
between(int64_t low, int64_t high)
{
	return low + (int64_t)mt19937_interval(&rng, (uint64_t)(high - low));
}

/* A random non-empty part of outer. */
static inline struct slice
random_box(const struct slice *outer)
{
	struct slice s = { .ndim = outer->ndim };

	for (int d = 0; d < s.ndim; d++) {
		s.count[d] = between(1, outer->count[d]);
		s.start[d] = outer->start[d] + between(0, outer->count[d] - s.count[d]);
	}
	return s;
}

#endif
