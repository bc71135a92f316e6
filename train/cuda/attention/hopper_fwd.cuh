/*
 * hopper_fwd.cuh - the forward pass for compute capability 9.0, for heads of up to D columns
 *
 * One block a multiprocessor. The first warpgroup copies, by one thread; each of the others
 * multiplies 64 queries of every tile. Blocks of keys and of values come through a ring of places
 * in shared memory, from the last that a tile sees to the first, and the ring goes across tiles:
 * the block of keys at one step of the work, and the values of the step before. So at each step a
 * warpgroup issues the scores of a block and the product of the block before with its values, which
 * tensor cores compute beside the exponentials of the scores; the first scores of a tile come
 * beside the last product of the tile before. The warpgroups issue one after the other, so that
 * one's products are computed beside the exponentials of the others. A warpgroup whose queries see
 * no key of a block frees its places unread. Results leave through the place of their queries; wide
 * heads have only one, so that their tiles are done one by one.
 *
 * Exponents are taken to the base 2. The maximum in use is kept while larger scores exceed it by
 * less than a power of 2 that sums and weights have room for. Every sum has one owner and one
 * order. Source: Shah et al. 2024, arXiv:2407.08608, section 3; Dao 2023, arXiv:2307.08691.
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_FWD_CUH
#define TRAIN_CUDA_ATTENTION_HOPPER_FWD_CUH

#include "train/cuda/attention/hopper_copy.cuh"
#include "train/cuda/attention/kept.cuh"
#include "train/cuda/mma.cuh"

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* What scores and weights are besides: capped scores, weights that dropout keeps. */
enum weighing { PLAIN, CAPPED, DROPPED };

/* Of a lane's two rows, 8 apart, the maximum in use and the sum of weights. */
struct row_sums {
	float top[2], total[2];
};

/* What a lane has of the work: scores of 64 queries and a block of keys, their weights, sums of
 * weighted values; of its two rows by what earlier sums are to be multiplied; which weights dropout
 * keeps, of 64 keys each. */
template <int D> struct lane {
	float scores[forward_size<D>::KEYS / 2], sums[D / 2];
	uint32_t weights[forward_size<D>::KEYS / 4];
	struct row_sums row;
	float shrink[2];
	uint32_t kept[(forward_size<D>::KEYS + 63) / 64];
};

/* What a warpgroup has to know of its queries in a tile. */
struct own_tile {
	struct query_range lane; /* its two queries */
	struct key_range keys;
	int64_t drop_row; /* of kept.cuh */
};

static constexpr float log2_e = 1.4426950408889634f;

static __device__ inline float
power_of_2(float x)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* Waits until the warpgroup before has issued its products; lets the next one issue. Barrier 1 + w
 * of the block belongs to warpgroup w. */
static __device__ inline void
turn_begin(void)
{
	barrier_some(1 + own_group(), 2 * GROUP);
}

template <int GROUPS>
static __device__ inline void
turn_end(void)
{
	barrier_some_arrive(own_group() + 1 == GROUPS ? 1 : 2 + own_group(), 2 * GROUP);
}

/* Issues the scores of the warpgroup's queries and a block of keys. */
template <typename T, int D>
static __device__ inline void
issue_scores(struct lane<D> &l, uint32_t queries, uint32_t keys)
{
	typedef forward_size<D> size;

#pragma unroll
	for (int c = 0; c < D; c += BOX) {
		uint64_t a = operand_at(queries + c * size::ROWS * 2),
			 b = operand_at(keys + c * size::KEYS * 2);

#pragma unroll
		for (int i = 0; i < BOX && c + i < D; i += 16) {
			multiply<size::KEYS, true, true, T>(l.scores, a, b, c + i > 0);
			a = operand_next<true>(a);
			b = operand_next<true>(b);
		}
	}
	wgmma_commit();
}

