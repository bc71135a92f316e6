/*
 * norm.c - LayerNorm and RMSNorm. Source: docs/math.md 2.2 and 2.3
 *
 * Statistics are taken in two passes, mean before variance, so that nothing cancels. Sums over a
 * row are row_sum's and row_dot's fixed order. Sums over rows (dweight, dbias) are owned by
 * columns: one item reads all rows of COLUMNS columns of a head, ROWS at a time, and adds the
 * blocks in order, head after head, so neither threads nor their number change a bit.
 */
#include "train/cpu/real.h"

enum { COLUMNS = 64, ROWS = 64 }; /* block of the sums over rows */

/* Whole heads in real; a layer's width is bounded by them (backend.max_norm). */
struct work {
	real a[CPU_ROW_MAX], b[CPU_ROW_MAX], c[CPU_ROW_MAX], weight[CPU_ROW_MAX];
};
_Static_assert(sizeof(struct work) <= CPU_SCRATCH, "workspace");

/* What is done head by head, the weight loaded once for some heads. They are counted through all
 * rows, as their statistics are. */
struct by_heads {
	const void *call; /* struct norm or norm_grad */
	const struct tensor *x, *weight;
	double shift;
	void (*head)(const void *call, int64_t at, const real *weight, struct work *w);
};

static int64_t
count_heads(const struct by_heads *r)
{
	return r->x->shape[0] * norm_heads(r->x, r->weight);
}

/* The place in x of a head of so many elements. */
static struct span
head_span(const struct tensor *x, int64_t at, int64_t width)
{
	int64_t heads = x->shape[1] / width;

	return (struct span){ at / heads, at % heads * width, width };
}

static void
some_heads(const void *ctx, int64_t item, void *scratch)
{
	const struct by_heads *r = ctx;
	struct work *w = scratch;
	struct span s = { 0, 0, r->weight->shape[0] };
	const real *weight = span_load(r->weight, &s, w->weight);
	int64_t per_item = cpu_rows_per_item(s.count),
		end = int64_min(count_heads(r), (item + 1) * per_item);

	if (r->shift != 0) {
		for (int64_t i = 0; i < s.count; i++)
			w->weight[i] = weight[i] + (real)r->shift;
		weight = w->weight;
	}
	for (int64_t at = item * per_item; at < end; at++)
		r->head(r->call, at, weight, w);
}

/* All heads of x. */
static void
for_heads(struct stream *st, const struct by_heads *r)
{
	cpu_for(st, int64_div_up(count_heads(r), cpu_rows_per_item(r->weight->shape[0])),
	    some_heads, r);
}

/* y = (x - mean) rstd weight + bias for one head; x - mean is kept in `centred`. y may share its
 * buffer with x: x is not read once it has been centred. */
static void
forward_head(const void *call, int64_t at, const real *weight, struct work *w)
{
	const struct norm *n = call;
	struct span s = head_span(&n->x, at, n->weight.shape[0]);
	const real *x = span_load(&n->x, &s, w->a);
	real *centred = w->b, *y = span_out(&n->y, &s, w->a), mean = 0, rstd;

	if (n->mean.data)
		mean = *real_at(&n->mean, at) = row_sum(x, s.count) / (real)s.count;
	for (int64_t i = 0; i < s.count; i++)
		centred[i] = x[i] - mean;
	rstd =
	    1 / real_math(sqrt)(row_dot(centred, centred, s.count) / (real)s.count + (real)n->eps);
	*real_at(&n->rstd, at) = rstd;
	for (int64_t i = 0; i < s.count; i++)
		y[i] = centred[i] * rstd * weight[i];
	if (n->bias.data) {
		const real *bias = span_load(&n->bias, &(struct span){ 0, 0, s.count }, w->c);

		for (int64_t i = 0; i < s.count; i++)
			y[i] += bias[i];
	}
	span_store(&n->y, &s, y);
}

/* rstd, and mean in LayerNorm alone, are saved for the backward pass in real. */
void
cpu_name(norm_fwd)(struct stream *st, const struct norm *n)
{
	struct tensor like =
	    tensor_2d(NULL, n->weight.dtype, n->x.shape[0], tensor_num_columns(&n->x));
	struct result r = { &n->y, &like, &n->copies };
	struct norm made = *n;

	made.y = cpu_name(result_begin)(&r);
	ops_require(norm_heads(&n->x, &n->weight) == 1 || !quantise_makes(&n->copies));
	ops_require(tensor_same_shape(&n->x, &made.y) && n->weight.shape[0] <= CPU_ROW_MAX &&
	    n->rstd.dtype == REAL_DTYPE);
	for_heads(st, &(struct by_heads){ &made, &n->x, &n->weight, n->shift, forward_head });
	cpu_name(result_end)(st, &r, &made.y);
}

/* dx = rstd (g - mean g - xhat mean(g xhat)) with g = dy weight, for one head, in addition to what
 * it holds unless it is written; mean g only in LayerNorm. dx is loaded last, into the buffer of x,
 * which has been used up. */
