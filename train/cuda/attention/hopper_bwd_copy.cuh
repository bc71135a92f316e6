/*
 * hopper_bwd_copy.cuh - what the backward pass for compute capability 9.0 has in shared memory, and
 * the thread that fills it
 *
 * Rings of tiles of queries and dout, of places for sums of dq and of gradients of scores; the
 * notes of columns and steps, which that thread writes for all others; turns; and copies between
 * shared and global memory.
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_BWD_COPY_CUH
#define TRAIN_CUDA_ATTENTION_HOPPER_BWD_COPY_CUH

#include "train/cuda/attention/hopper_fwd.cuh"

/* --- shared memory ---------------------------------------------------------------------------- */

enum { STATISTICS = 3 }; /* of a row: lse to the base 2, delta, and as an integer the first key */

enum {
	STEP_LAST = 1,   /* this column writes dq */
	STEP_FETCH = 2,  /* and others came before it */
	STEP_ENDS = 4,   /* keys of the block come after a query */
	STEP_BEGINS = 8, /* or before the first that it sees */
	STEP_STOP = 16,  /* no step: there are no more */
	/* Notes of steps. A thread that reads one late is at most 5 steps late: until then its
	 * place for sums is not free. */
	STEP_NOTES = 8,
};

template <int D> static constexpr int column_rows = D == 64 ? HOPPER_TILE_64 : HOPPER_TILE_128;

/* How the work of a step is split. Of heads of up to 128 columns each of two warpgroups has 64 keys
 * of the block and all rows of the tile. Of wide ones it has all keys and a half of the rows, whose
 * weights and gradients of scores it gives to the other one, and a half of the columns of dk, dv
 * and dq. */
template <int D> struct column_split {
	static constexpr bool WIDE = D == 256;
	static constexpr int ROWS = column_rows<D>, KEYS = WIDE ? HOPPER_COLUMN_256 : HOPPER_COLUMN,
			     OWN_ROWS = WIDE ? ROWS / 2 : ROWS, OWN_COLUMNS = WIDE ? D / 2 : D;
	/* From one warpgroup's rows, keys or columns to those of the other. */
	static constexpr int NEXT_ROWS = WIDE ? OWN_ROWS : 0, NEXT_KEYS = WIDE ? 0 : 64,
			     NEXT_COLUMNS = WIDE ? OWN_COLUMNS : 0;
	/* Sums of dq go through two places: those of every second step, or of either warpgroup, in
	 * parts that follow each other. Of a tile either place's thread counts turns. */
	static constexpr int PARTS = WIDE ? 2 : 1, TURNS = WIDE ? HOPPER_TURNS_256 : 1;
};

/* Places of a block: keys, values; rings of queries with their statistics and of dout; gradients of
 * scores; weights, if warpgroups share them; two of sums of dq. Queries wait for dk, a step longer
 * than dout for dv. */
template <int D> struct column_size : column_split<D> {
	using column_split<D>::WIDE;
	using column_split<D>::ROWS;
	using column_split<D>::KEYS;
	static constexpr int THREADS = 3 * GROUP, COPIER_REGISTERS = 24, REGISTERS = 240;
	static constexpr int WIDTH = box_columns<D>, BLOCK = KEYS * WIDTH * 2,
			     TILE = ROWS * WIDTH * 2, GRADIENTS = KEYS * ROWS * 2,
			     WEIGHTS = WIDE ? GRADIENTS : 0, TILE_SUMS = ROWS * WIDTH * 4,
			     SUMS = WIDE ? TILE_SUMS / 4 : TILE_SUMS, LSE_DELTA = 2 * ROWS * 4;
	static constexpr int QUERY_PLACES = WIDE ? 2 : 3, DOUT_PLACES = WIDE ? 1 : 2;
	static constexpr int AT_KEYS = 0, AT_VALUES = BLOCK, AT_QUERIES = 2 * BLOCK,
			     AT_DOUT = AT_QUERIES + QUERY_PLACES * TILE,
			     AT_GRADIENTS = AT_DOUT + DOUT_PLACES * TILE,
			     AT_WEIGHTS = AT_GRADIENTS + GRADIENTS, AT_SUMS = AT_WEIGHTS + WEIGHTS,
			     AT_STATISTICS = AT_SUMS + 2 * SUMS;
	/* Barriers, each that a place is full and then that it is free: of the rings, of keys and
	 * values, of gradients of scores, of weights; that a sum is fetched to either place, and
	 * that notes are written. */
	static constexpr int AT_QUERIES_FULL = AT_STATISTICS + QUERY_PLACES * LSE_DELTA,
			     AT_DOUT_FULL = AT_QUERIES_FULL + QUERY_PLACES * 16,
			     AT_SUMS_FULL = AT_DOUT_FULL + DOUT_PLACES * 16,
			     AT_KEYS_FULL = AT_SUMS_FULL + 2 * 16,
			     AT_GRADIENTS_FULL = AT_KEYS_FULL + 16,
			     AT_WEIGHTS_FULL = AT_GRADIENTS_FULL + 16,
			     AT_FETCHED = AT_WEIGHTS_FULL + 16, AT_NOTED = AT_FETCHED + 16,
			     AT_COLUMN = AT_NOTED + STEP_NOTES * 8;
};

