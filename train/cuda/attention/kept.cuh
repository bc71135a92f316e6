/*
 * kept.cuh - which weights dropout keeps, for lanes that have the elements of tensor cores
 *
 * A weight is numbered by sample, head of the whole model, query and key, as on the CPU. A block of
 * the generator is four neighbouring keys, which several lanes of a warp have: each draws some, for
 * all of them.
 */
#ifndef TRAIN_CUDA_ATTENTION_KEPT_CUH
#define TRAIN_CUDA_ATTENTION_KEPT_CUH

#include "train/cuda/rng.cuh"

/* A sample of the call and a head of the rank, by the numbers of all. */
static __device__ inline int64_t
drop_row(const struct mask &m, int sample, int head)
{
	return (m.first_sample + sample) * m.width + m.first_column + head;
}

static __device__ inline uint64_t
drop_index(const struct mask &m, int64_t row, int64_t query, int64_t key)
{
	return (uint64_t)((row * m.seq_length + query) * m.seq_length + key);
}

/* Whether keys from a multiple of 4 on are a block of the generator. */
static __device__ inline bool
draws_four_keys(const struct mask &m)
{
	return m.seq_length % 4 == 0;
}

/* Of the four keys of a block bit k: dropout keeps the k-th. The compiler is not to know the key of
 * the generator: the numbers that it makes of it for all rounds would stay in registers. */
static __device__ inline uint32_t
kept_of_block(const struct mask &m, uint64_t block)
{
	uint32_t low = (uint32_t)m.key, high = (uint32_t)(m.key >> 32), word[4], bits = 0;

	asm volatile("" : "+r"(low), "+r"(high));
	philox((uint64_t)high << 32 | low, block, m.stream, m.step, word);
#pragma unroll
	for (int k = 0; k < 4; k++)
		bits |= (uint32_t)(word[k] >> 8 >= m.least) << k;
	return bits;
}

/*
 * Of 64 columns of 16 rows, of which a lane has two rows 8 apart and of every 8 columns two
 * neighbours: bit 4 i + j is the weight of its row j / 2 in its column j % 2 of columns 8 i to
 * 8 i + 7. All lanes of a warp call these, each with its first row and its first column; keys begin
 * at a multiple of 8. Four blocks are drawn at once: each takes ten dependent rounds.
 */

/* Rows are queries: two lanes share blocks, and each draws those of one row. */
static __device__ inline uint32_t
kept_by_queries(const struct mask &m, int64_t row, int query, int key)
{
	int odd = threadIdx.x % 2;
	uint64_t block = drop_index(m, row, query + 8 * odd, key - 2 * odd) / 4;
	uint32_t mine = 0, other, upper, lower;

#pragma unroll 4
	for (int i = 0; i < 8; i++)
		mine |= kept_of_block(m, block + 2 * i) << 4 * i;
	other = __shfl_xor_sync(0xffffffffu, mine, 1);
	upper = odd ? other : mine;
	lower = odd ? mine : other;
	return (upper >> 2 * odd & 0x33333333u) | (lower >> 2 * odd & 0x33333333u) << 2;
}

/* Rows are keys: four lanes share blocks, and each draws those of one j. */
static __device__ inline uint32_t
kept_by_keys(const struct mask &m, int64_t row, int key, int query)
{
	int own = threadIdx.x / 4 % 4;
	uint64_t block = drop_index(m, row, query + own % 2, key - own + own / 2 * 8) / 4;
	uint32_t mine = 0, bits = 0;

#pragma unroll 4
	for (int i = 0; i < 8; i++)
		mine |= kept_of_block(m, block + 2 * m.seq_length * i) << 4 * i;
#pragma unroll
	for (int j = 0; j < 4; j++) {
		int lane = (threadIdx.x & 0x13) | j << 2;

		bits |= (__shfl_sync(0xffffffffu, mine, lane) >> own & 0x11111111u) << j;
	}
	return bits;
}

#endif
