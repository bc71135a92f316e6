/*
 * flash_bwd.cuh - the backward pass of attention: once over the queries for dq, once over the keys
 * for dk and dv
 *
 * Each sum has one owner and one order, so every run gives the same bits; the price is that scores
 * are computed twice, 7 GEMMs in place of 5, or thrice where dk and dv have a kernel each. The tile
 * that a block owns stays in shared memory with its partner (q and dout, or k and v); the others
 * move through two places, one being fetched while the other is used. The keys' pass has scores
 * with keys as rows, so that the weights are operands without a transposition. Source:
 * docs/gpu.md 1.6.
 */
#ifndef TRAIN_CUDA_ATTENTION_FLASH_BWD_CUH
#define TRAIN_CUDA_ATTENTION_FLASH_BWD_CUH

#include "train/cuda/attention/flash.cuh"

/* A moving pair of tiles, with the statistics of its rows and, for queries, where they come
 * from. */
struct place {
	struct spot from;
	uint32_t x, y;
	const float *lse, *delta;
	const int *first;
};

/* Place 0 or 1 of the moving pairs, after the pair that stays. */
template <int D>
static __device__ inline struct place
place_of(int i)
{
	constexpr int ROWS = backward_size<D>::ROWS;
	uint32_t x = shared_address(shared_memory((2 * ROWS + 2 * STEP * i) * tile_step<D>()));
	const float *lse =
	    (const float *)shared_memory((2 * ROWS + 4 * STEP) * tile_step<D>()) + 3 * STEP * i;
	struct place p = { { 0, 0 }, x, x + STEP * tile_step<D>(), lse, lse + STEP,
		(const int *)(lse + 2 * STEP) };

	return p;
}

/* delta of each row of each head, the sum of dout * out: 16 lanes per row, 8 elements of each at a
 * time. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) flash_delta_kernel(const struct attn a)
{
	int64_t query = a.begin + blockIdx.x * (int64_t)(CU_THREADS / 16) + threadIdx.x / 16;
	int head = blockIdx.y;
	float sum = 0;

	for (int c = threadIdx.x % 16 * 8; query < a.s && c < a.out.shape[1]; c += 128) {
		uint4 u = *(const uint4 *)(head_row<T>(a, a.dout, query, head) + c);
		uint4 w = *(const uint4 *)(head_row<T>(a, a.out, query, head) + c);
		T x[8], y[8];

		memcpy(x, &u, sizeof x);
		memcpy(y, &w, sizeof y);
#pragma unroll
		for (int i = 0; i < 8; i++)
			sum += to_float(x[i]) * to_float(y[i]);
	}
	for (int lane = 8; lane > 0; lane /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, lane);
	if (query < a.s && threadIdx.x % 16 == 0)
		*statistic(a, a.delta, query, head) = sum;
}

/* --- dq --------------------------------------------------------------------------------------- */

/* A lane's two queries. */
struct query_rows {
	int query[2], first[2];
	float lse[2], delta[2]; /* lse to the base 2 */
};

/* No weight of a row beyond the sequence is stored. */
static __device__ inline void
load_query_rows(const struct attn &a, struct query_rows &r, int query, int head)
{
#pragma unroll
	for (int h = 0; h < 2; h++) {
		bool real = query + 8 * h < a.s;

		r.query[h] = query + 8 * h;
		r.first[h] = real ? (int)first_key(a, r.query[h]) : 0;
		r.lse[h] = real ? *statistic(a, a.lse, r.query[h], head) * log2_e : 0;
		r.delta[h] = real ? *statistic(a, a.delta, r.query[h], head) : 0;
	}
}

/* s <- P (dP mask - delta), times the slope of capped scores, with zeros where a row does not see
 * the key; first: the lane's first column and the rows' head. */
template <bool CAP>
static __device__ inline void
gradients_of_scores(const struct attn &a, const struct query_rows &r, float (&s)[STEP / 8][4],
    const float (&dp)[STEP / 8][4], struct spot first)
{
	float scale = a.scale * log2_e, keep = a.drop.on ? a.drop.keep : 1;
	uint32_t kept =
	    a.drop.on ? kept_weights(a, first.head, r.query[0], first.position, false) : ~0u;

#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int h = j / 2, at = first.position + 8 * i + j % 2;
			float p = fast_exp2(s[i][j] * scale - r.lse[h]);
			float g = kept >> (4 * i + j) & 1 ? dp[i][j] * keep : 0;
			float y = s[i][j] * a.scale * a.per_cap;

			if (CAP)
				p *= 1 - y * y;
			s[i][j] = at <= r.query[h] && at >= r.first[h] ? p * (g - r.delta[h]) : 0;
		}
}

