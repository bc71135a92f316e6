/*
 * gemm_rows.cu - a few rows times a matrix that is stored along the sum, as where text is generated
 *
 * The time is that of reading the matrix, which leaves the cache before anything else does. There
 * are as many blocks as are on the GPU at once. A warp goes through some rows of the matrix, each a
 * column of the result, and asks for several packs of each before it multiplies the first; those of
 * the few rows are in the caches. Sums are in F32: of a lane in the order of its packs, then over
 * the lanes. Where the GPU lets a kernel begin before the one before it has ended, some of the
 * matrix goes into the cache meanwhile.
 */
#include "train/cuda/early.cuh"

enum {
	ROWS_MAX = 4,
	COLUMNS = 2, /* of a warp, where there are enough for all multiprocessors; or 1 */
	AHEAD = 16,  /* packs of a lane that are asked for at once */
	WARPS = CU_THREADS / 32,
	RESIDENT = 2, /* blocks of a multiprocessor at once */
	EARLY = 1024  /* bytes of a row that are fetched before the sums begin */
};

/* A pack that is read once, by one lane of the GPU: what else is in the cache stays there. */
template <typename T, int N>
static __device__ inline pack<T, N>
fetch_once(const T *p)
{
	pack<T, N> v;
	uint4 w;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint64_t first;

	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
	asm volatile(
	    "ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
	    : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
	    : "l"(p), "l"(first));
#else
	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
		     : "l"(p));
#endif
	move<T, N>(&v, &w);
	return v;
}

/* The first bytes of a row, of a line of 128 bytes and on by one from each lane. */
static __device__ inline void
prefetch_row(const char *row, int64_t bytes)
{
	for (int64_t at = threadIdx.x % 32 * 128; at < min(bytes, (int64_t)EARLY); at += 32 * 128)
		asm volatile("prefetch.global.L2 [%0];" : : "l"(row + at));
}

/* A lane's sums for C rows of b with M rows of a. */
template <typename T, int M, int C> struct lane_sums {
	const T *a, *b[C];
	int64_t stride; /* of a */
	float sum[M][C];
};

/* While COUNT more packs, 32 apart, are there: they are added. */
template <int COUNT, typename T, int M, int C>
static __device__ inline void
add_packs(struct lane_sums<T, M, C> &s, int &at, int packs)
{
	enum { N = full<T>::width };

	for (; at + 32 * (COUNT - 1) < packs; at += 32 * COUNT) {
		pack<T, N> v[C][COUNT];

#pragma unroll
		for (int u = 0; u < COUNT; u++)
#pragma unroll
			for (int j = 0; j < C; j++)
				v[j][u] = fetch_once<T, N>(s.b[j] + (at + 32 * u) * N);
#pragma unroll
		for (int u = 0; u < COUNT; u++)
#pragma unroll
			for (int r = 0; r < M; r++) {
				float x[N];

				load(x, s.a + r * s.stride + (at + 32 * u) * N);
#pragma unroll
				for (int j = 0; j < C; j++) {
					float y[N];

					unpack(y, v[j][u]);
#pragma unroll
					for (int k = 0; k < N; k++)
						s.sum[r][j] += x[k] * y[k];
				}
			}
	}
}

/* C columns from `first` on of the result's M rows, by their sums. */
template <typename T, int M, int C>
static __device__ inline void
put_sums(const struct gemm &g, const struct lane_sums<T, M, C> &s, int64_t first)
{
#pragma unroll
	for (int r = 0; r < M; r++)
#pragma unroll
		for (int j = 0; j < C; j++) {
			float x = warp_sum(s.sum[r][j]) * (float)g.alpha;

			if (threadIdx.x % 32 != r * C + j || first + j >= g.c.shape[1])
				continue;
			if (g.bias.data)
				x += to_float(((const T *)g.bias.data)[first + j]);
			put(row_of<T>(g.c, r) + first + j, x);
		}
}

/* M rows of a, C columns of a warp at once. The next kernel may begin when all blocks have come to
 * their last columns: before, it would only take room in the cache. */
template <typename T, int M, int C>
static __global__ void
__launch_bounds__(CU_THREADS, RESIDENT) rows_kernel(const struct gemm g)
{
	int64_t first = ((int64_t)blockIdx.x * WARPS + threadIdx.x / 32) * C,
		step = (int64_t)gridDim.x * WARPS * C, last = g.c.shape[1] - 1;
	int packs = (int)(g.a.shape[1] / full<T>::width);

#pragma unroll
	for (int j = 0; j < C && first <= last; j++)
		prefetch_row((const char *)row_of<T>(g.b, min(first + j, last)),
		    g.a.shape[1] * (int64_t)sizeof(T));
	if (step > last)
		let_next_begin();
	await_previous();
	for (; first <= last; first += step) {
		int at = threadIdx.x % 32;
		struct lane_sums<T, M, C> s = {
		};

		if (first + step > last)
			let_next_begin();
		s.a = (const T *)g.a.data;
		s.stride = g.a.stride[0];
#pragma unroll
		for (int j = 0; j < C; j++)
			s.b[j] = row_of<T>(g.b, min(first + j, last));
		add_packs<AHEAD / C>(s, at, packs);
		add_packs<AHEAD / C / 2>(s, at, packs);
		add_packs<AHEAD / C / 4>(s, at, packs);
		add_packs<1>(s, at, packs);
		put_sums(g, s, first);
	}
}

template <typename T, int C>
static void
launch_columns(struct stream *st, const struct gemm *g)
{
	static void (*const kernel[ROWS_MAX])(const struct gemm) = { rows_kernel<T, 1, C>,
		rows_kernel<T, 2, C>, rows_kernel<T, 3, C>, rows_kernel<T, 4, C> };
	int64_t blocks = int64_min(
	    int64_div_up(g->c.shape[1], WARPS * C), RESIDENT * (int64_t)st->device->num_sms);

	cu_launch_early(st, kernel[g->c.shape[0] - 1], { (unsigned)blocks, CU_THREADS, 0 }, *g);
}

/* A column has the same sum either way. */
template <typename T>
static void
launch(struct stream *st, const struct gemm *g)
{
	if (g->c.shape[1] > (int64_t)WARPS * COLUMNS * RESIDENT * st->device->num_sms)
		launch_columns<T, COLUMNS>(st, g);
	else
		launch_columns<T, 1>(st, g);
}

bool
gemm_rows_takes(const struct gemm *g)
{
	int width = 16 / (int)dtype_size(g->b.dtype);

	return g->c.shape[0] <= ROWS_MAX && !g->trans_a && g->trans_b && g->a.dtype == g->b.dtype &&
	    g->c.dtype == g->b.dtype && !dtype_is_float8(g->b.dtype) && g->beta == 0 &&
	    g->act == GEMM_LINEAR && !g->dbias.data &&
	    (!g->bias.data || g->bias.dtype == g->c.dtype) && cu_packs(&g->a, width) &&
	    cu_packs(&g->b, width);
}

void
gemm_rows(struct stream *st, const struct gemm *g)
{
	PICK(g->b.dtype, launch)(st, g);
	cu_launched(st, "gemm");
}
