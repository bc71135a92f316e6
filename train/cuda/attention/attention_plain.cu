/*
 * attention_plain.cu - causal grouped attention in tiles of TILE queries by TILE keys, in float
 *
 * A block of 16 by 16 threads owns a tile of rows: thread (ty, tx) has rows 4 ty .. 4 ty + 3 of it,
 * of a tile of scores the columns tx + 16 j, and of a tile of outputs the pairs of columns tx + 16
 * j. Tiles of q, k, v and dout lie in shared memory in their storage type, rows `ld` elements
 * apart, with zeros after the last row and column. The forward pass keeps a running maximum and
 * sum per query (Milakov & Gimelshein 2018, arXiv:1805.02867). The backward pass goes over the
 * tiles twice, by query tile for dq and by key tile for dk and dv, so that each sum has one owner
 * and one order. Tiles that the mask empties are not visited. Source: docs/math.md 2.5; Dao
 * 2023, arXiv:2307.08691.
 */
#include "train/cuda/attention/attn.cuh"

enum {
	TILE = 64,
	SIDE = 16,                      /* threads along each side of a tile */
	SPAN = TILE / SIDE,             /* rows, and columns of scores, of a thread */
	PAIRS = CU_HEAD_MAX / 2 / SIDE, /* most pairs of output columns of a thread */
	LD = TILE + 1,                  /* elements between rows of a tile of weights */
};

/* A tile of rows in shared memory. */
template <typename T> struct tile {
	T *p;
	int ld;
};

/* A thread's part of a tile of outputs: acc[i][j] are columns 2 (tx + 16 j) and the next of row 4
 * ty + i. */
struct part {
	float2 acc[SPAN][PAIRS];
};

/* Two neighbours in one load; rows begin at even elements, so the address is aligned. */
static __device__ inline float2
pair_at(const float *p)
{
	return *(const float2 *)p;
}

/* Exact: a float holds every bf16. */
static __device__ inline float2
pair_at(const bf16 *p)
{
	return __bfloat1622float2(*(const __nv_bfloat162 *)p);
}

/* Exact: a float holds every half. */
static __device__ inline float2
pair_at(const half *p)
{
	return __half22float2(*(const __half2 *)p);
}

/* Pairs of columns of a head, rounded up. */
static __host__ __device__ inline int
pairs_of(const struct attn &a)
{
	return (a.d + 1) / 2;
}

/* Elements between rows of a tile: an odd number of pairs, so that 16 rows lie in different
 * banks. */
static __host__ __device__ inline int
ld_of(const struct attn &a)
{
	return 2 * (pairs_of(a) | 1);
}

/* Rows from `first` on of one head to shared memory, zeros where there are none. One warp per row,
 * so neighbouring lanes read neighbouring elements. The caller adds a barrier after it. */
template <typename T>
static __device__ inline void
load_tile(const struct attn &a, struct tile<T> to, const struct tensor &t, int64_t first, int head)
{
	int rows = (int)(a.s - first < TILE ? a.s - first : TILE);

	for (int i = threadIdx.x / 32; i < TILE; i += CU_THREADS / 32)
		for (int c = threadIdx.x % 32; c < 2 * pairs_of(a); c += 32) {
			T x;

			put(&x, 0.0f);
			if (i < rows && c < t.shape[1])
				x = head_row<T>(a, t, first + i, head)[c];
			to.p[i * to.ld + c] = x;
		}
}

/* out[i][j] = row 4 ty + i of x times row tx + 16 j of y. u and w are loaded once for SPAN
 * products each. Padding columns are zero and add nothing. */
template <typename T>
static __device__ inline void
scores(float out[SPAN][SPAN], struct tile<T> x, struct tile<T> y, int pairs)
{
	const T *xp = x.p + threadIdx.x / SIDE * SPAN * x.ld, *yp = y.p + threadIdx.x % SIDE * y.ld;

	for (int i = 0; i < SPAN; i++)
		for (int j = 0; j < SPAN; j++)
			out[i][j] = 0;
	for (int c = 0; c < pairs; c++) {
		float2 u[SPAN], w[SPAN];

#pragma unroll
		for (int i = 0; i < SPAN; i++) {
			u[i] = pair_at(xp + i * x.ld + 2 * c);
			w[i] = pair_at(yp + i * SIDE * y.ld + 2 * c);
		}
#pragma unroll
		for (int i = 0; i < SPAN; i++)
#pragma unroll
			for (int j = 0; j < SPAN; j++)
				out[i][j] += u[i].x * w[j].x + u[i].y * w[j].y;
	}
}