/* dq of one query tile: the sum over its key tiles of ds k. */
template <typename T, int D, bool CAP>
static __global__ void
__launch_bounds__(backward_size<D>::THREADS) flash_queries_kernel(const struct attn a)
{
	constexpr int ROWS = backward_size<D>::ROWS, THREADS = backward_size<D>::THREADS;
	uint32_t q = shared_address(shared_memory(0)), dout = q + ROWS * tile_step<D>();
	int head = blockIdx.y, group = head * a.g / a.n,
	    q0 = (int)a.begin + (int)(gridDim.x - 1 - blockIdx.x) * ROWS;
	int row = (int)threadIdx.x / 32 * 16, end = q0 + ROWS < a.s ? q0 + ROWS : (int)a.s;
	int key = (int)first_key(a, q0) / STEP * STEP;
	struct place now = place_of<D>(0);
	struct query_rows r;
	float dq[D / 8][4], s[STEP / 8][4], dp[STEP / 8][4];

	copy_rows<T, D, ROWS, THREADS>(a, q, a.q, q0, head);
	copy_rows<T, D, ROWS, THREADS>(a, dout, a.dout, q0, head);
	copy_rows<T, D, STEP, THREADS>(a, now.x, a.k, key, group);
	copy_rows<T, D, STEP, THREADS>(a, now.y, a.v, key, group);
	load_query_rows(a, r, q0 + row + threadIdx.x % 32 / 4, head);
	clear_sums(dq);
	for (int i = 0; key < end; i++, key += STEP) {
		now = place_of<D>(i % 2);
		copies_done();
		__syncthreads();
		if (key + STEP < end) {
			struct place next = place_of<D>((i + 1) % 2);

			copy_rows<T, D, STEP, THREADS>(a, next.x, a.k, key + STEP, group);
			copy_rows<T, D, STEP, THREADS>(a, next.y, a.v, key + STEP, group);
		}
		multiply_rows<T, D>(s, q, row, now.x);
		if (CAP)
			cap_scores(a, s);
		multiply_rows<T, D>(dp, dout, row, now.y);
		gradients_of_scores<CAP>(
		    a, r, s, dp, spot{ head, key + (int)(threadIdx.x % 4 * 2) });
		weigh_rows<T, D>(dq, s, now.x);
	}
	store_rows<T, D>(a, a.dq, spot{ head, q0 + row }, dq, make_float2(a.scale, a.scale));
}

/* --- dk and dv -------------------------------------------------------------------------------- */

/* Starts to copy one query tile of one head with its statistics; rows beyond the sequence are zero
 * and add nothing. */
template <typename T, int D>
static __device__ inline void
copy_queries(const struct attn &a, const struct place &to, int first, int head)
{
	constexpr int THREADS = backward_size<D>::THREADS;
	int i = threadIdx.x, at = first + i;
	bool real = at < a.s;
	int from = real ? at : (int)a.begin;

	copy_rows<T, D, STEP, THREADS>(a, to.x, a.q, first, head);
	copy_rows<T, D, STEP, THREADS>(a, to.y, a.dout, first, head);
	if (i >= STEP)
		return;
	copy_4(shared_address(to.lse + i), statistic(a, a.lse, from, head), real);
	copy_4(shared_address(to.delta + i), statistic(a, a.delta, from, head), real);
	if (a.first)
		copy_4(
		    shared_address(to.first + i), a.first + (int64_t)from * a.b + blockIdx.z, real);
}

/* The query tiles, from that of first_query on, that see a key up to the last: by the window, and
 * by documents, whose beginnings never decrease. */
static __device__ inline int
tiles_that_see(const struct attn &a, int first_query, int last)
{
	int end = last + window_of(a) < (int)a.s ? last + window_of(a) : (int)a.s;
	int low = 0, high = end > first_query ? (end - first_query + STEP - 1) / STEP : 0;

	/* The number sought is in [low, high]. */
	while (a.first && low < high) {
		int middle = (low + high) / 2;

		if (document_start(a, first_query + middle * STEP) <= last)
			low = middle + 1;
		else
			high = middle;
	}
	return high;
}

/* True when query i of its tile sees the key. */
static __device__ inline bool
sees(const struct attn &a, const struct place &at, int i, int key)
{
	int query = at.from.position + i;

	return key <= query && key > query - window_of(a) && (!a.first || key >= at.first[i]);
}

/* p <- P, zeros where a query does not see the key. Rows are keys from `key` on, 8 apart; columns
 * queries. */
static __device__ inline void
weights_by_keys(const struct attn &a, const struct place &at, float (&p)[STEP / 8][4], int key)
{
	float scale = a.scale * log2_e;

#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int column = 8 * i + threadIdx.x % 4 * 2 + j % 2;
			float w = fast_exp2(p[i][j] * scale - at.lse[column] * log2_e);

			p[i][j] = sees(a, at, column, key + j / 2 * 8) ? w : 0;
		}
}

