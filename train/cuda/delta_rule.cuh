/*
 * delta_rule.cuh - shared by the kernels of linear attention: what a launch is told, chunks of
 * positions, and tiles of them in shared memory
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
#include "train/cuda/product.cuh"

/* Positions of a chunk, columns of values of a block, room for the width of a key, whether products
 * are as exact as in float, and threads of a block. Rows of tiles are 4 elements longer, so that
 * they are whole packs and begin in other banks. */
template <int CHUNK, int COLUMNS, int KEYS, bool FLOATS, int BLOCK = CU_THREADS> struct form {
	enum {
		THREADS = BLOCK,
		EXACT = FLOATS,
		BLOCKS = FLOATS || KEYS > 128 ? 1 : 2, /* that a multiprocessor has at once */
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

	/* With larger blocks, for which the registers of exact products do not suffice. */
	typedef form<CHUNK, COLUMNS, KEYS, FLOATS, FLOATS ? BLOCK : 2 * BLOCK> larger;
};

/* Sums of a chunk's scores, of its values and keys, and of a state's columns. */
template <class F> using score_sums = sums<F::C, F::C, F::THREADS>;
template <class F> using value_sums = sums<F::C, F::E, F::THREADS>;
template <class F> using key_sums = sums<F::C, F::D, F::THREADS>;
template <class F> using state_sums = sums<F::D, F::E, F::THREADS>;

template <typename T>
static constexpr bool
is_float(void)
{
	return sizeof(T) == sizeof(float);
}

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
		for (int i = threadIdx.x; i < F::C * PER_ROW; i += F::THREADS) {
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
	for (int i = threadIdx.x; i < F::C * F::D; i += F::THREADS) {
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
	for (int i = 4 * threadIdx.x; i < F::C * F::C; i += 4 * F::THREADS)
		*(float4 *)(to + i / F::C * F::C_STEP + i % F::C) = *(const float4 *)(from + i);
}

template <class F>
static __device__ inline void
load_factors(float *to, const float *record)
{
	for (int i = threadIdx.x; i < F::FACTORS; i += F::THREADS)
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
	for (int i = threadIdx.x; i < F::D * F::E; i += F::THREADS) {
		int row = i / F::E, column = first + i % F::E;
		bool present = from && row < c.d && column < c.e;

		to[row * F::E_STEP + i % F::E] = present ? from[row * step + column] : 0;
	}
}

/* Elements of a state of the thread's, where it has them. */
template <class F>
static __device__ inline void
store_state(const struct delta_call &c, float *to, int64_t step, int first, const state_sums<F> &m)
{
	FOR_SUMS(m, i, row, column)
	if (row < c.d && first + column < c.e)
		to[row * step + first + column] = m.at[i];
}

/* The width of keys as products take it: the next multiple of 8. */
static __device__ inline int
key_terms(const struct delta_call &c)
{
	return (c.d + 7) / 8 * 8;
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
