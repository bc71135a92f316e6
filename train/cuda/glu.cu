/* glu.cu - elements times a function of others. Source: docs/math.md 2.12 */
#include "train/cuda/kernel.cuh"

enum { BLOCKS = 8, WARPS = CU_THREADS / 32 }; /* blocks an SM */

static __device__ inline float
logistic(float z)
{
	return 1 / (1 + expf(-z));
}

/* A warp has a row. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) glu_kernel(struct glu g)
{
	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < g.x.shape[0];
	     row += gridDim.x * (int64_t)WARPS)
		for (int64_t at = threadIdx.x % 32 * N; at < g.x.shape[1]; at += 32 * N) {
			float x[N], z[N];

			load(x, row_of<T>(g.x, row) + at);
			load(z, row_of<T>(g.z, row) + at);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[k] *= (g.silu ? z[k] : 1) * logistic(z[k]);
			store(row_of<T>(g.y, row) + at, x);
		}
}

template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) glu_grad_kernel(struct glu_grad g)
{
	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < g.x.shape[0];
	     row += gridDim.x * (int64_t)WARPS)
		for (int64_t at = threadIdx.x % 32 * N; at < g.x.shape[1]; at += 32 * N) {
			float x[N], z[N], dy[N];

			load(x, row_of<T>(g.x, row) + at);
			load(z, row_of<T>(g.z, row) + at);
			load(dy, row_of<T>(g.dy, row) + at);
#pragma unroll
			for (int k = 0; k < N; k++) {
				float p = logistic(z[k]),
				      slope = p * (g.silu ? 1 + z[k] * (1 - p) : 1 - p);

				x[k] *= dy[k] * slope;
				dy[k] *= (g.silu ? z[k] : 1) * p;
			}
			store(row_of<T>(g.dz, row) + at, x);
			store(row_of<T>(g.dx, row) + at, dy);
		}
}

static unsigned
blocks_for(const struct stream *st, int64_t rows)
{
	int64_t most = BLOCKS * (int64_t)st->device->num_sms;

	return (unsigned)int64_max(1, int64_min(int64_div_up(rows, WARPS), most));
}

template <typename T>
static void
forward(struct stream *st, const struct glu *g)
{
	enum { N = full<T>::width };
	unsigned blocks = blocks_for(st, g->x.shape[0]);

	if (cu_packs(&g->y, N) && cu_packs(&g->x, N) && cu_packs(&g->z, N))
		glu_kernel<T, N><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
	else
		glu_kernel<T, 1><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
}

template <typename T>
static void
backward(struct stream *st, const struct glu_grad *g)
{
	enum { N = full<T>::width };
	unsigned blocks = blocks_for(st, g->x.shape[0]);

	if (cu_packs(&g->dx, N) && cu_packs(&g->dz, N) && cu_packs(&g->dy, N) &&
	    cu_packs(&g->x, N) && cu_packs(&g->z, N))
		glu_grad_kernel<T, N><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
	else
		glu_grad_kernel<T, 1><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
}

static bool
alike(const struct tensor *a, const struct tensor *b)
{
	return tensor_same_shape(a, b) && a->dtype == b->dtype;
}

void
cuda_glu(struct stream *st, const struct glu *g)
{
	ops_require(alike(&g->y, &g->x) && alike(&g->z, &g->x));
	PICK(g->x.dtype, forward)(st, g);
	cu_launched(st, "glu");
}

void
cuda_glu_grad(struct stream *st, const struct glu_grad *g)
{
	ops_require(alike(&g->dx, &g->x) && alike(&g->dz, &g->x) && alike(&g->dy, &g->x) &&
	    alike(&g->z, &g->x));
	PICK(g->x.dtype, backward)(st, g);
	cu_launched(st, "glu_grad");
}
