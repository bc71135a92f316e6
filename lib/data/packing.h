/*
 * packing.h - documents into samples without cutting them: best-fit decreasing
 *
 * Items in the order of falling lengths, equal ones in the order given; each goes into the bin with
 * the least room that is enough, and of bins with that room into the one that had it first; into a
 * new bin when there is none. Rooms are found in a tree of bits, so n items take O(n log capacity).
 * The lengths in the bins depend on the lengths of the items alone, not on their order. Source:
 * Ding et al. 2024, arXiv:2404.10830.
 */
#ifndef DATA_PACKING_H
#define DATA_PACKING_H

#include <stdint.h>

enum sample_packing { PACKING_CUT, PACKING_BEST_FIT };
/* What becomes of documents of more tokens than a bin has. */
enum long_documents { LONG_CUT, LONG_TRUNCATE, LONG_DROP };
extern const char *const sample_packing_names[], *const long_documents_names[];

struct packing {
	int64_t bins;
	int64_t *item;  /* [n], bin by bin, in the order in which they were put there */
	int64_t *begin; /* [bins + 1], into item */
};

/* Packs n items of 1 to `capacity` each, whose lengths are length[order[i]]; item has the values of
 * order. order NULL: 0 to n - 1. packing_release frees the arrays. */
void packing_best_fit(
    const int32_t *length, const uint32_t *order, int64_t n, int64_t capacity, struct packing *out);
void packing_release(struct packing *p);

#endif
