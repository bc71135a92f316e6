/*
 * kernel.cuh - what kernels share: storage types, sums over a block, loops over the elements of a
 * tensor, the choice by dtype
 *
 * Arithmetic is in float, whatever the storage. Blocks have CU_THREADS threads. A sum over a block
 * is taken in one order that follows from the number of threads alone.
 */
#ifndef TRAIN_CUDA_KERNEL_CUH
#define TRAIN_CUDA_KERNEL_CUH

#include "train/cuda/impl.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;

/* --- storage types ---------------------------------------------------------------------------- */
static __device__ inline float
to_float(float x)
{
	return x;
}

static __device__ inline float
to_float(bf16 x)
{
	return __bfloat162float(x);
}

static __device__ inline float
to_float(half x)
{
	return __half2float(x);
}

static __device__ inline void
put(float *p, float x)
{
	*p = x;
}

/* Rounds to nearest, ties to even. */
static __device__ inline void
put(bf16 *p, float x)
{
	*p = __float2bfloat16_rn(x);
}

static __device__ inline void
put(half *p, float x)
{
	*p = __float2half_rn(x);
}

/* First element of a row; a vector has row 0. */
template <typename T>
static __device__ inline T *
row_of(const struct tensor &t, int64_t row)
{
	return (T *)t.data + row * t.stride[0];
}

/* The instance of a launcher for the type of an activation. */
template <typename F>
static F
pick(enum dtype t, F f32, F b16, F f16)
{
	switch (t) {
	case DTYPE_F32: return f32;
	case DTYPE_BF16: return b16;
	case DTYPE_F16: return f16;
	default: BUG("operation on %s", dtype_name(t));
	}
}

#define PICK(dtype, launcher) pick(dtype, launcher<float>, launcher<bf16>, launcher<half>)

/* --- loops ------------------------------------------------------------------------------------ */

/* Every element of [rows, columns] once, by a grid of element_grid(). */
#define FOR_ELEMENTS(row, column, rows, columns)                                                   \
	for (int64_t row = blockIdx.y; row < (rows); row += gridDim.y)                             \
		for (int64_t column = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x;              \
		     column < (columns); column += gridDim.x * (int64_t)CU_THREADS)

/* About four elements a thread. */
static inline dim3
element_grid(int64_t rows, int64_t columns)
{
	return dim3((unsigned)cu_max(1, cu_min(cu_div_up(columns, 4 * CU_THREADS), 65536)),
	            (unsigned)cu_max(1, cu_min(rows, 65535)));
}

/* --- sums over a block ------------------------------------------------------------------------ */
template <typename R>
static __device__ inline R
warp_sum(R x)
{
	for (int lane = 16; lane > 0; lane /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, lane);
	return x;
}

/* The sum of x over all threads, in all threads. */
template <typename R>
static __device__ inline R
block_sum(R x)
{
	__shared__ R part[CU_THREADS / 32];
	R sum = 0;

	x = warp_sum(x);
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	for (int i = 0; i < CU_THREADS / 32; i++)
		sum += part[i];
	return sum;
}

/* The largest x over all threads, in all threads; NaN is passed over. */
static __device__ inline float
block_max(float x)
{
	__shared__ float part[CU_THREADS / 32];

	for (int lane = 16; lane > 0; lane /= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	for (int i = 0; i < CU_THREADS / 32; i++)
		x = fmaxf(x, part[i]);
	return x;
}

#endif
