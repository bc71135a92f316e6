/*
 * grouped_float8.cu - grouped GEMMs of 8-bit operands for compute capability 9.0, in tiles of 128 x
 * 192
 *
 * Each of the warpgroups that multiply has 64 lines of every tile. Both operands are dense along
 * the sum, as they must be. Tensor cores add 8-bit products up in fewer bits than F32 has, so every
 * 128 terms are promoted, while the other warpgroup multiplies: as many as a block of scales has.
 * Sums that may be fast are not. Rows after those of an expert are multiplied too, and not stored.
 * Source: DeepSeek-AI 2024 arXiv:2412.19437, 3.3.2.
 */
#include "train/cuda/gemm/grouped_hopper.cuh"

enum {
	WIDE = GROUPED_WIDE_FLOAT8,
	STEP = BOX_LINE, /* terms of a line of a box */
	TERMS = 32,      /* of an instruction */
	PLACE = SIDE_A + WIDE * BOX_LINE,
};
typedef ring<PLACE, 5> float8_ring;
static_assert((int)STEP == (int)SCALE_BLOCK, "a step has one scale of a line, and of a square");

/* Where a tile's part of the experts' matrices begins: column and row of b as it is stored. */
template <bool FORWARD>
static __device__ inline int2
weights_at(const struct grouped_walk &w, const struct grouped_tile &t)
{
	return FORWARD ? make_int2(0, t.expert * w.height + t.column)
		       : make_int2(t.expert * w.height, t.column);
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* Terms after the last are zeros of a. */
template <bool FORWARD>
static __device__ inline void
copy_tiles(const struct grouped_call &call, struct grouped_walk walk, float8_ring ring)
{
	struct grouped_tile t;

	for (int i = blockIdx.x; grouped_find(walk, i, t); i += gridDim.x) {
		int2 b = weights_at<FORWARD>(walk, t);

		for (int k = 0; k < call.g.a.shape[1]; k += STEP, ring.step++) {
			uint32_t full, at = place_of(ring);

			ring_claim(ring);
			full = ring_expect(ring, PLACE);
			copy_box(at, &call.a, k, t.begin + t.row, full);
			copy_box(at + SIDE_A, &call.b, b.x + k, b.y, full);
		}
	}
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* Whether the tile has none of the lines of the warpgroup, which then moves through the ring alone.
 */
static __device__ inline bool
is_idle(const struct grouped_tile &t)
{
	return t.end - t.begin - t.row <= own_group() * BOX;
}

/* What the sums of a step have to be multiplied by: in each of a lane's two lines, and of a third
 * of the columns, 64, which are of one square. */
enum { THIRDS = 3 };
struct factors {
	float at[2][THIRDS];
};
static_assert(WIDE == THIRDS * SCALE_BLOCK / 2, "a tile begins with a square or half of one");

/* Rows that no expert has may be read, as long as there are such. */
template <bool FORWARD>
static __device__ inline struct factors
factors_of(
    const struct grouped &g, const struct grouped_walk &w, const struct grouped_tile &t, int k)
{
	int2 b = weights_at<FORWARD>(w, t);
	int row = t.begin + t.row + own_group() * BOX + own_line(), last = (int)g.a.shape[0] - 1,
	    end = (int)g.scale_b.shape[0] - 1, along = (b.x + k) / SCALE_BLOCK;
	const float *lines = row_of<float>(g.scale_a, k / SCALE_BLOCK);
	const float line[2] = { lines[min(row, last)], lines[min(row + 8, last)] };
	struct factors f;

#pragma unroll
	for (int i = 0; i < THIRDS; i++) {
		int square = (b.y + i * SCALE_BLOCK / 2) / SCALE_BLOCK;
		float x = row_of<float>(g.scale_b, min(square, end))[along];

		f.at[0][i] = line[0] * x;
		f.at[1][i] = line[1] * x;
	}
	return f;
}

/* A lane's sums of its half of a tile. */
typedef float lane_sums[WIDE / 2];

/* One step's wgmma. */
template <int A>
static __device__ inline void
multiply_step(lane_sums &c, uint32_t place, bool add)
{
	uint64_t a = operand_at(place + own_group() * BOX_BYTES), b = operand_at(place + SIDE_A);

	wgmma_fence();
#pragma unroll
	for (int i = 0; i < STEP; i += TERMS) {
		multiply_8_bits<A>(c, a, b, add || i > 0);
		a = operand_next<true>(a);
		b = operand_next<true>(b);
	}
	wgmma_commit();
}

/* sum += c, scaled. */
static __device__ inline void
promote(lane_sums &sum, const lane_sums &c, const struct factors &f)
{
#pragma unroll
	for (int i = 0; i < WIDE / 2; i++)
		sum[i] += f.at[i / 2 % 2][i / (WIDE / 2 / THIRDS)] * c[i];
}

/* The sums of a tile, promoted step by step. */
template <int A, bool FORWARD, bool BLOCKS>
static __device__ inline void
sum_exactly(lane_sums &sum, float8_ring &ring, const struct grouped &g,
    const struct grouped_walk &w, const struct grouped_tile &t)
{
	struct factors f = { { { 1, 1, 1 }, { 1, 1, 1 } } };

#pragma unroll
	for (int i = 0; i < WIDE / 2; i++)
		sum[i] = 0;
	for (int k = 0; k < g.a.shape[1]; k += STEP, ring.step++) {
		lane_sums c;

		if (BLOCKS)
			f = factors_of<FORWARD>(g, w, t, k);
		ring_wait(ring);
		if (!is_idle(t))
			multiply_step<A>(c, place_of(ring), false);
		wgmma_wait<0>();
		sums_done(c);
		ring_free(free_of(ring));
		promote(sum, c, f);
	}
}

/* The same where sums may be fast. A place is free when the wgmma after its own are issued and its
 * own are done. */
template <int A>
static __device__ inline void
sum_fast(lane_sums &sum, float8_ring &ring, int depth, bool idle)
{
	uint32_t before = 0;

	for (int k = 0; k < depth; k += STEP, ring.step++) {
		ring_wait(ring);
		if (!idle)
			multiply_step<A>(sum, place_of(ring), k > 0);
		wgmma_wait<1>();
		ring_free(before);
		before = free_of(ring);
	}
	wgmma_wait<0>();
	sums_done(sum);
	ring_free(before);
}

/* The number that a scale is, or 1 for none and for those of blocks. */
static __device__ inline float
whole_scale(const struct tensor &scale)
{
	return scale.data && scale.ndim == 1 ? *(const float *)scale.data : 1;
}

/* Tile after tile. */
template <int A, bool FORWARD, bool BLOCKS>
static __device__ inline void
multiply_tiles(const struct grouped_call &call, struct grouped_walk walk, float8_ring ring)
{
	const struct tensor &to = call.g.c;
	float scale = whole_scale(call.g.scale_a) * whole_scale(call.g.scale_b);
	struct grouped_tile t;
	lane_sums sum;

	for (int i = blockIdx.x; grouped_find(walk, i, t); i += gridDim.x) {
		struct corner corner = { row_of<bf16>(to, t.begin + t.row) + t.column, to.stride[0],
			t.end - t.begin - t.row, (int)to.shape[1] - t.column };

		if (FORWARD && !BLOCKS)
			sum_fast<A>(sum, ring, (int)call.g.a.shape[1], is_idle(t));
		else
			sum_exactly<A, FORWARD, BLOCKS>(sum, ring, call.g, walk, t);
#pragma unroll
		for (int j = 0; !BLOCKS && j < WIDE / 2; j++)
			sum[j] *= scale;
#pragma unroll
		for (int j = 0; j < WIDE / 16; j++) {
			uint32_t words[4];

			round_piece(words, sum, j);
			store_piece(corner, words, j, own_group() * BOX);
		}
	}
}

template <int A, bool FORWARD, bool BLOCKS>
static __global__ void
__launch_bounds__(THREADS, 1) grouped_float8_kernel(const __grid_constant__ grouped_call call)
{
	extern __shared__ __align__(1024) char memory[];
	float8_ring ring = { shared_address(memory), 0 };
	int *ends = (int *)(memory + float8_ring::BYTES);
	struct grouped_walk walk;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0)
		ring_make(ring, 2 * GROUP / 32);
	grouped_ends(call.g, ends);
	walk = grouped_start(call.g, ends, HIGH, WIDE);
	walk.height = (int)(call.g.b.shape[FORWARD ? 0 : 1] / walk.experts);
	if (threadIdx.x < GROUP) {
		registers_release<24>();
		if (is_copier())
			copy_tiles<FORWARD>(call, walk, ring);
	} else {
		registers_claim<240>();
		multiply_tiles<A, FORWARD, BLOCKS>(call, walk, ring);
	}
}

/* The kernel for rows of type A. */
template <int A> static void (*kernel_of(const struct grouped &g))(const struct grouped_call)
{
	bool blocks = g.scale_a.ndim == 2;

	if (g.kind == GROUPED_FORWARD)
		return blocks ? grouped_float8_kernel<A, true, true>
			      : grouped_float8_kernel<A, true, false>;
	return blocks ? grouped_float8_kernel<A, false, true>
		      : grouped_float8_kernel<A, false, false>;
}

void
grouped_float8(struct stream *st, const struct grouped_call *call)
{
	grouped_launch_hopper(st, call,
	    call->g.a.dtype == DTYPE_F8_E5M2 ? kernel_of<DTYPE_F8_E5M2>(call->g)
					     : kernel_of<DTYPE_F8_E4M3>(call->g),
	    float8_ring::BYTES);
}
