/*
 * route.cuh - shared by the kernels that choose experts and place their rows: sums over a block in
 * the order of its threads, and where counts stand
 */
#ifndef TRAIN_CUDA_ROUTE_CUH
#define TRAIN_CUDA_ROUTE_CUH

#include "train/cuda/kernel.cuh"

enum { WARPS = CU_THREADS / 32 };

static __device__ inline int
lane_of(void)
{
	return threadIdx.x % 32;
}

/* The sum of x over the threads up to this one; *all: over all of them. */
static __device__ inline int32_t
block_prefix(int32_t x, int32_t *all)
{
	__shared__ int32_t sums[WARPS];
	int32_t before = 0;

	*all = 0;
	x = warp_scan(x);
	__syncthreads();
	if (lane_of() == 31)
		sums[threadIdx.x / 32] = x;
	__syncthreads();
	for (int i = 0; i < WARPS; i++) {
		before += i < (int)threadIdx.x / 32 ? sums[i] : 0;
		*all += sums[i];
	}
	return before + x;
}

/* out[i] = the sum of in[0 .. i - 1]; returns that of all. out may be in. */
static __device__ inline int32_t
prefix(int32_t *out, const int32_t *in, int count)
{
	int32_t before = 0, all;

	for (int first = 0; first < count; first += CU_THREADS) {
		int i = first + threadIdx.x;
		int32_t x = i < count ? in[i] : 0, to = block_prefix(x, &all);

		if (i < count)
			out[i] = before + to - x;
		before += all;
	}
	return before;
}

/* How many ranks share each expert. */
static __host__ __device__ inline int
slices_of(const struct route &r)
{
	return (int)(r.permutation.shape[1] / r.topk.shape[1]);
}

/* Whether loads are of other experts than those that are chosen. */
static __host__ __device__ inline bool
loads_apart(const struct route &r)
{
	return r.bias.data || r.groups > 0;
}

/* Where the number of rows for a slice of an expert is among all counts. */
static __device__ inline int64_t
cell_of(const struct route &r, int64_t expert, int slice)
{
	int64_t local = r.counts.shape[1], rank = expert / local * slices_of(r) + slice;

	return rank * local + expert % local;
}

#endif
