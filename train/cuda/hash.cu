/*
 * hash.cu - the hash of the bits of a tensor
 *
 * Sums of 64 bits are the same in any order, so blocks add theirs to the result as they end.
 */
#include "train/cuda/kernel.cuh"

enum { BLOCKS = 1056 }; /* 8 on each of 132 SMs */

/* Of splitmix64; ops.h has the reference. */
static __device__ inline unsigned long long
mixed(int64_t i, unsigned long long bits)
{
	unsigned long long z = (unsigned long long)(i + 1) * 0x9e3779b97f4a7c15ull + bits;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* T: an unsigned type as long as an element. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) hash_kernel(const T *x, int64_t count, unsigned long long *out)
{
	unsigned long long sum = 0;

#pragma unroll 4
	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < count;
	     i += gridDim.x * (int64_t)CU_THREADS)
		sum += mixed(i, x[i]);
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		atomicAdd(out, sum);
}

template <typename T>
static void
launch(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	int64_t count = tensor_elements(x);
	int64_t blocks = int64_max(1, int64_min(BLOCKS, int64_div_up(count, 16 * CU_THREADS)));

	hash_kernel<<<(unsigned)blocks, CU_THREADS, 0, cu_handle(st)>>>(
	    (const T *)x->data, count, (unsigned long long *)out->data);
}

/* y (I64) = the sum over the elements of x, which is dense and of any floating type. */
void
cuda_hash(struct stream *st, const struct pair *p)
{
	const struct tensor *out = &p->y, *x = &p->x;

	ops_require(out->dtype == DTYPE_I64 && dtype_is_float(x->dtype) &&
	    (x->ndim == 1 || x->stride[0] == x->shape[1]));
	cudaMemsetAsync(out->data, 0, sizeof(int64_t), cu_handle(st));
	switch (dtype_size(x->dtype)) {
	case 2: launch<uint16_t>(st, out, x); break;
	case 4: launch<uint32_t>(st, out, x); break;
	default: launch<uint64_t>(st, out, x); break;
	}
	cu_launched(st, "hash");
}
