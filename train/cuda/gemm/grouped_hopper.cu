/*
 * grouped_hopper.cu - grouped GEMMs of bf16 for compute capability 9.0, in tiles of 128 x 192
 *
 * Of a block's three warpgroups the first copies, by one thread; the others multiply a tile each in
 * turn, so that one multiplies while the other stores. Copies pass through a ring of places that
 * continues from tile to tile; barriers tell only an even from an odd number of laps, so a
 * warpgroup comes to the ring when the other one has seen its last place full. Rows after those of
 * an expert are multiplied too, and not stored; where they are the terms of a sum they are cleared
 * in shared memory first, since zero times NaN is none.
 *
 * Gradients of weights in F32, twice the bytes of other results, leave through slots in shared
 * memory, in boxes that the copy engine writes or adds to memory. Their sums have the lengths of
 * the experts, so the longest come first, and blocks take tiles in rounds that change direction.
 */
#include "train/cuda/gemm/grouped.cuh"
#include "train/cuda/gemm/grouped.h"
#include "train/cuda/gemm/hopper.cuh"

enum {
	HIGH = GROUPED_HIGH,
	WIDE = GROUPED_WIDE,
	HALVES = HIGH / BOX, /* of a tile's lines, by one wgmma each */
	THREADS = 3 * GROUP,
	SIDE_A = HIGH * BOX_LINE,
	PLACE = SIDE_A + WIDE * BOX_LINE,
	SLOTS = 4, /* of a warpgroup, for boxes of gradients */
	SLOT_COLUMNS = BOX_LINE / 4,
};

/* Whether sums run along the lines of an operand in memory; and where shared memory holds what:
 * places, slots, two barriers of each place and one of each warpgroup that multiplies, and the
 * experts' ends and order. */
template <enum grouped_kind KIND> struct plan {
	static constexpr bool WEIGHT = KIND == GROUPED_WEIGHT, A = !WEIGHT,
			      B = KIND == GROUPED_FORWARD;
	static constexpr int PLACES = WEIGHT ? 4 : 5, AT_SLOTS = PLACES * PLACE,
			     AT_BARRIERS = AT_SLOTS + (WEIGHT ? 2 * SLOTS * BOX_BYTES : 0),
			     AT_TURNS = AT_BARRIERS + 2 * PLACES * 8, AT_ENDS = AT_TURNS + 2 * 8,
			     AT_ORDER = AT_ENDS + GROUPED_HOPPER_EXPERTS * 4,
			     BYTES = AT_ORDER + GROUPED_HOPPER_EXPERTS * 4;
};

/* Where a thread is: steps of the ring, and turns and boxes of its warpgroup, that came before. */
struct ring {
	uint32_t base, step, turn, box;
};

template <enum grouped_kind KIND>
static __device__ inline uint32_t
place_of(const struct ring &r)
{
	return r.base + r.step % plan<KIND>::PLACES * PLACE;
}

/* The barrier that a step's place is full, and the one that it is free again. */
template <enum grouped_kind KIND>
static __device__ inline uint32_t
full_of(const struct ring &r)
{
	return r.base + plan<KIND>::AT_BARRIERS + r.step % plan<KIND>::PLACES * 16;
}

template <enum grouped_kind KIND>
static __device__ inline uint32_t
free_of(const struct ring &r)
{
	return full_of<KIND>(r) + 8;
}

template <enum grouped_kind KIND>
static __device__ inline uint32_t
parity_of(const struct ring &r)
{
	return r.step / plan<KIND>::PLACES % 2;
}

