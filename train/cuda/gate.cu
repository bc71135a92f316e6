/*
 * gate.cu - rows times the sigmoid of a number of each. Source: docs/math.md 5.2
 *
 * A warp has a row, so that the sum over it needs no other; its order follows from the row's length
 * and alignment.
 */
#include "train/cuda/kernel.cuh"

enum { BLOCKS = 8, WARPS = CU_THREADS / 32 }; /* blocks an SM */

static __device__ inline float
sigmoid(const struct tensor &z, int64_t row)
{
	return 1 / (1 + expf(-row_of<float>(z, row)[0]));
}

template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) gate_kernel(struct gate g)
{
	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < g.x.shape[0];
	     row += gridDim.x * (int64_t)WARPS) {
		float factor = sigmoid(g.z, row);

		for (int64_t at = threadIdx.x % 32 * N; at < g.x.shape[1]; at += 32 * N) {
			float x[N];

			load(x, row_of<T>(g.x, row) + at);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[k] *= factor;
			store(row_of<T>(g.y, row) + at, x);
		}
	}
}

template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) gate_grad_kernel(struct gate_grad g)
{
	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < g.x.shape[0];
	     row += gridDim.x * (int64_t)WARPS) {
		float factor = sigmoid(g.z, row), sum = 0;

		for (int64_t at = threadIdx.x % 32 * N; at < g.x.shape[1]; at += 32 * N) {
			float x[N], dy[N];

			load(x, row_of<T>(g.x, row) + at);
			load(dy, row_of<T>(g.dy, row) + at);
#pragma unroll
			for (int k = 0; k < N; k++) {
				sum += dy[k] * x[k];
				dy[k] *= factor;
			}
			store(row_of<T>(g.dx, row) + at, dy);
		}
		sum = warp_sum(sum);
		if (threadIdx.x % 32 == 0)
			row_of<float>(g.dz, row)[0] = factor * (1 - factor) * sum;
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
forward(struct stream *st, const struct gate *g)
{
	enum { N = full<T>::width };
	unsigned blocks = blocks_for(st, g->x.shape[0]);

	if (cu_packs(&g->y, N) && cu_packs(&g->x, N))
		gate_kernel<T, N><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
	else
		gate_kernel<T, 1><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
}

template <typename T>
static void
backward(struct stream *st, const struct gate_grad *g)
{
	enum { N = full<T>::width };
	unsigned blocks = blocks_for(st, g->x.shape[0]);

	if (cu_packs(&g->dx, N) && cu_packs(&g->dy, N) && cu_packs(&g->x, N))
		gate_grad_kernel<T, N><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
	else
		gate_grad_kernel<T, 1><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*g);
}

static void
check(const struct tensor *x, const struct tensor *z)
{
	ops_require(x->ndim == 2 && z->ndim == 2 && z->shape[0] == x->shape[0] &&
	    z->shape[1] == 1 && z->dtype == DTYPE_F32);
}

void
cuda_gate(struct stream *st, const struct gate *g)
{
	check(&g->x, &g->z);
	ops_require(tensor_same_shape(&g->y, &g->x) && g->y.dtype == g->x.dtype);
	PICK(g->x.dtype, forward)(st, g);
	cu_launched(st, "gate");
}

void
cuda_gate_grad(struct stream *st, const struct gate_grad *g)
{
	check(&g->x, &g->z);
	check(&g->dy, &g->dz);
	ops_require(tensor_same_shape(&g->dy, &g->x) && tensor_same_shape(&g->dx, &g->x) &&
	    g->dy.dtype == g->x.dtype && g->dx.dtype == g->x.dtype);
	PICK(g->x.dtype, backward)(st, g);
	cu_launched(st, "gate_grad");
}
