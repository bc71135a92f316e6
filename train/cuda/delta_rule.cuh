/*
 * delta_rule.cuh - shared by the kernels of linear attention: what a launch is told, chunks of
 * positions, tiles in shared memory and products of them
 *
 * In a chunk of C positions with the state M before it, let G be the sums of the logarithms of the
 * decay from the chunk's first position on, and D[t][s] = exp(G[t] - G[s]) where s <= t are of one
 * document, else 0. With unit rows K and Q, b = sigmoid(beta), and g[t] = exp(G[t]) where t belongs
 * to the document of the position before the chunk, else 0,
 *
 *   A = b D (K K^T) below the diagonal        T = (1 + A)^-1        P = D (Q K^T)
 *   W = T b (V - g K M)                       out = (g Q M + P W) / sqrt(d)
 *   M <- g[C-1] M + (D[C-1] K)^T W
 *
 * Rows after the last position have zeros as K, Q, V and b, and the last one's document and sum, so
 * that nothing comes from them. T, P and the factors of a chunk and head are its record.
 * Source: Yang 2024, arXiv:2412.06464, section 3.3; docs/math.md 2.12.
 */
#ifndef TRAIN_CUDA_DELTA_RULE_CUH
#define TRAIN_CUDA_DELTA_RULE_CUH

#include "lib/model/recurrence.h"
#include "train/cuda/kernel.cuh"

/* Positions of a chunk, columns of values of a block, and room for the width of a key. Rows of
 * tiles are 4 elements longer, so that they are whole packs and begin in other banks. */
template <int CHUNK, int COLUMNS, int KEYS> struct form {
	enum {
		C = CHUNK,
		E = COLUMNS,
		D = KEYS,
		C_STEP = CHUNK + 4,
		E_STEP = COLUMNS + 4,
		D_STEP = KEYS + 4,
		ROWS = CHUNK * D_STEP,   /* elements of a tile [C, D] */
		STATE = KEYS * E_STEP,   /* [D, E] */
		SQUARE = CHUNK * C_STEP, /* [C, C] */
		VALUES = CHUNK * E_STEP, /* [C, E] */
		FACTORS = 8 * CHUNK,     /* struct factors */
		RECORD = 2 * CHUNK * CHUNK + FACTORS
	};
};

/* Sides of the square of threads that a product's sums are spread over. */
enum { SIDE = 16 };

/* Numbers of each position of a chunk, [C] each: b, g, D[C-1], G, where its document begins,
 * counted from the chunk's first position, and the inverse lengths of q and k. */
struct factors {
	float *beta, *carried, *left, *sum, *begins, *q_inverse, *k_inverse;
};

template <class F>
static __device__ inline struct factors
factors_at(float *p)
{
	struct factors f = { p, p + F::C, p + 2 * F::C, p + 3 * F::C, p + 4 * F::C, p + 5 * F::C,
		p + 6 * F::C };

	return f;
}

/* What every kernel is told. */
struct delta_call {
	struct delta_rule r;
	/* of samples from `sample` on: records; states before chunks and the gradients of those
	 * after them [chunks,heads,d,e], or NULL; sums of each chunk and head for decay_log, and as
	 * many for decay_bias */
	float *records, *states, *gradients, *sums;
	int sample, samples, positions, chunks;
	int heads, per_key, d, e; /* heads of values, those of a key head, their widths */
	bool packs;               /* rows of heads are whole packs */
};

/* A chunk of a sample, and a head of values. */
struct place {
	int64_t record; /* number of the chunk and head */
	int sample, first, count, head, key;
};

template <class F>
static __device__ inline struct place
place_of(const struct delta_call &c, int sample, int chunk, int head)
{
	struct place p = { ((int64_t)sample * c.chunks + chunk) * c.heads + head, c.sample + sample,
		chunk * F::C, min(F::C, c.positions - chunk * F::C), head, head / c.per_key };

	return p;
}

template <class F>
static __device__ inline float *
record_of(const struct delta_call &c, const struct place &p)
{
	return c.records + p.record * F::RECORD;
}

/* The row of a tensor that position t of the chunk has. */
static __device__ inline int64_t
row_at(const struct delta_call &c, const struct place &p, int t)
{
	return (int64_t)(p.first + t) * c.r.micro_batch + p.sample;
}