/* The tile that this block comes to in a round. */
static __device__ inline int
tile_of_round(int round)
{
	return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

/* Length of a tile's sums, and lines of its result that there are. */
template <enum grouped_kind KIND>
static __device__ inline int
depth_of(const struct grouped &g, const struct grouped_tile &t)
{
	return plan<KIND>::WEIGHT ? t.end - t.begin : (int)g.a.shape[1];
}

template <enum grouped_kind KIND>
static __device__ inline int
lines_of(const struct grouped_walk &w, const struct grouped_tile &t)
{
	return (plan<KIND>::WEIGHT ? w.height : t.end - t.begin) - t.row;
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* One operand's boxes of a step. across: where the tile begins across the sum, and where the lines
 * of its expert or the rows of its sum begin; along: where the step is in the sum. */
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
copy_tiles(const struct grouped_call &call, struct grouped_walk walk, struct ring ring)
{
	typedef plan<KIND> P;
	struct grouped_tile t;

	for (int round = 0; grouped_find(walk, tile_of_round(round), t); round++) {
		int2 a = make_int2(t.row, t.begin),
		     b = make_int2(t.column, P::WEIGHT ? t.begin : t.expert * walk.height);
		int depth = depth_of<KIND>(call.g, t);

		for (int k = 0; k < depth; k += BOX, ring.step++) {
			uint32_t full = full_of<KIND>(ring), at = place_of<KIND>(ring);

			barrier_wait(free_of<KIND>(ring), parity_of<KIND>(ring) ^ 1);
			barrier_expect(full, PLACE);
			copy_side<P::A, HIGH>(at, &call.a, a, k, full);
			copy_side<P::B, WIDE>(at + SIDE_A, &call.b, b, k, full);
		}
	}
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* All threads of the warpgroup arrive here before one continues. */
static __device__ inline void
meet_group(void)
{
	barrier_some(1 + own_group(), GROUP);
}

/* The barrier that it is a warpgroup's turn. */
template <enum grouped_kind KIND>
static __device__ inline uint32_t
turn_of(const struct ring &r, int group)
{
	return r.base + plan<KIND>::AT_TURNS + 8 * group;
}

/* Waits for the own turn. The first warpgroup's first one has come. */
template <enum grouped_kind KIND>
static __device__ inline void
turn_begin(const struct ring &r)
{
	barrier_wait(turn_of<KIND>(r, own_group()), (r.turn + 1 + own_group()) % 2);
}

/* The other one's turn comes when all threads of this one have ended theirs. */
template <enum grouped_kind KIND>
static __device__ inline void
turn_end(struct ring &r)
{
	__syncwarp();
	if (threadIdx.x % 32 == 0)
		barrier_arrive(turn_of<KIND>(r, 1 - own_group()));
	r.turn++;
}

/* Clears the lines from the first on of all boxes of a place. */
static __device__ inline void
clear_lines(uint32_t place, int first)
{
	int pieces = (BOX - first) * (BOX_LINE / 16);

	for (int i = threadIdx.x % GROUP; i < pieces * (PLACE / BOX_BYTES); i += GROUP) {
		uint32_t line = place + i / pieces * BOX_BYTES + first * BOX_LINE;

		*(uint4 *)__cvta_shared_to_generic(line + i % pieces * 16) = make_uint4(0, 0, 0, 0);
	}
	fence_async_proxy();
	meet_group();
}

/* A lane's sums of a tile. */
typedef float tile_sums[HALVES][WIDE / 2];

/* Issues one step's wgmma of the first halves. */
template <enum grouped_kind KIND, int COUNT>
static __device__ inline void
sum_step(tile_sums &c, uint32_t place, bool add)
{
	typedef plan<KIND> P;
	uint64_t a = operand_at(place), b = operand_at(place + SIDE_A);

	wgmma_fence();
#pragma unroll
	for (int i = 0; i < BOX; i += 16) {
#pragma unroll
		for (int half = 0; half < COUNT; half++)
			multiply_192<P::A, P::B>(
			    c[half], a + half * (BOX_BYTES >> 4), b, add || i > 0);
		a = operand_next<P::A>(a);
		b = operand_next<P::B>(b);
	}
	wgmma_commit();
}

/* The sums of a tile's first halves. A place is free when the wgmma after its own are issued and
 * its own are done. */
template <enum grouped_kind KIND, int COUNT>
static __device__ inline void
sum_tile(tile_sums &c, struct ring &ring, int depth)
{
	uint32_t before = 0;

	turn_begin<KIND>(ring);
	for (int k = 0; k < depth; k += BOX, ring.step++) {
		uint32_t place = place_of<KIND>(ring);

		barrier_wait(full_of<KIND>(ring), parity_of<KIND>(ring));
		if (plan<KIND>::WEIGHT && depth - k < BOX)
			clear_lines(place, depth - k);
		sum_step<KIND, COUNT>(c, place, k > 0);
		wgmma_wait<1>();
		if (before && threadIdx.x % 32 == 0)
			barrier_arrive(before);
		before = free_of<KIND>(ring);
	}
	turn_end<KIND>(ring);
	wgmma_wait<0>();
	for (int half = 0; half < COUNT; half++)
		sums_done(c[half]);
	if (before && threadIdx.x % 32 == 0)
		barrier_arrive(before);
}

/* Sums rounded. */
static __device__ inline void
store_sums(const struct corner &to, const tile_sums &c)
{
#pragma unroll
	for (int half = 0; half < HALVES; half++)
		store_lines(to, c[half], half * BOX);
}

/* Gradients of weights in 16 bits: written, or added to; zeros in place of sums where there are no
 * rows. */
static __device__ inline void
store_gradient(const struct corner &to, const tile_sums &c, bool add, bool none)
{
#pragma unroll
	for (int half = 0; half < HALVES; half++)
#pragma unroll
		for (int i = 0; i < WIDE / 4; i++) {
			int line = own_line() + half * BOX + i % 2 * 8,
			    column = i / 2 * 8 + threadIdx.x % 4 * 2;
			bf16 *at = to.at + line * to.step + column;
			float x = none ? 0 : c[half][2 * i], y = none ? 0 : c[half][2 * i + 1];

			if (line >= to.lines || column >= to.columns)
				continue;
			if (add) {
				x += to_float(at[0]);
				y += to_float(at[1]);
			}
			put_two(at, x, y);
		}
}

/* 32 columns of a half to a slot, their pieces of 16 bytes permuted. */
static __device__ inline void
fill_slot(uint32_t slot, const float *c, bool none)
{
	int row = own_line(), pair = threadIdx.x % 4;
	char *line = (char *)__cvta_shared_to_generic(slot + row * BOX_LINE + pair % 2 * 8);

#pragma unroll
	for (int i = 0; i < SLOT_COLUMNS / 4; i++) {
		int piece = (i / 2 * 2 + pair / 2) ^ row % 8;

		*(float2 *)(line + i % 2 * 8 * BOX_LINE + 16 * piece) =
		    none ? make_float2(0, 0) : make_float2(c[2 * i], c[2 * i + 1]);
	}
}

/* Gradients of weights in F32, through the warpgroup's slots. */
static __device__ inline void
store_boxes(const struct grouped_call &call, struct ring &ring, const struct grouped_tile &t,
    const tile_sums &c)
{
	uint32_t slots =
	    ring.base + plan<GROUPED_WEIGHT>::AT_SLOTS + own_group() * SLOTS * BOX_BYTES;
	bool first = threadIdx.x % GROUP == 0, add = call.g.beta != 0;

#pragma unroll
	for (int half = 0; half < HALVES; half++)
#pragma unroll
		for (int i = 0; i < WIDE / SLOT_COLUMNS; i++) {
			uint32_t slot = slots + ring.box % SLOTS * BOX_BYTES;

			if (first)
				boxes_read_but<SLOTS - 1>();
			meet_group();
			fill_slot(slot, c[half] + i * SLOT_COLUMNS / 2, t.begin == t.end);
			fence_async_proxy();
			meet_group();
			if (first)
				store_box(&call.c, slot,
				    make_int3(
					t.column + i * SLOT_COLUMNS, t.row + half * BOX, t.expert),
				    add);
			ring.box++;
		}
}

template <typename OUT, enum grouped_kind KIND>
static __device__ inline void
store_tile(const struct grouped_call &call, struct ring &ring, const struct grouped_walk &walk,
    const struct grouped_tile &t, const tile_sums &c)
{
	const struct tensor &to = call.g.c;
	int64_t first = plan<KIND>::WEIGHT ? (int64_t)t.expert * walk.height : t.begin;
	struct corner corner = { row_of<bf16>(to, first + t.row) + t.column, to.stride[0],
		lines_of<KIND>(walk, t), (int)to.shape[1] - t.column };

	if constexpr (!plan<KIND>::WEIGHT)
		store_sums(corner, c);
	else if constexpr (sizeof(OUT) == sizeof(float))
		store_boxes(call, ring, t, c);
	else
		store_gradient(corner, c, call.g.beta != 0, t.begin == t.end);
}

/* Every second round's tile. The other's steps are passed over. */
template <typename OUT, enum grouped_kind KIND>
static __device__ inline void
multiply_tiles(const struct grouped_call &call, struct grouped_walk walk, struct ring ring)
{
	struct grouped_tile t;
	tile_sums c;

	for (int round = 0; grouped_find(walk, tile_of_round(round), t); round++) {
		int depth = depth_of<KIND>(call.g, t);

		if (round % 2 != own_group()) {
			ring.step += (depth + BOX - 1) / BOX;
			continue;
		}
		if (lines_of<KIND>(walk, t) > BOX)
			sum_tile<KIND, HALVES>(c, ring, depth);
		else
			sum_tile<KIND, 1>(c, ring, depth);
		if (depth > 0 || call.g.beta == 0)
			store_tile<OUT, KIND>(call, ring, walk, t, c);
	}
	if (threadIdx.x % GROUP == 0)
		boxes_written();
}

/* The experts with more rows come first. */
static __device__ inline void
order_experts(const int *ends, int *order, int experts)
{
	for (int i = threadIdx.x; i < experts; i += blockDim.x) {
		int rows = ends[i] - (i ? ends[i - 1] : 0), rank = 0;

		for (int j = 0; j < experts; j++) {
			int others = ends[j] - (j ? ends[j - 1] : 0);

			rank += others > rows || (others == rows && j < i);
		}
		order[rank] = i;
	}
	__syncthreads();
}

template <typename OUT, enum grouped_kind KIND>
static __global__ void
__launch_bounds__(THREADS, 1) grouped_hopper_kernel(const __grid_constant__ grouped_call call)
{
	typedef plan<KIND> P;
	extern __shared__ __align__(1024) char memory[];
	struct ring ring = { shared_address(memory), 0, 0, 0 };
	int *ends = (int *)(memory + P::AT_ENDS), *order = (int *)(memory + P::AT_ORDER);
	struct grouped_walk walk;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0) {
		for (struct ring r = ring; r.step < P::PLACES; r.step++) {
			barrier_make(full_of<KIND>(r), 1);
			barrier_make(free_of<KIND>(r), GROUP / 32);
		}
		for (int group = 0; group < 2; group++)
			barrier_make(turn_of<KIND>(ring, group), GROUP / 32);
		barriers_made();
	}
	grouped_ends(call.g, ends);
	walk = grouped_start(call.g, ends, HIGH, WIDE);
	if (P::WEIGHT) {
		order_experts(ends, order, walk.experts);
		walk.order = order;
	}
	if (threadIdx.x < GROUP) {
		registers_release<24>();
		if (threadIdx.x == 0)
			copy_tiles<KIND>(call, walk, ring);
	} else {
		registers_claim<240>();
		multiply_tiles<OUT, KIND>(call, walk, ring);
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

template <typename OUT, enum grouped_kind KIND>
static void
launch(struct stream *st, const struct grouped_call *call)
{
	void (*kernel)(const struct grouped_call) = grouped_hopper_kernel<OUT, KIND>;
	const int bytes = plan<KIND>::BYTES;

	if (cu_ok(st->device,
		cudaFuncSetAttribute(
		    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"grouped"))
		kernel<<<(unsigned)st->device->num_sms, THREADS, bytes, cu_handle(st)>>>(*call);
}

void
grouped_hopper(struct stream *st, const struct grouped_call *call)
{
	bool wide = call->g.c.dtype == DTYPE_F32;

	switch (call->g.kind) {
	case GROUPED_FORWARD: launch<bf16, GROUPED_FORWARD>(st, call); break;
	case GROUPED_INPUT: launch<bf16, GROUPED_INPUT>(st, call); break;
	case GROUPED_WEIGHT:
		(wide ? launch<float, GROUPED_WEIGHT> : launch<bf16, GROUPED_WEIGHT>)(st, call);
	}
}
