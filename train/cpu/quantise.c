/*
 * quantise.c - 8-bit copies, and the factors that they are made by
 *
 * The copy and its transpose are made by tiles, which are short enough on either side to stay in
 * the cache; a largest is a maximum over parts, whose order does not matter.
 */
#include "lib/base/mem.h"
#include "train/cpu/real.h"

#include <stdlib.h>

enum { SIDE = 64, PARTS = 256 };

/* One copy; the same for all threads. */
struct copy {
	const struct quantise *q;
	real factor;
	int64_t per_row; /* tiles */
	int64_t rows;    /* of a part, of which the largest is wanted */
	real *part;
};

real
cpu_name(largest)(const real *x, int64_t count)
{
	real max = 0;
	int bad = 0;

	for (int64_t i = 0; i < count; i++) {
		real a = real_math(fabs)(x[i]);

		max = a > max ? a : max;
		bad |= !(a <= max);
	}
	return bad ? (real)INFINITY : max;
}

/* Some rows of x. */
static void
largest_part(const void *ctx, int64_t item, void *scratch)
{
	const struct copy *c = ctx;
	const struct tensor *x = &c->q->x;
	int64_t end = int64_min(x->shape[0], (item + 1) * c->rows);
	real max = 0;

	for (int64_t row = item * c->rows; row < end; row++)
		for (int64_t first = 0; first < x->shape[1]; first += CPU_SPAN) {
			struct span s = { row, first, int64_min(CPU_SPAN, x->shape[1] - first) };

			max = real_math(fmax)(
			    max, cpu_name(largest)(span_load(x, &s, scratch), s.count));
		}
	c->part[item] = max;
}

/* The largest magnitude of x. */
static float
largest(struct stream *st, struct copy *c)
{
	real part[PARTS], max = 0;
	int64_t rows = c->q->x.shape[0], used;

	c->part = part;
	c->rows = int64_max(cpu_rows_per_item(c->q->x.shape[1]), int64_div_up(rows, PARTS));
	used = int64_div_up(rows, c->rows);
	cpu_for(st, used, largest_part, c);
	for (int64_t i = 0; i < used; i++)
		max = part[i] > max ? part[i] : max;
	return (float)max;
}

/* A slot's factor and its inverse, where the maximum gives one. */
static void
set_scale(float *scale, float max, float largest_number, int margin)
{
	if (!(max > 0 && max < INFINITY))
		return;
	scale[SCALE_FACTOR] = fminf(SCALE_MAX, ldexpf(largest_number / max, -margin));
	scale[SCALE_INVERSE] = 1 / scale[SCALE_FACTOR];
}

/* One tile of the copies. */
static void
copy_tile(const void *ctx, int64_t item, void *scratch)
{
	const struct copy *c = ctx;
	const struct quantise *q = c->q;
	enum dtype type = q->q.data ? q->q.dtype : q->qt.dtype;
	int64_t row = item / c->per_row * SIDE, column = item % c->per_row * SIDE,
		rows = int64_min(SIDE, q->x.shape[0] - row),
		columns = int64_min(SIDE, q->x.shape[1] - column);
	unsigned char codes[SIDE], transposed[SIDE][SIDE];

	for (int64_t i = 0; i < rows; i++) {
		struct span s = { row + i, column, columns };
		real scaled[SIDE];
		const real *x = span_load(&q->x, &s, scratch);

		for (int64_t j = 0; j < columns; j++)
			scaled[j] = x[j] * c->factor;
		dtype_convert(codes, type, scaled, REAL_DTYPE, columns);
		if (q->q.data)
			memcpy(span_address(&q->q, &s), codes, (size_t)columns);
		for (int64_t j = 0; j < columns; j++)
			transposed[j][i] = codes[j];
	}
	for (int64_t j = 0; q->qt.data && j < columns; j++) {
		struct span s = { column + j, row, rows };

		memcpy(span_address(&q->qt, &s), transposed[j], (size_t)rows);
	}
}

/* The rows of a round, where q is one. */
static struct quantise
of_rows(const struct quantise *q)
{
	struct quantise some = *q;
	int64_t rows;

	if (!q->counts.data)
		return some;
	ops_require(!q->qt.data && !q->sums.data);
	rows = round_rows(&q->counts, q->first, q->x.shape[0]);
	some.x = tensor_rows(&q->x, 0, rows);
	some.q = tensor_rows(&q->q, 0, rows);
	if (q->kind == QUANTISE_BLOCK)
		some.scale = tensor_columns(&q->scale, 0, rows);
	return some;
}

