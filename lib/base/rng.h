/*
 * rng.h - random numbers that depend on a counter, never on the caller or the order of calls
 *
 * Philox4x32-10 (Salmon et al. 2011): four 32-bit words from (key, counter). Counter layout of the
 * suite: {index low, index high, stream, step}, where index is the element's number in the whole,
 * unsharded tensor and stream names the tensor or the site. MT19937 is only for Megatron-LM's index
 * maps.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

void rng_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);
/* The uniform in [0, 1) of element `index`: word index % 4 of counter {index / 4, stream, step}. 24
 * bits. */
float rng_uniform(uint64_t key, uint64_t index, uint32_t stream, uint32_t step);
/* out[i] = the standard normal of element start + i (Box-Muller over the words of counter {index /
 * 4, ...}), in double. */
void rng_normal(
    uint64_t key, uint64_t start, int64_t count, uint32_t stream, uint32_t step, double *out);
/* FNV-1a, 32 bit: the stream of a tensor is the hash of its name. */
uint32_t rng_stream(const char *name);

struct mt19937 {
	uint32_t k[624];   /* the state */
	uint32_t out[624]; /* its outputs, of which pos were taken */
	int pos;
};

void mt19937_seed(struct mt19937 *m, uint32_t seed);
uint32_t mt19937_next(struct mt19937 *m);
/* Takes the next *count outputs, at least 1 and at most `most`, as one array. Valid until the next
 * call. */
const uint32_t *mt19937_take(struct mt19937 *m, int most, int *count);
/* Uniform in 0..max inclusive by masked rejection, as numpy.random.RandomState's legacy shuffle
 * draws it. */
uint64_t mt19937_interval(struct mt19937 *m, uint64_t max);

#endif
