/*
 * hopper_bwd_step.cuh - the backward pass for compute capability 9.0: a step of a column, and the
 * threads that add its part of dq
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_BWD_STEP_CUH
#define TRAIN_CUDA_ATTENTION_HOPPER_BWD_STEP_CUH

#include "train/cuda/attention/hopper_bwd_copy.cuh"

/* --- the threads that fetch and add sums of dq ------------------------------------------------ */

/* What is to be known of a step, when it is written. */
template <int D>
static __device__ inline step_note
wait_note(uint32_t base, uint32_t step)
{
	barrier_wait(noted_at<D>(base, step), step / STEP_NOTES % 2);
	return *step_note_at<D>(base, step);
}

/* Where in memory the sums of a place are, of the part of its tile that goes through it. */
template <int D>
static __device__ inline float *
sums_of(const backward_call &call, const step_note &n, int part)
{
	typedef column_size<D> size;

	return call.sums + (int64_t)n.tile * (size::TILE_SUMS / 4) + part * (size::SUMS / 4);
}

/* Writes a part of a tile's dq: both halves of a place that has a whole tile, of wide heads 64
 * columns. */
template <int D>
static __device__ inline void
store_dq(const backward_call &call, uint32_t from, const step_note &n, int part)
{
	typedef column_size<D> size;
	int head = n.tile / row_tiles_of(call.rows), all = call.fwd.t.num_heads;

#pragma unroll
	for (int half = 0; half < (size::WIDE ? 1 : 2); half++)
		store_box(&call.dq, from + half * (size::SUMS / 2),
		    size::ROWS > BOX
			? make_int4(0, head % all, head / all, n.row + half * BOX)
			: make_int4((part + half) * BOX, head % all, head / all, n.row));
}

