/*
 * product.cuh - products of tiles of floats in shared memory by a block's tensor cores
 *
 * Operands are rounded to TF32, whose significands have 11 bits, which leaves more than those of 16
 * bits that they come from have. EXACT products are nearly as in float: of each float the rest that
 * rounding leaves is an operand too, and of the four products of two such sums only the least is
 * left out, so that a product is off by about 2^-21 of itself. Sums are in float, in an order that
 * follows from the shapes. Source: Ootomo & Yokota 2022, arXiv:2203.03341, section 3.
 *
 * One instruction of a warp multiplies 16 by 8 by 8. With group = lane / 4 and pair = lane % 4, a
 * lane holds of a the terms pair and pair + 4 of the rows group and group + 8, of b the same terms
 * of column group, and of c the columns 2 pair and 2 pair + 1 of the rows group and group + 8.
 * Source: PTX ISA 8, "mma.m16n8k8". GPUs before compute capability 8.0 add the same products one
 * after the other.
 */
#ifndef TRAIN_CUDA_PRODUCT_CUH
#define TRAIN_CUDA_PRODUCT_CUH

#include "train/cuda/async.cuh"
#include "train/cuda/kernel.cuh"

/* Elements of a matrix [M, N] that a thread sums. Its warp has DOWN x ACROSS parts of 16 x 8: every
 * ABOVE-th from its own on downwards, and every BESIDE-th to the right. Where there are fewer parts
 * than warps some have none. */
template <int M, int N, int THREADS> struct sums {
	enum {
		WARPS = THREADS / 32,
		ABOVE = M / 16 < WARPS ? M / 16 : WARPS,
		BESIDE = WARPS / ABOVE,
		DOWN = M / 16 / ABOVE,
		ACROSS = (N / 8 + BESIDE - 1) / BESIDE,
		WHOLE = N / 8 == ACROSS * BESIDE,
		COLUMNS = N,
		COUNT = 4 * DOWN * ACROSS
	};
	float at[COUNT];

	static_assert(M % 16 == 0 && N % 8 == 0 && WARPS % ABOVE == 0, "whole parts");
};

/* Row and column of a thread's element i. */
template <int M, int N, int THREADS>
static __device__ inline int
sums_row(const struct sums<M, N, THREADS> &, int i)
{
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32,
	    part = i / 4 / sums<M, N, THREADS>::ACROSS;

	return 16 * (warp % sums<M, N, THREADS>::ABOVE + part * sums<M, N, THREADS>::ABOVE) +
	    lane / 4 + i % 4 / 2 * 8;
}

template <int M, int N, int THREADS>
static __device__ inline int
sums_column(const struct sums<M, N, THREADS> &, int i)
{
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32,
	    part = i / 4 % sums<M, N, THREADS>::ACROSS;

	return 8 * (warp / sums<M, N, THREADS>::ABOVE + part * sums<M, N, THREADS>::BESIDE) +
	    lane % 4 * 2 + i % 2;
}

/* Every element that a thread has: i its number, with its row and column. */
/* clang-format off */
#define FOR_SUMS(c, i, row, column) \
	_Pragma("unroll") \
	for (int i = 0, row, column; i < (c).COUNT && \
	     (row = sums_row(c, i), column = sums_column(c, i), true); i++) \
		if ((c).WHOLE || column < (c).COLUMNS)
/* clang-format on */

/* A tile and the elements from row to row. */
struct tile {
	const float *at;
	int step;
};

/* Operands of an instruction; low: what their rounding left. */
template <int N> struct operands {
	uint32_t high[N], low[N];
};

/* The instruction reads the first 19 bits, so half of the last of them is added. */
template <bool EXACT, int N>
static __device__ inline void
round_floats(struct operands<N> &to, const float (&x)[N])
{
	const uint32_t half = 0x1000, read = ~0x1fffu;

#pragma unroll
	for (int i = 0; i < N; i++) {
		to.high[i] = __float_as_uint(x[i]) + half;
		if (EXACT)
			to.low[i] = __float_as_uint(x[i] - __uint_as_float(to.high[i] & read));
	}
}

