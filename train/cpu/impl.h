/*
 * impl.h - what the CPU operations share, whatever the arithmetic: loops over the device's threads
 *
 * A loop is cut into items by the shapes alone and an item computes the same whichever thread runs
 * it, so results do not depend on the number of threads.
 */
#ifndef TRAIN_CPU_IMPL_H
#define TRAIN_CPU_IMPL_H

#include "lib/base/err.h"
#include "train/ops.h"

enum {
	CPU_SPAN = 2048,                /* most elements of a span: what a function may keep on its stack */
	CPU_GRAIN = 16384,              /* elements that are worth handing to a thread */
	CPU_HEAD_MAX = 512,             /* largest head size */
	CPU_ROW_MAX = 32768,            /* largest hidden size of a norm */
	CPU_SCRATCH = 2 << 20,          /* bytes of workspace of one thread */
};

/* Elements [first, first + count) of one row; count <= CPU_SPAN when cpu_spans made it. */
struct span {
	int64_t row, first, count;
};

extern const struct ops cpu_ops_f32, cpu_ops_f64;

/* Calls fn(ctx, item, scratch) once for each item on the device's threads; scratch is CPU_SCRATCH
 * bytes, 64-byte aligned, undefined at entry and the call's own until it returns. fn must not start
 * another loop. */
void cpu_for(struct stream *st, int64_t count,
    void (*fn)(const void *ctx, int64_t item, void *scratch), const void *ctx);

/* Calls fn for spans that cover every element of a tensor shaped like t: by rows in 1-D (one row)
 * and 2-D, as one row of all elements in more dimensions, which must be dense. */
void cpu_spans(struct stream *st, const struct tensor *t,
    void (*fn)(const void *ctx, const struct span *s), const void *ctx);

/* A wrong shape is the caller's mistake. */
#define cpu_check(x)                                                                               \
	do {                                                                                       \
		if (!(x))                                                                          \
			BUG("operation called with wrong arguments: not %s", #x);                  \
	} while (0)

static inline int64_t
cpu_div_up(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline int64_t
cpu_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t
cpu_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* A vector is one row. */
static inline int64_t
cpu_rows(const struct tensor *t)
{
	return t->ndim == 2 ? t->shape[0] : 1;
}

/* More than two dimensions, dense, are one row. */
static inline int64_t
cpu_columns(const struct tensor *t)
{
	return t->ndim == 2 ? t->shape[1] : tensor_elements(t);
}

/* Rows of this many columns that make an item. */
static inline int64_t
cpu_rows_per_item(int64_t columns)
{
	return cpu_max(1, CPU_GRAIN / cpu_max(1, columns));
}

static inline bool
cpu_same_shape(const struct tensor *a, const struct tensor *b)
{
	return cpu_rows(a) == cpu_rows(b) && cpu_columns(a) == cpu_columns(b);
}

#endif
