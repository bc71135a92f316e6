/* int64.h - arithmetic of counts, in C and C++ */
#ifndef BASE_INT64_H
#define BASE_INT64_H

#include <stdint.h>

/* a / b rounded up; a must be at least 0, b above 0, and a + b - 1 must not overflow. */
static inline int64_t
int64_div_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t
int64_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t
int64_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The greatest that divides both, which must be above 0. */
static inline int64_t
int64_gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

#endif