/* What the thread that copies tells the warpgroups of a column: its first head and first key, and
 * how many steps it has; of 0 steps zeros are stored, and a number below 0 says that there are no
 * more columns. */
struct column_note {
	int sample, head, key, steps;
};

/* And all of a step: the number of its row tile, which is that of its sum; its turn; its first
 * query; what is particular to it. */
struct step_note {
	int tile, turn, row, kind;
};

template <int D>
static constexpr int column_bytes = column_size<D>::AT_COLUMN +
    (int)sizeof(column_note) + STEP_NOTES *(int)sizeof(step_note);

template <int D>
static __device__ inline column_note *
column_note_at(uint32_t base)
{
	return (column_note *)__cvta_shared_to_generic(base + column_size<D>::AT_COLUMN);
}

template <int D>
static __device__ inline step_note *
step_note_at(uint32_t base, uint32_t step)
{
	return (step_note *)__cvta_shared_to_generic(base + column_size<D>::AT_COLUMN +
	    (int)sizeof(column_note) + step % STEP_NOTES * (int)sizeof(step_note));
}

/* The barrier that a step's note is written. */
template <int D>
static __device__ inline uint32_t
noted_at(uint32_t base, uint32_t step)
{
	return base + column_size<D>::AT_NOTED + step % STEP_NOTES * 8;
}

/* Where queries and dout of a step are. */
template <int D>
static __device__ inline ring_at<column_size<D>::QUERY_PLACES>
queries_at(uint32_t step)
{
	return { step };
}

template <int D>
static __device__ inline ring_at<column_size<D>::DOUT_PLACES>
dout_at(uint32_t step)
{
	return { step };
}

/* The barriers of a place for sums, and how often it was used before: `part` is that of a step. */
static __device__ inline uint32_t
sums_barriers(uint32_t at, uint32_t place)
{
	return at + place * 16;
}

template <int D>
static __device__ inline ring_at<1>
sums_at(uint32_t step, uint32_t part)
{
	return { column_size<D>::WIDE ? column_size<D>::PARTS * step + part : step / 2 };
}

/* The only place of gradients of scores, and of weights. */
static __device__ inline ring_at<1>
gradients_at(uint32_t step)
{
	return { step };
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Starts to copy bytes to shared memory, which count at the barrier. */
static __device__ inline void
copy_bytes(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
	SM90A("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
	      "[%0], [%1], %2, [%3];"
	      :
	      : "r"(to), "l"(from), "r"(bytes), "r"(barrier)
	      : "memory");
}

/* Starts to write bytes of floats to memory, or to add them to those there. */
static __device__ inline void
store_bytes(float *to, uint32_t from, int bytes, bool add)
{
	if (add)
		SM90A("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
		      :
		      : "l"(to), "r"(from), "r"(bytes)
		      : "memory");
	else
		SM90A("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
		      :
		      : "l"(to), "r"(from), "r"(bytes)
		      : "memory");
}

/* Two and four words of shared memory: by its own addresses, which take one register. */
static __device__ inline float2
load_two(uint32_t at)
{
	float2 x;

	asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
		     : "=f"(x.x), "=f"(x.y)
		     : "r"(at)
		     : "memory");
	return x;
}

