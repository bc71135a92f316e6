/*
 * grouped_weight.cu - grouped GEMMs of bf16 for compute capability 9.0 whose results are gradients
 * of the experts' matrices, in tiles of 128 x 192
 *
 * The warpgroups that multiply take a tile each in turn, so that one multiplies while the other
 * stores. A warpgroup comes to the ring of copies when the other one has seen its last place full.
 * Rows after those of an expert are cleared in shared memory before they are multiplied, since zero
 * times NaN is none.
 *
 * Gradients in F32, twice the bytes of other results, leave through slots in shared memory, in
 * boxes that the copy engine writes or adds to memory; what it adds to is asked for beside the
 * tile's last steps. Sums have the lengths of the experts, so the longest come first, and blocks
 * take tiles in rounds that change direction.
 */
#include "train/cuda/gemm/grouped_hopper.cuh"

enum {
	WIDE = GROUPED_WIDE_WEIGHT,
	HALVES = HIGH / BOX, /* of a tile's lines, by one wgmma each */
	PLACE = SIDE_A + WIDE * BOX_LINE,
	SLOTS = 4, /* of a warpgroup, for boxes of gradients */
	SLOT_COLUMNS = BOX_LINE / 4,
	ACROSS = WIDE / SLOT_COLUMNS, /* boxes of a half */
	BAND = 8, /* wider parts of fewer lines are written at a time than with GROUPED_BAND */
};
typedef ring<PLACE, 4> weight_ring;

/* Where shared memory holds what, after the slots: the ring, a barrier of each warpgroup that
 * multiplies, and the experts' order and ends. */
enum {
	AT_RING = 2 * SLOTS * BOX_BYTES,
	AT_TURNS = AT_RING + weight_ring::BYTES,
	AT_ORDER = AT_TURNS + 2 * 8,
	AT_ENDS = AT_ORDER + GROUPED_HOPPER_EXPERTS * 4,
};

