/*
 * rope.cu - rotary positions. Source: docs/math.md 2.4
 *
 * The same pairs and the same table as cpu/rope.c, the table in F32. Rotated in place: a thread
 * owns both elements of its pairs, so nothing is read after it was written. Heads of a row share
 * the table's row, which stays in the caches.
 */
#include "train/cuda/early.cuh"

/* Cosine and sine of N pairs, the sine negated in the backward pass. */
template <int N>
static __device__ inline void
angles(const struct rope &r, const float *table, float (&cosine)[N], float (&sine)[N])
{
	float both[2 * N];

	load(both, table);
#pragma unroll
	for (int k = 0; k < N; k++) {
		cosine[k] = both[2 * k];
		sine[k] = r.backward ? -both[2 * k + 1] : both[2 * k + 1];
	}
}

/* N pairs (i, i + rotary_dim / 2) of a head: `at` counts the packs of all heads of a row. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) halves_kernel(struct rope r, struct walk w)
{
	int half = r.rotary_dim / 2, per_head = half / N;

	let_next_begin();
	await_previous();
	FOR_PACKS(w, row, at)
	{
		int head = (int)at / per_head, pair = (int)at % per_head * N;
		int64_t position = ((const int32_t *)r.positions.data)[row];
		T *x = row_of<T>(r.x, row) + (int64_t)head * r.head_dim + r.first + pair;
		float u[N], v[N], cosine[N], sine[N], rotated[N];

		load(u, x);
		load(v, x + half);
		angles(r, row_of<float>(r.table, position) + 2 * pair, cosine, sine);
#pragma unroll
		for (int k = 0; k < N; k++) {
			rotated[k] = u[k] * cosine[k] - v[k] * sine[k];
			v[k] = v[k] * cosine[k] + u[k] * sine[k];
		}
		store(x, rotated);
		store(x + half, v);
	}
}

/* 2 N elements as packs of no more than the N that the launcher has looked at when N is 1. */
template <typename T, int N>
static __device__ inline void
load_pairs(float (&x)[2 * N], const T *p)
{
	if (N > 1)
		load(x, p);
	else {
		x[0] = to_float(p[0]);
		x[1] = to_float(p[1]);
	}
}

/* As load_pairs. */
template <typename T, int N>
static __device__ inline void
store_pairs(T *p, const float (&x)[2 * N])
{
	if (N > 1)
		store(p, x);
	else {
		put(p, x[0]);
		put(p + 1, x[1]);
	}
}

/* N pairs (2i, 2i + 1), side by side. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) pairs_kernel(struct rope r, struct walk w)
{
	int per_head = r.rotary_dim / 2 / N;

	let_next_begin();
	await_previous();
	FOR_PACKS(w, row, at)
	{
		int head = (int)at / per_head, pair = (int)at % per_head * N;
		int64_t position = ((const int32_t *)r.positions.data)[row];
		T *x = row_of<T>(r.x, row) + (int64_t)head * r.head_dim + r.first + 2 * pair;
		float u[2 * N], rotated[2 * N], cosine[N], sine[N];

		load_pairs<T, N>(u, x);
		angles(r, row_of<float>(r.table, position) + 2 * pair, cosine, sine);
#pragma unroll
		for (int k = 0; k < N; k++) {
			rotated[2 * k] = u[2 * k] * cosine[k] - u[2 * k + 1] * sine[k];
			rotated[2 * k + 1] = u[2 * k + 1] * cosine[k] + u[2 * k] * sine[k];
		}
		store_pairs<T, N>(x, rotated);
	}
}

/* True when packs of n elements of x and of the table begin where pairs do, in each head and in the
 * second half of each. */
static bool
packs(const struct rope *r, int n)
{
	int unit = r->interleaved ? r->rotary_dim : r->rotary_dim / 2;
	size_t size = dtype_size(r->x.dtype);

	return unit % n == 0 && r->head_dim % n == 0 && r->first % n == 0 &&
	    (uintptr_t)r->x.data % (n * size) == 0 && r->x.stride[0] % n == 0 &&
	    (uintptr_t)r->table.data % 16 == 0 && r->table.stride[0] % 4 == 0;
}

/* N pairs a thread, N elements of each of its packs 16 bytes; or one by one. */
template <typename T>
static void
launch(struct stream *st, const struct rope *r)
{
	enum { N = full<T>::width };
	bool wide = packs(r, N);
	int pairs = r->rotary_dim / 2, n = wide ? (r->interleaved ? N / 2 : (int)N) : 1;
	struct walk w = walk_of(st, r->x.shape[0], (int64_t)r->num_heads * pairs, n);
	const struct launch_size z = { w.blocks, CU_THREADS, 0 };

	if (wide && r->interleaved)
		cu_launch_small_early(st, pairs_kernel<T, N / 2>, z, *r, w);
	else if (wide)
		cu_launch_small_early(st, halves_kernel<T, N>, z, *r, w);
	else if (r->interleaved)
		cu_launch_small_early(st, pairs_kernel<T, 1>, z, *r, w);
	else
		cu_launch_small_early(st, halves_kernel<T, 1>, z, *r, w);
}

/* Positions are below the table's rows: the sequence length of the plan bounds both. */
void
cuda_rope(struct stream *st, const struct rope *r)
{
	ops_require(r->x.ndim == 2 && r->x.shape[1] == (int64_t)r->num_heads * r->head_dim);
	ops_require(
	    r->rotary_dim % 2 == 0 && r->first >= 0 && r->first + r->rotary_dim <= r->head_dim);
	ops_require(r->table.dtype == DTYPE_F32 && r->positions.dtype == DTYPE_I32);
	if (r->x.shape[0] == 0 || r->rotary_dim == 0)
		return;
	PICK(r->x.dtype, launch)(st, r);
	cu_launched(st, "rope");
}
