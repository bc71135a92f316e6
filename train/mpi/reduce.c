/*
 * reduce.c - sums and maxima in rank order
 *
 * Works block by block: a block of every summand is widened to the type of the sum, so that one
 * loop per type suffices and the accumulators stay in the first-level cache.
 */
#include "train/mpi/impl.h"

enum { BLOCK = 1024 }; /* elements */

/* A block in the type of the sum. Unsigned views serve the sums of integers. */
union block {
	double f64[BLOCK];
	float f32[BLOCK];
	uint64_t u64[BLOCK];
	uint32_t u32[BLOCK];
	int64_t i64[BLOCK];
	int32_t i32[BLOCK];
};

/* The type that sums of t are taken in. */
static enum dtype
real_type(enum dtype t)
{
	if (t == DTYPE_BF16 || t == DTYPE_F16)
		return DTYPE_F32;
	if (t != DTYPE_F32 && t != DTYPE_F64 && t != DTYPE_I32 && t != DTYPE_I64)
		BUG("reduction of %s", dtype_name(t));
	return t;
}

/* acc += x. Integers are added without a sign, where overflow is defined. */
static void
add(union block *acc, const union block *x, enum dtype real, int n)
{
	switch (real) {
	case DTYPE_F64:
		for (int i = 0; i < n; i++)
			acc->f64[i] += x->f64[i];
		break;
	case DTYPE_F32:
		for (int i = 0; i < n; i++)
			acc->f32[i] += x->f32[i];
		break;
	case DTYPE_I64:
		for (int i = 0; i < n; i++)
			acc->u64[i] += x->u64[i];
		break;
	default:
		for (int i = 0; i < n; i++)
			acc->u32[i] += x->u32[i];
	}
}

/* acc = max(acc, x); a NaN on either side is kept, so that no rank's overflow is lost. */
static void
maximum(union block *acc, const union block *x, enum dtype real, int n)
{
	switch (real) {
	case DTYPE_F64:
		for (int i = 0; i < n; i++)
			acc->f64[i] = x->f64[i] > acc->f64[i] || x->f64[i] != x->f64[i]
			    ? x->f64[i]
			    : acc->f64[i];
		break;
	case DTYPE_F32:
		for (int i = 0; i < n; i++)
			acc->f32[i] = x->f32[i] > acc->f32[i] || x->f32[i] != x->f32[i]
			    ? x->f32[i]
			    : acc->f32[i];
		break;
	case DTYPE_I64:
		for (int i = 0; i < n; i++)
			acc->i64[i] = x->i64[i] > acc->i64[i] ? x->i64[i] : acc->i64[i];
		break;
	default:
		for (int i = 0; i < n; i++)
			acc->i32[i] = x->i32[i] > acc->i32[i] ? x->i32[i] : acc->i32[i];
	}
}

/* dst gets s->count elements of s->dtype; the summands lie one after the other. Starts from the
 * first summand, not from zero, so -0 and NaN stay what they are. 16-bit types are added in F32
 * and rounded once at the end. */
void
reduce_in_order(void *dst, const struct summands *s, enum reduce op)
{
	enum dtype real = real_type(s->dtype);
	int64_t size = (int64_t)dtype_size(s->dtype);
	union block acc, x;

	for (int64_t done = 0; done < s->count; done += BLOCK) {
		int n = s->count - done < BLOCK ? (int)(s->count - done) : BLOCK;

		dtype_convert(&acc, real, s->data + done * size, s->dtype, n);
		for (int r = 1; r < s->num; r++) {
			dtype_convert(
			    &x, real, s->data + (r * s->count + done) * size, s->dtype, n);
			(op == REDUCE_SUM ? add : maximum)(&acc, &x, real, n);
		}
		dtype_convert((char *)dst + done * size, s->dtype, &acc, real, n);
	}
}
