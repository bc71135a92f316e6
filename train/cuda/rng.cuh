/*
 * rng.cuh - the suite's counter-based randomness on the device: the same words as lib/base/rng.h
 * from the same counters
 *
 * Source: Salmon et al. 2011, Philox4x32-10. Counter: {index / 4 low, index / 4 high, stream,
 * step}; element index takes word index % 4.
 */
#ifndef TRAIN_CUDA_RNG_CUH
#define TRAIN_CUDA_RNG_CUH

#include "train/cuda/kernel.cuh"
#include "train/cuda/mask.h"

/* The four words of a block: elements 4 block .. 4 block + 3. */
static __device__ inline void
philox(uint64_t key, uint64_t block, uint32_t stream, uint32_t step, uint32_t out[4])
{
	uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = stream, c3 = step;
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

#pragma unroll
	for (int round = 0; round < 10; round++) {
		uint32_t high0 = __umulhi(0xd2511f53u, c0), low0 = 0xd2511f53u * c0;
		uint32_t high1 = __umulhi(0xcd9e8d57u, c2), low1 = 0xcd9e8d57u * c2;

		c0 = high1 ^ c1 ^ k0;
		c1 = low1;
		c2 = high0 ^ c3 ^ k1;
		c3 = low0;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

/* Word index % 4 of the block of element `index`. */
static __device__ inline uint32_t
philox_word(const struct mask &m, uint64_t index)
{
	uint32_t w[4];

	philox(m.key, index / 4, m.stream, m.step, w);
	return index % 4 < 2 ? (index % 4 ? w[1] : w[0]) : (index % 4 == 3 ? w[3] : w[2]);
}

/* The factor of element `index`: 0, or 1 / (1 - p). */
static __device__ inline float
mask_factor(const struct mask &m, uint64_t index)
{
	return philox_word(m, index) >> 8 >= m.least ? m.keep : 0.0f;
}

/* The factors of N neighbours from element `index` on. Where one of them begins a block of the
 * generator, four share it. */
template <int N>
static __device__ inline void
mask_pack(const struct mask &m, uint64_t index, float (&factor)[N])
{
	uint32_t w[4] = {};
	bool shared = N % 4 == 0 && index % 4 == 0;

#pragma unroll
	for (int k = 0; k < N; k++) {
		if (!shared)
			factor[k] = mask_factor(m, index + (uint64_t)k);
		else {
			if (k % 4 == 0)
				philox(m.key, index / 4 + (uint64_t)(k / 4), m.stream, m.step, w);
			factor[k] = w[k % 4] >> 8 >= m.least ? m.keep : 0.0f;
		}
	}
}

/* Index of the first element of row r, where the rows are a part of a [T, h] tensor. */
static __device__ inline uint64_t
mask_row(const struct mask &m, int64_t r)
{
	int64_t in_all = m.first_row + r, sample = m.first_sample + in_all % m.micro_batch,
		i = in_all / m.micro_batch,
		position = i < m.turn ? m.first_position + i : m.second_position + i - m.turn;

	return (uint64_t)(sample * m.seq_length + position) * (uint64_t)m.width +
	    (uint64_t)m.first_column;
}

#endif
