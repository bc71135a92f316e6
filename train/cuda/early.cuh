/*
 * early.cuh - kernels that begin before the one before them in the stream has ended
 *
 * The time between two kernels, and what a kernel does before it needs the results of others, is
 * beside the end of the one before: a large part of it all where kernels are short. Compute
 * capability 9.0 has this; on others they follow each other as always.
 */
#ifndef TRAIN_CUDA_EARLY_CUH
#define TRAIN_CUDA_EARLY_CUH

#include "train/cuda/kernel.cuh"

/* From here on a kernel that is launched early may begin, in what room is left. */
static __device__ inline void
let_next_begin(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* In a kernel that is launched early: all that was queued before it is done, and its writes are
 * seen. Before this it writes nothing, and reads only what no kernel that is launched early makes,
 * unless the host has waited for that one: a copy, or a kernel that is not, has ended when any
 * kernel after it begins. */
static __device__ inline void
await_previous(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct launch_size {
	dim3 grid, block;
	size_t shared; /* bytes */
};

/* Launches a kernel in which all threads await_previous(), so that it begins, where the GPU can,
 * before the one before it has ended. */
template <typename... P, typename... A>
static void
cu_launch_early(struct stream *st, void (*kernel)(P...), const struct launch_size &z, A... a)
{
	cudaLaunchAttribute early = {};
	cudaLaunchConfig_t how = {};

	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	how.gridDim = z.grid;
	how.blockDim = z.block;
	how.dynamicSmemBytes = z.shared;
	how.stream = cu_handle(st);
	how.attrs = &early;
	how.numAttrs = st->device->early;
	cu_ok(st->device, cudaLaunchKernelEx(&how, kernel, a...), "launch");
}

/* Launches such a kernel so where it has no more blocks than the GPU has multiprocessors: it is
 * short then, and a longer one gains nothing. */
template <typename... P, typename... A>
static void
cu_launch_small_early(struct stream *st, void (*kernel)(P...), const struct launch_size &z, A... a)
{
	if ((int64_t)z.grid.x * z.grid.y * z.grid.z <= st->device->num_sms)
		cu_launch_early(st, kernel, z, a...);
	else
		kernel<<<z.grid, z.block, z.shared, cu_handle(st)>>>(a...);
}

#endif
