/* points.c - sets of code points as ranges */
#include "lib/base/mem.h"
#include "lib/token/points.h"

#include <stdlib.h>
#include <string.h>

/* Out of order until points_order. */
void
points_add(struct points *p, uint32_t first, uint32_t last)
{
	if (p->count == p->cap) {
		p->cap = 2 * p->cap + 8;
		p->range = mem_realloc(p->range, p->cap, sizeof *p->range);
	}
	p->range[p->count++] = (struct point_range){ first, last };
}

static int
compare_ranges(const void *a, const void *b)
{
	const struct point_range *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Sorts, and joins what touches. */
void
points_order(struct points *p)
{
	size_t count = 0;

	if (p->count == 0)
		return;
	qsort(p->range, p->count, sizeof *p->range, compare_ranges);
	for (size_t i = 1; i < p->count; i++) {
		struct point_range *last = &p->range[count];

		if (p->range[i].first > last->last + 1)
			p->range[++count] = p->range[i];
		else if (p->range[i].last > last->last)
			last->last = p->range[i].last;
	}
	p->count = count + 1;
}

/* p becomes the union. */
void
points_unite(struct points *p, const struct points *other)
{
	for (size_t i = 0; i < other->count; i++)
		points_add(p, other->range[i].first, other->range[i].last);
	points_order(p);
}

/* p becomes the rest of all code points. */
void
points_complement(struct points *p)
{
	struct points out = { 0 };
	uint32_t from = 0;

	for (size_t i = 0; i < p->count; i++) {
		if (p->range[i].first > from)
			points_add(&out, from, p->range[i].first - 1);
		from = p->range[i].last + 1;
	}
	if (from <= POINTS_LAST)
		points_add(&out, from, POINTS_LAST);
	points_release(p);
	*p = out;
}

/* p becomes the intersection: one pass over both lists of ranges. */
void
points_intersect(struct points *p, const struct points *other)
{
	struct points out = { 0 };

	for (size_t i = 0, k = 0; i < p->count && k < other->count;) {
		struct point_range a = p->range[i], b = other->range[k];
		uint32_t first = a.first > b.first ? a.first : b.first,
			 last = a.last < b.last ? a.last : b.last;

		if (first <= last)
			points_add(&out, first, last);
		if (a.last < b.last)
			i++;
		else
			k++;
	}
	points_release(p);
	*p = out;
}

/* Equal sets have equal lists. */
bool
points_equal(const struct points *p, const struct points *other)
{
	return p->count == other->count &&
	    mem_equal(p->range, other->range, p->count * sizeof *p->range);
}

/* A binary search. */
bool
points_have(const struct points *p, uint32_t cp)
{
	size_t low = 0, high = p->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->range[middle].last < cp)
			low = middle + 1;
		else
			high = middle;
	}
	return low < p->count && p->range[low].first <= cp;
}

/* The set is empty afterwards. */
void
points_release(struct points *p)
{
	free(p->range);
	memset(p, 0, sizeof *p);
}
