/*
 * tree_sum.h - S of lib/base/tree.h by its definition, which shares nothing with the counters of
 * the operations that are held against it
 */
#ifndef TESTS_TREE_SUM_H
#define TESTS_TREE_SUM_H

#include <stdint.h>

/* NAME(x, n): S of n terms of a type, each addition in that type. */
#define TREE_SUM(NAME, TYPE) \
	static TYPE NAME##_block(const TYPE *x, int n) \
	{ \
		int p = 1; \
		if (n == 1) \
			return x[0]; \
		while (2 * p < n) \
			p *= 2; \
		return NAME##_block(x, p) + NAME##_block(x + p, n - p); \
	} \
	static TYPE NAME(const TYPE *x, int n) \
	{ \
		TYPE sum = NAME##_block(x, n < 16 ? n : 16); \
		for (int i = 16; i < n; i += 16) \
			sum = sum + NAME##_block(x + i, n - i < 16 ? n - i : 16); \
		return sum; \
	}

#endif
