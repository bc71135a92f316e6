/*
 * async.cuh - copies to shared memory that a thread does not wait for
 *
 * A thread closes a group of copies with copies_asked and waits until no more than a number of groups are
 * under way: so a loop can ask for what it needs some turns later. Copies of one thread are there for the
 * others after a barrier. Source: PTX ISA 8, "cp.async".
 */
#ifndef TRAIN_CUDA_ASYNC_CUH
#define TRAIN_CUDA_ASYNC_CUH

#include "train/cuda/kernel.cuh"

/* An address in shared memory as the instructions take it. Tiles are passed so: offsets then fold
 * into the instructions and take no registers. */
static __device__ inline uint32_t
shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* Starts a copy of 16 bytes to shared memory, zeros when there is nothing to copy; the source is
 * then not read. */
static __device__ inline void
copy_16(uint32_t to, const void *from, bool present)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     :
		     : "r"(to), "l"(from), "r"(present ? 16 : 0)
		     : "memory");
}

/* Of 4 bytes. */
static __device__ inline void
copy_4(uint32_t to, const void *from, bool present)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
		     :
		     : "r"(to), "l"(from), "r"(present ? 4 : 0)
		     : "memory");
}

/* Ends a group of copies, which may be empty. */
static __device__ inline void
copies_asked(void)
{
	asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Waits until at most the last N groups are under way. */
template <int N>
static __device__ inline void
copies_done_but(void)
{
	asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

/* Waits for all copies that this thread has started; those of others are there after a barrier. */
static __device__ inline void
copies_done(void)
{
	asm volatile("cp.async.wait_all;" : : : "memory");
}

#endif