/* Issues the product of the weights with a block of values. */
template <typename T, int D>
static __device__ inline void
issue_sums(struct lane<D> &l, uint32_t values)
{
	constexpr int KEYS = forward_size<D>::KEYS;
	uint64_t b = operand_at(values, KEYS * BOX_LINE);

#pragma unroll
	for (int i = 0; i < KEYS; i += 16) {
		multiply_registers<D, false, T>(l.sums, l.weights + i / 4, b, 1);
		b = operand_next<false>(b);
	}
	wgmma_commit();
}

/* The column of the lane's score i. */
static __device__ inline int
column_of(int i)
{
	return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
}

/* Caps the first COUNT scores of a lane if they are CAPPED; hides those of keys after a query, and
 * before the first one that it sees. */
template <int D, enum weighing HOW, int COUNT>
static __device__ inline void
hide_keys(struct lane<D> &l, const struct hopper_call &call, const struct own_tile &t, int block)
{
	constexpr int KEYS = forward_size<D>::KEYS;
	int key = block * KEYS;

	if (HOW == CAPPED)
#pragma unroll
		for (int i = 0; i < COUNT; i++)
			l.scores[i] = call.cap_out * fast_tanh(call.cap_in * l.scores[i]);
	if (range_ends_in(t.lane, key, KEYS))
#pragma unroll
		for (int i = 0; i < COUNT; i++)
			if (column_of(i) > t.lane.from + i / 2 % 2 * 8 - key)
				l.scores[i] = -INFINITY;
	if (range_begins_in(t.lane, key))
#pragma unroll
		for (int i = 0; i < COUNT; i++)
			if (column_of(i) < (i & 2 ? t.lane.first_to : t.lane.first_from) - key)
				l.scores[i] = -INFINITY;
}

/* The largest exponent of a lane's rows. */
template <int D, int COUNT>
static __device__ inline void
largest(const struct lane<D> &l, float factor, float (&most)[2])
{
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float even = l.scores[2 * h], odd = l.scores[2 * h + 1];

#pragma unroll
		for (int i = 4; i < COUNT; i += 4) {
			even = fmaxf(even, l.scores[i + 2 * h]);
			odd = fmaxf(odd, l.scores[i + 2 * h + 1]);
		}
		even = fmaxf(even, odd);
		even = fmaxf(even, __shfl_xor_sync(LANES, even, 1));
		most[h] = factor * fmaxf(even, __shfl_xor_sync(LANES, even, 2));
	}
}

/* A maximum that is exceeded by more is replaced: weights stay below 2^8. */
static constexpr float slack = 8;

/* The first COUNT scores become weights, whose sums are added; the others weigh nothing. True:
 * earlier sums are to be multiplied, since a maximum of the warp's rows was replaced. */
template <int D, int COUNT>
static __device__ inline bool
weigh(struct lane<D> &l, float factor)
{
	float most[2];
	bool moved;

	largest<D, COUNT>(l, factor, most);
	moved = __any_sync(LANES, most[0] > l.row.top[0] + slack || most[1] > l.row.top[1] + slack);
	if (moved)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float before = l.row.top[h];

			l.row.top[h] = fmaxf(before, most[h]);
			l.shrink[h] =
			    before == l.row.top[h] ? 1 : power_of_2(before - l.row.top[h]);
			l.row.total[h] *= l.shrink[h];
		}
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float even = 0, odd = 0, base = l.row.top[h] == -INFINITY ? 0 : -l.row.top[h];

#pragma unroll
		for (int i = 0; i < COUNT; i += 4) {
			float *s = l.scores + i + 2 * h;

			s[0] = power_of_2(__fmaf_rn(s[0], factor, base));
			s[1] = power_of_2(__fmaf_rn(s[1], factor, base));
			even += s[0];
			odd += s[1];
		}
		l.row.total[h] += even + odd;
	}
#pragma unroll
	for (int i = COUNT; i < forward_size<D>::KEYS / 2; i++)
		l.scores[i] = 0;
	return moved;
}

template <int D>
static __device__ inline void
shrink_sums(struct lane<D> &l)
{
#pragma unroll
	for (int i = 0; i < D / 2; i++)
		l.sums[i] *= l.shrink[i / 2 % 2];
}

