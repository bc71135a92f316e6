/*
 * grouped_hopper.cu - grouped products of bf16 for compute capability 9.0: tiles of 128 x 256 by
 * two warpgroups that multiply, and a third whose first thread copies for them
 *
 * Copies pass through a ring of places that goes on from tile to tile: while a tile is stored, the
 * next one's operands come. The two warpgroups own 64 lines of a tile each and meet at no barrier
 * but those of the ring, so that one multiplies while the other stores. Rows after those of an
 * expert are multiplied too, and not stored; where they are the terms of a sum they are cleared in
 * shared memory first, since zero times NaN is none.
 */
#include "train/cuda/gemm/grouped.cuh"
#include "train/cuda/gemm/grouped.h"
#include "train/cuda/gemm/hopper.cuh"

enum {
	HIGH = 128,
	WIDE = 256,
	GROUP = 128, /* threads of a warpgroup */
	THREADS = 3 * GROUP,
	SIDE_A = HIGH * BOX_LINE,
	SIDE_B = WIDE * BOX_LINE,
	PLACES = 4,
	PLACE = SIDE_A + SIDE_B,
	BARRIERS = PLACES * PLACE, /* of full and then of free places */
	ENDS = BARRIERS + 2 * PLACES * 8,
	SHARED = ENDS + GROUPED_HOPPER_EXPERTS * 4,
};

/* Whether sums run along the lines of an operand in memory. */
template <enum grouped_kind KIND> struct dense {
	static constexpr bool A = KIND != GROUPED_WEIGHT, B = KIND == GROUPED_FORWARD;
};

/* The place in the ring that a thread comes to next. */
struct ring {
	uint32_t base;
	int place;
	uint32_t parity;
};

static __device__ inline uint32_t
ring_full(const struct ring &r)
{
	return r.base + BARRIERS + 8 * r.place;
}

static __device__ inline uint32_t
ring_free(const struct ring &r, int place)
{
	return r.base + BARRIERS + 8 * (PLACES + place);
}

static __device__ inline void
ring_next(struct ring &r)
{
	r.place = r.place + 1 == PLACES ? 0 : r.place + 1;
	r.parity ^= r.place == 0;
}

/* Length of a tile's sums, and lines of its result that are stored. */
template <enum grouped_kind KIND>
static __device__ inline int
tile_depth(const struct grouped &g, const struct grouped_tile &t)
{
	return KIND == GROUPED_WEIGHT ? t.end - t.begin : (int)g.a.shape[1];
}