/* The tile that this block comes to in a round; false: there are no more. */
static __device__ inline bool
tile_of_round(struct grouped_walk &walk, int round, struct grouped_tile &t)
{
	int blocks = (int)gridDim.x, block = (int)blockIdx.x;

	return grouped_find(walk, round * blocks + (round % 2 ? blocks - 1 - block : block), t);
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* Asks for lines of the sums in memory that a tile is added to, so that they are in the L2 cache by
 * then; the last step asks for the last lines. */
static __device__ inline void
ask_sums(const struct grouped_call &call, const struct grouped_tile &t, int steps_left)
{
	int line = HIGH - steps_left * GROUPED_ASKED;

	if (line >= 0)
		ask_box(&call.c_lines, make_int3(t.column, t.row + line, t.expert));
}

static __device__ inline void
copy_tiles(const struct grouped_call &call, struct grouped_walk walk, weight_ring ring)
{
	bool ask = call.g.beta != 0 && call.g.c.dtype == DTYPE_F32;
	struct grouped_tile t;

	for (int round = 0; tile_of_round(walk, round, t); round++)
		for (int row = t.begin; row < t.end; row += BOX, ring.step++) {
			uint32_t full, at = place_of(ring);

			ring_claim(ring);
			full = ring_expect(ring, PLACE);
#pragma unroll
			for (int i = 0; i < HIGH; i += BOX)
				copy_box(at + i * BOX_LINE, &call.a, t.row + i, row, full);
#pragma unroll
			for (int i = 0; i < WIDE; i += BOX)
				copy_box(
				    at + SIDE_A + i * BOX_LINE, &call.b, t.column + i, row, full);
			if (ask)
				ask_sums(call, t, (t.end - row + BOX - 1) / BOX);
		}
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* Where a warpgroup is besides the ring: its slots, and the boxes that came before; the barriers
 * of both warpgroups' turns, and the own turns that came before. */
struct place {
	uint32_t slots, box, turns, turn;
};

/* All threads of the warpgroup arrive here before one continues. */
static __device__ inline void
meet_group(void)
{
	barrier_some(1 + own_group(), GROUP);
}

/* Waits for the own turn. The first warpgroup's first one has come. */
static __device__ inline void
turn_begin(const struct place &p)
{
	barrier_wait(p.turns + 8 * own_group(), (p.turn + 1 + own_group()) % 2);
}

/* The other one's turn comes when all threads of this one have ended theirs. */
static __device__ inline void
turn_end(struct place &p)
{
	__syncwarp();
	if (threadIdx.x % 32 == 0)
		barrier_arrive(p.turns + 8 * (1 - own_group()));
	p.turn++;
}

/* Clears the rows from the first on of all boxes of a place. */
static __device__ inline void
clear_rows(uint32_t place, int first)
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
template <int COUNT>
static __device__ inline void
sum_step(tile_sums &c, uint32_t place, bool add)
{
	uint64_t a = operand_at(place), b = operand_at(place + SIDE_A);

	wgmma_fence();
#pragma unroll
	for (int i = 0; i < BOX; i += 16) {
#pragma unroll
		for (int half = 0; half < COUNT; half++)
			multiply<WIDE, false, false>(
			    c[half], a + half * (BOX_BYTES >> 4), b, add || i > 0);
		a = operand_next<false>(a);
		b = operand_next<false>(b);
	}
	wgmma_commit();
}

/* The sums of a tile's first halves. A place is free when the wgmma after its own are issued and
 * its own are done. */
template <int COUNT>
static __device__ inline void
sum_tile(tile_sums &c, weight_ring &ring, struct place &own, int depth)
{
	uint32_t before = 0;

	turn_begin(own);
	for (int k = 0; k < depth; k += BOX, ring.step++) {
		ring_wait(ring);
		if (depth - k < BOX)
			clear_rows(place_of(ring), depth - k);
		sum_step<COUNT>(c, place_of(ring), k > 0);
		wgmma_wait<1>();
		ring_free(before);
		before = free_of(ring);
	}
	turn_end(own);
	wgmma_wait<0>();
	for (int half = 0; half < COUNT; half++)
		sums_done(c[half]);
	ring_free(before);
}

/* In 16 bits: written, or added to; zeros in place of sums where there are no rows. */
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

/* In F32, through the warpgroup's slots: two at once, so that its threads wait for each other half
 * as often, or one where they are added, since additions in bursts are slower. */
template <bool ADD>
static __device__ inline void
store_boxes(const struct grouped_call &call, struct place &own, const struct grouped_tile &t,
    const tile_sums &c)
{
	constexpr int AT_ONCE = ADD ? 1 : 2;
	bool copier = is_copier();

	static_assert(ACROSS % AT_ONCE == 0 && SLOTS % AT_ONCE == 0);
#pragma unroll
	for (int i = 0; i < HALVES * ACROSS; i += AT_ONCE) {
		uint32_t slots = own.slots + own.box % SLOTS * BOX_BYTES;
		int half = i / ACROSS, column = i % ACROSS * SLOT_COLUMNS;

		if (copier)
			groups_read_but<SLOTS / AT_ONCE - 1>();
		meet_group();
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++)
			fill_slot(slots + j * BOX_BYTES, c[half] + (column + j * SLOT_COLUMNS) / 2,
			    t.begin == t.end);
		fence_async_proxy();
		meet_group();
		if (copier) {
#pragma unroll
			for (int j = 0; j < AT_ONCE; j++)
				store_box(&call.c, slots + j * BOX_BYTES,
				    make_int3(t.column + column + j * SLOT_COLUMNS,
					t.row + half * BOX, t.expert),
				    ADD);
			boxes_commit();
		}
		own.box += AT_ONCE;
	}
}

template <typename OUT>
static __device__ inline void
store_tile(const struct grouped_call &call, struct place &own, const struct grouped_walk &walk,
    const struct grouped_tile &t, const tile_sums &c)
{
	const struct tensor &to = call.g.c;
	bool add = call.g.beta != 0;

	if constexpr (sizeof(OUT) != sizeof(float))
		store_gradient(
		    { row_of<bf16>(to, (int64_t)t.expert * walk.height + t.row) + t.column,
			to.stride[0], walk.height - t.row, (int)to.shape[1] - t.column },
		    c, add, t.begin == t.end);
	else if (add)
		store_boxes<true>(call, own, t, c);
	else
		store_boxes<false>(call, own, t, c);
}

/* Every second round's tile. The other's steps are passed over. */
template <typename OUT>
static __device__ inline void
multiply_tiles(
    const struct grouped_call &call, struct grouped_walk walk, weight_ring ring, struct place own)
{
	struct grouped_tile t;
	tile_sums c;

	for (int round = 0; tile_of_round(walk, round, t); round++) {
		int depth = t.end - t.begin;

		if (round % 2 != own_group()) {
			ring.step += (depth + BOX - 1) / BOX;
			continue;
		}
		if (walk.height - t.row > BOX)
			sum_tile<HALVES>(c, ring, own, depth);
		else
			sum_tile<1>(c, ring, own, depth);
		if (depth > 0 || call.g.beta == 0)
			store_tile<OUT>(call, own, walk, t, c);
	}
	if (is_copier())
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

template <typename OUT>
static __global__ void
__launch_bounds__(THREADS, 1) grouped_weight_kernel(const __grid_constant__ grouped_call call)
{
	extern __shared__ __align__(1024) char memory[];
	uint32_t base = shared_address(memory);
	weight_ring ring = { base + AT_RING, 0 };
	struct place own = { base + own_group() * SLOTS * BOX_BYTES, 0, base + AT_TURNS, 0 };
	int *ends = (int *)(memory + AT_ENDS), *order = (int *)(memory + AT_ORDER);
	struct grouped_walk walk;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0) {
		for (int group = 0; group < 2; group++)
			barrier_make(own.turns + 8 * group, GROUP / 32);
		ring_make(ring, GROUP / 32);
	}
	grouped_ends(call.g, ends);
	order_experts(ends, order, (int)call.g.counts.shape[1]);
	walk = grouped_start(call.g, ends, HIGH, WIDE);
	walk.order = order;
	walk.band = BAND;
	if (threadIdx.x < GROUP) {
		registers_release<24>();
		if (is_copier())
			copy_tiles(call, walk, ring);
	} else {
		registers_claim<240>();
		multiply_tiles<OUT>(call, walk, ring, own);
	}
}

void
grouped_weight(struct stream *st, const struct grouped_call *call)
{
	grouped_launch_hopper(st, call,
	    call->g.c.dtype == DTYPE_F32 ? grouped_weight_kernel<float>
					 : grouped_weight_kernel<bf16>,
	    AT_ENDS);
}