/* Draws which weights of a block of keys dropout keeps. */
template <int D>
static __device__ inline void
draw_kept(struct lane<D> &l, const struct hopper_call &call, const struct own_tile &t, int block)
{
#pragma unroll
	for (int i = 0; i < forward_size<D>::KEYS / 64; i++)
		l.kept[i] = kept_by_queries(call.drop, t.drop_row, t.lane.from,
		    block * forward_size<D>::KEYS + 64 * i + threadIdx.x % 4 * 2);
}

/* Into the registers of the product before, which has to be done. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
round_weights(struct lane<D> &l)
{
	if (HOW == DROPPED)
#pragma unroll
		for (int i = 0; i < forward_size<D>::KEYS / 2; i++)
			l.scores[i] = l.kept[i / 32] >> i % 32 & 1 ? l.scores[i] : 0;
#pragma unroll
	for (int i = 0; i < forward_size<D>::KEYS / 4; i++)
		l.weights[i] = pack_halves(T(), l.scores[2 * i], l.scores[2 * i + 1]);
}

/* Where a warp's rows of the warpgroup's queries lie in shared memory, whose place they leave
 * through; the ring stands at their tile. */
template <int D>
static __device__ inline uint32_t
rows_at(const rings<D> &r)
{
	return queries_of_tile(r) + (threadIdx.x / 32 - GROUP / 32) * HOPPER_ROWS * BOX_LINE;
}

/* Ends a row: its head's sink, or NULL, joins its weights. Returns the exponent of the sum of all,
 * and by what its sums of values are to be multiplied. */
static __device__ inline float
finish_row(const float *sink, float top, float sum, float &factor)
{
	float most;

	if (!sink) {
		factor = 1 / sum;
		return top + __log2f(sum);
	}
	most = fmaxf(top, *sink * log2_e);
	factor = power_of_2(top - most);
	sum = sum * factor + power_of_2(*sink * log2_e - most);
	factor /= sum;
	return most + __log2f(sum);
}

/* Statistics of a tile's rows; sums are divided by those of weights, and by the share of these that
 * dropout keeps. */
template <int D>
static __device__ inline void
store_statistics(struct lane<D> &l, const struct hopper_call &call, const tile_note &n,
    const struct row_sums &sums)
{
	const struct attention &t = call.t;
	int row = n.row + own_group() * 64 + own_line();
	float *lse =
	    (float *)t.lse.data + ((int64_t)n.sample * t.num_heads + n.head) * t.lse.stride[0];
	const float *sink = t.sink.data ? (const float *)t.sink.data + n.head : NULL;

#pragma unroll
	for (int h = 0; h < 2; h++) {
		float sum = sums.total[h], exponent;

		sum += __shfl_xor_sync(LANES, sum, 1);
		sum += __shfl_xor_sync(LANES, sum, 2);
		exponent = finish_row(sink, sums.top[h], sum, l.shrink[h]);
		if (threadIdx.x % 4 == 0 && row + 8 * h < call.queries)
			lse[row + 8 * h] = exponent * 0.69314718056f;
		l.shrink[h] *= call.drop.keep;
	}
	shrink_sums(l);
}

/* Starts to store a tile's results: each warp its rows, through the place of their queries. The
 * ring stands at the tile. */
template <typename T, int D>
static __device__ inline void
store_results(struct lane<D> &l, const struct hopper_call &call, const rings<D> &r,
    const struct row_sums &sums)
{
	const tile_note &n = *note_of(r);
	uint32_t from = rows_at(r), line = threadIdx.x % 8,
		 to = from + (threadIdx.x / 8 % 2 * 8 + line) * BOX_LINE;

	store_statistics(l, call, n, sums);
#pragma unroll
	for (int i = 0; i < D / 8; i += 2) {
		uint32_t words[4], piece = i % 8 + threadIdx.x / 16 % 2;

#pragma unroll
		for (int j = 0; j < 4; j++)
			words[j] =
			    pack_halves(T(), l.sums[4 * i + 2 * j], l.sums[4 * i + 2 * j + 1]);
		store_matrices(
		    to + i / 8 * forward_size<D>::ROWS * BOX_LINE + (piece ^ line) * 16, words);
	}
	fence_async_proxy();
	__syncwarp();
	if (is_elected()) {
		int row = n.row + (threadIdx.x / 32 - GROUP / 32) * HOPPER_ROWS;

#pragma unroll
		for (int c = 0; c < D; c += BOX)
			store_box(&call.out, from + c * forward_size<D>::ROWS * 2,
			    make_int4(c, n.head, n.sample, row));
		boxes_commit();
	}
}

