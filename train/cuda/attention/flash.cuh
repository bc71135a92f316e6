/*
 * flash.cuh - what the tiled attention kernels share: sizes, scores, weighted sums, stores
 *
 * bf16 and half, head sizes that are multiples of 8 up to D, 16-byte aligned rows; columns beyond
 * the head are zeros in shared memory and are not stored. A warp owns 16 rows of a tile, or twice
 * that; every sum has one owner and one order. Exponents are taken to the base 2. Source: Dao 2023,
 * arXiv:2307.08691.
 */
#ifndef TRAIN_CUDA_ATTENTION_FLASH_CUH
#define TRAIN_CUDA_ATTENTION_FLASH_CUH

#include "train/cuda/attention/attn.cuh"
#include "train/cuda/mma.cuh"

enum { STEP = 64 }; /* rows of a moving tile */

static constexpr float log2_e = 1.4426950408889634f;

/* The forward pass: 4 warps with 32 queries each, or 16 where wide heads need the registers of the
 * others, or those that drawing dropout would take. */
template <int D, bool DROP> struct forward_size {
	static constexpr int WARPS = 4,
			     SETS = D > 128 || (D > 96 && DROP) ? 1 : 2, THREADS = WARPS * 32,
			     ROWS = WARPS * SETS * 16, BYTES = (ROWS + 2 * STEP) * tile_step<D>();
};

/* The backward passes: warps with 16 rows each, as many as the registers and then the shared memory
 * of an SM have room for. Two tiles stay, two move through two places. */
template <int D> struct backward_size {
	static constexpr int WARPS = D > 96 && D <= 128 ? 8 : 4, THREADS = WARPS * 32,
			     ROWS = WARPS * 16, STATISTICS = 2 * STEP * 3 * 4,
			     BYTES = (2 * ROWS + 4 * STEP) * tile_step<D>() + STATISTICS;
};

/* A head, or a group of heads, and a position in it. */
struct spot {
	int head, position;
};

/* Shared memory of a kernel, from a number of bytes on. */
static __device__ inline void *
shared_memory(int bytes)
{
	extern __shared__ float4 memory[];

	return (char *)memory + bytes;
}

/* The most keys that a query sees; without a window, all of them. */
static __device__ inline int
window_of(const struct attn &a)
{
	return a.window > 0 && a.window < a.s ? (int)a.window : (int)a.s;
}

/* A head's rows of one tile, from position `first` on, to shared memory. */
template <typename T, int D, int ROWS, int THREADS>
static __device__ inline void
copy_rows(const struct attn &a, uint32_t to, const struct tensor &t, int first, int head)
{
	copy_tile<T, D, ROWS, THREADS>(to, head_row<T>(a, t, first, head),
	    (int64_t)a.b * t.stride[0], (int)a.s - first, (int)t.shape[1]);
}

/* c[i] = rows of x from `row` on times rows 8 i .. of the STEP rows of y. */
template <typename T, int D>
static __device__ inline void
multiply_rows(float (&c)[STEP / 8][4], uint32_t x, int row, uint32_t y)
{
#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
		c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
#pragma unroll
	for (int k = 0; k < D; k += 16) {
		uint32_t a[4], b[4];

		load_a<D>(a, x, row, k);
#pragma unroll
		for (int i = 0; i < STEP / 16; i++) {
			load_b_by_rows<D>(b, y, 16 * i, k);
			mma(T(), c[2 * i], a, b[0], b[1]);
			mma(T(), c[2 * i + 1], a, b[2], b[3]);
		}
	}
}

/* Scores before scaling, as those that give the capped ones: s <- c / scale tanh(scale s / c). */
static __device__ inline void
cap_scores(const struct attn &a, float (&s)[STEP / 8][4])
{
	float in = a.scale * a.per_cap, out = a.cap / a.scale;

#pragma unroll
	for (int i = 0; i < STEP / 8; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			s[i][j] = out * fast_tanh(s[i][j] * in);
}

/* The operand a from 16 columns of weights: the 16 from 16 i on. */
template <typename T>
static __device__ inline void
weights_to_a(uint32_t (&a)[4], const float (&w)[STEP / 8][4], int i)
{
	a[0] = pack_halves(T(), w[2 * i][0], w[2 * i][1]);
	a[1] = pack_halves(T(), w[2 * i][2], w[2 * i][3]);
	a[2] = pack_halves(T(), w[2 * i + 1][0], w[2 * i + 1][1]);
	a[3] = pack_halves(T(), w[2 * i + 1][2], w[2 * i + 1][3]);
}

/* sum += w x, for weights of 16 rows by STEP columns and the STEP rows of x. */
template <typename T, int D>
static __device__ inline void
weigh_rows(float (&sum)[D / 8][4], const float (&w)[STEP / 8][4], uint32_t x)
{
#pragma unroll
	for (int i = 0; i < STEP / 16; i++) {
		uint32_t a[4], b[4];

		weights_to_a<T>(a, w, i);
#pragma unroll
		for (int c = 0; c < D / 16; c++) {
			load_b<D>(b, x, 16 * i, 16 * c);
			mma(T(), sum[2 * c], a, b[0], b[1]);
			mma(T(), sum[2 * c + 1], a, b[2], b[3]);
		}
	}
}

/* Which of a lane's weights dropout keeps: bit 4 i + j for w[i][j], whose row and column are those
 * of the lane's first weight and 8 (j / 2), and 8 i + j % 2, after. All lanes of a warp call it,
 * with tiles of keys that begin at multiples of 8. Loops are not unrolled: drawing takes
 * registers. */
static __device__ inline uint32_t
kept_weights(const struct attn &a, int head, int row, int column, bool rows_are_keys)
{
	uint32_t bits = 0;

	if (draws_four_keys(a.drop))
		return rows_are_keys
		    ? kept_by_keys(a.drop, drop_row(a.drop, blockIdx.z, head), row, column)
		    : kept_by_queries(a.drop, drop_row(a.drop, blockIdx.z, head), row, column);
#pragma unroll 1
	for (int i = 0; i < STEP / 2; i++) {
		int r = row + i / 2 % 2 * 8, c = column + i / 4 * 8 + i % 2;
		bool kept = drop_factor(a, head, rows_are_keys ? c : r, rows_are_keys ? r : c) != 0;

		bits |= (uint32_t)kept << i;
	}
	return bits;
}

/* Unrolled, so that the array stays in registers. */
template <int N>
static __device__ inline void
clear_sums(float (&sum)[N][4])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		sum[i][0] = sum[i][1] = sum[i][2] = sum[i][3] = 0;
}

/* Writes 16 rows of a head from a position on, multiplied by a factor for each of a lane's two
 * rows. */
template <typename T, int D>
static __device__ inline void
store_rows(const struct attn &a, const struct tensor &t, struct spot at, const float (&x)[D / 8][4],
    float2 factor)
{
	int lane = threadIdx.x % 32, row = at.position + lane / 4;
	T *to = head_row<T>(a, t, row, at.head) + lane % 4 * 2;
	int64_t step = 8 * (int64_t)a.b * t.stride[0];

#pragma unroll
	for (int i = 0; i < D / 8; i++) {
		if (8 * i >= t.shape[1])
			continue;
		if (row < a.s)
			*(uint32_t *)(to + 8 * i) =
			    pack_halves(T(), x[i][0] * factor.x, x[i][1] * factor.x);
		if (row + 8 < a.s)
			*(uint32_t *)(to + step + 8 * i) =
			    pack_halves(T(), x[i][2] * factor.y, x[i][3] * factor.y);
	}
}

#endif
