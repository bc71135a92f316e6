/*
 * flash_fwd.cuh - the forward pass of attention in tiles of 128 queries by 64 keys
 *
 * Keys and values move through one place each: values are fetched while scores are computed, the
 * next keys while values are summed. A lane keeps the running maximum of its rows and its own part
 * of their sums; the parts are added at the end. Source: Milakov & Gimelshein 2018,
 * arXiv:1805.02867.
 */
#ifndef TRAIN_CUDA_ATTENTION_FLASH_FWD_CUH
#define TRAIN_CUDA_ATTENTION_FLASH_FWD_CUH

#include "train/cuda/attention/flash.cuh"

/* What a lane keeps of its two rows of a set of 16, query and query + 8. */
struct rows_state {
	int query, edge;      /* edge: from this key on all 16 see what the diagonal leaves */
	float max[2], sum[2]; /* of scores before scaling; of this lane's weights */
	uint32_t kept;        /* which of the next weights dropout keeps */
};

/* What rows beyond the sequence see does not matter: they are not stored. */
static __device__ inline void
start_rows(const struct attn &a, struct rows_state &r, int query)
{
	r.query = query;
	r.edge = 0;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		r.edge = query + 8 * h < a.s ? (int)first_key(a, query + 8 * h) : r.edge;
		r.max[h] = -INFINITY;
		r.sum[h] = 0;
	}
	/* Of the set's rows within the sequence the last one's document begins last; its lanes tell
	 * the others. */
	for (int lane = 16; lane > 0; lane /= 2)
		r.edge = max(r.edge, __shfl_xor_sync(0xffffffffu, r.edge, lane));
}

/* -inf for keys that a row does not see; key: of the lane's first column. */
static __device__ inline void
mask_scores(const struct attn &a, const struct rows_state &r, float (&s)[STEP / 8][4], int key)
{
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int query = r.query + 8 * h, first = query < a.s ? (int)first_key(a, query) : 0;

#pragma unroll
		for (int i = 0; i < STEP / 8; i++)
#pragma unroll
			for (int j = 0; j < 2; j++) {
				int at = key + 8 * i + j;
				bool seen = at <= query && at >= first;

				s[i][2 * h + j] = seen ? s[i][2 * h + j] : -INFINITY;
			}
	}
}

/* Turns scores into weights relative to the new maximum, and gives the factors that rescale earlier
 * sums to it. A row that has seen no key yet keeps the maximum -inf, and 0 takes its place, since
 * -inf less -inf is not a number. */
static __device__ inline void
weigh_scores(
    const struct attn &a, struct rows_state &r, float (&s)[STEP / 8][4], float (&factor)[2])
{
	float scale = a.scale * log2_e;

#pragma unroll
	for (int h = 0; h < 2; h++) {
		float max = r.max[h], shift;

#pragma unroll
		for (int i = 0; i < STEP / 8; i++)
			max = fmaxf(max, fmaxf(s[i][2 * h], s[i][2 * h + 1]));
		max = row_max(max);
		shift = max == -INFINITY ? 0 : max * scale;
		factor[h] = fast_exp2(r.max[h] * scale - shift);
		r.max[h] = max;
		r.sum[h] *= factor[h];
#pragma unroll
		for (int i = 0; i < STEP / 8; i++)
#pragma unroll
			for (int j = 2 * h; j < 2 * h + 2; j++) {
				s[i][j] = fast_exp2(s[i][j] * scale - shift);
				r.sum[h] += s[i][j];
			}
	}
}

/* w *= the dropout factors. */
static __device__ inline void
drop_weights(const struct attn &a, const struct rows_state &r, float (&w)[STEP / 8][4])
{
#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			w[i][j] *= r.kept >> (4 * i + j) & 1 ? a.drop.keep : 0;
}

/* s[m] = scores of set m of a warp's queries, from `row` of the tile on, with STEP keys. The keys
 * are read once for all sets. */
template <typename T, int D, int SETS>
static __device__ inline void
score_sets(float (&s)[SETS][STEP / 8][4], uint32_t q, int row, uint32_t k)
{
#pragma unroll
	for (int m = 0; m < SETS; m++)
		clear_sums(s[m]);
#pragma unroll
	for (int c = 0; c < D; c += 16) {
		uint32_t x[SETS][4], y[4];

#pragma unroll
		for (int m = 0; m < SETS; m++)
			load_a<D>(x[m], q, row + 16 * m, c);
#pragma unroll
		for (int i = 0; i < STEP / 16; i++) {
			load_b_by_rows<D>(y, k, 16 * i, c);
#pragma unroll
			for (int m = 0; m < SETS; m++) {
				mma(T(), s[m][2 * i], x[m], y[0], y[1]);
				mma(T(), s[m][2 * i + 1], x[m], y[2], y[3]);
			}
		}
	}
}