/* Frees the place of a tile's queries when the results that leave through it are read; each thread
 * arrives for itself, since each has read the note. The ring stands at the tile. */
template <int D>
static __device__ inline void
free_queries(const rings<D> &r)
{
	if (is_elected())
		groups_read_but<0>();
	barrier_arrive(full_of(r.base + forward_size<D>::AT_QUERY_BARRIERS, r.queries) + 8);
}

/* The same number in every lane, which the compiler cannot see of what memory or threadIdx gives:
 * wgmma under a condition that may differ between lanes are issued one by one. */
static __device__ inline int
uniform(int x)
{
	return __shfl_sync(LANES, x, 0);
}

/* A warpgroup's part of a note. */
template <int D>
static __device__ inline struct own_tile
read_note(const struct hopper_call &call, const tile_note &n)
{
	int row = n.row + own_group() * 64 + own_line();
	struct own_tile t;

	t.keys.begin = uniform(n.own[own_group()].begin);
	t.keys.end = uniform(n.own[own_group()].end);
	t.lane = range_of_queries(call, n.sample, row, row + 8);
	t.drop_row = drop_row(call.drop, n.sample, n.head);
	return t;
}

/* The next place of the ring of keys and values. */
template <int D>
static __device__ inline ring_at<forward_size<D>::PLACES>
take_place(rings<D> &r)
{
	ring_at<forward_size<D>::PLACES> at = r.keys;

	r.keys.step++;
	return at;
}

template <int D>
static __device__ inline void
wait_place(const rings<D> &r, ring_at<forward_size<D>::PLACES> at)
{
	wait_full(r.base + forward_size<D>::AT_BARRIERS, at);
}

/* Frees a place, also one that the warpgroup does not read. It has to be full first, so that nobody
 * frees it for the lap before. */
template <int D>
static __device__ inline void
pass_place(const rings<D> &r, ring_at<forward_size<D>::PLACES> at)
{
	wait_place(r, at);
	free_place(r.base + forward_size<D>::AT_BARRIERS, at);
}

/* A step of the work in the warpgroup's turn: issues the scores of the queries and a block of keys
 * if SCORES, and the product of the last weights with a block of values if SUMS. */
template <typename T, int D, bool SCORES, bool SUMS>
static __device__ inline void
issue_step(struct lane<D> &l, const rings<D> &r, ring_at<forward_size<D>::PLACES> keys,
    ring_at<forward_size<D>::PLACES> values)
{
	typedef forward_size<D> size;

	turn_begin();
	if (SCORES)
		wait_place(r, keys);
	wgmma_fence();
	if (SCORES)
		issue_scores<T>(l, queries_of_tile(r) + own_group() * BOX_BYTES,
		    r.base + keys.step % size::PLACES * size::PLACE);
	if (SUMS) {
		wait_place(r, values);
		wgmma_fence();
		issue_sums<T>(l, r.base + values.step % size::PLACES * size::PLACE);
	}
	turn_end<size::GROUPS>();
}

/* The same, to its end, with conditions that are the same in the whole warpgroup: each has code of
 * its own, since wgmma that only some ways to a place have issued are issued one by one. */