/* to += w x for a tile of weights w [rows, TILE] and the TILE rows of x. Columns beyond the head
 * are skipped; the accumulators stay in registers. */
template <typename T>
static __device__ inline void
weigh(struct part *to, const float *w, struct tile<T> x, int pairs)
{
	const float *wp = w + threadIdx.x / SIDE * SPAN * LD;
	int tx = threadIdx.x % SIDE;

	for (int k = 0; k < TILE; k++)
#pragma unroll
		for (int j = 0; j < PAIRS; j++)
			if (tx + SIDE * j < pairs) {
				float2 u = pair_at(x.p + k * x.ld + 2 * (tx + SIDE * j));

#pragma unroll
				for (int i = 0; i < SPAN; i++) {
					to->acc[i][j].x += wp[i * LD + k] * u.x;
					to->acc[i][j].y += wp[i * LD + k] * u.y;
				}
			}
}

/* Unrolled, so that the array stays in registers. */
static __device__ inline void
clear(struct part *p)
{
#pragma unroll
	for (int i = 0; i < SPAN; i++)
#pragma unroll
		for (int j = 0; j < PAIRS; j++)
			p->acc[i][j] = make_float2(0, 0);
}

/* p = p * factor[i], row by row. */
static __device__ inline void
multiply(struct part *p, const float factor[SPAN])
{
#pragma unroll
	for (int i = 0; i < SPAN; i++)
#pragma unroll
		for (int j = 0; j < PAIRS; j++) {
			p->acc[i][j].x *= factor[i];
			p->acc[i][j].y *= factor[i];
		}
}

/* Writes a tile of outputs that begins at position `first` of one head. Only here are rows and
 * columns beyond the tensor left out. */
template <typename T>
static __device__ inline void
store_part(
    const struct attn &a, const struct tensor &t, int64_t first, int head, const struct part *p)
{
	int tx = threadIdx.x % SIDE;

#pragma unroll
	for (int i = 0; i < SPAN; i++) {
		int64_t position = first + threadIdx.x / SIDE * SPAN + i;

#pragma unroll
		for (int j = 0; j < PAIRS; j++) {
			int c = 2 * (tx + SIDE * j);

			if (position < a.s && c < t.shape[1])
				put(head_row<T>(a, t, position, head) + c, p->acc[i][j].x);
			if (position < a.s && c + 1 < t.shape[1])
				put(head_row<T>(a, t, position, head) + c + 1, p->acc[i][j].y);
		}
	}
}

/* Writes a thread's values to its places in a tile of weights. The caller adds barriers before and
 * after: other threads read these places. */
static __device__ inline void
share(float *w, const float x[SPAN][SPAN])
{
#pragma unroll
	for (int i = 0; i < SPAN; i++)
#pragma unroll
		for (int j = 0; j < SPAN; j++)
			w[(threadIdx.x / SIDE * SPAN + i) * LD + threadIdx.x % SIDE + SIDE * j] =
			    x[i][j];
}

/* True when the query sees the key. */
static __device__ inline bool
sees(const struct attn &a, int64_t query, int64_t key)
{
	return key <= query && query < a.s && key >= first_key(a, query);
}

/* The key tile with the first key that any query from q0 on sees. Tiles before it are masked for
 * all rows of the query tile. */
static __device__ inline int64_t
first_tile(const struct attn &a, int64_t q0)
{
	return first_key(a, q0) / TILE * TILE;
}

