/*
 * hopper_copy.cuh - the forward pass for compute capability 9.0: sizes, rings of places in shared
 * memory, and the thread that fills them
 *
 * It claims tiles, works out which blocks of keys they see, tells the others by a note, and copies
 * queries, keys and values; hopper_fwd.cuh has the work as a whole.
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_COPY_CUH
#define TRAIN_CUDA_ATTENTION_HOPPER_COPY_CUH

#include "train/cuda/attention/hopper.h"
#include "train/cuda/hopper.cuh"

enum { LANES = 0xffffffff };

/* Columns of boxes that hold a head: what is after its own comes as zeros. */
template <int D> static constexpr int box_columns = (D + BOX - 1) & -BOX;

/* Registers of a thread that copies and of one that multiplies: all that a multiprocessor has. */
template <int D> struct forward_size {
	static constexpr int KEYS = D == 256 ? HOPPER_KEYS_256 : HOPPER_KEYS,
			     ROWS = D == 64 ? HOPPER_QUERIES_64 : HOPPER_QUERIES_128,
			     GROUPS = ROWS / 64, THREADS = (1 + GROUPS) * GROUP,
			     COPIER_REGISTERS = GROUPS == 3 ? 32 : 24,
			     REGISTERS = GROUPS == 3 ? 160 : 240;
	/* Shared memory: places of keys and values, places of queries, barriers, notes. There is
	 * room for two tiles' queries unless heads are wide. */
	static constexpr int WIDTH = box_columns<D>, PLACE = KEYS * WIDTH * 2,
			     PLACES = D == 64 ? 8
	    : D == 256                        ? 4
					      : 5,
			     QUERIES = ROWS * WIDTH * 2, TILES = D == 256 ? 1 : 2,
			     AT_QUERIES = PLACES * PLACE,
			     AT_BARRIERS = AT_QUERIES + TILES * QUERIES,
			     AT_QUERY_BARRIERS = AT_BARRIERS + PLACES * 16,
			     AT_NOTES = AT_QUERY_BARRIERS + TILES * 16;
};

/* What the thread that copies tells the others of a tile, beside its queries: the first row of its
 * queries, the range of blocks that is copied, and the ranges of the warpgroups' own queries. */
struct tile_note {
	int sample, head, row;
	int begin, end; /* end 0: there are no more tiles */
	struct key_range own[3];
};

template <int D>
static constexpr int forward_bytes = forward_size<D>::AT_NOTES +
    forward_size<D>::TILES * sizeof(tile_note);

/* Where a thread is in a ring of N places: the steps that came before. Barriers tell only an even
 * from an odd number of laps: nobody is more than one lap ahead. */
template <int N> struct ring_at {
	uint32_t step;
};

/* The barriers of a ring, each that a place is full and then that it is free. */
template <int N>
static __device__ inline void
ring_make(uint32_t barriers, int arrivals)
{
	for (int i = 0; i < N; i++) {
		barrier_make(barriers + i * 16, 1);
		barrier_make(barriers + i * 16 + 8, arrivals);
	}
}

template <int N>
static __device__ inline uint32_t
full_of(uint32_t barriers, const ring_at<N> &r)
{
	return barriers + r.step % N * 16;
}

template <int N>
static __device__ inline void
wait_full(uint32_t barriers, const ring_at<N> &r)
{
	barrier_wait(full_of(barriers, r), r.step / N % 2);
}

template <int N>
static __device__ inline void
wait_free(uint32_t barriers, const ring_at<N> &r)
{
	barrier_wait(full_of(barriers, r) + 8, r.step / N % 2 ^ 1);
}

/* A warp has read a place. */
template <int N>
static __device__ inline void
free_place(uint32_t barriers, const ring_at<N> &r)
{
	if (threadIdx.x % 32 == 0)
		barrier_arrive(full_of(barriers, r) + 8);
}

/* The rings of a block, which begin at `base`. */
template <int D> struct rings {
	uint32_t base;
	ring_at<forward_size<D>::PLACES> keys; /* and values */
	ring_at<forward_size<D>::TILES> queries;
};

