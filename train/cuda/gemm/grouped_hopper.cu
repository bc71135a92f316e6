/*
 * grouped_hopper.cu - grouped products of bf16 for compute capability 9.0: tiles of 128 x 256 by
 * two warpgroups that multiply, and a third whose first thread copies for them
 *
 * Copies pass through a ring of places that goes on from tile to tile: while a tile is stored, the
 * next one's operands come. The two warpgroups own 64 lines of a tile each and meet at no barrier
 * but those of the ring. Rows after those of an expert are multiplied too, and not stored; where
 * they are the terms of a sum they are cleared in shared memory first, since zero times NaN is
 * none.
 *
 * Gradients of weights in F32 are four times the bytes of other results for as many products: they
 * leave through slots in shared memory, in boxes that are written or added to memory while the next
 * tile is multiplied. Their sums have the lengths of the experts, so the longest come first, and
 * blocks take tiles in turns that change direction.
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
	PLACE = SIDE_A + SIDE_B,
	SLOTS = 5, /* of a warpgroup, for boxes of gradients */
};

/* Whether sums run along the lines of an operand in memory, and what shared memory holds: places,
 * slots, two barriers of each place, and the experts' ends and order. */
template <enum grouped_kind KIND> struct plan {
	static constexpr bool WEIGHT = KIND == GROUPED_WEIGHT, A = !WEIGHT,
			      B = KIND == GROUPED_FORWARD;
	static constexpr int PLACES = WEIGHT ? 3 : 4, AT_SLOTS = PLACES * PLACE,
			     AT_BARRIERS = AT_SLOTS + (WEIGHT ? 2 * SLOTS * BOX_BYTES : 0),
			     AT_ENDS = AT_BARRIERS + 2 * PLACES * 8,
			     AT_ORDER = AT_ENDS + GROUPED_HOPPER_EXPERTS * 4,
			     BYTES = AT_ORDER + GROUPED_HOPPER_EXPERTS * 4;
};

/* The place in the ring that a thread comes to next, and the slot. */
struct ring {
	uint32_t base, barriers;
	int place, slot;
	uint32_t parity;
};

static __device__ inline uint32_t
ring_full(const struct ring &r)
{
	return r.barriers + 16 * r.place;
}

static __device__ inline uint32_t
ring_free(const struct ring &r, int place)
{
	return r.barriers + 16 * place + 8;
}

template <int PLACES>
static __device__ inline void
ring_next(struct ring &r)
{
	r.place = r.place + 1 == PLACES ? 0 : r.place + 1;
	r.parity ^= r.place == 0;
}

