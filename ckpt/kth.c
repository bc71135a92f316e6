/* kth.c - the k-th largest magnitude of many numbers, exactly, in bounded memory */
#include "ckpt/kth.h"

#include <string.h>

void
kth_begin(struct kth *k, int64_t keep)
{
	memset(k, 0, sizeof *k);
	k->keep = keep;
}

void
kth_add(struct kth *k, const double *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint32_t bits = kth_bits(x[i]);

		if (k->round == 0)
			k->count[bits >> 16]++;
		else if (bits >> 16 == k->bits >> 16)
			k->count[bits & 0xffff]++;
	}
}

/* From the largest bin down to the one that holds the k-th. */
void
kth_end_round(struct kth *k)
{
	int64_t left = k->round == 0 ? k->keep : k->ties;
	int bin = KTH_BINS - 1;

	while (bin > 0 && k->count[bin] < left)
		left -= k->count[bin--];
	k->ties = left;
	k->equal = k->count[bin];
	k->bits = k->round == 0 ? (uint32_t)bin << 16 : k->bits | (uint32_t)bin;
	k->round++;
	memset(k->count, 0, sizeof k->count);
}
