/*
 * experts.c - rows in the order of experts, and the GEMMs of several experts. Source:
 * spec/training.md 10.5
 *
 * The order is a permutation, so a row that is spread has one writer. The numbers of rows are in
 * the device's memory, which on a CPU is the host's: one GEMM follows the other.
 */
#include "train/cpu/real.h"

static int64_t
place_of(const struct rows_by *r, int64_t row, int64_t j)
{
	return ((const int32_t *)r->place.data)[row * r->place.shape[1] + j];
}

/* One row to each of its places. */
static void
spread(const void *ctx, const struct span *s)
{
	const struct rows_by *r = ctx;
	real buf[CPU_SPAN];
	const real *x = span_load(&r->x, s, buf);

	for (int64_t j = 0; j < r->place.shape[1]; j++) {
		struct span to = { place_of(r, s->row, j), s->first, s->count };
		real out_buf[CPU_SPAN], *y = span_out(&r->y, &to, out_buf);

		memcpy(y, x, (size_t)s->count * sizeof *y);
		span_store(&r->y, &to, y);
	}
}

/* One row from all of its places, in their order. */
static void
sum(const void *ctx, const struct span *s)
{
	const struct rows_by *r = ctx;
	real y_buf[CPU_SPAN], x_buf[CPU_SPAN];
	real *y = r->accumulate ? span_load(&r->y, s, y_buf) : span_out(&r->y, s, y_buf);

	if (!r->accumulate)
		memset(y, 0, (size_t)s->count * sizeof *y);
	for (int64_t j = 0; j < r->place.shape[1]; j++) {
		struct span from = { place_of(r, s->row, j), s->first, s->count };
		const real *x = span_load(&r->x, &from, x_buf);

		for (int64_t i = 0; i < s->count; i++)
			y[i] += x[i];
	}
	span_store(&r->y, s, y);
}

void
cpu_name(rows_by)(struct stream *st, const struct rows_by *r)
{
	const struct tensor *rows = r->kind == ROWS_SPREAD ? &r->x : &r->y;

	ops_require(r->y.ndim == 2 && r->x.ndim == 2 && r->y.shape[1] == r->x.shape[1]);
	ops_require(r->place.dtype == DTYPE_I32 && r->place.shape[0] == rows->shape[0]);
	cpu_spans(st, rows, r->kind == ROWS_SPREAD ? spread : sum, r);
}

/* Rows of a local expert, from all ranks. */
static int64_t
rows_of(const struct tensor *counts, int64_t expert)
{
	int64_t n = 0;

	for (int64_t i = 0; i < counts->shape[0]; i++)
		n += ((const int32_t *)counts->data)[i * counts->stride[0] + expert];
	return n;
}

/* The GEMM of one expert, which has these rows. */
static void
one(struct stream *st, const struct grouped *g, int64_t expert, const struct span *rows)
{
	int64_t experts = g->counts.shape[1];
	bool weight = g->kind == GROUPED_WEIGHT;
	const struct tensor *stack = weight ? &g->c : &g->b;
	int64_t height = stack->shape[0] / experts;
	struct tensor own = tensor_rows(stack, expert * height, height),
		      a = tensor_rows(&g->a, rows->first, rows->count),
		      other = tensor_rows(weight ? &g->b : &g->c, rows->first, rows->count);
	struct gemm call = { .c = weight ? own : other,
		.a = a,
		.b = weight ? other : own,
		.trans_a = weight,
		.trans_b = g->kind == GROUPED_FORWARD,
		.alpha = 1,
		.beta = g->beta };

	cpu_name(gemm)(st, &call);
}

void
cpu_name(grouped)(struct stream *st, const struct grouped *g)
{
	struct span rows = { 0, 0, 0 };
	struct tensor rest;

	ops_require(g->counts.dtype == DTYPE_I32 && g->counts.ndim == 2);
	for (int64_t i = 0; i < g->counts.shape[1]; i++) {
		rows.first += rows.count;
		rows.count = rows_of(&g->counts, i);
		one(st, g, i, &rows);
	}
	if (g->kind == GROUPED_WEIGHT)
		return;
	rest = tensor_rows(&g->c, rows.first + rows.count, g->c.shape[0] - rows.first - rows.count);
	cpu_name(fill)(st, &rest, 0);
}

/* Arguments of the next two. */
struct row_pair {
	const struct tensor *x, *y, *w;
};

static void
scale_span(const void *ctx, const struct span *s)
{
	const struct row_pair *p = ctx;
	real buf[CPU_SPAN], *x = span_load(p->x, s, buf), w = *real_at(p->w, s->row);

	for (int64_t i = 0; i < s->count; i++)
		x[i] *= w;
	span_store(p->x, s, x);
}

void
cpu_name(scale_rows)(struct stream *st, const struct tensor *x, const struct tensor *w)
{
	ops_require(x->ndim == 2 && w->dtype == REAL_DTYPE && w->shape[0] == x->shape[0]);
	cpu_spans(st, x, scale_span, &(struct row_pair){ .x = x, .w = w });
}

static void
dot_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct row_pair *p = ctx;
	int64_t per_item = cpu_rows_per_item(p->x->shape[1]),
		end = int64_min(p->x->shape[0], (item + 1) * per_item);
	real x_buf[CPU_SPAN], y_buf[CPU_SPAN];

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++) {
		real sum = 0;

		for (int64_t first = 0; first < p->x->shape[1]; first += CPU_SPAN) {
			struct span s = { row, first, int64_min(CPU_SPAN, p->x->shape[1] - first) };

			sum += row_dot(
			    span_load(p->x, &s, x_buf), span_load(p->y, &s, y_buf), s.count);
		}
		*real_at(p->w, row) = sum;
	}
}

void
cpu_name(row_dots)(
    struct stream *st, const struct tensor *out, const struct tensor *x, const struct tensor *y)
{
	ops_require(tensor_same_shape(x, y) && out->dtype == REAL_DTYPE);
	ops_require(out->shape[0] == x->shape[0]);
	cpu_for(st, int64_div_up(x->shape[0], cpu_rows_per_item(x->shape[1])), dot_rows,
	    &(struct row_pair){ .x = x, .y = y, .w = out });
}