/* The tile that this block comes to in a round. */
static __device__ inline int
tile_of_round(int round)
{
	return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
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
	const struct tensor &stack = P::WEIGHT ? call.g.c : call.g.b;
	int height = (int)(stack.shape[0] / call.g.counts.shape[1]);
	struct grouped_tile t;

	for (int round = 0; grouped_find(walk, tile_of_round(round), t); round++) {
		int2 a = make_int2(t.row, t.begin),
		     b = make_int2(t.column, P::WEIGHT ? t.begin : t.expert * height);
		int depth = tile_depth<KIND>(call.g, t);

		for (int k = 0; k < depth; k += BOX) {
			uint32_t full = ring_full(ring), at = ring.base + ring.place * PLACE;

			barrier_wait(ring_free(ring, ring.place), ring.parity ^ 1);
			barrier_expect(full, PLACE);
			copy_side<P::A, HIGH>(at, &call.a, a, k, full);
			copy_side<P::B, WIDE>(at + SIDE_A, &call.b, b, k, full);
			ring_next<P::PLACES>(ring);
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

/* One step's products are asked for. */
template <enum grouped_kind KIND>
static __device__ inline void
sum_step(float (&c)[128], uint32_t own, uint32_t side_b, bool add)
{
	uint64_t a = operand_at(own), b = operand_at(side_b);

	products_begin();
#pragma unroll
	for (int i = 0; i < BOX; i += 16) {
		multiply_256<plan<KIND>::A, plan<KIND>::B>(c, a, b, add || i > 0);
		a = operand_next<plan<KIND>::A>(a);
		b = operand_next<plan<KIND>::B>(b);
	}
	products_asked();
}

/* The sums of a tile. A place is free when the products after its own have been asked for and its
 * own are done. idle: none are needed. */
template <enum grouped_kind KIND>
static __device__ inline void
sum_tile(float (&c)[128], struct ring &ring, int depth, bool idle)
{
	int group = threadIdx.x / GROUP - 1, last = -1;

	for (int k = 0; k < depth; k += BOX) {
		uint32_t at = ring.base + ring.place * PLACE, own = at + group * BOX_BYTES;

		barrier_wait(ring_full(ring), ring.parity);
		if (plan<KIND>::WEIGHT && depth - k < BOX)
			clear_lines(own, at + SIDE_A, depth - k, 1 + group);
		if (!idle)
			sum_step<KIND>(c, own, at + SIDE_A, k > 0);
		products_done_but<1>();
		if (last >= 0 && threadIdx.x % 32 == 0)
			barrier_arrive(ring_free(ring, last));
		last = ring.place;
		ring_next<plan<KIND>::PLACES>(ring);
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

/* Where a lane's first line goes, and how many lines and columns there are from it on. */
template <typename OUT> struct corner {
	OUT *at;
	int64_t step;
	int lines, columns;
};

/* Rounded, 16 bytes of a lane at once. */
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

/* Gradients of weights in 16 bits: written, or added to. empty: zeros in place of sums. */
static __device__ inline void
store_gradient(const corner<bf16> &to, const float (&c)[128], bool add, bool empty)
{
	int pair = threadIdx.x % 4;

#pragma unroll
	for (int i = 0; i < WIDE / 8; i++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			bf16 *at = to.at + 8 * h * to.step + 8 * i + 2 * pair;
			float x = empty ? 0 : c[4 * i + 2 * h],
			      y = empty ? 0 : c[4 * i + 2 * h + 1];

			if (8 * h >= to.lines || 8 * i >= to.columns)
				continue;
			if (add) {
				x += to_float(at[0]);
				y += to_float(at[1]);
			}
			put_two(at, x, y);
		}
}

/* 32 of the columns of a warpgroup's sums to a slot, its pieces of 16 bytes permuted. */
template <int FIRST>
static __device__ inline void
fill_slot(uint32_t slot, const float (&c)[128], bool empty)
{
	int lane = threadIdx.x % 32, row = threadIdx.x % GROUP / 32 * 16 + lane / 4,
	    pair = lane % 4;
	char *line = (char *)__cvta_shared_to_generic(slot + row * BOX_LINE + pair % 2 * 8);

#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			const float *x = c + 4 * (FIRST / 8 + i) + 2 * h;
			int piece = (2 * i + pair / 2) ^ row % 8;

			*(float2 *)(line + 8 * h * BOX_LINE + 16 * piece) =
			    empty ? make_float2(0, 0) : make_float2(x[0], x[1]);
		}
}

/* Gradients of weights in F32: box after box through the warpgroup's slots. */
template <int FIRST>
static __device__ inline void
store_boxes(
    const struct grouped_call &call, struct ring &ring, int3 at, const float (&c)[128], bool empty)
{
	int group = threadIdx.x / GROUP - 1;
	uint32_t slot =
	    ring.base + plan<GROUPED_WEIGHT>::AT_SLOTS + (group * SLOTS + ring.slot) * BOX_BYTES;
	bool first = threadIdx.x % GROUP == 0;

	if (first)
		boxes_read_but<SLOTS - 1>();
	barrier_some(1 + group, GROUP);
	fill_slot<FIRST>(slot, c, empty);
	stores_to_products();
	barrier_some(1 + group, GROUP);
	if (first)
		store_box(&call.c, slot, at, call.g.beta != 0);
	ring.slot = ring.slot + 1 == SLOTS ? 0 : ring.slot + 1;
	at.x += 32;
	if constexpr (FIRST + 32 < WIDE)
		store_boxes<FIRST + 32>(call, ring, at, c, empty);
}

/* A tile's result; line: this lane's first. */
template <typename OUT, enum grouped_kind KIND>
static __device__ inline void
store_tile(const struct grouped_call &call, struct ring &ring, const struct grouped_tile &t,
    int2 lines, const float (&c)[128])
{
	const struct tensor &to = call.g.c;
	int64_t row = t.row + lines.x +
	    (plan<KIND>::WEIGHT ? t.expert * (to.shape[0] / call.g.counts.shape[1]) : t.begin);
	corner<OUT> corner = { row_of<OUT>(to, row) + t.column, to.stride[0], lines.y - lines.x,
		(int)to.shape[1] - t.column };

	if constexpr (!plan<KIND>::WEIGHT)
		store_sums(corner, c);
	else if constexpr (sizeof(OUT) == sizeof(float))
		store_boxes<0>(call, ring,
		    make_int3(t.column, t.row + (threadIdx.x / GROUP - 1) * BOX, t.expert), c,
		    t.begin == t.end);
	else
		store_gradient(corner, c, call.g.beta != 0, t.begin == t.end);
}

/* Tile after tile. */
template <typename OUT, enum grouped_kind KIND>
static __device__ inline void
multiply_tiles(const struct grouped_call &call, struct grouped_walk walk, struct ring ring)
{
	int group = threadIdx.x / GROUP - 1,
	    line = group * BOX + threadIdx.x % GROUP / 32 * 16 + threadIdx.x % 32 / 4;
	struct grouped_tile t;
	float c[128];

	for (int round = 0; grouped_find(walk, tile_of_round(round), t); round++) {
		int depth = tile_depth<KIND>(call.g, t), lines = tile_lines<KIND>(walk, t);

		if (plan<KIND>::WEIGHT && depth == 0 && call.g.beta != 0)
			continue;
		sum_tile<KIND>(c, ring, depth, lines <= group * BOX);
		store_tile<OUT, KIND>(call, ring, t, make_int2(line, lines), c);
	}
	if (threadIdx.x % GROUP == 0)
		boxes_written();
}

/* The experts with more rows come first: the longest sums do not begin last. */
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
	uint32_t base = shared_address(memory);
	struct ring ring = { base, base + P::AT_BARRIERS, 0, 0, 0 };
	int *ends = (int *)(memory + P::AT_ENDS), *order = (int *)(memory + P::AT_ORDER);
	struct grouped_walk walk;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0) {
		for (int i = 0; i < P::PLACES; i++) {
			barrier_make(ring_free(ring, i) - 8, 1);
			barrier_make(ring_free(ring, i), 2 * GROUP / 32);
		}
		barriers_made();
	}
	grouped_ends(call.g, ends);
	walk = grouped_start(call.g, ends, HIGH, WIDE);
	if (P::WEIGHT) {
		order_experts(ends, order, walk.experts);
		walk.order = order;
	}
	if (threadIdx.x < GROUP) {
		registers_release<40>();
		if (threadIdx.x == 0)
			copy_tiles<KIND>(call, walk, ring);
	} else {
		registers_claim<232>();
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
