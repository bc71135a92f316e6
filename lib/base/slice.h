/*
 * slice.h - a box in a global tensor, in elements
 *
 * ndim 1..4; unused entries are 0. Row-major order. A flat range of a box (what an optimizer shard
 * owns) is a list of boxes.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLICE_DIMS = 4, SLICE_FLAT_MAX = 2 * SLICE_DIMS };

struct slice {
	int ndim;
	int64_t start[SLICE_DIMS], count[SLICE_DIMS];
};

struct slice slice_whole(int ndim, const int64_t *shape);
int64_t slice_elements(const struct slice *s);
bool slice_inside(const struct slice *s, int ndim, const int64_t *shape);
/* Reads "a:b,c:d", ranges [a, b) of the dimensions in order: without a from 0, without b to the
 * end, a alone is that index; dimensions that are left out are whole. -1 with the rule, for a range
 * that is empty or reaches beyond the shape too. */
int slice_parse(const char *text, int ndim, const int64_t *shape, struct slice *out, struct err *e);
/* The common box; false when it is empty. */
bool slice_intersect(const struct slice *a, const struct slice *b, struct slice *out);
/* Elements from the first to the last of `box`, which is not empty, in an array laid out as
 * `array`: returns how many, and the place of the first. */
int64_t slice_span(const struct slice *box, const struct slice *array, int64_t *first);
/* Copies the elements of `box` from an array laid out as src_box to one laid out as dst_box; box
 * lies in both. */
void slice_copy(void *dst, const struct slice *dst_box, const void *src,
    const struct slice *src_box, const struct slice *box, size_t element_size);
/* dst[c][r] = src[r][c]: transposes a rows x cols matrix; the arrays must not overlap. */
void slice_transpose(void *dst, const void *src, int64_t rows, int64_t cols, size_t element_size);
/* Elements [first, first + count) of box s in row-major order, as at most SLICE_FLAT_MAX boxes in
 * order. Returns how many. */
int slice_flat(
    const struct slice *s, int64_t first, int64_t count, struct slice out[SLICE_FLAT_MAX]);

#endif
