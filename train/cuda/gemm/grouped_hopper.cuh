/*
 * grouped_hopper.cuh - what the kernels of grouped GEMMs for compute capability 9.0 share: the ring
 * of places in shared memory through which operands come to the warpgroups that multiply
 *
 * Of a block's three warpgroups the first copies, by one thread, a step to each place in turn; it
 * waits while the next is not free. The others multiply from a place, and free it. The ring goes
 * across tiles, so the copies of a tile begin while the one before is multiplied. Barriers tell
 * only an even from an odd number of laps: nobody is more than one lap ahead.
 */
#ifndef TRAIN_CUDA_GEMM_GROUPED_HOPPER_CUH
#define TRAIN_CUDA_GEMM_GROUPED_HOPPER_CUH

#include "train/cuda/gemm/grouped.cuh"
#include "train/cuda/gemm/grouped.h"
#include "train/cuda/hopper.cuh"

enum {
	THREADS = 3 * GROUP,
	HIGH = GROUPED_HIGH,
	SIDE_A = HIGH * BOX_LINE, /* bytes of a step of the first operand */
};

/* Where a thread is in a ring of PLACES of SIZE bytes, which begins at `base`, on 1024 bytes: the
 * steps that came before. The barriers follow the places. */
template <int SIZE, int PLACES> struct ring {
	static constexpr int BYTES = PLACES * (SIZE + 2 * 8);
	uint32_t base, step;
};

template <int SIZE, int PLACES>
static __device__ inline uint32_t
place_of(const ring<SIZE, PLACES> &r)
{
	return r.base + r.step % PLACES * SIZE;
}

/* The barrier that the place is full, and the one that it is free again. */
template <int SIZE, int PLACES>
static __device__ inline uint32_t
full_of(const ring<SIZE, PLACES> &r)
{
	return r.base + PLACES * SIZE + r.step % PLACES * 16;
}

template <int SIZE, int PLACES>
static __device__ inline uint32_t
free_of(const ring<SIZE, PLACES> &r)
{
	return full_of(r) + 8;
}

/* One thread makes the barriers, before others use them; so many warps free each place. */
template <int SIZE, int PLACES>
static __device__ inline void
ring_make(ring<SIZE, PLACES> r, int warps)
{
	for (r.step = 0; r.step < PLACES; r.step++) {
		barrier_make(full_of(r), 1);
		barrier_make(free_of(r), warps);
	}
	barriers_made();
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* Waits until the place is free. */
template <int SIZE, int PLACES>
static __device__ inline void
ring_claim(const ring<SIZE, PLACES> &r)
{
	barrier_wait(free_of(r), r.step / PLACES % 2 ^ 1);
}

/* Says how many bytes the step has; returns the barrier at which all of them have to count. */
template <int SIZE, int PLACES>
static __device__ inline uint32_t
ring_expect(const ring<SIZE, PLACES> &r, int bytes)
{
	barrier_expect(full_of(r), bytes);
	return full_of(r);
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* Waits until the step has been copied. */
template <int SIZE, int PLACES>
static __device__ inline void
ring_wait(const ring<SIZE, PLACES> &r)
{
	barrier_wait(full_of(r), r.step / PLACES % 2);
}

/* A warp has read the place of a barrier that it is free; 0: of none. */
static __device__ inline void
ring_free(uint32_t barrier)
{
	if (barrier && threadIdx.x % 32 == 0)
		barrier_arrive(barrier);
}

/* --- the host's side -------------------------------------------------------------------------- */

/* Launches a kernel, a block on each multiprocessor, whose shared memory has `bytes` and then a
 * number for each of GROUPED_HOPPER_EXPERTS. */
static inline void
grouped_launch_hopper(struct stream *st, const struct grouped_call *call,
    void (*kernel)(const struct grouped_call), int bytes)
{
	bytes += GROUPED_HOPPER_EXPERTS * (int)sizeof(int);
	if (cu_ok(st->device,
		cudaFuncSetAttribute(
		    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"grouped"))
		kernel<<<(unsigned)st->device->num_sms, THREADS, (size_t)bytes, cu_handle(st)>>>(
		    *call);
}

#endif
