/*
 * grouped_rows.cu - grouped GEMMs of bf16 for compute capability 9.0 whose results are rows of
 * experts, in tiles of 128 x 256
 *
 * Of the warpgroups that multiply each has 64 lines of every tile. A tile's sums are rounded to
 * registers, and stored piece by piece beside the first steps of the next tile, so that tensor
 * cores do not wait for memory. The tiles of a last round that is not full are cut into columns.
 * Rows after those of an expert are multiplied too, and not stored.
 */
#include "train/cuda/gemm/grouped_hopper.cuh"

enum {
	WIDE = GROUPED_WIDE,
	PLACE = SIDE_A + WIDE * BOX_LINE,
	PIECES = WIDE / 16, /* of a lane's rounded sums */
	PIECES_A_STEP = 2,
	PLACES = 4,
};
typedef ring<PLACE, PLACES> rows_ring;

/* Where shared memory holds the tile whose first step is in a place, after the ring, and the
 * experts' ends. */
enum {
	NOTE = 32,
	AT_NOTES = rows_ring::BYTES,
	AT_ENDS = AT_NOTES + PLACES * NOTE,
};
static_assert(sizeof(struct grouped_tile) <= NOTE);

static __device__ inline struct grouped_tile *
note_of(const rows_ring &r)
{
	return (struct grouped_tile *)__cvta_shared_to_generic(
	    r.base + AT_NOTES + r.step % PLACES * NOTE);
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* A step of the experts' matrices: of lines that are columns of the result, or of lines that its
 * sums run down. */
template <bool FORWARD>
static __device__ inline void
copy_weights(uint32_t to, const struct grouped_call &call, const struct grouped_tile &t, int above,
    int k, uint32_t barrier)
{
#pragma unroll
	for (int i = 0; i < WIDE; i += BOX)
		if (i < t.wide)
			copy_box(to + i * BOX_LINE, &call.b, FORWARD ? k : t.column + i,
			    above + (FORWARD ? t.column + i : k), barrier);
}

/* Tiles, and after them one of no columns. */
template <bool FORWARD>
static __device__ inline void
copy_tiles(const struct grouped_call &call, struct grouped_walk walk, rows_ring ring)
{
	struct grouped_tile t;

	for (int i = blockIdx.x; grouped_find(walk, i, t); i += gridDim.x)
		for (int k = 0; k < call.g.a.shape[1]; k += BOX, ring.step++) {
			uint32_t full, at = place_of(ring);

			ring_claim(ring);
			if (k == 0)
				*note_of(ring) = t;
			full = ring_expect(ring, SIDE_A + t.wide * BOX_LINE);
			copy_box(at, &call.a, k, t.begin + t.row, full);
			copy_weights<FORWARD>(
			    at + SIDE_A, call, t, t.expert * walk.height, k, full);
		}
	ring_claim(ring);
	note_of(ring)->wide = 0;
	(void)ring_expect(ring, 0);
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* A lane's sums of its half of a tile; and the same of the last tile, to be stored. */
typedef float lane_sums[WIDE / 2];
struct rounded {
	struct corner to;
	uint32_t words[WIDE / 4];
};

static __device__ inline void
store_pieces(const struct rounded &r, int first, int count)
{
#pragma unroll
	for (int i = first; i < first + count; i++)
		store_piece(r.to, r.words + 4 * i, i, own_group() * BOX);
}

/* Issues one step's wgmma, unless the tile has none of the warpgroup's lines. */
template <bool FORWARD, int COLUMNS>
static __device__ inline void
sum_step(lane_sums &c, const rows_ring &ring, bool add, bool idle)
{
	uint64_t a = operand_at(place_of(ring) + own_group() * BOX_BYTES),
		 b = operand_at(place_of(ring) + SIDE_A);

	ring_wait(ring);
	if (idle)
		return;
	wgmma_fence();
#pragma unroll
	for (int i = 0; i < BOX; i += 16) {
		multiply<COLUMNS, true, FORWARD>(c, a, b, add || i > 0);
		a = operand_next<true>(a);
		b = operand_next<FORWARD>(b);
	}
	wgmma_commit();
}

/* The sums of a tile; the last one is stored beside the first steps. A place is free when the wgmma
 * after its own are issued and its own are done. */
template <bool FORWARD, int COLUMNS>
static __device__ inline void
sum_tile(lane_sums &c, rows_ring &ring, int depth, bool idle, const struct rounded &last)
{
	constexpr int AT_ONCE = COLUMNS == WIDE ? PIECES_A_STEP : PIECES;
	uint32_t before = 0;
	int k = 0;

#pragma unroll
	for (int i = 0; i < PIECES; i += AT_ONCE, k += BOX) {
		if (k < depth)
			sum_step<FORWARD, COLUMNS>(c, ring, i > 0, idle);
		store_pieces(last, i, AT_ONCE);
		wgmma_wait<1>();
		if (k < depth) {
			ring_free(before);
			before = free_of(ring);
			ring.step++;
		}
	}
	for (; k < depth; k += BOX, ring.step++) {
		sum_step<FORWARD, COLUMNS>(c, ring, true, idle);
		wgmma_wait<1>();
		ring_free(before);
		before = free_of(ring);
	}
	wgmma_wait<0>();
	sums_done(c);
	ring_free(before);
}

/* The tile whose first step comes next; false: there are no more. */
static __device__ inline bool
tile_of(const rows_ring &ring, struct grouped_tile &t)
{
	ring_wait(ring);
	t = *note_of(ring);
	return t.wide > 0;
}

template <bool FORWARD>
static __device__ inline void
multiply_tiles(const struct grouped_call &call, rows_ring ring)
{
	const struct tensor &to = call.g.c;
	int depth = (int)call.g.a.shape[1];
	struct grouped_tile t;
	struct rounded last = {};
	lane_sums c;

	while (tile_of(ring, t)) {
		int lines = t.end - t.begin - t.row;
		bool idle = lines <= own_group() * BOX;

		if (t.wide == WIDE)
			sum_tile<FORWARD, WIDE>(c, ring, depth, idle, last);
		else if (t.wide == WIDE / 2)
			sum_tile<FORWARD, WIDE / 2>(c, ring, depth, idle, last);
		else
			sum_tile<FORWARD, WIDE / 4>(c, ring, depth, idle, last);
#pragma unroll
		for (int i = 0; i < PIECES; i++)
			round_piece(last.words + 4 * i, c, i);
		last.to = (struct corner){ row_of<bf16>(to, t.begin + t.row) + t.column,
			to.stride[0], lines, min(t.wide, (int)to.shape[1] - t.column) };
	}
	store_pieces(last, 0, PIECES);
}

template <bool FORWARD>
static __global__ void
__launch_bounds__(THREADS, 1) grouped_rows_kernel(const __grid_constant__ grouped_call call)
{
	extern __shared__ __align__(1024) char memory[];
	rows_ring ring = { shared_address(memory), 0 };
	int *ends = (int *)(memory + AT_ENDS);
	struct grouped_walk walk;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0)
		ring_make(ring, 2 * GROUP / 32);
	grouped_ends(call.g, ends);
	if (threadIdx.x < GROUP) {
		registers_release<40>();
		walk = grouped_start(call.g, ends, HIGH, WIDE);
		grouped_cut(walk);
		if (is_copier())
			copy_tiles<FORWARD>(call, walk, ring);
	} else {
		registers_claim<232>();
		multiply_tiles<FORWARD>(call, ring);
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
grouped_rows(struct stream *st, const struct grouped_call *call)
{
	grouped_launch_hopper(st, call,
	    call->g.kind == GROUPED_FORWARD ? grouped_rows_kernel<true>
					    : grouped_rows_kernel<false>,
	    AT_ENDS);
}