static void
backward_head(const void *call, int64_t at, const real *weight, struct work *w)
{
	const struct norm_grad *n = call;
	struct span s = head_span(&n->x, at, n->weight.shape[0]);
	const real *x = span_load(&n->x, &s, w->a), *dy = span_load(&n->dy, &s, w->b);
	real *xhat = w->c, *g = w->b, *dx, a = 0, c;
	real mean = n->mean.data ? *real_at(&n->mean, at) : 0, rstd = *real_at(&n->rstd, at);

	for (int64_t i = 0; i < s.count; i++)
		xhat[i] = (x[i] - mean) * rstd;
	for (int64_t i = 0; i < s.count; i++)
		g[i] = dy[i] * weight[i];
	if (n->mean.data)
		a = row_sum(g, s.count) / (real)s.count;
	c = row_dot(g, xhat, s.count) / (real)s.count;
	for (int64_t i = 0; i < s.count; i++)
		g[i] = rstd * (g[i] - a - xhat[i] * c);
	dx = n->writes_dx ? span_out(&n->dx, &s, w->a) : span_load(&n->dx, &s, w->a);
	for (int64_t i = 0; i < s.count; i++)
		dx[i] = n->writes_dx ? g[i] : dx[i] + g[i];
	span_store(&n->dx, &s, dx);
}

/* sums[0] += sum of dy xhat and sums[1] += sum of dy over at most ROWS rows, for the columns of
 * s. */
static void
sum_rows(const struct norm_grad *n, struct span s, int64_t end, real sums[2][COLUMNS])
{
	int64_t width = n->weight.shape[0], heads = n->x.shape[1] / width, head = s.first / width;
	real x_buf[COLUMNS], dy_buf[COLUMNS];

	for (; s.row < end; s.row++) {
		const real *x = span_load(&n->x, &s, x_buf), *dy = span_load(&n->dy, &s, dy_buf);
		int64_t at = s.row * heads + head;
		real mean = n->mean.data ? *real_at(&n->mean, at) : 0,
		     rstd = *real_at(&n->rstd, at);

		for (int64_t i = 0; i < s.count; i++) {
			sums[0][i] += dy[i] * ((x[i] - mean) * rstd);
			sums[1][i] += dy[i];
		}
	}
}

/* Adds some columns of a head to the gradients of weight and bias: blocks of rows are summed, then
 * added in order. */
static void
add_columns(const struct norm_grad *n, struct span s)
{
	int64_t first = s.first % n->weight.shape[0];

	for (; s.row < n->x.shape[0]; s.row += ROWS) {
		real sums[2][COLUMNS] = { { 0 } };

		sum_rows(n, s, int64_min(s.row + ROWS, n->x.shape[0]), sums);
		for (int64_t i = 0; i < s.count; i++)
			*real_at(&n->dweight, first + i) += sums[0][i];
		for (int64_t i = 0; n->dbias.data && i < s.count; i++)
			*real_at(&n->dbias, first + i) += sums[1][i];
	}
}

/* dweight and dbias of some columns: the heads are added in order to what they hold, or to zero. */
static void
backward_columns(const void *ctx, int64_t item, void *scratch)
{
	const struct norm_grad *n = ctx;
	int64_t width = n->weight.shape[0], first = item * COLUMNS,
		count = int64_min(COLUMNS, width - first);

	(void)scratch;
	for (int64_t i = 0; !n->accumulate && i < count; i++) {
		*real_at(&n->dweight, first + i) = 0;
		if (n->dbias.data)
			*real_at(&n->dbias, first + i) = 0;
	}
	for (; first < n->x.shape[1]; first += width)
		add_columns(n, (struct span){ 0, first, count });
}

/* By heads for dx, then by columns for the sums over rows. The sums of dx are column_sum's, so they
 * have the bits of a GEMM's bias gradient. */
void
cpu_name(norm_bwd)(struct stream *st, const struct norm_grad *n)
{
	ops_require(norm_heads(&n->x, &n->weight) == 1 || !n->dx_sum.data);
	ops_require(tensor_same_shape(&n->x, &n->dy) && tensor_same_shape(&n->x, &n->dx));
	ops_require(n->weight.shape[0] <= CPU_ROW_MAX && n->dweight.dtype == REAL_DTYPE &&
	    n->rstd.dtype == REAL_DTYPE);
	for_heads(st, &(struct by_heads){ n, &n->x, &n->weight, n->shift, backward_head });
	cpu_for(st, int64_div_up(n->weight.shape[0], COLUMNS), backward_columns, n);
	if (n->dx_sum.data && !n->accumulate)
		cpu_name(fill)(st, &(struct fill){ .x = n->dx_sum });
	if (n->dx_sum.data)
		cpu_name(column_sum)(st, &n->dx_sum, &n->dx);
}
