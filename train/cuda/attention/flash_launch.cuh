/*
 * flash_launch.cuh - launches of the tiled kernels for one width; one .cu file per width, since
 * they take long to compile
 */
#ifndef TRAIN_CUDA_ATTENTION_FLASH_LAUNCH_CUH
#define TRAIN_CUDA_ATTENTION_FLASH_LAUNCH_CUH

#include "train/cuda/attention/flash_bwd.cuh"
#include "train/cuda/attention/flash_fwd.cuh"
#include "train/cuda/attention/flash_width.cuh"

/* One block for each tile of `rows` positions, head or group, and sample. */
static dim3
flash_grid(const struct attn *a, int64_t positions, int rows, int num_heads)
{
	return dim3((unsigned)int64_div_up(positions, rows), (unsigned)num_heads, (unsigned)a->b);
}

/* Above 48 KiB a kernel has to ask for its shared memory first. */
template <typename SIZE>
static void
flash_launch(struct stream *st, void (*kernel)(const struct attn), const struct attn *a,
    int64_t positions, int num_heads)
{
	if (cu_ok(st->device,
		cudaFuncSetAttribute(
		    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SIZE::BYTES),
		"attention"))
		kernel<<<flash_grid(a, positions, SIZE::ROWS, num_heads), SIZE::THREADS,
		    SIZE::BYTES, cu_handle(st)>>>(*a);
}

/* With dropout the kernel asks whether scores are capped: the time is in the drawing. */
template <typename T, int D>
static void
flash_forward(struct stream *st, const struct attn *a)
{
	if (a->drop.on)
		flash_launch<forward_size<D, true>>(
		    st, flash_forward_kernel<T, D, true, true>, a, a->s - a->begin, a->n);
	else
		flash_launch<forward_size<D, false>>(st,
		    a->cap > 0 ? flash_forward_kernel<T, D, false, true>
			       : flash_forward_kernel<T, D, false, false>,
		    a, a->s - a->begin, a->n);
}

template <typename T, int D, int SUMS>
static void
flash_keys(struct stream *st, const struct attn *a)
{
	flash_launch<backward_size<D>>(st,
	    a->cap > 0 ? flash_keys_kernel<T, D, true, SUMS> : flash_keys_kernel<T, D, false, SUMS>,
	    a, a->s, a->g);
}

/* All kernels on one stream: delta is complete when the others read it. */
template <typename T, int D>
static void
flash_backward(struct stream *st, const struct attn *a)
{
	flash_delta_kernel<T><<<flash_grid(a, a->s - a->begin, CU_THREADS / 16, a->n), CU_THREADS,
	    0, cu_handle(st)>>>(*a);
	flash_launch<backward_size<D>>(st,
	    a->cap > 0 ? flash_queries_kernel<T, D, true> : flash_queries_kernel<T, D, false>, a,
	    a->s - a->begin, a->n);
	if constexpr (D > 128) {
		flash_keys<T, D, SUM_DK>(st, a);
		flash_keys<T, D, SUM_DV>(st, a);
	} else {
		flash_keys<T, D, SUM_BOTH>(st, a);
	}
}

/* What flash.cu knows of a width. */
#define FLASH_WIDTH(D) \
	static void forward(struct stream *st, const struct attn *a, enum dtype t) \
	{ \
		(t == DTYPE_BF16 ? flash_forward<bf16, D> : flash_forward<half, D>)(st, a); \
	} \
	static void backward(struct stream *st, const struct attn *a, enum dtype t) \
	{ \
		(t == DTYPE_BF16 ? flash_backward<bf16, D> : flash_backward<half, D>)(st, a); \
	} \
	const struct flash_width flash_##D = { D, \
		{ { forward_size<D, false>::BYTES, forward }, \
		    { backward_size<D>::BYTES, backward } } }

#endif