static __device__ inline void
multiply_add(float *c, const uint32_t (&a)[4], const uint32_t (&b)[2])
{
	SM80("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
	     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Element [row, term] of a tile, or of one that is stored transposed. */
template <bool TRANSPOSED>
static __device__ inline float
element(const struct tile &t, int row, int term)
{
	return t.at[TRANSPOSED ? term * t.step + row : row * t.step + term];
}

/* The term of eight that stands in a place of the instruction. Where columns of b lie apart,
 * neighbouring rows are read at once, which are in other banks than places pair and pair + 4 of
 * rows of a multiple of 4 elements would be. */
template <bool BY_ROWS>
static __device__ inline int
term_of(int place)
{
	return BY_ROWS ? place : place % 4 * 2 + place / 4;
}

template <bool EXACT, bool BY_COLUMNS, bool BY_ROWS>
static __device__ inline void
load_part(struct operands<4> &h, const struct tile &a, int row, int k)
{
	int group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
	float x[4];

#pragma unroll
	for (int i = 0; i < 4; i++)
		x[i] = element<BY_COLUMNS>(
		    a, row + group + i % 2 * 8, k + term_of<BY_ROWS>(pair + i / 2 * 4));
	round_floats<EXACT>(h, x);
}

template <bool EXACT, bool BY_ROWS>
static __device__ inline void
load_part(struct operands<2> &h, const struct tile &b, int column, int k)
{
	int group = threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
	float x[2];

#pragma unroll
	for (int i = 0; i < 2; i++)
		x[i] = element<!BY_ROWS>(b, column + group, k + term_of<BY_ROWS>(pair + i * 4));
	round_floats<EXACT>(h, x);
}

/* c += a b over k terms, a multiple of 8. BY_COLUMNS: a is stored transposed; BY_ROWS: b is. */
template <bool EXACT, bool BY_COLUMNS, bool BY_ROWS, int M, int N, int THREADS>
static __device__ inline void
multiply(struct sums<M, N, THREADS> &c, struct tile a, struct tile b, int k)
{
	typedef struct sums<M, N, THREADS> all;
	int warp = threadIdx.x / 32, row = 16 * (warp % all::ABOVE), column = warp / all::ABOVE * 8;

#if __CUDA_ARCH__ < 800
	FOR_SUMS(c, i, r, s)
	for (int at = 0; at < k; at++)
		c.at[i] += element<BY_COLUMNS>(a, r, at) * element<!BY_ROWS>(b, s, at);
	(void)row;
	(void)column;
#else
#pragma unroll 2
	for (int at = 0; at < k; at += 8) {
		struct operands<4> x[all::DOWN];

#pragma unroll
		for (int m = 0; m < all::DOWN; m++)
			load_part<EXACT, BY_COLUMNS, BY_ROWS>(
			    x[m], a, row + 16 * all::ABOVE * m, at);
#pragma unroll
		for (int n = 0; n < all::ACROSS; n++) {
			struct operands<2> y;

			if (!all::WHOLE && column + 8 * all::BESIDE * n >= N)
				continue;
			load_part<EXACT, BY_ROWS>(y, b, column + 8 * all::BESIDE * n, at);
#pragma unroll
			for (int m = 0; m < all::DOWN; m++) {
				float *to = c.at + 4 * (m * all::ACROSS + n);

				if (EXACT) {
					multiply_add(to, x[m].low, y.high);
					multiply_add(to, x[m].high, y.low);
				}
				multiply_add(to, x[m].high, y.high);
			}
		}
	}
#endif
}

template <int M, int N, int THREADS>
static __device__ inline void
clear(struct sums<M, N, THREADS> &c)
{
#pragma unroll
	for (int i = 0; i < c.COUNT; i++)
		c.at[i] = 0;
}

template <int M, int N, int THREADS>
static __device__ inline void
scale(struct sums<M, N, THREADS> &c, float factor)
{
#pragma unroll
	for (int i = 0; i < c.COUNT; i++)
		c.at[i] *= factor;
}

/* Each row times its factor, which is negated with NEGATED. */
template <bool NEGATED, int M, int N, int THREADS>
static __device__ inline void
scale_rows(struct sums<M, N, THREADS> &c, const float *factor)
{
	FOR_SUMS(c, i, row, column)
	c.at[i] *= NEGATED ? -factor[row] : factor[row];
}

template <int M, int N, int THREADS>
static __device__ inline void
put_tile(float *to, int step, const struct sums<M, N, THREADS> &c)
{
	FOR_SUMS(c, i, row, column)
	to[row * step + column] = c.at[i];
}

#endif
