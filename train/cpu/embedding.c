/*
 * embedding.c - rows of a table by number, and the sum of gradients into them. Source:
 * docs/math.md 2.7
 *
 * ids are int32 and were checked against the vocabulary when they were read; a number outside this
 * rank's rows is another rank's, never a mistake. The backward pass goes over columns, not rows:
 * two tokens may use the same row of the table.
 */
#include "train/cpu/real.h"

enum { COLUMNS = 64 }; /* that one item of the backward pass owns */

/* The table's row for row i, or -1 when another rank holds it. */
static int64_t
table_row(const struct tensor *ids, int64_t i, int64_t first_row, int64_t num_rows)
{
	int64_t row = ((const int32_t *)ids->data)[i] - first_row;

	return row >= 0 && row < num_rows ? row : -1;
}

/* A span of one row of y; a row that is not here is zero, and adds nothing. table and y may be
 * of different types. */
static void
gather(const void *ctx, const struct span *s)
{
	const struct embedding *e = ctx;
	int64_t row = table_row(&e->ids, s->row, e->first_row, e->table.shape[0]);
	real table_buf[CPU_SPAN], y_buf[CPU_SPAN];
	const real *x = row < 0
	    ? NULL
	    : span_load(&e->table, &(struct span){ row, s->first, s->count }, table_buf);
	real *y;

	if (!x && e->accumulate)
		return;
	y = e->accumulate ? span_load(&e->y, s, y_buf) : span_out(&e->y, s, y_buf);
	if (!e->accumulate)
		memset(y, 0, (size_t)s->count * sizeof *y);
	for (int64_t i = 0; x && i < s->count; i++)
		y[i] += (real)e->scale * x[i];
	span_store(&e->y, s, y);
}

/* y [T, h] is written, or added to when e->accumulate; table [rows, h] of this rank. */
void
cpu_name(embedding_fwd)(struct stream *st, const struct embedding *e)
{
	ops_require(e->y.ndim == 2 && e->table.ndim == 2 && e->y.shape[1] == e->table.shape[1]);
	ops_require(e->ids.dtype == DTYPE_I32 && e->ids.shape[0] == e->y.shape[0]);
	cpu_spans(st, &e->y, gather, e);
}

/* All rows of dy in order, into some columns of the table: each element has one writer and one
 * order. */
static void
scatter(const void *ctx, int64_t item, void *scratch)
{
	const struct embedding_grad *e = ctx;
	struct span s = { 0, item * COLUMNS, int64_min(COLUMNS, e->dy.shape[1] - item * COLUMNS) };
	real buf[COLUMNS];

	(void)scratch;
	for (int64_t row = 0; !e->accumulate && row < e->dtable.shape[0]; row++)
		memset((real *)e->dtable.data + row * e->dtable.stride[0] + s.first, 0,
		    (size_t)s.count * sizeof(real));
	for (; s.row < e->dy.shape[0]; s.row++) {
		int64_t row = table_row(&e->ids, s.row, e->first_row, e->dtable.shape[0]);
		const real *dy;
		real *out;

		if (row < 0)
			continue;
		dy = span_load(&e->dy, &s, buf);
		out = (real *)e->dtable.data + row * e->dtable.stride[0] + s.first;
		for (int64_t i = 0; i < s.count; i++)
			out[i] += (real)e->scale * dy[i];
	}
}

/* Sums into dtable in real precision, whatever dy is; onto zeros without accumulate. */
void
cpu_name(embedding_bwd)(struct stream *st, const struct embedding_grad *e)
{
	ops_require(e->dy.ndim == 2 && e->dtable.ndim == 2 && e->dy.shape[1] == e->dtable.shape[1]);
	ops_require(e->ids.dtype == DTYPE_I32 && e->dtable.dtype == REAL_DTYPE);
	cpu_for(st, int64_div_up(e->dy.shape[1], COLUMNS), scatter, e);
}
