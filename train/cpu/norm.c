/*
 * norm.c - LayerNorm and RMSNorm. Source: spec/training.md 2.2 and 2.3
 *
 * Statistics are taken in two passes, mean before variance, so that nothing cancels. Sums over a
 * row are row_sum's and row_dot's fixed order. Sums over rows (dweight, dbias) are owned by
 * columns: one item reads all rows of COLUMNS columns, ROWS at a time, and adds the blocks in
 * order, so neither threads nor their number change a bit.
 */
#include "train/cpu/real.h"

enum { COLUMNS = 64, ROWS = 64 }; /* block of the sums over rows */

/* Whole rows in real; a layer's width is bounded by them (backend.max_norm). */
struct work {
	real a[CPU_ROW_MAX], b[CPU_ROW_MAX], c[CPU_ROW_MAX], weight[CPU_ROW_MAX];
};
_Static_assert(sizeof(struct work) <= CPU_SCRATCH, "workspace");

/* What is done row by row, the weight loaded once for some rows. */
struct by_rows {
	const void *call; /* struct norm or norm_grad */
	const struct tensor *x, *weight;
	double shift;
	void (*row)(const void *call, int64_t row, const real *weight, struct work *w);
};

static void
some_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct by_rows *r = ctx;
	struct work *w = scratch;
	struct span s = { 0, 0, r->x->shape[1] };
	const real *weight = span_load(r->weight, &s, w->weight);
	int64_t per_item = cpu_rows_per_item(s.count),
		end = int64_min(r->x->shape[0], (item + 1) * per_item);

	if (r->shift != 0) {
		for (int64_t i = 0; i < s.count; i++)
			w->weight[i] = weight[i] + (real)r->shift;
		weight = w->weight;
	}
	for (int64_t row = item * per_item; row < end; row++)
		r->row(r->call, row, weight, w);
}

/* All rows of x. */
static void
for_rows(struct stream *st, const struct by_rows *r)
{
	cpu_for(st, int64_div_up(r->x->shape[0], cpu_rows_per_item(r->x->shape[1])), some_rows, r);
}

/* y = (x - mean) rstd weight + bias for one row; x - mean is kept in `centred`. y may share its
 * buffer with x: x is not read once it has been centred. */
static void
forward_row(const void *call, int64_t row, const real *weight, struct work *w)
{
	const struct norm *n = call;
	struct span s = { row, 0, n->x.shape[1] };
	const real *x = span_load(&n->x, &s, w->a);
	real *centred = w->b, *y = span_out(&n->y, &s, w->a), mean = 0, rstd;

	if (n->bias.data)
		mean = *real_at(&n->mean, row) = row_sum(x, s.count) / (real)s.count;
	for (int64_t i = 0; i < s.count; i++)
		centred[i] = x[i] - mean;
	rstd =
	    1 / real_math(sqrt)(row_dot(centred, centred, s.count) / (real)s.count + (real)n->eps);
	*real_at(&n->rstd, row) = rstd;
	for (int64_t i = 0; i < s.count; i++)
		y[i] = centred[i] * rstd * weight[i];
	if (n->bias.data) {
		const real *bias = span_load(&n->bias, &(struct span){ 0, 0, s.count }, w->c);

		for (int64_t i = 0; i < s.count; i++)
			y[i] += bias[i];
	}
	span_store(&n->y, &s, y);
}

/* x, y [T, h]; rstd [T], and mean [T] in LayerNorm alone, are saved for the backward pass in
 * real. */
void
cpu_name(norm_fwd)(struct stream *st, const struct norm *n)
{
	struct tensor like =
	    tensor_2d(NULL, n->weight.dtype, n->x.shape[0], tensor_num_columns(&n->x));
	struct result r = { &n->y, &like, &n->copies };
	struct norm made = *n;

	made.y = cpu_name(result_begin)(&r);
	ops_require(
	    n->x.ndim == 2 && tensor_same_shape(&n->x, &made.y) && n->x.shape[1] <= CPU_ROW_MAX);
	ops_require(n->weight.shape[0] == n->x.shape[1] && n->rstd.dtype == REAL_DTYPE);
	for_rows(st, &(struct by_rows){ &made, &n->x, &n->weight, n->shift, forward_row });
	cpu_name(result_end)(st, &r, &made.y);
}