static __device__ inline float4
load_four(uint32_t at)
{
	float4 x;

	asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
		     : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
		     : "r"(at)
		     : "memory");
	return x;
}

static __device__ inline void
store_four(uint32_t at, const float *x)
{
	asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
		     :
		     : "r"(at), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
		     : "memory");
}

/* Orders the accesses of copies to memory with those of this thread; not those to shared memory,
 * since that would wait for all that is under way. */
static __device__ inline void
fence_copies(void)
{
	SM90A("fence.proxy.async.global;" : : : "memory");
}

enum { POLLS = 1 << 25 }; /* some seconds: a turn that never comes ends the kernel */

/* The counter of a tile's turns that the thread of a place for sums reads. */
template <int D>
static __device__ inline unsigned *
turns_of(const backward_call &call, const step_note &n, uint32_t place)
{
	constexpr int TURNS = column_size<D>::TURNS;

	return call.turns + (int64_t)n.tile * TURNS + place % TURNS;
}

/* Waits until as many columns have been added to a tile. What they have written is seen by the
 * copies that this thread starts. */
static __device__ inline void
wait_turn(const backward_call &call, const step_note &n, const unsigned *turns)
{
	unsigned have = 0;

	for (int i = 0; call.run.in_order && n.turn > 0; i++) {
		SM90A("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(have) : "l"(turns) : "memory");
		if (have >= (unsigned)n.turn)
			break;
		if (i == POLLS)
			__trap();
	}
	fence_copies();
}

/* Lets the next column have its turn, when this thread's copies are written. */
static __device__ inline void
end_turn(unsigned *turns)
{
	boxes_written();
	fence_copies();
	SM90A("red.release.gpu.global.add.u32 [%0], %1;" : : "l"(turns), "r"(1) : "memory");
}

/* --- the thread that copies ------------------------------------------------------------------- */

/* The last query of each column of a sample. */
static __device__ inline const int32_t *
last_of(const backward_call &call, int sample)
{
	return call.last + sample * call.order.columns;
}

/* What is particular to the step of a row tile and a column. */
template <int D>
static __device__ inline step_note
step_of(const backward_call &call, const column_note &c, int tile)
{
	struct query_range q;
	struct tile_columns columns;
	step_note n;
	constexpr int ROWS = column_size<D>::ROWS, KEYS = column_size<D>::KEYS;
	int row = tile * ROWS;

	q = range_of_queries(call.fwd, c.sample, row, row + ROWS - 1);
	columns = columns_of_tile(call.rows, tile, KEYS, q.first_from);
	n.row = row;
	n.turn = turn_of(columns, c.key / KEYS, KEYS, last_of(call, c.sample));
	n.kind = is_last_turn(columns, n.turn) ? STEP_LAST : 0;
	if (n.kind && n.turn > 0)
		n.kind |= STEP_FETCH;
	if (range_ends_in(q, c.key, KEYS))
		n.kind |= STEP_ENDS;
	if (range_begins_in(q, c.key))
		n.kind |= STEP_BEGINS;
	return n;
}

/* A row tile of a head, its boxes one after another by columns. */
template <int D>
static __device__ inline void
copy_tile(uint32_t to, const CUtensorMap *map, int4 at, uint32_t full)
{
	constexpr int ROWS = column_size<D>::ROWS;

#pragma unroll
	for (int c = 0; c < D; c += BOX)
#pragma unroll
		for (int r = 0; r < ROWS; r += BOX)
			copy_box(to + (c * ROWS + r * BOX) * 2, map,
			    make_int4(c, at.y, at.z, at.w + r), full);
}

/* Queries of a row tile of a head with their statistics, and dout, to the next places. */
template <int D>
static __device__ inline void
copy_rows(const backward_call &call, uint32_t base, uint32_t step, const step_note &n, int2 of)
{
	typedef column_size<D> size;
	ring_at<size::QUERY_PLACES> q = queries_at<D>(step);
	ring_at<size::DOUT_PLACES> d = dout_at<D>(step);
	uint32_t full = full_of(base + size::AT_QUERIES_FULL, q), place = step % size::QUERY_PLACES;
	int4 at = make_int4(0, of.y, of.x, n.row);

	wait_free(base + size::AT_QUERIES_FULL, q);
	*step_note_at<D>(base, step) = n;
	barrier_arrive(noted_at<D>(base, step));
	barrier_expect(full, size::TILE + size::LSE_DELTA);
	copy_tile<D>(base + size::AT_QUERIES + place * size::TILE, &call.fwd.q, at, full);
	copy_bytes(base + size::AT_STATISTICS + place * size::LSE_DELTA,
	    call.statistics + (int64_t)n.tile * STATISTICS * size::ROWS, size::LSE_DELTA, full);
	wait_free(base + size::AT_DOUT_FULL, d);
	full = full_of(base + size::AT_DOUT_FULL, d);
	barrier_expect(full, size::TILE);
	copy_tile<D>(
	    base + size::AT_DOUT + step % size::DOUT_PLACES * size::TILE, &call.dout, at, full);
}

/* Keys and values of a column, when those before are read. */
template <int D>
static __device__ inline void
copy_keys(const backward_call &call, uint32_t base, const column_note &c)
{
	typedef column_size<D> size;
	uint32_t full = base + size::AT_KEYS_FULL;

	barrier_expect(full, 2 * size::BLOCK);
#pragma unroll
	for (int i = 0; i < D; i += BOX) {
		uint32_t to = base + i * size::KEYS * 2;
		int4 from = make_int4(i, c.head / call.fwd.order.heads, c.sample, c.key);

		copy_box(to + size::AT_KEYS, &call.fwd.k, from, full);
		copy_box(to + size::AT_VALUES, &call.fwd.v, from, full);
	}
}

/* Columns, and after them notes that there are no more. The next one is claimed early. */
template <int D>
static __device__ inline void
copy_columns(const backward_call &call, uint32_t base)
{
	typedef column_size<D> size;
	int heads = call.heads, all = call.fwd.t.num_heads, num = 0, next, column, ahead;
	uint32_t step = 0;
	const int32_t *last;
	column_note c;

	for (int i = (int)atomicAdd(call.claimed, 1);; i = next, num++) {
		bool more = i < columns_of(call.order);
		struct column_at at = column_of(call.order, more ? i : 0);
		struct key_range tiles;

		next = more ? (int)atomicAdd(call.claimed, 1) : 0;
		c.sample = at.pair / (all / heads);
		c.head = at.pair % (all / heads) * heads;
		last = last_of(call, c.sample);
		column =
		    call.places ? call.places[c.sample * call.order.columns + at.place] : at.place;
		c.key = column * size::KEYS;
		tiles = tiles_of_column(call.rows, column, size::KEYS, last[column]);
		ahead = tiles_ahead(call.rows, column, size::KEYS, last);
		c.steps = more ? (tiles.end - tiles.begin) * heads : -1;
		barrier_wait(base + size::AT_KEYS_FULL + 8, num % 2 ^ 1);
		*column_note_at<D>(base) = c;
		if (!more)
			break;
		copy_keys<D>(call, base, c);
		for (int t = 0; t < tiles.end - tiles.begin; t++) {
			int tile = tile_of_column(tiles, ahead, t);
			step_note n = step_of<D>(call, c, tile);

			for (int j = 0; j < heads; j++) {
				n.tile =
				    (c.sample * all + c.head + j) * row_tiles_of(call.rows) + tile;
				copy_rows<D>(
				    call, base, step++, n, make_int2(c.sample, c.head + j));
			}
		}
	}
	barrier_arrive(base + size::AT_KEYS_FULL);
	for (int i = 0; i < 2; i++, step++) {
		wait_free(base + size::AT_QUERIES_FULL, queries_at<D>(step));
		step_note_at<D>(base, step)->kind = STEP_STOP;
		barrier_arrive(noted_at<D>(base, step));
	}
}

#endif
