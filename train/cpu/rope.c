/*
 * rope.c - rotary positions. Source: docs/math.md 2.4
 *
 * The table has a row of (cosine, sine) pairs a position, computed in double when the run
 * starts. Only rotary_dim elements of a head are rotated. Pairs are halves of that
 * range (Su 2021, arXiv:2104.09864, in GPT-NeoX's order) or neighbours (the paper's order), as
 * the model was trained.
 */
#include "train/cpu/real.h"

/* Cosine and sine of one position, in the workspace, used for all heads of a row. */
struct angles {
	real cosine[CPU_HEAD_MAX / 2], sine[CPU_HEAD_MAX / 2];
};

/* Pairs (i, i + half). */
static void
rotate_halves(real *x, const struct angles *a, int half)
{
	real *lo = x, *hi = x + half;

	for (int i = 0; i < half; i++) {
		real u = lo[i], v = hi[i];

		lo[i] = u * a->cosine[i] - v * a->sine[i];
		hi[i] = v * a->cosine[i] + u * a->sine[i];
	}
}

/* Pairs (2i, 2i + 1). */
static void
rotate_pairs(real *x, const struct angles *a, int half)
{
	for (int i = 0; i < half; i++) {
		real u = x[2 * i], v = x[2 * i + 1];

		x[2 * i] = u * a->cosine[i] - v * a->sine[i];
		x[2 * i + 1] = v * a->cosine[i] + u * a->sine[i];
	}
}

/* All heads of some rows. The other elements of a head are neither read nor written. The
 * backward pass rotates by the negative angle. */
static void
rotate_rows(const void *ctx, int64_t item, void *scratch)
{
	const struct rope *r = ctx;
	struct angles *a = scratch;
	int64_t per_item = cpu_rows_per_item(r->x.shape[1]),
		end = int64_min(r->x.shape[0], (item + 1) * per_item);
	int half = r->rotary_dim / 2;
	real buf[CPU_HEAD_MAX], sign = r->backward ? -1 : 1;

	for (int64_t row = item * per_item; row < end; row++) {
		int64_t position = ((const int32_t *)r->positions.data)[row];
		const real *table = (const real *)r->table.data + position * r->table.stride[0];

		for (int i = 0; i < half; i++) {
			a->cosine[i] = table[2 * i];
			a->sine[i] = sign * table[2 * i + 1];
		}
		for (int head = 0; head < r->num_heads; head++) {
			struct span s = { row, (int64_t)head * r->head_dim + r->first,
				r->rotary_dim };
			real *x = span_load(&r->x, &s, buf);

			(r->interleaved ? rotate_pairs : rotate_halves)(x, a, half);
			span_store(&r->x, &s, x);
		}
	}
}

/* In place on x [T, heads d]; positions [T] int32, below the table's rows. */
void
cpu_name(rope)(struct stream *st, const struct rope *r)
{
	ops_require(r->x.ndim == 2 && r->x.shape[1] == (int64_t)r->num_heads * r->head_dim);
	ops_require(r->rotary_dim % 2 == 0 && r->first >= 0 &&
	    r->first + r->rotary_dim <= r->head_dim && r->head_dim <= CPU_HEAD_MAX);
	ops_require(r->table.dtype == REAL_DTYPE && r->positions.dtype == DTYPE_I32);
	cpu_for(st, int64_div_up(r->x.shape[0], cpu_rows_per_item(r->x.shape[1])), rotate_rows, r);
}