/* p <- P mask, which weighs dout into dv, and dp <- P (dP mask - delta), times the slope of capped
 * scores, which weighs q into dk. */
template <bool CAP>
static __device__ inline void
gradients_by_keys(const struct attn &a, const struct place &at, float (&p)[STEP / 8][4],
    float (&dp)[STEP / 8][4], int key)
{
	int first = threadIdx.x % 4 * 2;
	float keep = a.drop.on ? a.drop.keep : 1;
	uint32_t kept =
	    a.drop.on ? kept_weights(a, at.from.head, key, at.from.position + first, true) : ~0u;

#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			int column = 8 * i + first + j % 2;
			float factor = kept >> (4 * i + j) & 1 ? keep : 0;

			dp[i][j] = p[i][j] * (dp[i][j] * factor - at.delta[column]);
			if (CAP)
				dp[i][j] *= slope_of_weight(a, p[i][j], at.lse[column]);
			p[i][j] *= factor;
		}
}

/* p <- P mask, where dk is another kernel's. */
static __device__ inline void
drop_by_keys(const struct attn &a, const struct place &at, float (&p)[STEP / 8][4], int key)
{
	uint32_t kept =
	    kept_weights(a, at.from.head, key, at.from.position + (int)(threadIdx.x % 4 * 2), true);

#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			p[i][j] *= kept >> (4 * i + j) & 1 ? a.drop.keep : 0;
}

/* What a kernel sums: heads wider than 128 leave registers for one of the two. */
enum sums { SUM_DK = 1, SUM_DV = 2, SUM_BOTH = 3 };

/* dk and dv of one key tile: the sums over the query heads of its group, and the query tiles that
 * see it, in order. */
template <typename T, int D, bool CAP, int SUMS>
static __global__ void
__launch_bounds__(backward_size<D>::THREADS) flash_keys_kernel(const struct attn a)
{
	constexpr int ROWS = backward_size<D>::ROWS, THREADS = backward_size<D>::THREADS;
	uint32_t k = shared_address(shared_memory(0)), v = k + ROWS * tile_step<D>();
	int group = blockIdx.y, k0 = blockIdx.x * ROWS, row = (int)threadIdx.x / 32 * 16;
	int key = k0 + row + (int)(threadIdx.x % 32 / 4),
	    last = (k0 + ROWS < a.s ? k0 + ROWS : (int)a.s) - 1;
	int begin = k0 > a.begin ? k0 : (int)a.begin;
	int tiles = tiles_that_see(a, begin, last), head = group * (a.n / a.g), q0 = begin;
	struct place now = place_of<D>(0);
	float dk[D / 8][4], dv[D / 8][4], p[STEP / 8][4], dp[STEP / 8][4];

	copy_rows<T, D, ROWS, THREADS>(a, k, a.k, k0, group);
	if (SUMS & SUM_DK)
		copy_rows<T, D, ROWS, THREADS>(a, v, a.v, k0, group);
	copy_queries<T, D>(a, now, q0, head);
	clear_sums(dk);
	clear_sums(dv);
	for (int i = 0, todo = tiles * (a.n / a.g); i < todo; i++) {
		int next_q0 = (i + 1) % tiles ? q0 + STEP : begin,
		    next_head = head + ((i + 1) % tiles == 0);

		now = place_of<D>(i % 2);
		now.from = { head, q0 };
		copies_done();
		__syncthreads();
		if (i + 1 < todo)
			copy_queries<T, D>(a, place_of<D>((i + 1) % 2), next_q0, next_head);
		multiply_rows<T, D>(p, k, row, now.x);
		if (CAP)
			cap_scores(a, p);
		weights_by_keys(a, now, p, key);
		if (SUMS & SUM_DK) {
			multiply_rows<T, D>(dp, v, row, now.y);
			gradients_by_keys<CAP>(a, now, p, dp, key);
		} else if (a.drop.on)
			drop_by_keys(a, now, p, key);
		if (SUMS & SUM_DV)
			weigh_rows<T, D>(dv, p, now.y);
		if (SUMS & SUM_DK)
			weigh_rows<T, D>(dk, dp, now.x);
		q0 = next_q0;
		head = next_head;
	}
	if (SUMS & SUM_DK)
		store_rows<T, D>(
		    a, a.dk, spot{ group, k0 + row }, dk, make_float2(a.scale, a.scale));
	if (SUMS & SUM_DV)
		store_rows<T, D>(a, a.dv, spot{ group, k0 + row }, dv, make_float2(1, 1));
}

#endif
