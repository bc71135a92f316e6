/*
 * real.h - the arithmetic that a file of train/cpu is compiled for: float, or double for the oracle
 * of the tests
 *
 * Every file but backend.c is compiled with CPU_REAL 32 and 64; only this header looks. `real` is
 * the type, cpu_name(x) the function cpu_x_f32 or cpu_x_f64, blas_gemm and real_math(f) the
 * library's. Spans convert between storage and real, and cost nothing when they are the same type.
 */
#ifndef TRAIN_CPU_REAL_H
#define TRAIN_CPU_REAL_H

#include "train/cpu/impl.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#if CPU_REAL == 64
typedef double real;
#define cpu_name(x) cpu_##x##_f64
#define blas_gemm cblas_dgemm
#define real_math(name) name
#define REAL_DTYPE DTYPE_F64
#else
typedef float real;
#define cpu_name(x) cpu_##x##_f32
#define blas_gemm cblas_sgemm
#define real_math(name) name##f
#define REAL_DTYPE DTYPE_F32
#endif

/* 2^n for -126 <= n <= 127, by its bits. */
static inline float
float_power(int32_t n)
{
	uint32_t bits = (uint32_t)(n + 127) << 23;
	float f;

	memcpy(&f, &bits, 4);
	return f;
}

/* e^x within 2 ulp, without a call or a branch so that loops of it vectorise: x = n log 2 + r, a
 * Taylor polynomial for e^r, and 2^n in two factors so that the ends of the range come out as
 * denormals and infinity. NaN stays NaN. */
static inline float
float_exp(float x)
{
	/* added, it leaves the nearest integer in the low bits */
	const float magic = 0x1.8p23f;
	float c = fabsf(x) > 104.0f ? copysignf(104.0f, x) : x, shifted = c * 1.44269504f + magic,
	      n = shifted - magic, r, p;
	int32_t i, half;

	r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
	p = 1.0f / 720 + r * (1.0f / 5040);
	p = 1.0f / 120 + r * p;
	p = 1.0f / 24 + r * p;
	p = 1.0f / 6 + r * p;
	p = 0.5f + r * p;
	p = 1.0f + (r + r * r * p);
	memcpy(&i, &shifted, 4);
	i -= 0x4b400000;
	half = i >> 1;
	return p * float_power(half) * float_power(i - half);
}

/* e^x in the arithmetic at hand. */
static inline real
real_exp(real x)
{
	return _Generic(x, float : float_exp, double : exp)(x);
}

/* 1 / (1 + e^-x); 0 and 1 at the ends, without overflow to NaN. */
static inline real
real_sigmoid(real x)
{
	return 1 / (1 + real_exp(-x));
}

/* --- sums over contiguous elements, in an order that is fixed by n ---------------------------- */
enum {
	VEC_BYTES = 32,
	VEC_LANES = VEC_BYTES / sizeof(real),
	VEC_UNROLL = 4,
	VEC_STEP = VEC_LANES * VEC_UNROLL
};
typedef real vec __attribute__((vector_size(VEC_BYTES)));
typedef real vec_at __attribute__((
    vector_size(VEC_BYTES), aligned(sizeof(real)), may_alias)); /* anywhere in memory */

/* Sum of x[i] y[i]. */
static inline real
row_dot(const real *x, const real *y, int64_t n)
{
	vec acc[VEC_UNROLL] = { { 0 } };
	real total = 0;
	int64_t i = 0;

	for (; i + VEC_STEP <= n; i += VEC_STEP)
		for (int j = 0; j < VEC_UNROLL; j++)
			acc[j] += *(const vec_at *)(x + i + j * VEC_LANES) *
			    *(const vec_at *)(y + i + j * VEC_LANES);
	acc[0] = (acc[0] + acc[1]) + (acc[2] + acc[3]);
	for (int j = 0; j < VEC_LANES; j++)
		total += acc[0][j];
	for (; i < n; i++)
		total += x[i] * y[i];
	return total;
}