/* Serves place `own` for sums. */
template <int D>
static __device__ inline void
add_sums(const backward_call &call, uint32_t base, uint32_t own)
{
	typedef column_size<D> size;
	uint32_t full = sums_barriers(base + size::AT_SUMS_FULL, own),
		 from = base + size::AT_SUMS + own * size::SUMS,
		 fetched = base + size::AT_FETCHED + own * 8;

	for (uint32_t step = size::WIDE ? 0 : own;; step += size::WIDE ? 1 : 2) {
		step_note n = wait_note<D>(base, step);
		unsigned *turns = turns_of<D>(call, n, own);

		if (n.kind & STEP_STOP)
			break;
		/* The turn mostly comes before the sums: the thread then knows it in time. */
		wait_turn(call, n, turns);
#pragma unroll
		for (int i = 0; i < size::PARTS; i++) {
			int part = size::WIDE ? (int)own * size::PARTS + i : 0;
			float *sums = sums_of<D>(call, n, part);

			/* What other columns have made of a tile that is this one's to write; the
			 * place is free. */
			if (n.kind & STEP_FETCH) {
				barrier_expect(fetched, size::SUMS);
				copy_bytes(from, sums, size::SUMS, fetched);
			}
			wait_full(full, sums_at<D>(step, i));
			if (n.kind & STEP_LAST)
				store_dq<D>(call, from, n, part);
			else
				store_bytes(sums, from, size::SUMS, n.turn > 0);
			boxes_commit();
			groups_read_but<0>();
			barrier_arrive(full + 8);
		}
		if (!(n.kind & STEP_LAST))
			end_turn(turns);
	}
	boxes_written();
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* What a lane has of 64 keys and the warpgroup's rows of a tile: scores and what they become, the
 * product of values and dout of up to 64 rows, its part of dq; rounded weights and gradients of
 * scores; its sums for the column. */
template <int D> struct column_lane {
	static constexpr int ROWS = column_size<D>::OWN_ROWS;
	float scores[ROWS / 2], weights_in[ROWS < 64 ? ROWS / 2 : 32], dq[32];
	uint32_t rounded[ROWS / 4];
	uint32_t kept[(ROWS + 63) / 64]; /* by dropout, of 64 rows each */
	float dk[column_size<D>::OWN_COLUMNS / 2], dv[column_size<D>::OWN_COLUMNS / 2];
};

/* Issues c = a b^T of 64 keys of a block and COUNT rows of a tile, summed over the columns of a
 * head. */
template <typename T, int D, int COUNT>
static __device__ inline void
issue_by_rows(float (&c)[COUNT / 2], uint32_t keys, uint32_t rows)
{
#pragma unroll
	for (int i = 0; i < D; i += BOX) {
		uint64_t a = operand_at(keys + i * column_size<D>::KEYS * 2),
			 b = operand_at(rows + i * column_rows<D> * 2);

#pragma unroll
		for (int j = 0; j < BOX && i + j < D; j += 16) {
			multiply<COUNT, true, true, T>(c, a, b, i + j > 0);
			a = operand_next<true>(a);
			b = operand_next<true>(b);
		}
	}
	wgmma_commit();
}

/* Issues c += a b of 64 keys and the columns of a head, summed over the rows of a tile. */
template <typename T, int D>
static __device__ inline void
issue_by_keys(float (&c)[D / 2], const uint32_t *a, uint32_t rows)
{
	uint64_t b = operand_at(rows, column_rows<D> * BOX_LINE);

#pragma unroll
	for (int i = 0; i < column_rows<D>; i += 16) {
		multiply_registers<D, false, T>(c, a + i / 4, b, 1);
		b = operand_next<false>(b);
	}
	wgmma_commit();
}

/* Issues the warpgroup's half of a step's dq: of wide heads a half of the columns, otherwise of the
 * rows. */
template <typename T, int D>
static __device__ inline void
issue_dq(float (&dq)[32], uint32_t base)
{
	typedef column_size<D> size;
	constexpr bool BY_ROWS = size::ROWS > BOX;
	uint32_t gradients = base + size::AT_GRADIENTS + (BY_ROWS ? own_group() * BOX_BYTES : 0),
		 keys = base + size::AT_KEYS + (BY_ROWS ? 0 : own_group() * size::KEYS * BOX_LINE);

#pragma unroll
	for (int half = 0; half < 2; half++) {
		uint64_t a = operand_at(gradients + half * (size::GRADIENTS / 2)),
			 b = operand_at(keys + half * BOX_BYTES);

#pragma unroll
		for (int i = 0; i < BOX; i += 16) {
			multiply<64, false, false, T>(dq, a, b, half + i > 0);
			a = operand_next<false>(a);
			b = operand_next<false>(b);
		}
	}
	wgmma_commit();
}

/* Two words of memory, where they are used: the compiler would load all at once. */
static __device__ inline int2
load_here(const float *at)
{
	int2 x;

	asm volatile("ld.global.v2.s32 {%0, %1}, [%2];"
		     : "=r"(x.x), "=r"(x.y)
		     : "l"(at)
		     : "memory");
	return x;
}

/* Hides the scores of keys after a query, and before the first that it sees, which few steps need:
 * it is read from memory. */
template <int D>
static __device__ inline void
hide_rows(column_lane<D> &l, const backward_call &call, uint32_t base, const step_note &n)
{
	typedef column_size<D> size;
	int key = column_note_at<D>(base)->key + own_group() * size::NEXT_KEYS + own_line(),
	    row = own_group() * size::NEXT_ROWS;
	const float *first = call.statistics + ((int64_t)n.tile * STATISTICS + 2) * size::ROWS +
	    row + threadIdx.x % 4 * 2;

	if (n.kind & STEP_ENDS)
#pragma unroll
		for (int i = 0; i < size::OWN_ROWS / 2; i++)
			if (column_of(i) < key + i / 2 % 2 * 8 - call.fwd.before - n.row - row)
				l.scores[i] = -INFINITY;
	if (n.kind & STEP_BEGINS)
#pragma unroll
		for (int i = 0; i < size::OWN_ROWS / 2; i += 4) {
			int2 x = load_here(first + i * 2);

#pragma unroll
			for (int j = 0; j < 4; j++)
				if (key + j / 2 * 8 < (j % 2 ? x.y : x.x))
					l.scores[i + j] = -INFINITY;
		}
}

/* Draws which of a step's weights dropout keeps. */
template <int D>
static __device__ inline void
draw_kept(column_lane<D> &l, const backward_call &call, uint32_t base, const step_note &n)
{
	typedef column_size<D> size;
	const column_note &c = *column_note_at<D>(base);
	const struct mask &m = call.fwd.drop;
	int key = c.key + own_group() * size::NEXT_KEYS + own_line(),
	    head = n.tile / row_tiles_of(call.rows) % call.fwd.t.num_heads,
	    query = call.fwd.before + n.row + threadIdx.x % 4 * 2;

#pragma unroll
	for (int i = 0; i < size::OWN_ROWS / 64; i++)
		l.kept[i] = kept_by_keys(m, drop_row(m, c.sample, head), key, query + 64 * i);
}

/* Scores become weights, which are rounded too; of capped ones what is kept is the weight times the
 * slope of the cap. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
weigh_rows(
    column_lane<D> &l, const backward_call &call, uint32_t base, const step_note &n, uint32_t lse)
{
	constexpr int ROWS = column_size<D>::OWN_ROWS;
	float slope[HOW == CAPPED ? ROWS / 2 : 1];

	if (HOW == CAPPED)
#pragma unroll
		for (int i = 0; i < ROWS / 2; i++) {
			float y = fast_tanh(call.fwd.cap_in * l.scores[i]);

			l.scores[i] = call.fwd.cap_out * y;
			slope[HOW == CAPPED ? i : 0] = 1 - y * y;
		}
	if (n.kind & (STEP_ENDS | STEP_BEGINS))
		hide_rows<D>(l, call, base, n);
#pragma unroll
	for (int i = 0; i < ROWS / 8; i++) {
		float2 x = load_two(lse + i * 32);
		float *s = l.scores + 4 * i;

		s[0] = power_of_2(__fmaf_rn(s[0], call.fwd.factor, -x.x));
		s[1] = power_of_2(__fmaf_rn(s[1], call.fwd.factor, -x.y));
		s[2] = power_of_2(__fmaf_rn(s[2], call.fwd.factor, -x.x));
		s[3] = power_of_2(__fmaf_rn(s[3], call.fwd.factor, -x.y));
		if (HOW == DROPPED) {
			uint32_t kept = l.kept[i / 8] >> i % 8 * 4;

			l.rounded[2 * i] =
			    pack_halves(T(), kept & 1 ? s[0] : 0, kept & 2 ? s[1] : 0);
			l.rounded[2 * i + 1] =
			    pack_halves(T(), kept & 4 ? s[2] : 0, kept & 8 ? s[3] : 0);
			continue;
		}
		l.rounded[2 * i] = pack_halves(T(), s[0], s[1]);
		l.rounded[2 * i + 1] = pack_halves(T(), s[2], s[3]);
	}
	if (HOW == CAPPED)
#pragma unroll
		for (int i = 0; i < ROWS / 2; i++)
			l.scores[i] *= slope[HOW == CAPPED ? i : 0];
}

/* Weights of up to 64 rows, from one of them on, become gradients of scores. keep: what dropout
 * multiplies the weights by that it keeps. */
template <int D, enum weighing HOW>
static __device__ inline void
take_gradients(column_lane<D> &l, uint32_t delta, int from, float keep)
{
#pragma unroll
	for (int i = 0; i < column_lane<D>::ROWS / 8 && i < 8; i++) {
		float2 x = load_two(delta + from * 4 + i * 32);
		float *s = l.scores + from / 2 + 4 * i, *w = l.weights_in + 4 * i;

		if (HOW == DROPPED)
#pragma unroll
			for (int j = 0; j < 4; j++)
				w[j] = l.kept[from / 64] >> (4 * i + j) & 1 ? w[j] * keep : 0;
		s[0] *= w[0] - x.x;
		s[1] *= w[1] - x.y;
		s[2] *= w[2] - x.x;
		s[3] *= w[3] - x.y;
	}
}

/* They are rounded, into the registers of the weights, whose product is done. */
template <typename T, int D>
static __device__ inline void
round_gradients(column_lane<D> &l)
{
#pragma unroll
	for (int i = 0; i < column_size<D>::OWN_ROWS / 4; i++)
		l.rounded[i] = pack_halves(T(), l.scores[2 * i], l.scores[2 * i + 1]);
}

/* Stores 64 lines of rounded elements that a lane's words are of, in a box: so many pieces of 8
 * elements, from one on. */
template <int PIECES>
static __device__ inline void
store_lines(uint32_t box, const uint32_t *words, uint32_t first)
{
	uint32_t line = threadIdx.x % 8,
		 to = box +
	    (threadIdx.x % GROUP / 32 * 16 + threadIdx.x / 8 % 2 * 8 + line) * BOX_LINE;

#pragma unroll
	for (int i = 0; i < PIECES; i += 2) {
		uint32_t piece = first + i + threadIdx.x / 16 % 2;
		uint32_t w[4] = { words[2 * i], words[2 * i + 1], words[2 * i + 2],
			words[2 * i + 3] };

		store_matrices(to + (piece ^ line) * 16, w);
	}
}

/* Gives the gradients of scores to both warpgroups, which have read those before. */
template <int D>
static __device__ inline void
store_gradients(const column_lane<D> &l, uint32_t base)
{
	typedef column_size<D> size;
	uint32_t to = base + size::AT_GRADIENTS + own_group() * (size::GRADIENTS / 2);

#pragma unroll
	for (int i = 0; i < size::ROWS; i += BOX)
		store_lines<8>(to + i / BOX * BOX_BYTES, l.rounded + i / 4, 0);
	fence_async_proxy();
	barrier_arrive(base + size::AT_GRADIENTS_FULL);
}

/* A warpgroup's work: steps of the block so far, what is particular to the present one, and
 * parities of fetched sums, a bit for either place. */
struct progress {
	uint32_t step, fetched;
	int kind;
};

/* The place through which the warpgroup's dq of the step before goes, and where there. */
template <int D>
static __device__ inline uint32_t
sums_place(const progress &p)
{
	return column_size<D>::WIDE ? own_group() : (p.step - 1) % 2;
}

template <int D>
static __device__ inline uint32_t
own_sums(uint32_t base, uint32_t place)
{
	typedef column_size<D> size;

	return base + size::AT_SUMS + place * size::SUMS +
	    (size::WIDE ? 0 : own_group() * (size::SUMS / 2));
}

/* Adds what others have added to dq, from its place. */
template <int D>
static __device__ inline void
add_fetched(float (&dq)[32], uint32_t base, progress &p)
{
	typedef column_size<D> size;
	uint32_t place = sums_place<D>(p),
		 from = own_sums<D>(base, place) + threadIdx.x % GROUP * 16;

	barrier_wait(base + size::AT_FETCHED + place * 8, p.fetched >> place & 1);
	p.fetched ^= 1u << place;
#pragma unroll
	for (int i = 0; i < 8; i++) {
		float4 x = load_four(from + i * GROUP * 16);

		dq[4 * i] += x.x;
		dq[4 * i + 1] += x.y;
		dq[4 * i + 2] += x.z;
		dq[4 * i + 3] += x.w;
	}
	barrier_some(1 + own_group(), GROUP);
}

/* Gives a part of the step's dq before, or dq itself, to the thread that empties its place. */
template <typename T, int D>
static __device__ inline void
give_dq(float (&dq)[32], const backward_call &call, uint32_t base, progress &p, int part)
{
	typedef column_size<D> size;
	uint32_t place = sums_place<D>(p), full = sums_barriers(base + size::AT_SUMS_FULL, place),
		 to = own_sums<D>(base, place);

	wait_free(full, sums_at<D>(p.step - 1, part));
	if (p.kind & STEP_FETCH)
		add_fetched<D>(dq, base, p);
	if (p.kind & STEP_LAST) {
		uint32_t words[16];

#pragma unroll
		for (int i = 0; i < 16; i++)
			words[i] =
			    pack_halves(T(), dq[2 * i] * call.scale, dq[2 * i + 1] * call.scale);
		store_lines<8>(to, words, 0);
	} else {
#pragma unroll
		for (int i = 0; i < 8; i++)
			store_four(to + (i * GROUP + threadIdx.x % GROUP) * 16, dq + 4 * i);
	}
	fence_async_proxy();
	barrier_arrive(full);
}

/* The compiler is not to know the value: what it computes from it would stay in registers. */
static __device__ inline uint32_t
forget(uint32_t &x)
{
	asm volatile("" : "+r"(x));
	return x;
}

/* Where the queries of a step are. */
template <int D>
static __device__ inline uint32_t
queries_of(uint32_t base, uint32_t step)
{
	typedef column_size<D> size;

	return base + size::AT_QUERIES + step % size::QUERY_PLACES * size::TILE;
}

/* Issues what is left of the step before: dk, and when both warpgroups have written its gradients
 * of scores, dq. Between them come the scores of the next step if there is one. dk is done before
 * dq is issued: with both under way the assembler has too few registers and issues one by one. */
template <typename T, int D, bool NEXT>
static __device__ inline void
issue_rest(column_lane<D> &l, uint32_t base, const progress &p)
{
	typedef column_size<D> size;
	uint32_t before = p.step - 1, queries = base + size::AT_QUERIES_FULL,
		 gradients = base + size::AT_GRADIENTS_FULL;

	wgmma_fence();
	issue_by_keys<T, D>(l.dk, l.rounded, queries_of<D>(base, before));
	wait_free(gradients, gradients_at(before));
	store_gradients<D>(l, base);
	if (NEXT) {
		wait_full(queries, queries_at<D>(p.step));
		wgmma_fence();
		issue_by_rows<T, D, size::ROWS>(l.scores,
		    base + size::AT_KEYS + own_group() * BOX_BYTES, queries_of<D>(base, p.step));
	}
	wgmma_wait<NEXT>();
	sums_done(l.dk);
	wait_full(gradients, gradients_at(before));
	free_place(queries, queries_at<D>(before));
	wgmma_fence();
	issue_dq<T, D>(l.dq, base);
}

/* The dq that it has issued is there: gradients of scores may be written again. */
template <typename T, int D>
static __device__ inline void
end_rest(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p)
{
	wgmma_wait<0>();
	sums_done(l.dq);
	free_place(base + column_size<D>::AT_GRADIENTS_FULL, gradients_at(p.step - 1));
	give_dq<T, D>(l.dq, call, base, p, 0);
}

/* A step up to its gradients of scores, and but for the first of a column the rest of the step
 * before. */
template <typename T, int D, enum weighing HOW, bool FIRST>
static __device__ inline void
column_step(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p)
{
	typedef column_size<D> size;
	uint32_t own = forget(base) + own_group() * BOX_BYTES,
		 dout = base + size::AT_DOUT + p.step % size::DOUT_PLACES * size::TILE,
		 statistics = base + size::AT_STATISTICS +
	    p.step % size::QUERY_PLACES * size::LSE_DELTA + threadIdx.x % 4 * 8;
	/* dq is under way beside the exponentials, or its registers are those of slopes of caps or
	 * of many rows; then what is under way is the product of values and dout. */
	constexpr bool GIVE_FIRST = HOW == CAPPED || size::ROWS > 64,
		       MULTIPLY_FIRST = GIVE_FIRST && HOW != CAPPED;
	step_note n;

	if (FIRST) {
		wait_full(base + size::AT_QUERIES_FULL, queries_at<D>(p.step));
		wgmma_fence();
		issue_by_rows<T, D, size::ROWS>(
		    l.scores, own + size::AT_KEYS, queries_of<D>(base, p.step));
	} else {
		issue_rest<T, D, true>(l, base, p);
	}
	n = *step_note_at<D>(base, p.step);
	if (HOW == DROPPED)
		draw_kept(l, call, base, n);
	wgmma_wait<!FIRST>();
	sums_done(l.scores);
	if (!FIRST && GIVE_FIRST)
		end_rest<T, D>(l, call, base, p);
	if (MULTIPLY_FIRST) {
		wait_full(base + size::AT_DOUT_FULL, dout_at<D>(p.step));
		wgmma_fence();
		issue_by_rows<T, D, 64>(l.weights_in, own + size::AT_VALUES, dout);
	}
	weigh_rows<T, D, HOW>(l, call, base, n, statistics);
	if (!FIRST && !GIVE_FIRST)
		end_rest<T, D>(l, call, base, p);
	if (!MULTIPLY_FIRST)
		wait_full(base + size::AT_DOUT_FULL, dout_at<D>(p.step));
	wgmma_fence();
	if (!MULTIPLY_FIRST)
		issue_by_rows<T, D, 64>(l.weights_in, own + size::AT_VALUES, dout);
	issue_by_keys<T, D>(l.dv, l.rounded, dout);
	wgmma_wait<1>();
	sums_done(l.weights_in);
	take_gradients<D, HOW>(l, statistics + size::ROWS * 4, 0, call.fwd.drop.keep);
	if (size::ROWS > 64) {
		wgmma_fence();
		issue_by_rows<T, D, 64>(l.weights_in, own + size::AT_VALUES, dout + BOX_BYTES);
		wgmma_wait<0>();
		sums_done(l.weights_in);
		take_gradients<D, HOW>(l, statistics + size::ROWS * 4, 64, call.fwd.drop.keep);
	}
	wgmma_wait<0>();
	sums_done(l.dv);
	free_place(base + size::AT_DOUT_FULL, dout_at<D>(p.step));
	round_gradients<T, D>(l);
	p.kind = n.kind;
	p.step++;
}

/* All steps of a column. Keys are read until the last dq. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
column_steps(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p, int steps)
{
	typedef column_size<D> size;

	column_step<T, D, HOW, true>(l, call, base, p);
	for (int i = 1; i < steps; i++)
		column_step<T, D, HOW, false>(l, call, base, p);
	issue_rest<T, D, false>(l, base, p);
	wgmma_wait<0>();
	sums_done(l.dq);
	barrier_arrive(base + size::AT_KEYS_FULL + 8);
	end_rest<T, D>(l, call, base, p);
}

#endif
