/*
 * kernel.cuh - shared by kernels: storage types, packs of elements, sums over a block, loops over
 * the elements of a tensor, dispatch by dtype
 *
 * Arithmetic is in float, whatever the storage. Blocks have CU_THREADS threads unless a kernel says
 * otherwise. A sum over a block is taken in one order that follows from the number of threads
 * alone.
 *
 * Kernels that are bound by memory are written for packs of N neighbours: N fills 16 bytes where
 * addresses, rows and strides allow it (cu_packs), and is 1 elsewhere. Both are the same source.
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

/* Two neighbours by one conversion where the hardware has it. */
static __device__ inline void
put_two(float *p, float x, float y)
{
	p[0] = x;
	p[1] = y;
}

static __device__ inline void
put_two(bf16 *p, float x, float y)
{
	*(__nv_bfloat162 *)p = __floats2bfloat162_rn(x, y);
}

static __device__ inline void
put_two(half *p, float x, float y)
{
	*(__half2 *)p = __floats2half2_rn(x, y);
}

/* tanh by the special function unit, good to 1e-7 of its range: 1 - 2 / (e^2x + 1). */
static __device__ inline float
fast_tanh(float x)
{
	float power;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 2.8853900817779268f));
	return 1 - __fdividef(2, power + 1);
}

/* Element i in double, which holds every floating type exactly; for what is too rare for a kernel
 * of its type. */
static __device__ inline double
load_any(const struct tensor &t, int64_t i)
{
	switch (t.dtype) {
	case DTYPE_F64: return ((const double *)t.data)[i];
	case DTYPE_F32: return ((const float *)t.data)[i];
	case DTYPE_BF16: return to_float(((const bf16 *)t.data)[i]);
	default: return to_float(((const half *)t.data)[i]);
	}
}

/* Rounds once to the type of the tensor. */
static __device__ inline void
store_any(const struct tensor &t, int64_t i, double x)
{
	switch (t.dtype) {
	case DTYPE_F64: ((double *)t.data)[i] = x; break;
	case DTYPE_F32: ((float *)t.data)[i] = (float)x; break;
	case DTYPE_BF16: ((bf16 *)t.data)[i] = __double2bfloat16(x); break;
	default: ((half *)t.data)[i] = __double2half(x); break;
	}
}

/* --- packs ------------------------------------------------------------------------------------ */

/* N neighbours of a row, moved as one. */
template <typename T, int N> struct alignas(sizeof(T) * N) pack {
	T at[N];
};

/* The word that moves so many bytes. */
template <int BYTES> struct word {
	typedef uint4 type;
};
template <> struct word<8> {
	typedef uint2 type;
};
template <> struct word<4> {
	typedef uint32_t type;
};
template <> struct word<2> {
	typedef uint16_t type;
};

/* Moves a pack by words, which the compiler does not do by itself. */
template <typename T, int N>
static __device__ inline void
move(void *to, const void *from)
{
	typedef typename word<sizeof(pack<T, N>)>::type unit;

#pragma unroll
	for (int i = 0; i < (int)(sizeof(pack<T, N>) / sizeof(unit)); i++)
		((unit *)to)[i] = ((const unit *)from)[i];
}

template <typename T, int N>
static __device__ inline pack<T, N>
fetch(const T *p)
{
	pack<T, N> v;

	move<T, N>(&v, p);
	return v;
}

/* How many elements of T fill 16 bytes. */
template <typename T> struct full {
	enum { width = 16 / sizeof(T) };
};

template <typename T, int N>
static __device__ inline void
unpack(float (&x)[N], const pack<T, N> &p)
{
#pragma unroll
	for (int i = 0; i < N; i++)
		x[i] = to_float(p.at[i]);
}

template <typename T, int N>
static __device__ inline void
load(float (&x)[N], const T *p)
{
	unpack(x, fetch<T, N>(p));
}

/* x rounded to T. */
template <typename T, int N>
static __device__ inline pack<T, N>
packed(const float (&x)[N])
{
	pack<T, N> p;

	if (N % 2)
		put(p.at, x[0]);
	else
#pragma unroll
		for (int i = 0; i + 1 < N; i += 2)
			put_two(p.at + i, x[i], x[i + 1]);
	return p;
}

template <typename T, int N>
static __device__ inline void
store(T *p, const float (&x)[N])
{
	pack<T, N> v = packed<T, N>(x);

	move<T, N>(p, &v);
}

/* Whether t can be read and written in packs of n elements: by its address, the stride of its rows,
 * and because no pack crosses the end of a row. True for a missing tensor. */
static inline bool
cu_packs(const struct tensor *t, int n)
{
	size_t bytes = (size_t)n * dtype_size(t->dtype),
	       stride = (size_t)t->stride[0] * dtype_size(t->dtype);

	if (!t->data || n == 1)
		return true;
	return (uintptr_t)t->data % bytes == 0 && tensor_num_columns(t) % n == 0 &&
	    (tensor_num_rows(t) <= 1 || stride % bytes == 0);
}

