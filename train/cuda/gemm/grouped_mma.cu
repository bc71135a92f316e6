/*
 * grouped_mma.cu - grouped GEMMs of 16-bit types on the tensor cores of compute capability 8.0
 * and later, in tiles of 128 x 128
 *
 * 8 warps own 64 x 32 of a tile each. Steps of 32 elements of the sum pass through two places: one
 * is copied to while the other is multiplied from. What lies outside of a matrix, or after the rows
 * of an expert, is copied as zeros.
 */
#include "train/cuda/gemm/grouped.cuh"
#include "train/cuda/gemm/grouped.h"
#include "train/cuda/mma.cuh"

enum { EDGE = 128, DEPTH = 32, HIGH = 64, WIDE = 32, ACROSS = EDGE / WIDE };

/* Bytes of a side of a step: lines along the sum, or across it. */
template <bool DENSE>
static __host__ __device__ constexpr int
side_bytes(void)
{
	return DENSE ? EDGE * tile_step<DEPTH>() : DEPTH * tile_step<EDGE>();
}

/* Starts to copy a side of the step that begins at `first`. */
template <bool DENSE, typename T>
static __device__ inline void
copy_side(uint32_t to, const grouped_side<const T> &s, int first, int depth)
{
	if constexpr (DENSE)
		copy_tile<T, DEPTH, EDGE, CU_THREADS>(
		    to, s.at + first, s.step, s.size, depth - first);
	else
		copy_tile<T, EDGE, DEPTH, CU_THREADS>(
		    to, s.at + first * s.step, s.step, depth - first, s.size);
}

/* A warp's sums, in tiles of 16 x 8. */
typedef float warp_sums[HIGH / 16][WIDE / 8][4];

/* sums += one step's terms; row and column: where the warp's part begins. */
template <typename T, bool A_DENSE, bool B_DENSE>
static __device__ inline void
multiply(warp_sums &sum, uint32_t a, uint32_t b, int row, int column)
{
#pragma unroll
	for (int k = 0; k < DEPTH; k += 16) {
		uint32_t x[HIGH / 16][4], y[4];

#pragma unroll
		for (int i = 0; i < HIGH / 16; i++)
			if (A_DENSE)
				load_a<DEPTH>(x[i], a, row + 16 * i, k);
			else
				load_a_by_columns<EDGE>(x[i], a, k, row + 16 * i);
#pragma unroll
		for (int j = 0; j < WIDE / 16; j++) {
			if (B_DENSE)
				load_b_by_rows<DEPTH>(y, b, column + 16 * j, k);
			else
				load_b<EDGE>(y, b, k, column + 16 * j);
#pragma unroll
			for (int i = 0; i < HIGH / 16; i++) {
				mma(T(), sum[i][2 * j], x[i], y[0], y[1]);
				mma(T(), sum[i][2 * j + 1], x[i], y[2], y[3]);
			}
		}
	}
}

/* Two neighbours of the result: beta times those in memory are added. */
template <typename OUT>
static __device__ inline void
put_pair(OUT *to, float x, float y, float beta)
{
	if (beta != 0) {
		x += beta * to_float(to[0]);
		y += beta * to_float(to[1]);
	}
	put_two(to, x, y);
}

/* Columns are whole packs of 8, so a pair is there or is not. */
template <typename T, typename OUT>
static __device__ inline void
store_sums(const grouped_sides<T, OUT> &s, const warp_sums &sum, int2 corner, float beta)
{
	int lane = threadIdx.x % 32;

#pragma unroll
	for (int i = 0; i < HIGH / 16; i++)
#pragma unroll
		for (int j = 0; j < WIDE / 8; j++)
#pragma unroll
			for (int h = 0; h < 2; h++) {
				int row = corner.x + 16 * i + 8 * h + lane / 4;
				int column = corner.y + 8 * j + lane % 4 * 2;

				if (row < s.a.size && column < s.b.size)
					put_pair(s.c + row * s.c_step + column, sum[i][j][2 * h],
					    sum[i][j][2 * h + 1], beta);
			}
}

template <typename T, typename OUT, enum grouped_kind KIND>
static __global__ void
__launch_bounds__(CU_THREADS) grouped_mma_kernel(const struct grouped g)
{
	constexpr bool A = KIND != GROUPED_WEIGHT, B = KIND == GROUPED_FORWARD;
	constexpr int PLACE = side_bytes<A>() + side_bytes<B>();
	extern __shared__ int ends[];
	__shared__ float4 places[2 * PLACE / sizeof(float4)];
	int warp = threadIdx.x / 32;
	int2 corner = make_int2(warp / ACROSS * HIGH, warp % ACROSS * WIDE);
	uint32_t base = shared_address(places);
	struct grouped_tile tile;
	struct grouped_walk walk;

	grouped_ends(g, ends);
	walk = grouped_start(g, ends, EDGE, EDGE);
	for (int t = blockIdx.x; grouped_find(walk, t, tile); t += gridDim.x) {
		grouped_sides<T, OUT> s = grouped_sides_of<T, OUT, KIND>(g, tile);
		warp_sums sum = {};
		uint32_t at = base, next = base + PLACE;

		copy_side<A>(at, s.a, 0, s.depth);
		copy_side<B>(at + side_bytes<A>(), s.b, 0, s.depth);
		copies_asked();
		for (int k = 0; k < s.depth; k += DEPTH) {
			if (k + DEPTH < s.depth) {
				copy_side<A>(next, s.a, k + DEPTH, s.depth);
				copy_side<B>(next + side_bytes<A>(), s.b, k + DEPTH, s.depth);
			}
			copies_asked();
			copies_done_but<1>();
			__syncthreads();
			multiply<T, A, B>(sum, at, at + side_bytes<A>(), corner.x, corner.y);
			__syncthreads();
			at = next;
			next = 2 * base + PLACE - at;
		}
		store_sums(s, sum, corner, (float)g.beta);
	}
}

template <typename T>
static void
launch(struct stream *st, const struct grouped *g)
{
	grouped_launch(st, g, GROUPED_PICK(grouped_mma_kernel, T, g), 2);
}

void
grouped_mma(struct stream *st, const struct grouped *g)
{
	(g->a.dtype == DTYPE_BF16 ? launch<bf16> : launch<half>)(st, g);
}
