/*
 * place.h - offsets of buffers in an arena, where those that are never alive together share bytes
 *
 * No placement takes less than what is alive at the fullest time, but to find the smallest is
 * NP-hard. The largest buffer is placed first, each at the lowest offset at which it meets none of
 * those before it (first fit decreasing); where that takes more than the fullest time, other orders
 * are tried, always the same ones. Nothing that a run computes depends on the order.
 */
#ifndef MODEL_PLACE_H
#define MODEL_PLACE_H

#include <stdint.h>

struct placed {
	int number;             /* the caller's, by which those of one size are placed */
	uint64_t alive;         /* a bit for each time at which it is */
	uint64_t bytes, offset; /* offset: the result */
};

/* Places n buffers and changes their order in the array. Returns the bytes that they take. */
uint64_t place_tight(struct placed *p, int n);
/* Places n buffers in the order of the array, which stays. */
uint64_t place_in_order(struct placed *p, int n);
/* The bytes that buffers take, by a hash of them: of those that were placed before, the last ones.
 * Zero-initialise. */
struct place_sizes {
	struct place_size {
		uint64_t hash[2], size;
	} * item; /* owned */
};
/* As place_tight, but offsets are not set, nor is the array changed, where the size is known. */
uint64_t place_size(struct place_sizes *c, struct placed *p, int n);
void place_sizes_release(struct place_sizes *c);
/* What is alive at the fullest time. */
uint64_t place_bound(const struct placed *p, int n);

#endif
