/*
 * slice.c - boxes in a global tensor: intersection, copying between arrays, flat ranges
 *
 * Tensors in files and on ranks are both boxes of a global tensor, so reading a checkpoint in
 * another layout is intersecting boxes and copying overlaps. An array laid out as a box holds its
 * elements row by row. The flat ranges are for the distributed optimizer, which splits a tensor at
 * any element.
 */
#include "lib/base/err.h"
#include "lib/base/slice.h"

#include <stdlib.h>
#include <string.h>

/* The box of a whole tensor; dimensions beyond ndim stay 0. */
struct slice
slice_whole(int ndim, const int64_t *shape)
{
	struct slice s = { .ndim = ndim };

	for (int d = 0; d < ndim; d++)
		s.count[d] = shape[d];
	return s;
}

/* No overflow check: shapes from files are checked when they are read. */
int64_t
slice_elements(const struct slice *s)
{
	int64_t n = 1;

	for (int d = 0; d < s->ndim; d++)
		n *= s->count[d];
	return n;
}

/* Written with differences, so that no sum of a start and a count from a file can overflow. */
bool
slice_inside(const struct slice *s, int ndim, const int64_t *shape)
{
	if (s->ndim != ndim)
		return false;
	for (int d = 0; d < ndim; d++)
		if (s->start[d] < 0 || s->count[d] < 0 || s->start[d] > shape[d] ||
		    s->count[d] > shape[d] - s->start[d])
			return false;
	return true;
}

/* An index, as digits alone; without any, or too large for every tensor, `none`. Moves *text after
 * it. */
static int64_t
read_index(const char **text, int64_t none)
{
	size_t n = strspn(*text, "0123456789");
	int64_t x = n > 0 && n <= 18 ? strtoll(*text, NULL, 10) : none;

	*text += n <= 18 ? n : 0;
	return x;
}

/* One range, of a dimension of `size` elements; false when it is not a range inside it. */
static bool
parse_range(const char **text, int64_t size, int64_t *start, int64_t *count)
{
	int64_t end;

	*start = read_index(text, **text == ':' ? 0 : -1);
	end = *start + 1;
	if (**text == ':') {
		++*text;
		end = read_index(text, size);
	}
	*count = end - *start;
	return *start >= 0 && *count > 0 && end <= size && (**text == ',' || !**text);
}

int
slice_parse(const char *text, int ndim, const int64_t *shape, struct slice *out, struct err *e)
{
	const char *at = text;

	*out = slice_whole(ndim, shape);
	for (int d = 0; d == 0 || *at; d++) {
		at += d > 0;
		if (d == ndim)
			return err_set(
			    e, "'%.60s': more ranges than the %d dimensions", text, ndim);
		if (!parse_range(&at, shape[d], &out->start[d], &out->count[d]))
			return err_set(e,
			    "'%.60s': dimension %d: must be a range a:b with 0 <= a < b <= %lld, "
			    "or "
			    "an index",
			    text, d, (long long)shape[d]);
	}
	return 0;
}

/* The overlap is the box of the larger starts and the smaller ends. */
bool
slice_intersect(const struct slice *a, const struct slice *b, struct slice *out)
{
	struct slice s = { .ndim = a->ndim };

	if (a->ndim != b->ndim)
		BUG("boxes of %d and %d dimensions", a->ndim, b->ndim);
	for (int d = 0; d < s.ndim; d++) {
		int64_t a_end = a->start[d] + a->count[d], b_end = b->start[d] + b->count[d];

		s.start[d] = a->start[d] > b->start[d] ? a->start[d] : b->start[d];
		s.count[d] = (a_end < b_end ? a_end : b_end) - s.start[d];
		if (s.count[d] <= 0)
			return false;
	}
	*out = s;
	return true;
}

/*
 * Elements between neighbours of dimension d in an array laid out as box s. Recomputed each time:
 * there are at most four dimensions.
 */
static int64_t
stride(const struct slice *s, int d)
{
	int64_t n = 1;

	for (int i = d + 1; i < s->ndim; i++)
		n *= s->count[i];
	return n;
}