template <int D>
static __device__ inline tile_note *
note_of(const rings<D> &r)
{
	typedef forward_size<D> size;

	return (tile_note *)__cvta_shared_to_generic(
	    r.base + size::AT_NOTES + r.queries.step % size::TILES * (int)sizeof(tile_note));
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* The first key that the query of a row sees. */
static __device__ inline int
first_key_of(const struct hopper_call &call, int sample, int row)
{
	const int32_t *first = (const int32_t *)call.t.first.data;
	int start = first ? first[(int64_t)row * call.t.micro_batch + sample] : 0;

	return range_first_key(call.before + row, start, call.window);
}

/* Queries of rows from .. to; of rows after the last one, the last takes the place. */
static __device__ inline struct query_range
range_of_queries(const struct hopper_call &call, int sample, int from, int to)
{
	struct query_range q;

	from = min(from, call.queries - 1);
	to = min(to, call.queries - 1);
	q.from = call.before + from;
	q.to = call.before + to;
	q.first_from = first_key_of(call, sample, from);
	q.first_to = first_key_of(call, sample, to);
	return q;
}

/* Where the queries of a tile are. */
template <int D>
static __device__ inline uint32_t
queries_of_tile(const rings<D> &r)
{
	typedef forward_size<D> size;

	return r.base + size::AT_QUERIES + r.queries.step % size::TILES * size::QUERIES;
}

/* Blocks of keys that `rows` queries see, or those of them that there are. */
template <int D>
static __device__ inline struct key_range
range_of_rows(const struct hopper_call &call, int sample, int row, int rows)
{
	struct key_range none = { 0, 0 };

	return row >= call.queries
	    ? none
	    : range_of_keys(
		  range_of_queries(call, sample, row, row + rows - 1), forward_size<D>::KEYS);
}

template <int D>
static __device__ inline void
write_note(tile_note *n, const struct hopper_call &call, int i)
{
	struct tile_at at = tile_of(call.order, i);
	struct key_range all;

	n->sample = at.pair / call.t.num_groups;
	n->head = at.pair % call.t.num_groups * call.order.heads + at.head;
	n->row = at.tile * forward_size<D>::ROWS;
	all = range_of_rows<D>(call, n->sample, n->row, forward_size<D>::ROWS);
	n->begin = all.begin;
	n->end = all.end;
#pragma unroll 1
	for (int w = 0; w < forward_size<D>::GROUPS; w++)
		n->own[w] = range_of_rows<D>(call, n->sample, n->row + 64 * w, 64);
}

/* The rings when they stood at the tile before. */
template <int D>
static __device__ inline rings<D>
tile_before(rings<D> r)
{
	r.queries.step--;
	return r;
}

/* A tile's queries, to a place that is free and whose note is written. */
template <int D>
static __device__ inline void
copy_queries(const struct hopper_call &call, const rings<D> &r, const tile_note &n)
{
	typedef forward_size<D> size;
	uint32_t to = queries_of_tile(r),
		 full = full_of(r.base + size::AT_QUERY_BARRIERS, r.queries);

	barrier_expect(full, size::QUERIES);
#pragma unroll
	for (int c = 0; c < D; c += BOX)
		copy_box(
		    to + c * size::ROWS * 2, &call.q, make_int4(c, n.head, n.sample, n.row), full);
}

/* A block of keys or values of a group, to the next place. */
template <int D>
static __device__ inline void
copy_block(rings<D> &r, const CUtensorMap *map, int group, int sample, int block)
{
	typedef forward_size<D> size;
	uint32_t barriers = r.base + size::AT_BARRIERS, full = full_of(barriers, r.keys),
		 to = r.base + r.keys.step % size::PLACES * size::PLACE;

	wait_free(barriers, r.keys);
	barrier_expect(full, size::PLACE);
#pragma unroll
	for (int c = 0; c < D; c += BOX)
		copy_box(to + c * size::KEYS * 2, map,
		    make_int4(c, group, sample, block * size::KEYS), full);
	r.keys.step++;
}

/* Tiles, and after them a note that there are no more. A block's first tile is that of its number;
 * it claims the next one while it copies. A tile's last values come after the first keys of the
 * next; where queries have one place, which results leave first, they come before these. */
template <int D>
static __device__ inline void
copy_tiles(const struct hopper_call &call, rings<D> r)
{
	uint32_t barriers = r.base + forward_size<D>::AT_QUERY_BARRIERS;
	int group = 0, sample = 0, block = -1; /* of the values that come next */

	for (int i = blockIdx.x; i < tiles_of(call.order); r.queries.step++) {
		int next = gridDim.x + (int)atomicAdd(call.claimed, 1), begin, k;
		tile_note *n = note_of(r);

		wait_free(barriers, r.queries);
		write_note<D>(n, call, i);
		copy_queries(call, r, *n);
		begin = n->begin;
		for (k = n->end - 1; k >= begin; k--) {
			int own = n->head / call.order.heads;

			copy_block(r, &call.k, own, n->sample, k);
			if (block >= 0)
				copy_block(r, &call.v, group, sample, block);
			group = own;
			sample = n->sample;
			block = k;
		}
		if (forward_size<D>::TILES == 1) {
			copy_block(r, &call.v, group, sample, block);
			block = -1;
		}
		i = next;
	}
	if (block >= 0)
		copy_block(r, &call.v, group, sample, block);
	wait_free(barriers, r.queries);
	note_of(r)->end = 0;
	barrier_arrive(full_of(barriers, r.queries));
}

/* The last block to end leaves the counters as they were. Nobody claims after that. */
static __device__ inline void
end_claims(const struct hopper_call &call)
{
	__threadfence();
	if (atomicInc(call.ended, gridDim.x - 1) == gridDim.x - 1)
		*call.claimed = 0;
}

#endif