/* The largest of the values of 16 neighbouring threads, or their sum. */
static __device__ inline float
side_max(float x)
{
	for (int lane = SIDE / 2; lane > 0; lane /= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
	return x;
}

/* All 16 threads get the same bits: the exchange is symmetric. */
static __device__ inline float
side_sum(float x)
{
	for (int lane = SIDE / 2; lane > 0; lane /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, lane);
	return x;
}

/* Running maximum and sum of a thread's rows. */
struct online {
	float max[SPAN], sum[SPAN];
};

/* The scaled score, capped. */
static __device__ inline float
finish_score(const struct attn &a, float x)
{
	x *= a.scale;
	return a.cap > 0 ? a.cap * tanhf(x * a.per_cap) : x;
}

/* Turns scores into weights relative to the new maximum; factor rescales the earlier sums to it. A
 * row that has seen no key yet keeps -inf and a factor of 1, not the NaN of -inf less -inf. */
static __device__ inline void
online_step(const struct attn &a, struct online *o, float s[SPAN][SPAN], int64_t q0, int64_t k0,
    float factor[SPAN])
{
	int64_t query = q0 + threadIdx.x / SIDE * SPAN, key = k0 + threadIdx.x % SIDE;

#pragma unroll
	for (int i = 0; i < SPAN; i++) {
		float max = o->max[i], sum = 0;

#pragma unroll
		for (int j = 0; j < SPAN; j++) {
			s[i][j] = finish_score(a, s[i][j]);
			if (sees(a, query + i, key + SIDE * j))
				max = fmaxf(max, s[i][j]);
		}
		max = side_max(max);
		factor[i] = o->max[i] == max ? 1 : expf(o->max[i] - max);
#pragma unroll
		for (int j = 0; j < SPAN; j++) {
			s[i][j] = sees(a, query + i, key + SIDE * j) ? expf(s[i][j] - max) : 0;
			sum += s[i][j];
		}
		o->sum[i] = o->sum[i] * factor[i] + side_sum(sum);
		o->max[i] = max;
	}
}

/* s *= the dropout factors of queries from q0 on, by rows, and keys from k0 on. */
static __device__ inline void
drop_scores(const struct attn &a, float s[SPAN][SPAN], int head, int64_t q0, int64_t k0)
{
	int64_t query = q0 + threadIdx.x / SIDE * SPAN, key = k0 + threadIdx.x % SIDE;

#pragma unroll
	for (int i = 0; i < SPAN; i++)
#pragma unroll
		for (int j = 0; j < SPAN; j++)
			s[i][j] *= drop_factor(a, head, query + i, key + SIDE * j);
}

/* Tile `i` in a kernel's shared memory; the weights follow `count` tiles. */
template <typename T>
static __device__ inline struct tile<T>
shared_tile(const struct attn &a, int i) {
	extern __shared__ float4 memory[];
	struct tile<T> t = {
		(T *)memory + (size_t)i *TILE *ld_of(a), ld_of(a)
	};

	return t;
}

/* One query tile of one head against all keys that it sees. The longest tiles start first. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) forward_kernel(struct attn a)
{
	struct tile<T> q = shared_tile<T>(a, 0), kv = shared_tile<T>(a, 1);
	float *weights = (float *)shared_tile<T>(a, 2).p;
	int head = blockIdx.y, group = head * a.g / a.n;
	int64_t q0 = a.begin + (int64_t)(gridDim.x - 1 - blockIdx.x) * TILE;
	struct online o;
	struct part out;
	float s[SPAN][SPAN], factor[SPAN];

	clear(&out);
	for (int i = 0; i < SPAN; i++) {
		o.max[i] = -INFINITY;
		o.sum[i] = 0;
	}
	load_tile(a, q, a.q, q0, head);
	for (int64_t k0 = first_tile(a, q0); k0 < q0 + TILE && k0 < a.s; k0 += TILE) {
		__syncthreads();
		load_tile(a, kv, a.k, k0, group);
		__syncthreads();
		scores(s, q, kv, pairs_of(a));
		online_step(a, &o, s, q0, k0, factor);
		multiply(&out, factor);
		if (a.drop.on)
			drop_scores(a, s, head, q0, k0);
		share(weights, s);
		__syncthreads();
		load_tile(a, kv, a.v, k0, group);
		__syncthreads();
		weigh(&out, weights, kv, pairs_of(a));
	}
	for (int i = 0; i < SPAN; i++) {
		int64_t query = q0 + threadIdx.x / SIDE * SPAN + i;
		float lse = finish_row(a, head, o.max[i], 1, o.sum[i], factor[i]);

		if (threadIdx.x % SIDE == 0 && query < a.s)
			*statistic(a, a.lse, query, head) = lse;
	}
	multiply(&out, factor);
	store_part<T>(a, a.out, q0, head, &out);
}

/* The largest score of a query tile of one head joins a.lse[head]: of numbers that are not negative
 * the larger has the larger bits, and a maximum does not depend on the order. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) max_kernel(struct attn a)
{
	struct tile<T> q = shared_tile<T>(a, 0), k = shared_tile<T>(a, 1);
	int head = blockIdx.y, group = head * a.g / a.n;
	int64_t q0 = a.begin + (int64_t)(gridDim.x - 1 - blockIdx.x) * TILE;
	float s[SPAN][SPAN], max = 0;

	load_tile(a, q, a.q, q0, head);
	for (int64_t k0 = first_tile(a, q0); k0 < q0 + TILE && k0 < a.s; k0 += TILE) {
		int64_t query = q0 + threadIdx.x / SIDE * SPAN, key = k0 + threadIdx.x % SIDE;

		__syncthreads();
		load_tile(a, k, a.k, k0, group);
		__syncthreads();
		scores(s, q, k, pairs_of(a));
		for (int i = 0; i < SPAN; i++)
			for (int j = 0; j < SPAN; j++)
				if (sees(a, query + i, key + SIDE * j))
					max = fmaxf(max, a.scale * s[i][j]);
	}
	max = side_max(max);
	if (threadIdx.x % SIDE == 0)
		atomicMax((int *)a.lse.data + head, __float_as_int(max));
}

/* delta of each row of each head, the sum of dout * out: one warp per row. */
template <typename T>
static __global__ void
delta_kernel(struct attn a)
{
	int64_t query = a.begin + blockIdx.x * (int64_t)(CU_THREADS / 32) + threadIdx.x / 32;
	int head = blockIdx.y;
	float sum = 0;

	if (query >= a.s)
		return;
	for (int c = threadIdx.x % 32; c < a.out.shape[1]; c += 32)
		sum += to_float(head_row<T>(a, a.dout, query, head)[c]) *
		    to_float(head_row<T>(a, a.out, query, head)[c]);
	sum = warp_sum(sum);
	if (threadIdx.x % 32 == 0)
		*statistic(a, a.delta, query, head) = sum;
}

/* dq of one query tile: the sum over its key tiles of scale ds k, with ds = P (dP mask - delta) and
 * dP = dout v^T. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) queries_kernel(struct attn a)
{
	struct tile<T> q = shared_tile<T>(a, 0), dout = shared_tile<T>(a, 1),
		       kv = shared_tile<T>(a, 2);
	float *weights = (float *)shared_tile<T>(a, 3).p;
	int head = blockIdx.y, group = head * a.g / a.n;
	int64_t q0 = a.begin + (int64_t)(gridDim.x - 1 - blockIdx.x) * TILE,
		row = q0 + threadIdx.x / SIDE * SPAN;
	float s[SPAN][SPAN], dp[SPAN][SPAN], lse[SPAN], delta[SPAN];
	struct part dq;

	clear(&dq);
	load_tile(a, q, a.q, q0, head);
	load_tile(a, dout, a.dout, q0, head);
	for (int i = 0; i < SPAN; i++) {
		lse[i] = row + i < a.s ? *statistic(a, a.lse, row + i, head) : 0;
		delta[i] = row + i < a.s ? *statistic(a, a.delta, row + i, head) : 0;
	}
	for (int64_t k0 = first_tile(a, q0); k0 < q0 + TILE && k0 < a.s; k0 += TILE) {
		__syncthreads();
		load_tile(a, kv, a.v, k0, group);
		__syncthreads();
		scores(dp, dout, kv, pairs_of(a));
		if (a.drop.on)
			drop_scores(a, dp, head, q0, k0);
		__syncthreads();
		load_tile(a, kv, a.k, k0, group);
		__syncthreads();
		scores(s, q, kv, pairs_of(a));
		for (int i = 0; i < SPAN; i++)
			for (int j = 0; j < SPAN; j++) {
				bool seen = sees(a, row + i, k0 + threadIdx.x % SIDE + SIDE * j);
				float x = finish_score(a, s[i][j]), y = x * a.per_cap;

				s[i][j] = seen ? expf(x - lse[i]) * (dp[i][j] - delta[i]) *
					a.scale * (1 - y * y)
					       : 0;
			}
		share(weights, s);
		__syncthreads();
		weigh(&dq, weights, kv, pairs_of(a));
	}
	store_part<T>(a, a.dq, q0, head, &dq);
}

/* The weights of a tile of keys by queries: p = P, from scores by keys; zero where the query does
 * not see the key. */
static __device__ inline void
weights_by_keys(const struct attn &a, float p[SPAN][SPAN], int head, int64_t k0, int64_t q0)
{
	int64_t key = k0 + threadIdx.x / SIDE * SPAN, query = q0 + threadIdx.x % SIDE;

#pragma unroll
	for (int j = 0; j < SPAN; j++) {
		float lse =
		    query + SIDE * j < a.s ? *statistic(a, a.lse, query + SIDE * j, head) : 0;

#pragma unroll
		for (int i = 0; i < SPAN; i++)
			p[i][j] = sees(a, query + SIDE * j, key + i)
			    ? expf(finish_score(a, p[i][j]) - lse)
			    : 0;
	}
}

/* p <- P mask, which weighs dout into dv, and dp <- scale slope P (dP mask - delta), which weighs q
 * into dk. */
static __device__ inline void
gradients_by_keys(const struct attn &a, float p[SPAN][SPAN], float dp[SPAN][SPAN], int head,
    int64_t k0, int64_t q0)
{
	int64_t key = k0 + threadIdx.x / SIDE * SPAN, query = q0 + threadIdx.x % SIDE;

#pragma unroll
	for (int j = 0; j < SPAN; j++) {
		bool real = query + SIDE * j < a.s;
		float delta = real ? *statistic(a, a.delta, query + SIDE * j, head) : 0,
		      lse = real && a.cap > 0 ? *statistic(a, a.lse, query + SIDE * j, head) : 0;

#pragma unroll
		for (int i = 0; i < SPAN; i++) {
			float factor = drop_factor(a, head, query + SIDE * j, key + i);

			dp[i][j] = a.scale * p[i][j] * (dp[i][j] * factor - delta);
			if (a.cap > 0)
				dp[i][j] *= slope_of_weight(a, p[i][j], lse);
			p[i][j] *= factor;
		}
	}
}

/* dk and dv of one key tile: the sums over the query heads of its group, and the query tiles that
 * see it, in order. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) keys_kernel(struct attn a)
{
	struct tile<T> k = shared_tile<T>(a, 0), v = shared_tile<T>(a, 1), x = shared_tile<T>(a, 2);
	float *weights = (float *)shared_tile<T>(a, 3).p;
	int group = blockIdx.y, heads = a.n / a.g;
	int64_t k0 = (int64_t)blockIdx.x * TILE, last = (k0 + TILE < a.s ? k0 + TILE : a.s) - 1;
	int64_t end = a.window > 0 && last + a.window < a.s ? last + a.window : a.s,
		begin = k0 > a.begin ? k0 : a.begin;
	float p[SPAN][SPAN], dp[SPAN][SPAN];
	struct part dk, dv;

	clear(&dk);
	clear(&dv);
	load_tile(a, k, a.k, k0, group);
	load_tile(a, v, a.v, k0, group);
	for (int head = group * heads; head < (group + 1) * heads; head++)
		for (int64_t q0 = begin; q0 < end && document_start(a, q0) <= last; q0 += TILE) {
			__syncthreads();
			load_tile(a, x, a.q, q0, head);
			__syncthreads();
			scores(p, k, x, pairs_of(a));
			weights_by_keys(a, p, head, k0, q0);
			__syncthreads();
			load_tile(a, x, a.dout, q0, head);
			__syncthreads();
			scores(dp, v, x, pairs_of(a));
			gradients_by_keys(a, p, dp, head, k0, q0);
			share(weights, p);
			__syncthreads();
			weigh(&dv, weights, x, pairs_of(a));
			__syncthreads();
			load_tile(a, x, a.q, q0, head);
			share(weights, dp);
			__syncthreads();
			weigh(&dk, weights, x, pairs_of(a));
		}
	store_part<T>(a, a.dk, k0, group, &dk);
	store_part<T>(a, a.dv, k0, group, &dv);
}

/* Launches a kernel with shared memory for its tiles and one of weights. Above 48 KiB a kernel
 * has to ask for its shared memory first. */
template <typename T>
static void
launch(struct stream *st, void (*kernel)(struct attn), const struct attn *a, dim3 grid, int tiles)
{
	size_t bytes =
	    (size_t)tiles * TILE * (size_t)ld_of(*a) * sizeof(T) + TILE * LD * sizeof(float);
	cudaError_t rc = cudaFuncSetAttribute(
	    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);

	if (rc != cudaSuccess) {
		(void)cudaGetLastError();
		cu_fail(st->device, "attention",
		    "the head size needs more shared memory than this GPU has");
		return;
	}
	kernel<<<grid, CU_THREADS, bytes, cu_handle(st)>>>(*a);
}

/* One block per tile, head and sample; two tiles of shared memory: the queries, and keys or values
 * in turn. */
template <typename T>
static void
forward(struct stream *st, const struct attn *a)
{
	dim3 grid((unsigned)int64_div_up(a->s - a->begin, TILE), (unsigned)a->n, (unsigned)a->b);

	launch<T>(st, forward_kernel<T>, a, grid, 2);
}

template <typename T>
static void
largest(struct stream *st, const struct attn *a)
{
	dim3 grid((unsigned)int64_div_up(a->s - a->begin, TILE), (unsigned)a->n, (unsigned)a->b);

	launch<T>(st, max_kernel<T>, a, grid, 2);
}

/* Three kernels on one stream: delta is complete when the others read it. Three tiles each; the
 * tiles that a block walks over are loaded in turn into the third. */
template <typename T>
static void
backward(struct stream *st, const struct attn *a)
{
	int64_t queries = a->s - a->begin;
	unsigned tiles = (unsigned)int64_div_up(queries, TILE);
	dim3 rows((unsigned)int64_div_up(queries, CU_THREADS / 32), (unsigned)a->n, (unsigned)a->b);
	dim3 keys((unsigned)int64_div_up(a->s, TILE), (unsigned)a->g, (unsigned)a->b);

	delta_kernel<T><<<rows, CU_THREADS, 0, cu_handle(st)>>>(*a);
	launch<T>(st, queries_kernel<T>, a, dim3(tiles, (unsigned)a->n, (unsigned)a->b), 3);
	launch<T>(st, keys_kernel<T>, a, keys, 3);
}

/* The caller has checked what the kernels assume. */
void
plain_attention_fwd(struct stream *st, const struct attention *t)
{
	struct attn a = attn_of(t);

	PICK(t->q.dtype, forward)(st, &a);
	cu_launched(st, "attention_fwd");
}

/* dq, dk and dv are written, not added to; delta [b n, s] is scratch of the caller's. */
void
plain_attention_bwd(struct stream *st, const struct attention_grad *t)
{
	struct attn a = attn_grad_of(t);

	PICK(t->fwd.q.dtype, backward)(st, &a);
	cu_launched(st, "attention_bwd");
}

/* Without outputs, whose place in the arguments the maxima take. */
void
plain_attention_max(struct stream *st, const struct attention_max *m)
{
	struct attn a = attn_of(&m->fwd);

	a.lse = m->max;
	PICK(m->fwd.q.dtype, largest)(st, &a);
	cu_launched(st, "attention_max");
}