/* Sum of x[i]. */
static inline real
row_sum(const real *x, int64_t n)
{
	vec acc[VEC_UNROLL] = { { 0 } };
	real total = 0;
	int64_t i = 0;

	for (; i + VEC_STEP <= n; i += VEC_STEP)
		for (int j = 0; j < VEC_UNROLL; j++)
			acc[j] += *(const vec_at *)(x + i + j * VEC_LANES);
	acc[0] = (acc[0] + acc[1]) + (acc[2] + acc[3]);
	for (int j = 0; j < VEC_LANES; j++)
		total += acc[0][j];
	for (; i < n; i++)
		total += x[i];
	return total;
}

/* The largest of n elements and `start`; NaN is passed over. */
static inline real
row_max(const real *x, int64_t n, real start)
{
	real lane[VEC_STEP], max = start;
	int64_t i = 0;

	for (int j = 0; j < VEC_STEP; j++)
		lane[j] = start;
	for (; i + VEC_STEP <= n; i += VEC_STEP)
		for (int j = 0; j < VEC_STEP; j++)
			lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
	for (int j = 0; j < VEC_STEP; j++)
		max = lane[j] > max ? lane[j] : max;
	for (; i < n; i++)
		max = x[i] > max ? x[i] : max;
	return max;
}

/* --- elements of a tensor as real ------------------------------------------------------------- */
static inline void *
span_address(const struct tensor *t, const struct span *s)
{
	return (char *)t->data + (size_t)(s->row * t->stride[0] + s->first) * dtype_size(t->dtype);
}

/* Where to write a span: in place, or into buf until span_store. */
static inline real *
span_out(const struct tensor *t, const struct span *s, real *buf)
{
	return t->dtype == REAL_DTYPE ? span_address(t, s) : buf;
}

/* A span to read, or to change and span_store: in place, or converted into buf. */
static inline real *
span_load(const struct tensor *t, const struct span *s, real *buf)
{
	real *p = span_out(t, s, buf);

	if (p == buf)
		dtype_convert(buf, REAL_DTYPE, span_address(t, s), t->dtype, s->count);
	return p;
}

/* Rounds what span_out or span_load gave to the storage; nothing to do when it was in place. */
static inline void
span_store(const struct tensor *t, const struct span *s, const real *p)
{
	if (t->dtype != REAL_DTYPE)
		dtype_convert(span_address(t, s), t->dtype, p, REAL_DTYPE, s->count);
}

/* Element i of a 1-D tensor that must be of real type. */
static inline real *
real_at(const struct tensor *t, int64_t i)
{
	return (real *)t->data + i;
}

/* --- private to two files --------------------------------------------------------------------- */
/* mask[i] = 1 / (1 - p) where element index + i is kept, else 0. dropout.c */
void cpu_name(dropout_mask)(const struct dropout *d, uint64_t index, int64_t count, real *mask);
/* y = gelu_tanh(x), and dy *= its derivative at x. act.c */
void cpu_name(gelu_tanh)(real *y, const real *x, int64_t n);
void cpu_name(gelu_tanh_slope)(real *dy, const real *x, int64_t n);
/* out real [c] += the sums of the columns of x [T,c], whose rows are added in a fixed order.
 * vector.c */
void cpu_name(column_sum)(struct stream *, const struct tensor *out, const struct tensor *x);

/* A result that may have copies: where it is stored, if it is, and its shape and type. quantise.c
 */
struct result {
	const struct tensor *to, *like;
	const struct quantise *copies;
};
/* Where to compute it: its place, or one of the call's own; the same for the tensor that it is not
 * wanted in. Then its copies are made, and such a place is gone. */
struct tensor cpu_name(result_begin)(const struct result *r);
void cpu_name(result_end)(struct stream *, const struct result *r, const struct tensor *made);

/* The largest magnitude of n elements: infinite where one is not a number. quantise.c */
real cpu_name(largest)(const real *x, int64_t n);
/* QUANTISE_BLOCK. quantise_block.c */
void cpu_name(quantise_blocks)(struct stream *, const struct quantise *);

/* --- the operations --------------------------------------------------------------------------- */
#define OPERATION(name, type) void cpu_name(name)(struct stream *, const struct type *);
#include "train/ops_list.h"

#endif