/* First element of a row; a vector has row 0. */
template <typename T>
static __device__ inline T *
row_of(const struct tensor &t, int64_t row)
{
	return (T *)t.data + row * t.stride[0];
}

/* A position that the device's memory holds; without one it is 0. */
static __device__ inline int
position_at(const struct tensor &t)
{
	return t.data ? *(const int32_t *)t.data : 0;
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
#define FOR_ELEMENTS(row, column, rows, columns) \
	for (int64_t row = blockIdx.y; row < (rows); row += gridDim.y) \
		for (int64_t column = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; \
		     column < (columns); column += gridDim.x * (int64_t)CU_THREADS)

/* About four elements per thread. */
static inline dim3
element_grid(int64_t rows, int64_t columns)
{
	return dim3((unsigned)int64_max(1, int64_min(int64_div_up(columns, 4 * CU_THREADS), 65536)),
	    (unsigned)int64_max(1, int64_min(rows, 65535)));
}

/* A loop over the packs of [rows, columns]: a thread's next pack, without a division each time. */
struct walk {
	int64_t rows, per_row;       /* packs of a row */
	int64_t step_row, step_pack; /* one step of the whole grid */
	unsigned blocks;             /* of CU_THREADS threads */
};

static inline struct walk
walk_by(int64_t rows, int64_t per_row, unsigned blocks)
{
	int64_t step = blocks * (int64_t)CU_THREADS;
	struct walk w = { rows, int64_max(1, per_row), 0, 0, blocks };

	w.step_row = step / w.per_row;
	w.step_pack = step % w.per_row;
	if (per_row == 0)
		w.rows = 0;
	return w;
}

/* Enough blocks to fill the GPU many times, so that the last wave is short compared with the
 * others, and few enough that a thread's start is short compared with its work. */
static inline struct walk
walk_of(const struct stream *st, int64_t rows, int64_t columns, int n)
{
	int64_t most = 64 * (int64_t)st->device->num_sms,
		blocks = int64_div_up(rows * int64_max(1, columns / n), CU_THREADS);

	return walk_by(rows, columns / n, (unsigned)int64_max(1, int64_min(blocks, most)));
}

/* Every pack once. */
#define FOR_PACKS(w, row, at) \
	for (int64_t first_ = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x, \
		     row = first_ / (w).per_row, at = first_ % (w).per_row; \
	     row < (w).rows; row += (w).step_row + (at + (w).step_pack >= (w).per_row), \
		     at += \
	     at + (w).step_pack >= (w).per_row ? (w).step_pack - (w).per_row : (w).step_pack)

/* --- sums over a block ------------------------------------------------------------------------ */
template <typename R>
static __device__ inline R
warp_sum(R x)
{
	for (int lane = 16; lane > 0; lane /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, lane);
	return x;
}

/* The largest over a warp; NaN is passed over. */
static __device__ inline float
warp_max(float x)
{
	for (int lane = 16; lane > 0; lane /= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
	return x;
}

/* By one instruction where the hardware has it. */
static __device__ inline uint32_t
warp_max(uint32_t x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	return __reduce_max_sync(0xffffffffu, x);
#else
	for (int lane = 16; lane > 0; lane /= 2)
		x = max(x, __shfl_xor_sync(0xffffffffu, x, lane));
	return x;
#endif
}

/* The sum of x over all threads, in all threads. */
template <typename R, int THREADS = CU_THREADS>
static __device__ inline R
block_sum(R x)
{
	__shared__ R part[THREADS / 32];
	R sum = 0;

	x = warp_sum(x);
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	for (int i = 0; i < THREADS / 32; i++)
		sum += part[i];
	return sum;
}

/* The largest x over all threads, in all threads; NaN is passed over. */
static __device__ inline float
block_max(float x)
{
	__shared__ float part[CU_THREADS / 32];

	x = warp_max(x);
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	for (int i = 0; i < CU_THREADS / 32; i++)
		x = fmaxf(x, part[i]);
	return x;
}

/* The sum of x over the lanes up to this one. */
template <typename R>
static __device__ inline R
warp_scan(R x)
{
	for (int step = 1; step < 32; step *= 2) {
		R other = __shfl_up_sync(0xffffffffu, x, step);

		x += (int)threadIdx.x % 32 >= step ? other : 0;
	}
	return x;
}

/* The rows that arrive at a rank's experts (train/ops.h), in every lane of a warp. */
static __device__ inline int64_t
warp_received(const struct tensor &counts)
{
	int64_t cells = counts.shape[0] * counts.shape[1], n = 0;

	for (int64_t i = threadIdx.x % 32; i < cells; i += 32)
		n += row_of<int32_t>(counts, i / counts.shape[1])[i % counts.shape[1]];
	return warp_sum(n);
}

/* Rows of the round that are somebody's. */
static __device__ inline int64_t
rows_of_round(const struct tensor &counts, int64_t first, int64_t round)
{
	int64_t n = warp_received(counts) - first;

	return n < 0 ? 0 : n < round ? n : round;
}

#endif