int64_t
slice_span(const struct slice *box, const struct slice *array, int64_t *first)
{
	int64_t last = 0;

	*first = 0;
	for (int d = 0; d < box->ndim; d++) {
		*first += (box->start[d] - array->start[d]) * stride(array, d);
		last += (box->start[d] + box->count[d] - 1 - array->start[d]) * stride(array, d);
	}
	return last - *first + 1;
}

/* Shared by the recursion over dimensions. */
struct copy {
	const struct slice *box;
	int last;   /* everything inside this dimension is contiguous in both arrays */
	size_t run; /* bytes of one contiguous run */
	size_t dst_step[SLICE_DIMS], src_step[SLICE_DIMS]; /* bytes */
};

/* Copies the runs below dimension d; dst and src point to the first element of the box there. */
static void
copy_runs(const struct copy *c, int d, char *dst, const char *src)
{
	if (d == c->last || d == SLICE_DIMS - 1) {
		memcpy(dst, src, c->run);
		return;
	}
	for (int64_t i = 0; i < c->box->count[d]; i++)
		copy_runs(
		    c, d + 1, dst + (size_t)i * c->dst_step[d], src + (size_t)i * c->src_step[d]);
}

/*
 * Inner dimensions that the box fills in both arrays are merged into one run, so that a whole
 * tensor is one memcpy, and a part of a matrix one memcpy per row. Offsets count from the start of
 * each array's own box.
 */
void
slice_copy(void *dst, const struct slice *dst_box, const void *src, const struct slice *src_box,
    const struct slice *box, size_t element_size)
{
	struct copy c = { .box = box, .last = box->ndim - 1 };
	char *to = dst;
	const char *from = src;

	if (slice_elements(box) == 0)
		return;
	while (c.last > 0 && box->count[c.last] == dst_box->count[c.last] &&
	    box->count[c.last] == src_box->count[c.last])
		c.last--;
	for (int d = 0; d < box->ndim; d++) {
		c.dst_step[d] = (size_t)stride(dst_box, d) * element_size;
		c.src_step[d] = (size_t)stride(src_box, d) * element_size;
		to += (size_t)(box->start[d] - dst_box->start[d]) * c.dst_step[d];
		from += (size_t)(box->start[d] - src_box->start[d]) * c.src_step[d];
	}
	c.run = (size_t)box->count[c.last] * c.dst_step[c.last];
	copy_runs(&c, 0, to, from);
}

/* The box of at most `left` elements that begins at element `pos` of s and spans whole rows of the
 * outermost dimension it can. */
static struct slice
flat_step(const struct slice *s, int64_t pos, int64_t left)
{
	struct slice out = { .ndim = s->ndim };
	int d = 0;

	while (pos % stride(s, d) != 0 || stride(s, d) > left)
		d++;
	for (int i = 0; i < s->ndim; i++) {
		int64_t step = stride(s, i), index = pos / step % s->count[i];

		out.start[i] = s->start[i] + index;
		out.count[i] = i < d ? 1 : s->count[i];
		if (i == d)
			out.count[i] =
			    left / step < s->count[i] - index ? left / step : s->count[i] - index;
		if (i > d)
			out.start[i] = s->start[i];
	}
	return out;
}

/*
 * Each step takes the largest aligned block that fits: first partial rows outwards, then whole
 * ones, then partial rows inwards. That is at most 2 * ndim - 1 boxes.
 */
int
slice_flat(const struct slice *s, int64_t first, int64_t count, struct slice out[SLICE_FLAT_MAX])
{
	int n = 0;

	if (first < 0 || count < 0 || count > slice_elements(s) - first)
		BUG("range outside a box of %lld elements", (long long)slice_elements(s));
	while (count > 0) {
		int64_t done;

		out[n] = flat_step(s, first, count);
		done = slice_elements(&out[n++]);
		first += done;
		count -= done;
	}
	return n;
}

/*
 * src is [rows, cols], dst [cols, rows]; they must not overlap. Elements go one at a time, which is
 * fast enough for reading weights once.
 */
void
slice_transpose(void *dst, const void *src, int64_t rows, int64_t cols, size_t element_size)
{
	char *to = dst;
	const char *from = src;

	for (int64_t c = 0; c < cols; c++)
		for (int64_t r = 0; r < rows; r++, to += element_size)
			memcpy(to, from + (size_t)(r * cols + c) * element_size, element_size);
}