/* dx += rstd (g - mean g - xhat mean(g xhat)) with g = dy weight, for one row; mean g only in
 * LayerNorm. dx is loaded last, into the buffer of x, which has been used up. */
static void
backward_row(const void *call, int64_t row, const real *weight, struct work *w)
{
	const struct norm_grad *n = call;
	struct span s = { row, 0, n->x.shape[1] };
	const real *x = span_load(&n->x, &s, w->a), *dy = span_load(&n->dy, &s, w->b);
	real *xhat = w->c, *g = w->b, *dx, a = 0, c;
	real mean = n->mean.data ? *real_at(&n->mean, row) : 0, rstd = *real_at(&n->rstd, row);

	for (int64_t i = 0; i < s.count; i++)
		xhat[i] = (x[i] - mean) * rstd;
	for (int64_t i = 0; i < s.count; i++)
		g[i] = dy[i] * weight[i];
	if (n->mean.data)
		a = row_sum(g, s.count) / (real)s.count;
	c = row_dot(g, xhat, s.count) / (real)s.count;
	for (int64_t i = 0; i < s.count; i++)
		g[i] = rstd * (g[i] - a - xhat[i] * c);
	dx = span_load(&n->dx, &s, w->a);
	for (int64_t i = 0; i < s.count; i++)
		dx[i] += g[i];
	span_store(&n->dx, &s, dx);
}

/* sums[0] += sum of dy xhat and sums[1] += sum of dy over at most ROWS rows, for the columns of
 * s. */
static void
sum_rows(const struct norm_grad *n, struct span s, int64_t end, real sums[2][COLUMNS])
{
	real x_buf[COLUMNS], dy_buf[COLUMNS];

	for (; s.row < end; s.row++) {
		const real *x = span_load(&n->x, &s, x_buf), *dy = span_load(&n->dy, &s, dy_buf);
		real mean = n->mean.data ? *real_at(&n->mean, s.row) : 0,
		     rstd = *real_at(&n->rstd, s.row);

		for (int64_t i = 0; i < s.count; i++) {
			sums[0][i] += dy[i] * ((x[i] - mean) * rstd);
			sums[1][i] += dy[i];
		}
	}
}

/* dweight and dbias of some columns: blocks of rows are summed, then added in order to what is
 * there, or to zero. */
static void
backward_columns(const void *ctx, int64_t item, void *scratch)
{
	const struct norm_grad *n = ctx;
	struct span s = { 0, item * COLUMNS, int64_min(COLUMNS, n->x.shape[1] - item * COLUMNS) };

	(void)scratch;
	for (int64_t i = 0; !n->accumulate && i < s.count; i++) {
		*real_at(&n->dweight, s.first + i) = 0;
		if (n->dbias.data)
			*real_at(&n->dbias, s.first + i) = 0;
	}
	for (; s.row < n->x.shape[0]; s.row += ROWS) {
		real sums[2][COLUMNS] = { { 0 } };

		sum_rows(n, s, int64_min(s.row + ROWS, n->x.shape[0]), sums);
		for (int64_t i = 0; i < s.count; i++)
			*real_at(&n->dweight, s.first + i) += sums[0][i];
		for (int64_t i = 0; n->dbias.data && i < s.count; i++)
			*real_at(&n->dbias, s.first + i) += sums[1][i];
	}
}

/* By rows for dx, then by columns for the sums over rows. dx has the residual's gradient already;
 * its own sums are column_sum's, so they have the bits of a GEMM's bias gradient. */
void
cpu_name(norm_bwd)(struct stream *st, const struct norm_grad *n)
{
	ops_require(
	    n->x.ndim == 2 && tensor_same_shape(&n->x, &n->dy) && tensor_same_shape(&n->x, &n->dx));
	ops_require(n->x.shape[1] <= CPU_ROW_MAX && n->dweight.dtype == REAL_DTYPE &&
	    n->rstd.dtype == REAL_DTYPE);
	for_rows(st, &(struct by_rows){ n, &n->x, &n->weight, n->shift, backward_row });
	cpu_for(st, int64_div_up(n->x.shape[1], COLUMNS), backward_columns, n);
	if (n->dx_sum.data && !n->accumulate)
		cpu_name(fill)(st, &n->dx_sum, 0);
	if (n->dx_sum.data)
		cpu_name(column_sum)(st, &n->dx_sum, &n->dx);
}
