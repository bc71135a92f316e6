/* points.h - sets of code points as ranges, with the operations of sets */
#ifndef TOKEN_POINTS_H
#define TOKEN_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POINTS_LAST = 0x10ffff };

struct point_range {
	uint32_t first, last;
};

/* In increasing order, neither touching nor overlapping, except between points_add and the next
 * operation. Zero-initialise: the empty set. */
struct points {
	struct point_range *range;
	size_t count, cap;
};

/* Adds first to last, in any order; points_order must follow before any other function. */
void points_add(struct points *p, uint32_t first, uint32_t last);
void points_order(struct points *p);

void points_unite(struct points *p, const struct points *other);
void points_intersect(struct points *p, const struct points *other);
void points_complement(struct points *p);
bool points_equal(const struct points *p, const struct points *other);
bool points_have(const struct points *p, uint32_t cp);
void points_release(struct points *p);

#endif
