/*
 * quantise_block.c - 8-bit copies whose blocks have factors of their own
 *
 * A tile of 128 x 128 elements holds whole blocks in either direction: those of a row, those of a
 * column, or one. Copy and transpose of rows are different numbers, as their blocks are others.
 */
#include "train/cpu/real.h"

struct tiles {
	const struct quantise *q;
	int64_t per_row;
};

/* A tile of a copy: where it begins, and its numbers. */
struct tile {
	int64_t row, column, rows, columns;
	real (*x)[SCALE_BLOCK];
};
_Static_assert(2 * sizeof(real) * SCALE_BLOCK * SCALE_BLOCK <= CPU_SCRATCH, "scratch");

/* The largest power of two that keeps max within the type's largest number, which is 7/8 of one. */
static float
factor_of(float max, enum dtype type)
{
	const float least = 0x1p-126f;
	int most, exponent;

	if (!(max > 0 && max < INFINITY))
		return 1;
	(void)frexpf(dtype_largest_float8(type), &most);
	if (frexpf(max, &exponent) > 0.875f)
		exponent++;
	return fminf(SCALE_MAX, fmaxf(least, ldexpf(1, most - exponent)));
}

/* The largest of a tile. */
static real
largest_of(const struct tile *t)
{
	real max = 0;

	for (int64_t i = 0; i < t->rows; i++)
		max = real_math(fmax)(max, cpu_name(largest)(t->x[i], t->columns));
	return max;
}

/* Writes a tile of a copy, and the inverses of its factors. */
static void
write_tile(const struct tensor *to, const struct tensor *scale, const struct tile *t)
{
	enum scale_kind kind = scale_kind(scale, to);
	int64_t block = t->column / SCALE_BLOCK;
	real square = kind == SCALE_SQUARES ? largest_of(t) : 0, scaled[SCALE_BLOCK];

	for (int64_t i = 0; i < t->rows; i++) {
		real max = kind == SCALE_SQUARES ? square : cpu_name(largest)(t->x[i], t->columns);
		float factor = factor_of((float)max, to->dtype);
		struct span at = kind == SCALE_SQUARES
		    ? (struct span){ t->row / SCALE_BLOCK, block, 1 }
		    : (struct span){ block, t->row + i, 1 };
		struct span s = { t->row + i, t->column, t->columns };

		for (int64_t j = 0; j < t->columns; j++)
			scaled[j] = t->x[i][j] * (real)factor;
		dtype_convert(span_address(to, &s), to->dtype, scaled, REAL_DTYPE, s.count);
		*(float *)span_address(scale, &at) = 1 / factor;
	}
}

/* One tile of x, as it is and transposed. */
static void
copy_tile(const void *ctx, int64_t item, void *scratch)
{
	const struct tiles *all = ctx;
	const struct quantise *q = all->q;
	struct tile t = { item / all->per_row * SCALE_BLOCK, item % all->per_row * SCALE_BLOCK, 0,
		0, scratch };
	struct tile transposed;

	t.rows = int64_min(SCALE_BLOCK, q->x.shape[0] - t.row);
	t.columns = int64_min(SCALE_BLOCK, q->x.shape[1] - t.column);
	transposed = (struct tile){ t.column, t.row, t.columns, t.rows, t.x + SCALE_BLOCK };
	for (int64_t i = 0; i < t.rows; i++) {
		struct span s = { t.row + i, t.column, t.columns };

		dtype_convert(t.x[i], REAL_DTYPE, span_address(&q->x, &s), q->x.dtype, t.columns);
		for (int64_t j = 0; j < t.columns; j++)
			transposed.x[j][i] = t.x[i][j];
	}
	if (q->q.data)
		write_tile(&q->q, &q->scale, &t);
	if (q->qt.data)
		write_tile(&q->qt, &q->scale_t, &transposed);
}

void
cpu_name(quantise_blocks)(struct stream *st, const struct quantise *q)
{
	struct tiles t = { q, int64_div_up(q->x.shape[1], SCALE_BLOCK) };

	ops_require(!q->amax.data);
	ops_require(!q->q.data || scale_kind(&q->scale, &q->q) != SCALE_TENSOR);
	ops_require(!q->qt.data || scale_kind(&q->scale_t, &q->qt) != SCALE_TENSOR);
	cpu_for(st, int64_div_up(q->x.shape[0], SCALE_BLOCK) * t.per_row, copy_tile, &t);
}