template <enum grouped_kind KIND>
static __device__ inline int
tile_lines(const struct grouped_walk &w, const struct grouped_tile &t)
{
	return (KIND == GROUPED_WEIGHT ? w.height : t.end - t.begin) - t.row;
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* One operand's boxes of a step: across: its first row's number of elements in, or columns; along:
 * where the sum is. */
template <bool DENSE, int SIZE>
static __device__ inline void
copy_side(uint32_t to, const CUtensorMap *map, int2 across, int along, uint32_t barrier)
{
#pragma unroll
	for (int i = 0; i < (DENSE ? 1 : SIZE / BOX); i++)
		copy_box(to + i * BOX_BYTES, map, DENSE ? along : across.x + i * BOX,
		    across.y + (DENSE ? across.x : along), barrier);
}

template <enum grouped_kind KIND>
static __device__ inline void
copy_tiles(const struct grouped_maps &maps, const struct grouped &g, struct grouped_walk walk,
    struct ring ring)
{
	constexpr bool weight = KIND == GROUPED_WEIGHT;
	int height = (int)((weight ? g.c : g.b).shape[0] / g.counts.shape[1]);
	struct grouped_tile t;

	for (int i = blockIdx.x; grouped_find(walk, i, t); i += gridDim.x) {
		int2 a = make_int2(t.row, t.begin),
		     b = make_int2(t.column, weight ? t.begin : t.expert * height);
		int depth = tile_depth<KIND>(g, t);

		for (int k = 0; k < depth; k += BOX) {
			uint32_t full = ring_full(ring), at = ring.base + ring.place * PLACE;

			barrier_wait(ring_free(ring, ring.place), ring.parity ^ 1);
			barrier_expect(full, PLACE);
			copy_side<dense<KIND>::A, HIGH>(at, &maps.a, a, k, full);
			copy_side<dense<KIND>::B, WIDE>(at + SIDE_A, &maps.b, b, k, full);
			ring_next(ring);
		}
	}
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* Clears the lines from the first on of the boxes that a warpgroup reads, its own of a and all of
 * b. The other one may write the same zeros. */
static __device__ inline void
clear_lines(uint32_t a, uint32_t b, int first, int number)
{
	int thread = threadIdx.x % GROUP, pieces = (BOX - first) * (BOX_LINE / 16);

	for (int i = thread; i < pieces * (1 + WIDE / BOX); i += GROUP) {
		uint32_t box = i < pieces ? a : b + (i / pieces - 1) * BOX_BYTES;

		*(uint4 *)__cvta_shared_to_generic(box + first * BOX_LINE + i % pieces * 16) =
		    make_uint4(0, 0, 0, 0);
	}
	stores_to_products();
	barrier_some(number, GROUP);
}

/* The sums of a tile. A place is free when the products after its own have been asked for and its
 * own are done. */
template <enum grouped_kind KIND>
static __device__ inline void
sum_tile(float (&c)[128], struct ring &ring, int depth, int group, bool idle)
{
	int last = -1;

	for (int k = 0; k < depth; k += BOX) {
		uint32_t at = ring.base + ring.place * PLACE, own = at + group * BOX_BYTES;
		uint64_t a = operand_at(own), b = operand_at(at + SIDE_A);

		barrier_wait(ring_full(ring), ring.parity);
		if (KIND == GROUPED_WEIGHT && depth - k < BOX)
			clear_lines(own, at + SIDE_A, depth - k, 1 + group);
		if (!idle) {
			products_begin();
#pragma unroll
			for (int i = 0; i < BOX; i += 16) {
				multiply_256<dense<KIND>::A, dense<KIND>::B>(c, a, b, k + i > 0);
				a = operand_next<dense<KIND>::A>(a);
				b = operand_next<dense<KIND>::B>(b);
			}
			products_asked();
			products_done_but<1>();
		}
		if (last >= 0 && threadIdx.x % 32 == 0)
			barrier_arrive(ring_free(ring, last));
		last = ring.place;
		ring_next(ring);
	}
	sums_done(c);
	if (last >= 0 && threadIdx.x % 32 == 0)
		barrier_arrive(ring_free(ring, last));
}

/* Lane q of four gets word q of each, in their order. */
static __device__ inline void
transpose_words(uint32_t (&w)[4])
{
#pragma unroll
	for (int step = 1; step < 4; step *= 2) {
		bool upper = threadIdx.x & step;

#pragma unroll
		for (int i = 0; i < 4; i++) {
			uint32_t other;

			if (i & step)
				continue;
			other = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + step], step);
			w[i] = upper ? other : w[i];
			w[i + step] = upper ? w[i + step] : other;
		}
	}
}

/* Lines and columns of a tile that there are, and where a lane's first ones go. */
template <typename OUT> struct corner {
	OUT *at;
	int64_t step;
	int lines, columns;
};

/* Rounded, 16 bytes of a lane at once. Sums are written. */
static __device__ inline void
store_sums(const corner<bf16> &to, const float (&c)[128])
{
	int pair = threadIdx.x % 4;

#pragma unroll
	for (int i = 0; i < WIDE / 32; i++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			uint32_t w[4];

#pragma unroll
			for (int j = 0; j < 4; j++)
				put_two((bf16 *)&w[j], c[16 * i + 4 * j + 2 * h],
				    c[16 * i + 4 * j + 2 * h + 1]);
			transpose_words(w);
			if (8 * h < to.lines && 32 * i + 8 * pair < to.columns)
				*(uint4 *)(to.at + 8 * h * to.step + 32 * i + 8 * pair) =
				    make_uint4(w[0], w[1], w[2], w[3]);
		}
}

/* Two neighbours of gradients that are added to. */
static __device__ inline void
add_two(float *to, float x, float y)
{
	SM90A("red.global.add.v2.f32 [%0], {%1, %2};" : : "l"(to), "f"(x), "f"(y) : "memory");
}

static __device__ inline void
add_two(bf16 *to, float x, float y)
{
	put_two(to, to_float(to[0]) + x, to_float(to[1]) + y);
}

