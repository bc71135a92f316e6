/*
 * async.cuh - asynchronous copies to shared memory
 *
 * A thread closes a group of copies with copies_asked and waits until no more than a number of
 * groups are under way: so a loop can ask for what it needs some turns later. Copies of one thread
 * are there for the others after a barrier. Before compute capability 8.0 a thread waits for each
 * copy after all: the same program, slower. Source: PTX ISA 8, "cp.async".
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

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define COPY_AT_ONCE 1
#define SM80(...) \
	__trap() /* an instruction that is not there: the host launches no kernel that comes to it \
		  */
#else
#define COPY_AT_ONCE 0
#define SM80(...) asm volatile(__VA_ARGS__)
#endif

/* A copy that is done when this returns. */
template <typename T>
static __device__ inline void
copy_now(uint32_t to, const void *from, bool present)
{
	T x = {};

	if (present)
		x = *(const T *)from;
	*(T *)__cvta_shared_to_generic(to) = x;
}

/* Starts a copy of 16 bytes to shared memory, zeros when there is nothing to copy; the source is
 * then not read. */
static __device__ inline void
copy_16(uint32_t to, const void *from, bool present)
{
	if (COPY_AT_ONCE)
		copy_now<uint4>(to, from, present);
	else
		SM80("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     :
		     : "r"(to), "l"(from), "r"(present ? 16 : 0)
		     : "memory");
}

/* Of 4 bytes. */
static __device__ inline void
copy_4(uint32_t to, const void *from, bool present)
{
	if (COPY_AT_ONCE)
		copy_now<uint32_t>(to, from, present);
	else
		SM80("cp.async.ca.shared.global [%0], [%1], 4, %2;"
		     :
		     : "r"(to), "l"(from), "r"(present ? 4 : 0)
		     : "memory");
}

/* Ends a group of copies, which may be empty. */
static __device__ inline void
copies_asked(void)
{
	if (!COPY_AT_ONCE)
		SM80("cp.async.commit_group;" : : : "memory");
}

/* Waits until at most the last N groups are under way. */
template <int N>
static __device__ inline void
copies_done_but(void)
{
	if (!COPY_AT_ONCE)
		SM80("cp.async.wait_group %0;" : : "n"(N) : "memory");
}

/* Waits for all copies that this thread has started; those of others are there after a barrier. */
static __device__ inline void
copies_done(void)
{
	if (!COPY_AT_ONCE)
		SM80("cp.async.wait_all;" : : : "memory");
}

#endif
