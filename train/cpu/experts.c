/*
 * experts.c - rows in the order of experts, and the GEMMs and biases of several experts. Source:
 * docs/math.md 5.5
 *
 * The order is a permutation, so a row that is spread has one writer. The numbers of rows are in
 * the device's memory, which on a CPU is the host's: one GEMM follows the other.
 */
#include "train/cpu/real.h"

static int64_t
place_of(const struct permute *r, int64_t row, int64_t j)
{
	return ((const int32_t *)r->permutation.data)[row * r->permutation.shape[1] + j];
}

/* One row to each of its places. */
static void
permute_rows(const void *ctx, const struct span *s)
{
	const struct permute *r = ctx;
	real buf[CPU_SPAN];
	const real *x = span_load(&r->x, s, buf);

	for (int64_t j = 0; j < r->permutation.shape[1]; j++) {
		struct span to = { place_of(r, s->row, j), s->first, s->count };
		real out_buf[CPU_SPAN], *y;

		if (to.row < 0)
			continue;
		y = span_out(&r->y, &to, out_buf);
		memcpy(y, x, (size_t)s->count * sizeof *y);
		span_store(&r->y, &to, y);
	}
}

/* One row from all of its places, in their order. */
static void
sum(const void *ctx, const struct span *s)
{
	const struct permute *r = ctx;
	real y_buf[CPU_SPAN], x_buf[CPU_SPAN];
	real *y = r->accumulate ? span_load(&r->y, s, y_buf) : span_out(&r->y, s, y_buf);

	if (!r->accumulate)
		memset(y, 0, (size_t)s->count * sizeof *y);
	for (int64_t j = 0; j < r->permutation.shape[1]; j++) {
		struct span from = { place_of(r, s->row, j), s->first, s->count };
		const real *x = from.row < 0 ? NULL : span_load(&r->x, &from, x_buf);

		for (int64_t i = 0; x && i < s->count; i++)
			y[i] += x[i];
	}
	span_store(&r->y, s, y);
}

void
cpu_name(permute)(struct stream *st, const struct permute *r)
{
	const struct tensor *rows = r->kind == ROWS_PERMUTE ? &r->x : &r->y;

	ops_require(r->y.ndim == 2 && r->x.ndim == 2 && r->y.shape[1] == r->x.shape[1]);
	ops_require(r->permutation.dtype == DTYPE_I32 && r->permutation.shape[0] == rows->shape[0]);
	cpu_spans(st, rows, r->kind == ROWS_PERMUTE ? permute_rows : sum, r);
}

/* Rows of a round. */
struct rows {
	int64_t first, count;
};

/* Rows of a local expert, from all ranks. */
static int64_t
rows_of(const struct tensor *counts, int64_t expert)
{
	int64_t n = 0;

	for (int64_t i = 0; i < counts->shape[0]; i++)
		n += ((const int32_t *)counts->data)[i * counts->stride[0] + expert];
	return n;
}

/* The GEMM of one expert with these rows of the round. */
static void
one(struct stream *st, const struct grouped *g, int64_t expert, const struct rows *rows)
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

/* Of the scales of all experts' weights those of one: a part of the lines of squares, or of the
 * squares of every line, whose number is as for a matrix of its own. */
static struct tensor
own_scales(const struct grouped *g, int64_t expert, const struct tensor *own)
{
	struct tensor s = g->scale_b;
	int64_t height = s.shape[0] / g->counts.shape[1],
		across = int64_div_up(own->shape[1], SCALE_BLOCK);

	if (!s.data || s.ndim == 1)
		return s;
	if (g->kind == GROUPED_FORWARD)
		return tensor_rows(&s, expert * height, height);
	return tensor_columns(&s, expert * across, int64_div_up(across, 4) * 4);
}

/* The GEMM of one expert with 8-bit operands. */
static void
one_of_8_bits(struct stream *st, const struct grouped *g, int64_t expert, const struct rows *rows)
{
	bool forward = g->kind == GROUPED_FORWARD;
	int64_t height = g->b.shape[forward ? 0 : 1] / g->counts.shape[1];
	struct gemm call = { .c = tensor_rows(&g->c, rows->first, rows->count),
		.a = tensor_rows(&g->a, rows->first, rows->count),
		.b = (forward ? tensor_rows : tensor_columns)(&g->b, expert * height, height),
		.trans_b = true,
		.alpha = 1,
		.scale_a = g->scale_a,
		.exact = true };

	if (g->scale_a.data && g->scale_a.ndim == 2)
		call.scale_a = tensor_columns(&g->scale_a, rows->first, rows->count);
	call.scale_b = own_scales(g, expert, &call.b);
	cpu_name(gemm)(st, &call);
}