template <typename T, int D>
static __device__ inline void
whole_step(struct lane<D> &l, const rings<D> &r, ring_at<forward_size<D>::PLACES> keys, bool scores,
    ring_at<forward_size<D>::PLACES> values, bool sums)
{
	if (scores && sums) {
		issue_step<T, D, true, true>(l, r, keys, values);
		wgmma_wait<0>();
		sums_done(l.scores);
		sums_done(l.sums);
	} else if (scores) {
		issue_step<T, D, true, false>(l, r, keys, values);
		wgmma_wait<0>();
		sums_done(l.scores);
	} else if (sums) {
		issue_step<T, D, false, true>(l, r, keys, values);
		wgmma_wait<0>();
		sums_done(l.sums);
	} else {
		issue_step<T, D, false, false>(l, r, keys, values);
	}
}

/* A step within a tile of which the warpgroup takes a part or none. */
template <typename T, int D>
static __device__ inline void
part_step(struct lane<D> &l, rings<D> &r, bool scores, bool sums)
{
	ring_at<forward_size<D>::PLACES> keys = take_place(r), values = take_place(r);

	whole_step<T>(l, r, keys, scores, values, sums);
	pass_place(r, keys);
	pass_place(r, values);
}

/* Weights of a tile's first block, whose scores are there. A warp whose queries see none of its
 * second half spends nothing on that. */
template <int D, enum weighing HOW>
static __device__ inline void
first_weights(struct lane<D> &l, const struct hopper_call &call, const struct own_tile &t)
{
	constexpr int KEYS = forward_size<D>::KEYS;
	int block = t.keys.end - 1;

	if (HOW == DROPPED)
		draw_kept(l, call, t, block);
#pragma unroll
	for (int h = 0; h < 2; h++) {
		l.row.top[h] = -INFINITY;
		l.row.total[h] = 0;
	}
	if (__all_sync(LANES, t.lane.to < block * KEYS + KEYS / 2)) {
		hide_keys<D, HOW, KEYS / 4>(l, call, t, block);
		(void)weigh<D, KEYS / 4>(l, call.factor);
	} else {
		hide_keys<D, HOW, KEYS / 2>(l, call, t, block);
		(void)weigh<D, KEYS / 2>(l, call.factor);
	}
}

/* The sums of a tile's first block begin at 0. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
begin_sums(struct lane<D> &l)
{
#pragma unroll
	for (int i = 0; i < D / 2; i++)
		l.sums[i] = 0;
	round_weights<T, D, HOW>(l);
}

/* The steps of which the warpgroup takes all, from the second block that it sees on. During the
 * first, the place of the queries of the tile before is freed. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
whole_steps(struct lane<D> &l, rings<D> &r, const struct hopper_call &call,
    const struct own_tile &t, bool owed)
{
	typedef forward_size<D> size;
	uint32_t barriers = r.base + size::AT_BARRIERS;

	for (int block = t.keys.end - 2; block >= t.keys.begin; block--) {
		ring_at<size::PLACES> keys = take_place(r), values = take_place(r);
		bool moved;

		issue_step<T, D, true, true>(l, r, keys, values);
		if (owed)
			free_queries(tile_before(r));
		owed = false;
		if (HOW == DROPPED)
			draw_kept(l, call, t, block);
		wgmma_wait<1>();
		sums_done(l.scores);
		free_place(barriers, keys);
		hide_keys<D, HOW, size::KEYS / 2>(l, call, t, block);
		moved = weigh<D, size::KEYS / 2>(l, call.factor);
		wgmma_wait<0>();
		sums_done(l.sums);
		free_place(barriers, values);
		if (moved)
			shrink_sums(l);
		round_weights<T, D, HOW>(l);
	}
	if (owed)
		free_queries(tile_before(r));
}

/* What a warpgroup has done of a tile. */
enum stage {
	FIRST_PASSED, /* not the first block's scores, which it does not see */
	FIRST_SCORES, /* they are there */
	FIRST_WEIGHTS,
};

/* The steps of a tile after its first, up to that before its last sums. True: those are still to be
 * added, beside the first step of the next tile. `owed`: the queries of the tile before still have
 * their place. */
