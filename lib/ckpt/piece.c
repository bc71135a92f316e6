/* piece.c - proves that pieces tile their tensor */
#include "lib/base/mem.h"
#include "lib/ckpt/piece.h"

#include <stdlib.h>

/* A corner of a box and its multiplicity. */
struct corner {
	int64_t at[SLICE_DIMS];
	int sign;
};

/* Unused dimensions are 0 in every corner and compare equal. */
static int
compare_corners(const void *a, const void *b)
{
	const struct corner *x = a, *y = b;

	for (int d = 0; d < SLICE_DIMS; d++)
		if (x->at[d] != y->at[d])
			return x->at[d] < y->at[d] ? -1 : 1;
	return 0;
}

/* Writes the 2^ndim corners of a box, with alternating signs; returns how many. */
static size_t
add_corners(struct corner *c, const struct slice *slice, int sign)
{
	size_t n = (size_t)1 << slice->ndim;

	for (size_t k = 0; k < n; k++) {
		c[k] = (struct corner){ .sign = sign };
		for (int d = 0; d < slice->ndim; d++) {
			c[k].at[d] = slice->start[d] + (k >> d & 1 ? slice->count[d] : 0);
			if (k >> d & 1)
				c[k].sign = -c[k].sign;
		}
	}
	return n;
}

/*
 * True when the boxes of t cover each element once. The mixed difference of a box's indicator is
 * +-1 at its corners and 0 elsewhere, and it determines the indicator; so the boxes tile the whole
 * exactly when their signed corners cancel out to those of the whole. That takes a sort, however
 * irregular the tiling.
 */
static bool
tiles(const struct ckpt_tensor *t)
{
	struct slice whole = slice_whole(t->ndim, t->shape);
	struct corner *c = mem_alloc(((size_t)t->num_pieces + 1) << t->ndim, sizeof *c);
	size_t n = add_corners(c, &whole, -1), i = 0;
	bool good = true;

	for (int k = 0; k < t->num_pieces; k++)
		n += add_corners(c + n, &t->piece[k].slice, 1);
	qsort(c, n, sizeof *c, compare_corners);
	while (good && i < n) {
		int64_t sum = 0;
		size_t first = i;

		for (; i < n && compare_corners(&c[first], &c[i]) == 0; i++)
			sum += c[i].sign;
		good = sum == 0;
	}
	free(c);
	return good;
}

/* Counting elements comes first: it is cheap, and tells a hole from an overlap, which the corners
 * do not; the corners prove the tiling. */
int
piece_check_tiles(const struct ckpt_tensor *t, struct err *e)
{
	struct slice whole = slice_whole(t->ndim, t->shape);
	int64_t left = slice_elements(&whole);

	for (int k = 0; k < t->num_pieces; k++) {
		left -= slice_elements(&t->piece[k].slice);
		if (left < 0)
			return err_set(e, "tensor '%s': pieces overlap", t->name);
	}
	if (left > 0)
		return err_set(e, "tensor '%s': a hole: %lld elements are in no piece", t->name,
		    (long long)left);
	if (!tiles(t))
		return err_set(
		    e, "tensor '%s': pieces overlap, and leave a hole elsewhere", t->name);
	return 0;
}