/* A GEMM over no rows runs as well: it sets a weight's gradient to beta times itself. */
void
cpu_name(grouped)(struct stream *st, const struct grouped *g)
{
	int64_t at = -g->first, height = g->a.shape[0];
	bool in_8 = dtype_is_float8(g->a.dtype);

	ops_require(g->counts.dtype == DTYPE_I32 && g->counts.ndim == 2);
	ops_require(!in_8 || (g->kind != GROUPED_WEIGHT && g->b.dtype == DTYPE_F8_E4M3));
	for (int64_t i = 0; i < g->counts.shape[1]; i++) {
		int64_t end = at + rows_of(&g->counts, i),
			from = int64_min(int64_max(at, 0), height),
			to = int64_min(int64_max(end, 0), height);

		(in_8 ? one_of_8_bits : one)(st, g, i, &(struct rows){ from, to - from });
		at = end;
	}
}

/* --- biases ----------------------------------------------------------------------------------- */

/* Rows of an expert in a round of so many. */
static struct rows
rows_in_round(const struct tensor *counts, int64_t first, int64_t round, int64_t expert)
{
	int64_t begin = -first, end;

	for (int64_t i = 0; i < expert; i++)
		begin += rows_of(counts, i);
	end = int64_max(0, int64_min(round, begin + rows_of(counts, expert)));
	begin = int64_max(0, int64_min(round, begin));
	return (struct rows){ begin, end - begin };
}

static real
weight_of(const struct tensor *weight, int64_t row)
{
	return weight->data ? *real_at(weight, row) : 1;
}

/* Of the bias of an expert as many elements as a span has. */
static struct span
bias_span(const struct span *s, int64_t expert, int64_t columns)
{
	return (struct span){ 0, expert * columns + s->first, s->count };
}

/* The rows of one expert. */
static void
add_bias(const void *ctx, int64_t expert, void *scratch)
{
	const struct expert_bias *b = ctx;
	struct rows r = rows_in_round(&b->counts, b->first, b->y.shape[0], expert);
	int64_t n = b->y.shape[1];
	real *buf = scratch, *bias_buf = buf + CPU_SPAN;

	for (int64_t row = r.first; row < r.first + r.count; row++)
		for (int64_t at = 0; at < n; at += CPU_SPAN) {
			struct span s = { row, at, int64_min(CPU_SPAN, n - at) },
				    of = bias_span(&s, expert, n);
			const real *x = span_load(&b->bias, &of, bias_buf);
			real *y = span_load(&b->y, &s, buf), w = weight_of(&b->weight, row);

			for (int64_t i = 0; i < s.count; i++)
				y[i] += w * x[i];
			span_store(&b->y, &s, y);
		}
}

void
cpu_name(expert_bias)(struct stream *st, const struct expert_bias *b)
{
	expert_bias_check(b, REAL_DTYPE);
	cpu_for(st, b->counts.shape[1], add_bias, b);
}

/* The gradients of one expert's bias and of the weights of its rows, which nobody else has. */
static void
bias_backward(const void *ctx, int64_t expert, void *scratch)
{
	const struct expert_bias_grad *g = ctx;
	struct rows r = rows_in_round(&g->counts, g->first, g->dy.shape[0], expert);
	int64_t n = g->dy.shape[1];
	real *to = real_at(&g->dbias, expert * n), *buf = scratch, *bias_buf = buf + CPU_SPAN;

	for (int64_t i = 0; i < n && g->beta == 0; i++)
		to[i] = 0;
	for (int64_t row = r.first; row < r.first + r.count; row++)
		for (int64_t at = 0; at < n; at += CPU_SPAN) {
			struct span s = { row, at, int64_min(CPU_SPAN, n - at) },
				    of = bias_span(&s, expert, n);
			const real *dy = span_load(&g->dy, &s, buf);
			real w = weight_of(&g->weight, row);

			for (int64_t i = 0; i < s.count; i++)
				to[at + i] += w * dy[i];
			if (g->dweight.data)
				*real_at(&g->dweight, row) +=
				    row_dot(dy, span_load(&g->bias, &of, bias_buf), s.count);
		}
}

void
cpu_name(expert_bias_grad)(struct stream *st, const struct expert_bias_grad *g)
{
	expert_bias_grad_check(g, REAL_DTYPE);
	cpu_for(st, g->counts.shape[1], bias_backward, g);
}
