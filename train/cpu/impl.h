/*
 * impl.h - what the CPU operations share, whatever the arithmetic: loops over the device's threads
 *
 * A loop is cut into items by the shapes alone and an item computes the same whichever thread runs
 * it, so results do not depend on the number of threads.
 */
#ifndef TRAIN_CPU_IMPL_H
#define TRAIN_CPU_IMPL_H

#include "lib/base/err.h"
#include "lib/base/int64.h"
#include "train/ops.h"

enum {
	CPU_SPAN = 2048,       /* most elements of a span: what a function may keep on its stack */
	CPU_GRAIN = 16384,     /* elements that are worth handing to a thread */
	CPU_HEAD_MAX = 512,    /* largest head size */
	CPU_ROW_MAX = 32768,   /* largest hidden size of a norm */
	CPU_SCRATCH = 2 << 20, /* bytes of workspace of one thread */
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

/* A position that an operation reads from memory; without one it is 0. */
static inline int64_t
cpu_position(const struct tensor *t)
{
	return t->data ? *(const int32_t *)t->data : 0;
}

/* Rows of this many columns that make an item. */
static inline int64_t
cpu_rows_per_item(int64_t columns)
{
	return int64_max(1, CPU_GRAIN / int64_max(1, columns));
}

#endif
