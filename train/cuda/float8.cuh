/*
 * float8.cuh - conversion to 8-bit floats, by the instruction that compute capability 8.9 has
 *
 * To nearest, ties to even, held to the largest finite number, NaN to 0x7f. Source: PTX ISA 8,
 * "cvt", .satfinite.
 */
#ifndef TRAIN_CUDA_FLOAT8_CUH
#define TRAIN_CUDA_FLOAT8_CUH

#include "train/cuda/kernel.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
#define SM89(...) \
	__trap() /* an instruction that is not there: the host launches no kernel that comes to it \
		  */
#else
#define SM89(...) asm(__VA_ARGS__)
#endif

/* Four numbers, the first in the lowest byte. F8: an enum dtype. */
template <int F8>
static __device__ inline uint32_t
float8_four(float x0, float x1, float x2, float x3)
{
	uint32_t out = 0;

	if (F8 == DTYPE_F8_E4M3)
		SM89("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;"
		     " cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
		     : "=r"(out)
		     : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
	else
		SM89("{ .reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1;"
		     " cvt.rn.satfinite.e5m2x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
		     : "=r"(out)
		     : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
	return out;
}

#endif