template <typename T, int D, enum weighing HOW>
static __device__ inline bool
multiply_tile(struct lane<D> &l, rings<D> &r, const struct hopper_call &call,
    const struct own_tile &t, enum stage stage, bool owed)
{
	bool idle = t.keys.begin >= t.keys.end;
	const tile_note &n = *note_of(r);
	int begin = uniform(n.begin), block = uniform(n.end) - 2, stop = idle ? begin : t.keys.end;

	if (stage == FIRST_PASSED) {
		for (; block >= stop; block--)
			part_step<T>(l, r, false, false);
		if (!idle)
			part_step<T>(l, r, true, false);
	}
	if (stage != FIRST_WEIGHTS && !idle) {
		first_weights<D, HOW>(l, call, t);
		begin_sums<T, D, HOW>(l);
	}
	whole_steps<T, D, HOW>(l, r, call, t, owed);
	if (idle || t.keys.begin == begin)
		return !idle;
	part_step<T>(l, r, false, true);
	store_results<T>(l, call, r, l.row);
	for (block = t.keys.begin - 2; block >= begin; block--)
		part_step<T>(l, r, false, false);
	return false;
}

/* The step from one tile to the next, if the warpgroup takes the first block's scores and the last
 * block's sums: to the weights of the first block. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
next_tile(struct lane<D> &l, rings<D> &r, const struct hopper_call &call, const struct own_tile &t)
{
	ring_at<forward_size<D>::PLACES> keys = take_place(r), values = take_place(r);
	struct row_sums last = l.row;

	issue_step<T, D, true, true>(l, r, keys, values);
	wgmma_wait<1>();
	sums_done(l.scores);
	free_place(r.base + forward_size<D>::AT_BARRIERS, keys);
	first_weights<D, HOW>(l, call, t);
	wgmma_wait<0>();
	sums_done(l.sums);
	free_place(r.base + forward_size<D>::AT_BARRIERS, values);
	store_results<T>(l, call, tile_before(r), last);
	begin_sums<T, D, HOW>(l);
}

/* The same, otherwise: before the first tile and after the last too. */
template <typename T, int D>
static __device__ inline void
other_tile(struct lane<D> &l, rings<D> &r, const struct hopper_call &call, int2 have, bool scores,
    bool sums)
{
	ring_at<forward_size<D>::PLACES> keys = r.keys, values;

	r.keys.step += have.x;
	values = r.keys;
	r.keys.step += have.y;
	whole_step<T>(l, r, keys, scores, values, sums);
	if (have.x)
		pass_place(r, keys);
	if (have.y)
		pass_place(r, values);
	if (sums)
		store_results<T>(l, call, tile_before(r), l.row);
}

/* How much of a tile's first block the warpgroup has done. */
static __device__ inline enum stage
stage_of(bool starts, bool weighed)
{
	return !starts ? FIRST_PASSED : weighed ? FIRST_WEIGHTS : FIRST_SCORES;
}

/* All tiles of the block. Each turn of the loop is the step from one tile to the next, and the
 * other steps of the next. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
multiply_joined(struct lane<D> &l, const struct hopper_call &call, rings<D> r)
{
	/* There is a tile before; its last sums are to come. */
	bool before = false, pending = false;

	for (bool more = true; more; before = true) {
		struct own_tile t = {};
		bool starts;

		wait_full(r.base + forward_size<D>::AT_QUERY_BARRIERS, r.queries);
		more = uniform(note_of(r)->end) > 0;
		if (more)
			t = read_note<D>(call, *note_of(r));
		starts = more && t.keys.end == uniform(note_of(r)->end);
		if (starts && pending)
			next_tile<T, D, HOW>(l, r, call, t);
		else
			other_tile<T>(l, r, call, make_int2(more, before), starts, pending);
		if (more)
			pending = multiply_tile<T, D, HOW>(
			    l, r, call, t, stage_of(starts, pending), before);
		r.queries.step++;
	}
}