/* out[m] += w[m] v; the values are read once for all sets. */
template <typename T, int D, int SETS>
static __device__ inline void
sum_sets(float (&out)[SETS][D / 8][4], const float (&w)[SETS][STEP / 8][4], uint32_t v)
{
#pragma unroll
	for (int i = 0; i < STEP / 16; i++) {
		uint32_t x[SETS][4], y[4];

#pragma unroll
		for (int m = 0; m < SETS; m++)
			weights_to_a<T>(x[m], w[m], i);
#pragma unroll
		for (int c = 0; c < D / 16; c++) {
			load_b<D>(y, v, 16 * i, 16 * c);
#pragma unroll
			for (int m = 0; m < SETS; m++) {
				mma(T(), out[m][2 * c], x[m], y[0], y[1]);
				mma(T(), out[m][2 * c + 1], x[m], y[2], y[3]);
			}
		}
	}
}

/* Turns one set's scores with the keys from a position on into weights, and rescales earlier sums
 * to the new maximum. */
template <int D, bool DROP, bool CAP>
static __device__ inline void
online_step(const struct attn &a, struct rows_state &r, float (&s)[STEP / 8][4],
    float (&out)[D / 8][4], int key)
{
	float factor[2];
	int row = threadIdx.x % 32 / 4;

	if (CAP && a.cap > 0)
		cap_scores(a, s);
	if (key + STEP - 1 > r.query - row || key < r.edge)
		mask_scores(a, r, s, key + threadIdx.x % 4 * 2);
	weigh_scores(a, r, s, factor);
	if (DROP)
		drop_weights(a, r, s);
#pragma unroll
	for (int i = 0; i < D / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			out[i][j] *= factor[j / 2];
}

/* Stores outputs and log-sum-exp of a set once all keys are summed. */
template <typename T, int D>
static __device__ inline void
finish_rows(
    const struct attn &a, const struct rows_state &r, const float (&out)[D / 8][4], int head)
{
	struct spot at = { head, r.query - (int)(threadIdx.x % 32 / 4) };
	float inverse[2];

#pragma unroll
	for (int h = 0; h < 2; h++) {
		float lse = finish_row(a, head, r.max[h], a.scale, row_sum(r.sum[h]), inverse[h]);

		if (threadIdx.x % 4 == 0 && r.query + 8 * h < a.s)
			*statistic(a, a.lse, r.query + 8 * h, head) = lse;
	}
	store_rows<T, D>(a, a.out, at, out, make_float2(inverse[0], inverse[1]));
}

/* One query tile of one head against all keys that it sees. The longest tiles start first. */
template <typename T, int D, bool DROP, bool CAP>
static __global__ void
__launch_bounds__(forward_size<D, DROP>::THREADS) flash_forward_kernel(const struct attn a)
{
	constexpr int SETS = forward_size<D, DROP>::SETS, ROWS = forward_size<D, DROP>::ROWS,
		      THREADS = forward_size<D, DROP>::THREADS;
	uint32_t q = shared_address(shared_memory(0)), k = q + ROWS * tile_step<D>(),
		 v = k + STEP * tile_step<D>();
	int head = blockIdx.y, group = head * a.g / a.n;
	int q0 = (int)a.begin + (int)(gridDim.x - 1 - blockIdx.x) * ROWS,
	    row = (int)threadIdx.x / 32 * SETS * 16;
	int end = q0 + ROWS < a.s ? q0 + ROWS : (int)a.s, key = (int)first_key(a, q0) / STEP * STEP;
	struct rows_state r[SETS];
	float out[SETS][D / 8][4], s[SETS][STEP / 8][4];

	copy_rows<T, D, ROWS, THREADS>(a, q, a.q, q0, head);
	copy_rows<T, D, STEP, THREADS>(a, k, a.k, key, group);
#pragma unroll
	for (int m = 0; m < SETS; m++) {
		start_rows(a, r[m], q0 + row + 16 * m + threadIdx.x % 32 / 4);
		clear_sums(out[m]);
	}
	for (; key < end; key += STEP) {
		copies_done();
		__syncthreads();
		copy_rows<T, D, STEP, THREADS>(a, v, a.v, key, group);
		/* Drawn here, where no scores occupy registers. */
#pragma unroll
		for (int m = 0; DROP && m < SETS; m++)
			r[m].kept =
			    kept_weights(a, head, r[m].query, key + threadIdx.x % 4 * 2, false);
		score_sets<T, D, SETS>(s, q, row, k);
#pragma unroll
		for (int m = 0; m < SETS; m++)
			online_step<D, DROP, CAP>(a, r[m], s[m], out[m], key);
		copies_done();
		__syncthreads();
		if (key + STEP < end)
			copy_rows<T, D, STEP, THREADS>(a, k, a.k, key + STEP, group);
		sum_sets<T, D, SETS>(out, s, v);
	}
#pragma unroll
	for (int m = 0; m < SETS; m++)
		finish_rows<T, D>(a, r[m], out[m], head);
}

#endif