static __device__ inline float
softplus(float x)
{
	return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

/* D[t][s]. */
static __device__ inline float
decay_between(const struct factors &f, int t, int s)
{
	return s <= t && s >= (int)f.begins[t] ? expf(f.sum[t] - f.sum[s]) : 0;
}

/* --- products --------------------------------------------------------------------------------- */

/* Elements of a matrix [M, N] that a thread sums. */
template <int M, int N> struct sums {
	enum { DOWN = M / SIDE, ACROSS = N / SIDE, COUNT = DOWN * ACROSS };
	float at[COUNT];
};

/* Every element that a thread has: i its number, with its row and column. */
/* clang-format off */
#define FOR_SUMS(c, i, row, column) \
	_Pragma("unroll") \
	for (int i = 0, row, column; i < (c).COUNT && \
	     (row = (int)threadIdx.x / SIDE + i / (c).ACROSS * SIDE, \
		 column = (int)threadIdx.x % SIDE + i % (c).ACROSS * SIDE, true); i++)
/* clang-format on */

/* A tile and the elements from row to row. */
struct tile {
	const float *at;
	int step;
};

/* Terms k to k + 3 of a row of a tile, or of a column of one that is stored transposed. */
template <bool TRANSPOSED>
static __device__ inline void
four(float (&x)[4], const struct tile &t, int k, int row)
{
	if (!TRANSPOSED)
		load(x, t.at + row * t.step + k);
	else
#pragma unroll
		for (int j = 0; j < 4; j++)
			x[j] = t.at[(k + j) * t.step + row];
}

/* c += a b, in the order of the products' k terms, a multiple of 4. BY_COLUMNS: a is stored
 * transposed; BY_ROWS: b is. */
template <bool BY_COLUMNS, bool BY_ROWS, int M, int N>
static __device__ inline void
multiply(struct sums<M, N> &c, struct tile a, struct tile b, int k)
{
	enum { DOWN = sums<M, N>::DOWN, ACROSS = sums<M, N>::ACROSS };
	int row = threadIdx.x / SIDE, column = threadIdx.x % SIDE;

	a.at += BY_COLUMNS ? row : row * a.step;
	b.at += BY_ROWS ? column * b.step : column;
	for (int i = 0; i < k; i += 4) {
		float x[DOWN][4], y[4];

#pragma unroll
		for (int m = 0; m < DOWN; m++)
			four<BY_COLUMNS>(x[m], a, i, SIDE * m);
#pragma unroll
		for (int n = 0; n < ACROSS; n++) {
			four<!BY_ROWS>(y, b, i, SIDE * n);
#pragma unroll
			for (int m = 0; m < DOWN; m++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					c.at[m * ACROSS + n] += x[m][j] * y[j];
		}
	}
}

template <int M, int N>
static __device__ inline void
clear(struct sums<M, N> &c)
{
#pragma unroll
	for (int i = 0; i < c.COUNT; i++)
		c.at[i] = 0;
}

template <int M, int N>
static __device__ inline void
scale(struct sums<M, N> &c, float factor)
{
#pragma unroll
	for (int i = 0; i < c.COUNT; i++)
		c.at[i] *= factor;
}

/* Each row times its factor, which is negated with NEGATED. */
template <bool NEGATED, int M, int N>
static __device__ inline void
scale_rows(struct sums<M, N> &c, const float *factor)
{
	FOR_SUMS(c, i, row, column)
	{
		(void)column;
		c.at[i] *= NEGATED ? -factor[row] : factor[row];
	}
}

template <int M, int N>
static __device__ inline void
put_tile(float *to, int step, const struct sums<M, N> &c)
{
	FOR_SUMS(c, i, row, column)
	to[row * step + column] = c.at[i];
}

/* --- tiles ------------------------------------------------------------------------------------ */

/* The head's columns of all rows of a chunk, each row times its factor; zeros after the last row
 * and column. */
template <typename T, class F>
static __device__ inline void
load_rows(const struct delta_call &c, const struct place &p, float *to, const struct tensor &x,
    const float *factor)
{
	enum { N = full<T>::width, PER_ROW = F::D / N };

	if (c.packs) {
#pragma unroll 4
		for (int i = threadIdx.x; i < F::C * PER_ROW; i += CU_THREADS) {
			int t = i / PER_ROW, at = i % PER_ROW * N;
			float v[N] = {};

			if (t < p.count && at < c.d)
				load(v, row_of<T>(x, row_at(c, p, t)) + p.key * c.d + at);
#pragma unroll
			for (int k = 0; k < N; k++)
				to[t * F::D_STEP + at + k] = v[k] * factor[t];
		}
		return;
	}
	for (int i = threadIdx.x; i < F::C * F::D; i += CU_THREADS) {
		int t = i / F::D, at = i % F::D;
		bool present = t < p.count && at < c.d;

		to[t * F::D_STEP + at] = present
		    ? to_float(row_of<T>(x, row_at(c, p, t))[p.key * c.d + at]) * factor[t]
		    : 0;
	}
}

/* A matrix of scores of the record; `number`: 0 T, 1 P. */
template <class F>
static __device__ inline void
load_scores(float *to, const float *record, int number)
{
	const float *from = record + number * F::C * F::C;

#pragma unroll 4
	for (int i = 4 * threadIdx.x; i < F::C * F::C; i += 4 * CU_THREADS)
		*(float4 *)(to + i / F::C * F::C_STEP + i % F::C) = *(const float4 *)(from + i);
}

template <class F>
static __device__ inline void
load_factors(float *to, const float *record)
{
	for (int i = threadIdx.x; i < F::FACTORS; i += CU_THREADS)
		to[i] = record[2 * F::C * F::C + i];
}

/* An element of the head's columns of values; 0 after the last row and column. */
template <typename T>
static __device__ inline float
value_at(
    const struct delta_call &c, const struct place &p, const struct tensor &x, int t, int column)
{
	return t < p.count && column < c.e
	    ? to_float(row_of<T>(x, row_at(c, p, t))[(int64_t)p.head * c.e + column])
	    : 0;
}

/* The columns from `first` on of a state [d, e] whose rows are `step` apart; NULL: zeros. */
template <class F>
static __device__ inline void
load_state(const struct delta_call &c, float *to, const float *from, int64_t step, int first)
{
#pragma unroll 4
	for (int i = threadIdx.x; i < F::D * F::E; i += CU_THREADS) {
		int row = i / F::E, column = first + i % F::E;
		bool present = from && row < c.d && column < c.e;

		to[row * F::E_STEP + i % F::E] = present ? from[row * step + column] : 0;
	}
}

/* Elements of a state of the thread's, where it has them. */
template <class F>
static __device__ inline void
store_state(const struct delta_call &c, float *to, int64_t step, int first,
    const struct sums<F::D, F::E> &m)
{
	FOR_SUMS(m, i, row, column)
	if (row < c.d && first + column < c.e)
		to[row * step + first + column] = m.at[i];
}

/* The width of keys as products take it: the next multiple of 4. */
static __device__ inline int
key_terms(const struct delta_call &c)
{
	return (c.d + 3) / 4 * 4;
}

/* --- launches --------------------------------------------------------------------------------- */

/* What both passes require of a description. delta_rule.cu */
void cu_delta_check(const struct delta_rule *r);
/* The call of a group of samples from `first` on, as many as the scratch has room for at once: what
 * they need of it for a pass. */
struct delta_call cu_delta_call(const struct delta_rule *r, bool backward, int first);
/* Writes the records of all chunks of the call. delta_prepare.cu */
void cu_delta_prepare(struct stream *st, const struct delta_call *c);
/* From chunk to chunk: states, and with out.data what is read of them. delta_rule.cu */
void cu_delta_states(struct stream *st, const struct delta_call *c);
/* Position after position, for a short pass whose states are kept. delta_step.cu */
void cu_delta_step(struct stream *st, const struct delta_rule *r);

/* A kernel declares shared memory beyond what every GPU has. */
static inline bool
delta_allow(struct stream *st, const void *kernel, size_t floats)
{
	return cu_ok(st->device,
	    cudaFuncSetAttribute(
		kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(floats * sizeof(float))),
	    "delta_rule");
}

#endif