/* The same where a tile's results leave through the place of the next one's queries, before these
 * come: each tile is done to its end. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
multiply_apart(struct lane<D> &l, const struct hopper_call &call, rings<D> r)
{
	for (;;) {
		struct own_tile t;
		bool starts, pending;

		wait_full(r.base + forward_size<D>::AT_QUERY_BARRIERS, r.queries);
		if (uniform(note_of(r)->end) == 0)
			break;
		t = read_note<D>(call, *note_of(r));
		starts = t.keys.end == uniform(note_of(r)->end);
		other_tile<T>(l, r, call, make_int2(1, 0), starts, false);
		pending = multiply_tile<T, D, HOW>(l, r, call, t, stage_of(starts, false), false);
		r.queries.step++;
		other_tile<T>(l, r, call, make_int2(0, 1), false, pending);
		free_queries(tile_before(r));
	}
}

template <typename T, int D, enum weighing HOW>
static __device__ inline void
multiply_tiles(const struct hopper_call &call, const rings<D> &r)
{
	typedef forward_size<D> size;
	struct lane<D> l;

	if (own_group() == size::GROUPS - 1)
		turn_end<size::GROUPS>();
	if (size::TILES > 1)
		multiply_joined<T, D, HOW>(l, call, r);
	else
		multiply_apart<T, D, HOW>(l, call, r);
	boxes_written();
	if (own_group() == 0)
		turn_begin();
}

/* --- the kernel ------------------------------------------------------------------------------- */

template <typename T, int D, enum weighing HOW>
static __global__ void
__launch_bounds__(forward_size<D>::THREADS, 1)
    hopper_forward_kernel(const __grid_constant__ hopper_call call)
{
	typedef forward_size<D> size;
	static_assert(forward_bytes<D> <= 227 << 10);
	extern __shared__ __align__(1024) char memory[];
	rings<D> r = { shared_address(memory), {}, {} };

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0) {
		ring_make<size::PLACES>(r.base + size::AT_BARRIERS, size::GROUPS * GROUP / 32);
		ring_make<size::TILES>(r.base + size::AT_QUERY_BARRIERS, size::GROUPS * GROUP);
		barriers_made();
	}
	__syncthreads();
	if (threadIdx.x < GROUP) {
		registers_release<size::COPIER_REGISTERS>();
		if (is_copier()) {
			copy_tiles(call, r);
			end_claims(call);
		}
	} else {
		registers_claim<size::REGISTERS>();
		multiply_tiles<T, D, HOW>(call, r);
	}
}

/* A block for each multiprocessor, unless there are fewer tiles. */
template <typename T, int D, enum weighing HOW>
static void
hopper_launch(struct stream *st, const struct hopper_call *call)
{
	void (*kernel)(const hopper_call) = hopper_forward_kernel<T, D, HOW>;
	int blocks = tiles_of(call->order), bytes = forward_bytes<D>;

	if (blocks > st->device->num_sms)
		blocks = st->device->num_sms;
	if (cu_ok(st->device,
		cudaFuncSetAttribute(
		    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"attention"))
		kernel<<<(unsigned)blocks, forward_size<D>::THREADS, (size_t)bytes,
		    cu_handle(st)>>>(*call);
}

/* By the type of elements, and by what scores and weights are besides; hopper_takes says which of
 * these a width has. */
template <typename T, int D>
static void
hopper_launch_weighing(struct stream *st, const struct hopper_call *call)
{
	void (*launch)(struct stream *, const struct hopper_call *) = hopper_launch<T, D, PLAIN>;

	if constexpr (D > 64)
		launch = call->t.softcap > 0 ? hopper_launch<T, D, CAPPED> : launch;
	if constexpr (D <= 128)
		launch = call->t.drop.p > 0 ? hopper_launch<T, D, DROPPED> : launch;
	launch(st, call);
}

template <int D>
static void
hopper_launch_width(struct stream *st, const struct hopper_call *call)
{
	if (call->t.q.dtype == DTYPE_BF16)
		hopper_launch_weighing<bf16, D>(st, call);
	else
		hopper_launch_weighing<half, D>(st, call);
}

#endif