/* Gradients of weights: written, or added to. */
template <typename OUT>
static __device__ inline void
store_gradient(const corner<OUT> &to, const float (&c)[128], bool add)
{
	int pair = threadIdx.x % 4;

#pragma unroll
	for (int i = 0; i < WIDE / 8; i++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			OUT *at = to.at + 8 * h * to.step + 8 * i + 2 * pair;
			float x = c[4 * i + 2 * h], y = c[4 * i + 2 * h + 1];

			if (8 * h >= to.lines || 8 * i >= to.columns)
				continue;
			if (add)
				add_two(at, x, y);
			else if (sizeof(OUT) == sizeof(float))
				*(float2 *)at = make_float2(x, y);
			else
				put_two(at, x, y);
		}
}

template <typename OUT, enum grouped_kind KIND>
static __device__ inline void
multiply_tiles(const struct grouped &g, struct grouped_walk walk, struct ring ring)
{
	int group = threadIdx.x / GROUP - 1, lane = threadIdx.x % 32,
	    line = group * BOX + threadIdx.x % GROUP / 32 * 16 + lane / 4;
	struct grouped_tile t;
	float c[128];

	for (int i = blockIdx.x; grouped_find(walk, i, t); i += gridDim.x) {
		int depth = tile_depth<KIND>(g, t), lines = tile_lines<KIND>(walk, t);
		int64_t row = (KIND == GROUPED_WEIGHT ? (int64_t)t.expert * walk.height : t.begin) +
		    t.row + line;
		corner<OUT> to = { row_of<OUT>(g.c, row) + t.column, g.c.stride[0], lines - line,
			(int)g.c.shape[1] - t.column };

		if (KIND == GROUPED_WEIGHT && depth == 0 && g.beta != 0)
			continue;
		if (KIND == GROUPED_WEIGHT && depth == 0)
			for (int j = 0; j < 128; j++)
				c[j] = 0;
		sum_tile<KIND>(c, ring, depth, group, lines <= group * BOX);
		if constexpr (KIND == GROUPED_WEIGHT)
			store_gradient(to, c, g.beta != 0);
		else
			store_sums(to, c);
	}
}

template <typename OUT, enum grouped_kind KIND>
static __global__ void
__launch_bounds__(THREADS, 1) grouped_hopper_kernel(
    const __grid_constant__ struct grouped_maps maps, const __grid_constant__ struct grouped g)
{
	extern __shared__ __align__(1024) char memory[];
	struct ring ring = { shared_address(memory), 0, 0 };
	int *ends = (int *)(memory + ENDS);
	struct grouped_walk walk;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0) {
		for (int i = 0; i < PLACES; i++) {
			barrier_make(ring.base + BARRIERS + 8 * i, 1);
			barrier_make(ring_free(ring, i), 2 * GROUP / 32);
		}
		barriers_made();
	}
	grouped_ends(g, ends);
	walk = grouped_start(g, ends, HIGH, WIDE);
	if (threadIdx.x < GROUP) {
		registers_release<40>();
		if (threadIdx.x == 0)
			copy_tiles<KIND>(maps, g, walk, ring);
	} else {
		registers_claim<232>();
		multiply_tiles<OUT, KIND>(g, walk, ring);
	}
}

/* Whether this GPU's code has the instructions: of a build for sm_90 without them too. */
static __device__ const int code = SM90A_CODE;

bool
grouped_hopper_present(void)
{
	int present = 0;

	return cudaMemcpyFromSymbol(&present, code, sizeof present) == cudaSuccess && present;
}

void
grouped_hopper(struct stream *st, const struct grouped *g, const struct grouped_maps *maps)
{
	void (*kernel)(const struct grouped_maps, const struct grouped) = g->kind == GROUPED_FORWARD
	    ? grouped_hopper_kernel<bf16, GROUPED_FORWARD>
	    : g->kind == GROUPED_INPUT ? grouped_hopper_kernel<bf16, GROUPED_INPUT>
	    : g->c.dtype == DTYPE_F32  ? grouped_hopper_kernel<float, GROUPED_WEIGHT>
				       : grouped_hopper_kernel<bf16, GROUPED_WEIGHT>;

	if (cu_ok(st->device,
		cudaFuncSetAttribute(
		    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED),
		"grouped"))
		kernel<<<(unsigned)st->device->num_sms, THREADS, SHARED, cu_handle(st)>>>(
		    *maps, *g);
}
