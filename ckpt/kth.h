/*
 * kth.h - the k-th largest magnitude of many numbers, exactly, in bounded memory
 *
 * Numbers are shown twice, in any pieces: their upper 16 bits as fp32 are counted, then the lower
 * 16 of those whose upper bits are those of the k-th. The result is that of a full sort.
 */
#ifndef CKPT_KTH_H
#define CKPT_KTH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { KTH_BINS = 1 << 16 };

struct kth {
	int64_t keep;  /* k, at least 1 */
	uint32_t bits; /* of the k-th magnitude; of the first round its upper half */
	int64_t ties;  /* of the numbers of that magnitude, how many are among the k */
	int64_t equal; /* and how many there are */
	int round;
	int64_t count[KTH_BINS];
};

/* The bits of a number's magnitude as fp32, in the order of magnitudes. */
static inline uint32_t
kth_bits(double x)
{
	float f = (float)fabs(x);
	uint32_t bits;

	memcpy(&bits, &f, sizeof bits);
	return bits;
}
void kth_begin(struct kth *k, int64_t keep);
void kth_add(struct kth *k, const double *x, int64_t n);
/* After all numbers have been shown; twice. */
void kth_end_round(struct kth *k);

#endif