/* The shapes and types of what is read and written. */
static void
check_copy(const struct quantise *q)
{
	ops_require(q->x.ndim == 2 && dtype_is_float(q->x.dtype));
	ops_require(!q->q.data || (dtype_is_float8(q->q.dtype) && tensor_same_shape(&q->q, &q->x)));
	ops_require(!q->qt.data ||
	    (dtype_is_float8(q->qt.dtype) && q->qt.shape[0] == q->x.shape[1] &&
		q->qt.shape[1] == q->x.shape[0]));
	ops_require(!q->q.data || !q->qt.data || q->q.dtype == q->qt.dtype);
}

/* Several readings of x, which cost little here. */
static void
make(struct stream *st, const struct quantise *q)
{
	struct copy c = { .q = q, .per_row = int64_div_up(q->x.shape[1], SIDE) };
	float *scale = q->scale.data, *amax = q->amax.data;
	bool copies = q->q.data || q->qt.data, current = copies && q->kind == QUANTISE_CURRENT;
	float max = 0;
	struct tensor shared = tensor_1d(&max, DTYPE_F32, 1);

	check_copy(q);
	if (q->sums.data && !q->accumulate)
		cpu_name(fill)(st, &(struct fill){ .x = q->sums });
	if (q->sums.data)
		cpu_name(column_sum)(st, &q->sums, &q->x);
	if (q->kind == QUANTISE_BLOCK) {
		cpu_name(quantise_blocks)(st, q);
		return;
	}
	if (amax || current)
		max = largest(st, &c);
	if (current && q->share)
		q->share(q->sharer, st, &shared);
	if (amax)
		*amax = fmaxf(*amax, max);
	if (current) {
		scale[SCALE_FACTOR] = scale[SCALE_INVERSE] = 1;
		set_scale(
		    scale, max, dtype_largest_float8(q->q.data ? q->q.dtype : q->qt.dtype), 0);
	}
	if (!copies)
		return;
	c.factor = (real)scale[SCALE_FACTOR];
	cpu_for(st, int64_div_up(q->x.shape[0], SIDE) * c.per_row, copy_tile, &c);
}

void
cpu_name(quantise)(struct stream *st, const struct quantise *q)
{
	struct quantise some = of_rows(q);

	make(st, &some);
}

struct tensor
cpu_name(result_begin)(const struct result *r)
{
	const struct tensor *t = r->like;
	bool own = !r->to->data && quantise_makes(r->copies);

	return own ? tensor_2d(mem_alloc((size_t)tensor_elements(t), dtype_size(t->dtype)),
			 t->dtype, t->shape[0], t->shape[1])
		   : *r->to;
}

void
cpu_name(result_end)(struct stream *st, const struct result *r, const struct tensor *made)
{
	struct quantise q = *r->copies;

	if (!quantise_makes(&q))
		return;
	ops_require(r->to->data || !q.sums.data);
	q.x = *made;
	cpu_name(quantise)(st, &q);
	if (!r->to->data)
		free(made->data);
}

/* The slots are few: one thread. */
void
cpu_name(scales)(struct stream *st, const struct scales *s)
{
	int64_t slots = s->history.shape[0], length = s->history.shape[1];
	float *amax = s->amax.data, *scale = s->scale.data;

	(void)st;
	ops_require(tensor_elements(&s->amax) == slots && tensor_elements(&s->largest) == slots);
	ops_require(tensor_elements(&s->scale) == SCALE_ROW * slots && length > 0);
	for (int64_t i = 0; i < slots; i++) {
		float *history = (float *)s->history.data + i * length, max;

		memmove(history + 1, history, (size_t)(length - 1) * sizeof *history);
		history[0] = max = amax[i] < INFINITY ? amax[i] : 0;
		amax[i] = 0;
		for (int64_t j = 1; !s->most_recent && j < length; j++)
			max = fmaxf(max, history[j]);
		set_scale(
		    scale + SCALE_ROW * i, max, ((const float *)s->largest.data)[i], s->margin);
	}
}
