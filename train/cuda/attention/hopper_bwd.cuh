/*
 * hopper_bwd.cuh - the backward pass for compute capability 9.0, for heads of up to D columns
 *
 * One block a multiprocessor works on columns, of turns.h: a block of keys stays in shared memory
 * with its values, and tiles of rows of queries and of dout come through two places. Two
 * warpgroups multiply 64 keys each, whose dk and dv stay in registers for all heads of the group.
 * Rows of the scores are keys, so that weights and gradients of scores are operands in registers as
 * they stand; for dq, whose sums run over the keys of both warpgroups, gradients go through shared
 * memory, and each warpgroup computes a half of it.
 *
 * A step's part of dq leaves through one of two places for sums, in the order of registers. Of the
 * first warpgroup one thread copies, and one each serves a place for sums: it adds them in memory,
 * and fetches what the last column of a tile adds its part to. Parts are added in the order of
 * turns.h, so the bits of dq depend on shapes alone.
 *
 * Exponents are taken to the base 2. A kernel before prepares the statistics of rows. Source: Dao
 * 2023, arXiv:2307.08691; Shah et al. 2024, arXiv:2407.08608.
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_BWD_CUH
#define TRAIN_CUDA_ATTENTION_HOPPER_BWD_CUH

#include "train/cuda/attention/hopper_bwd_copy.cuh"

/* --- the threads that fetch and add sums of dq ------------------------------------------------ */

/* What is to be known of a step, when it is written. A place for sums has every second step. */
template <int D>
static __device__ inline step_note
wait_note(uint32_t base, uint32_t step)
{
	barrier_wait(noted_at<D>(base, step), step / STEP_NOTES % 2);
	return *step_note_at<D>(base, step);
}

/* Fetches the sums that other columns have made of a tile that is this one's to write, in its turn,
 * to a place that is free. */
template <int D>
static __device__ inline void
fetch_sums(const backward_call &call, uint32_t to, uint32_t fetched, const step_note &n)
{
	typedef column_size<D> size;

	barrier_expect(fetched, size::SUMS);
	copy_bytes(to, call.sums + (int64_t)n.tile * (size::SUMS / 4), size::SUMS, fetched);
}

/* Writes the two halves of a tile's dq. */
template <int D>
static __device__ inline void
store_dq(const backward_call &call, uint32_t from, const step_note &n)
{
	typedef column_size<D> size;
	int head = n.tile / row_tiles_of(call.rows), all = call.fwd.t.num_heads;

#pragma unroll
	for (int half = 0; half < 2; half++)
		store_box(&call.dq, from + half * (size::SUMS / 2),
		    size::ROWS > BOX ? make_int4(0, head % all, head / all, n.row + half * BOX)
				     : make_int4(half * BOX, head % all, head / all, n.row));
}

/* Serves place `own` for sums. */
template <int D>
static __device__ inline void
add_sums(const backward_call &call, uint32_t base, uint32_t own)
{
	typedef column_size<D> size;
	uint32_t barriers = base + size::AT_SUMS_FULL,
		 from = base + size::AT_SUMS + own * size::SUMS;

	for (uint32_t step = own;; step += 2) {
		step_note n = wait_note<D>(base, step);

		if (n.kind & STEP_STOP)
			break;
		/* The turn mostly comes before the sums: the thread then knows it in time. */
		wait_turn(call, n);
		if (n.kind & STEP_FETCH)
			fetch_sums<D>(call, from, base + size::AT_FETCHED + own * 8, n);
		wait_full(barriers, sums_at(step));
		if (n.kind & STEP_LAST) {
			store_dq<D>(call, from, n);
		} else {
			store_bytes(call.sums + (int64_t)n.tile * (size::SUMS / 4), from,
			    size::SUMS, n.turn > 0);
		}
		boxes_commit();
		groups_read_but<0>();
		barrier_arrive(full_of(barriers, sums_at(step)) + 8);
		if (!(n.kind & STEP_LAST))
			end_turn(call, n);
	}
	boxes_written();
}

/* --- the warpgroups that multiply ------------------------------------------------------------- */

/* What a lane has of 64 keys and a tile of rows: scores and what they become, the product of values
 * and dout, a half of dq; rounded weights and gradients of scores; its sums for the column. */
template <int D> struct column_lane {
	float scores[column_rows<D> / 2], weights_in[32], dq[32];
	uint32_t rounded[column_rows<D> / 4];
	float dk[D / 2], dv[D / 2];
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
	int key = column_note_at<D>(base)->key + own_group() * 64 + own_line();
	const float *first = call.statistics + ((int64_t)n.tile * STATISTICS + 2) * column_rows<D> +
	    threadIdx.x % 4 * 2;

	if (n.kind & STEP_ENDS)
#pragma unroll
		for (int i = 0; i < column_rows<D> / 2; i++)
			if (column_of(i) < key + i / 2 % 2 * 8 - call.fwd.before - n.row)
				l.scores[i] = -INFINITY;
	if (n.kind & STEP_BEGINS)
#pragma unroll
		for (int i = 0; i < column_rows<D> / 2; i += 4) {
			int2 x = load_here(first + i * 2);

#pragma unroll
			for (int j = 0; j < 4; j++)
				if (key + j / 2 * 8 < (j % 2 ? x.y : x.x))
					l.scores[i + j] = -INFINITY;
		}
}

/* Scores become weights, which are rounded too; of capped ones what is kept is the weight times the
 * slope of the cap. */
template <typename T, int D, bool CAP>
static __device__ inline void
weigh_rows(
    column_lane<D> &l, const backward_call &call, uint32_t base, const step_note &n, uint32_t lse)
{
	float slope[CAP ? column_rows<D> / 2 : 1];

	if (CAP)
#pragma unroll
		for (int i = 0; i < column_rows<D> / 2; i++) {
			float y = fast_tanh(call.fwd.cap_in * l.scores[i]);

			l.scores[i] = call.fwd.cap_out * y;
			slope[CAP ? i : 0] = 1 - y * y;
		}
	if (n.kind & (STEP_ENDS | STEP_BEGINS))
		hide_rows<D>(l, call, base, n);
#pragma unroll
	for (int i = 0; i < column_rows<D> / 8; i++) {
		float2 x = load_two(lse + i * 32);
		float *s = l.scores + 4 * i;

		s[0] = power_of_2(__fmaf_rn(s[0], call.fwd.factor, -x.x));
		s[1] = power_of_2(__fmaf_rn(s[1], call.fwd.factor, -x.y));
		s[2] = power_of_2(__fmaf_rn(s[2], call.fwd.factor, -x.x));
		s[3] = power_of_2(__fmaf_rn(s[3], call.fwd.factor, -x.y));
		l.rounded[2 * i] = pack_halves(T(), s[0], s[1]);
		l.rounded[2 * i + 1] = pack_halves(T(), s[2], s[3]);
	}
	if (CAP)
#pragma unroll
		for (int i = 0; i < column_rows<D> / 2; i++)
			l.scores[i] *= slope[CAP ? i : 0];
}

/* Weights of 64 rows, from one of them on, become gradients of scores. */
template <int D>
static __device__ inline void
take_gradients(column_lane<D> &l, uint32_t delta, int from)
{
#pragma unroll
	for (int i = 0; i < 8; i++) {
		float2 x = load_two(delta + from * 4 + i * 32);
		float *s = l.scores + from / 2 + 4 * i, *w = l.weights_in + 4 * i;

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
	for (int i = 0; i < column_rows<D> / 4; i++)
		l.rounded[i] = pack_halves(T(), l.scores[2 * i], l.scores[2 * i + 1]);
}

/* Stores 64 lines of 64 rounded elements a lane's words are of, in a box. */
static __device__ inline void
store_lines(uint32_t box, const uint32_t *words)
{
	uint32_t line = threadIdx.x % 8,
		 to = box +
	    (threadIdx.x % GROUP / 32 * 16 + threadIdx.x / 8 % 2 * 8 + line) * BOX_LINE;

#pragma unroll
	for (int i = 0; i < 8; i += 2) {
		uint32_t piece = i + threadIdx.x / 16 % 2;
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
		store_lines(to + i / BOX * BOX_BYTES, l.rounded + i / 4);
	fence_async_proxy();
	barrier_arrive(base + size::AT_GRADIENTS_FULL);
}

/* A warpgroup's work: steps of the block so far, what is particular to the present one, and
 * parities of fetched sums, a bit for either place. */
struct progress {
	uint32_t step, fetched;
	int kind;
};

/* Adds what others have added to dq, from its place. */
template <int D>
static __device__ inline void
add_fetched(float (&dq)[32], uint32_t base, progress &p)
{
	typedef column_size<D> size;
	uint32_t place = (p.step - 1) % 2,
		 from = base + size::AT_SUMS + place * size::SUMS + own_group() * (size::SUMS / 2) +
	    threadIdx.x % GROUP * 16;

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

/* Gives a step's part of dq, or dq itself, to the thread that empties its place. */
template <typename T, int D>
static __device__ inline void
give_dq(float (&dq)[32], const backward_call &call, uint32_t base, progress &p)
{
	typedef column_size<D> size;
	uint32_t barriers = base + size::AT_SUMS_FULL,
		 to = base + size::AT_SUMS + (p.step - 1) % 2 * size::SUMS +
	    own_group() * (size::SUMS / 2);

	wait_free(barriers, sums_at(p.step - 1));
	if (p.kind & STEP_FETCH)
		add_fetched<D>(dq, base, p);
	if (p.kind & STEP_LAST) {
		uint32_t words[16];

#pragma unroll
		for (int i = 0; i < 16; i++)
			words[i] =
			    pack_halves(T(), dq[2 * i] * call.scale, dq[2 * i + 1] * call.scale);
		store_lines(to, words);
	} else {
#pragma unroll
		for (int i = 0; i < 8; i++)
			store_four(to + (i * GROUP + threadIdx.x % GROUP) * 16, dq + 4 * i);
	}
	fence_async_proxy();
	barrier_arrive(full_of(barriers, sums_at(p.step - 1)));
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
	give_dq<T, D>(l.dq, call, base, p);
}

/* A step up to its gradients of scores, and but for the first of a column the rest of the step
 * before. */
template <typename T, int D, bool CAP, bool FIRST>
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
	constexpr bool GIVE_FIRST = CAP || size::ROWS > 64, MULTIPLY_FIRST = GIVE_FIRST && !CAP;
	step_note n;

	if (FIRST) {
		wait_full(base + size::AT_QUERIES_FULL, queries_at<D>(p.step));
		wgmma_fence();
		issue_by_rows<T, D, size::ROWS>(
		    l.scores, own + size::AT_KEYS, queries_of<D>(base, p.step));
	} else {
		issue_rest<T, D, true>(l, base, p);
	}
	wgmma_wait<!FIRST>();
	sums_done(l.scores);
	n = *step_note_at<D>(base, p.step);
	if (!FIRST && GIVE_FIRST)
		end_rest<T, D>(l, call, base, p);
	if (MULTIPLY_FIRST) {
		wait_full(base + size::AT_DOUT_FULL, dout_at<D>(p.step));
		wgmma_fence();
		issue_by_rows<T, D, 64>(l.weights_in, own + size::AT_VALUES, dout);
	}
	weigh_rows<T, D, CAP>(l, call, base, n, statistics);
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
	take_gradients<D>(l, statistics + size::ROWS * 4, 0);
	if (size::ROWS > 64) {
		wgmma_fence();
		issue_by_rows<T, D, 64>(l.weights_in, own + size::AT_VALUES, dout + BOX_BYTES);
		wgmma_wait<0>();
		sums_done(l.weights_in);
		take_gradients<D>(l, statistics + size::ROWS * 4, 64);
	}
	wgmma_wait<0>();
	sums_done(l.dv);
	free_place(base + size::AT_DOUT_FULL, dout_at<D>(p.step));
	round_gradients<T, D>(l);
	p.kind = n.kind;
	p.step++;
}

/* All steps of a column. Keys are read until the last dq. */
template <typename T, int D, bool CAP>
static __device__ inline void
column_steps(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p, int steps)
{
	typedef column_size<D> size;

	column_step<T, D, CAP, true>(l, call, base, p);
	for (int i = 1; i < steps; i++)
		column_step<T, D, CAP, false>(l, call, base, p);
	issue_rest<T, D, false>(l, base, p);
	wgmma_wait<0>();
	sums_done(l.dq);
	barrier_arrive(base + size::AT_KEYS_FULL + 8);
	end_rest<T, D>(l, call, base, p);
}

/* Stores a warpgroup's 64 rows of dk or dv. */
template <typename T, int D>
static __device__ inline void
store_column(const backward_call &call, const struct tensor &t, const column_note &c,
    const float (&x)[D / 2], float factor)
{
	int64_t b = call.fwd.t.micro_batch;
	int key = c.key + own_group() * 64, d = call.fwd.t.head_dim;
	struct corner to = { (bf16 *)t.data + (key * b + c.sample) * t.stride[0] +
		    (int64_t)(c.head / call.fwd.order.heads) * d,
		b * t.stride[0], (int)(t.shape[0] / b) - key, d };

#pragma unroll
	for (int i = 0; i < D / 16; i++) {
		uint32_t words[4];

#pragma unroll
		for (int j = 0; j < 4; j++) {
			int at = i / 2 * 16 + j * 4 + i % 2 * 2;

			words[j] = pack_halves(T(), x[at] * factor, x[at + 1] * factor);
		}
		store_piece(to, words, i, 0);
	}
}

/* Stores a warpgroup's 64 rows of a head's part of dk or dv, where heads of a group have columns
 * of their own. */
template <int D>
static __device__ inline void
store_part(const backward_call &call, float *parts, const column_note &c, const float (&x)[D / 2],
    float factor)
{
	constexpr int WIDTH = column_size<D>::WIDTH;
	int key = c.key + own_group() * 64 + own_line(), keys = call.rows.end;
	float *to = parts +
	    (((int64_t)c.sample * call.fwd.t.num_heads + c.head) * keys + key) * WIDTH +
	    column_of(0);

#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int i = 0; i < D / 2 && key + 8 * h < keys; i += 4)
			*(float2 *)(to + h * 8 * WIDTH + 2 * i) =
			    make_float2(x[i + 2 * h] * factor, x[i + 2 * h + 1] * factor);
}

/* Stores the sums of a column. */
template <typename T, int D>
static __device__ inline void
store_columns(const column_lane<D> &l, const backward_call &call, const column_note &c)
{
	if (call.parts[0]) {
		store_part<D>(call, call.parts[0], c, l.dk, call.scale);
		store_part<D>(call, call.parts[1], c, l.dv, 1);
	} else {
		store_column<T, D>(call, call.dk, c, l.dk, call.scale);
		store_column<T, D>(call, call.dv, c, l.dv, 1);
	}
}

/* All columns of the block. */
template <typename T, int D, bool CAP>
static __device__ inline void
multiply_columns(const backward_call &call, uint32_t base)
{
	typedef column_size<D> size;
	column_lane<D> l;
	progress p = { 0, 0, 0 };

	for (uint32_t num = 0;; num++) {
		column_note c;
		int steps;

		barrier_wait(base + size::AT_KEYS_FULL, num % 2);
		c = *column_note_at<D>(base);
		steps = uniform(c.steps);
		if (steps < 0)
			break;
#pragma unroll
		for (int i = 0; i < D / 2; i++)
			l.dk[i] = l.dv[i] = 0;
		sums_done(l.dk);
		sums_done(l.dv);
		if (steps > 0) {
			column_steps<T, D, CAP>(l, call, base, p, steps);
		} else {
			barrier_arrive(base + size::AT_KEYS_FULL + 8);
		}
		store_columns<T, D>(l, call, c);
	}
}

/* --- the kernels ------------------------------------------------------------------------------ */

/* Where the rows of queries of a tile end: the last query of each block of keys, by the queries of
 * the tile. */
template <int D>
static __device__ inline void
write_last(const backward_call &call, int sample, int row)
{
	constexpr int KEYS = column_size<D>::KEYS;
	int *last = call.last + sample * call.order.columns, at = call.fwd.before + row;
	int first = first_key_of(call.fwd, sample, row), all = call.order.columns * KEYS;
	struct key_range r = blocks_that_end(first,
	    row + 1 < call.fwd.queries ? first_key_of(call.fwd, sample, row + 1) : all, KEYS);

	for (int i = r.begin; i < r.end; i++)
		last[i] = at;
	for (int i = 0; row == 0 && i < r.begin; i++)
		last[i] = at - 1;
}

/* delta of a row of a head, the sum of dout * out, by 16 lanes. */
template <typename T>
static __device__ inline float
sum_of_row(const backward_call &call, int64_t row, int head)
{
	int d = call.fwd.t.head_dim;
	const T *x = row_of<T>(call.dout_rows, row) + (int64_t)head * d,
		*y = row_of<T>(call.fwd.t.out, row) + (int64_t)head * d;
	float sum = 0;

	for (int c = threadIdx.x % 16 * 8; c < d; c += 128) {
		uint4 u = *(const uint4 *)(x + c), w = *(const uint4 *)(y + c);
		T a[8], b[8];

		memcpy(a, &u, sizeof a);
		memcpy(b, &w, sizeof b);
#pragma unroll
		for (int i = 0; i < 8; i++)
			sum += to_float(a[i]) * to_float(b[i]);
	}
	return sum;
}

/* Prepares a tile of rows of a head: statistics, and that no column has been added to its dq; of
 * rows after the last query no weight is left. */
template <typename T, int D>
static __global__ void
__launch_bounds__(CU_THREADS) hopper_rows_kernel(const __grid_constant__ backward_call call)
{
	constexpr int ROWS = column_size<D>::ROWS;
	int head = blockIdx.y, sample = blockIdx.z, b = call.fwd.t.micro_batch,
	    heads = call.fwd.t.num_heads, tile = (sample * heads + head) * gridDim.x + blockIdx.x;
	float *lse = call.statistics + (int64_t)tile * STATISTICS * ROWS, *delta = lse + ROWS;
	int *first = (int *)(delta + ROWS);

	if (threadIdx.x == 0)
		call.turns[tile] = 0;
	if (threadIdx.x == 0 && tile == 0)
		*call.claimed = 0;
	for (int i = threadIdx.x / 16; i < ROWS; i += CU_THREADS / 16) {
		int row = blockIdx.x * ROWS + i;
		bool real = row < call.fwd.queries;
		float sum = real ? sum_of_row<T>(call, (int64_t)row * b + sample, head) : 0;

#pragma unroll
		for (int lane = 8; lane > 0; lane /= 2)
			sum += __shfl_xor_sync(LANES, sum, lane);
		if (threadIdx.x % 16 > 0)
			continue;
		lse[i] = real
		    ? row_of<float>(call.fwd.t.lse, (int64_t)sample * heads + head)[row] * log2_e
		    : INFINITY;
		delta[i] = sum;
		if (real && call.delta.data)
			row_of<float>(call.delta, (int64_t)sample * heads + head)[row] = sum;
		first[i] = real ? first_key_of(call.fwd, sample, row) : 0;
		if (real && head == 0)
			write_last<D>(call, sample, row);
	}
}

/* Where documents begin: the columns of a sample in the order of work. */
template <int D>
static __global__ void
__launch_bounds__(CU_THREADS) hopper_places_kernel(const __grid_constant__ backward_call call)
{
	int column = (int)(blockIdx.x * CU_THREADS + threadIdx.x), columns = call.order.columns;
	int32_t *places = call.places + blockIdx.y * columns;

	if (column < columns)
		places[place_of_column(
		    column, columns, column_size<D>::KEYS, last_of(call, blockIdx.y))] = column;
}

/* dk, or of blockIdx.y 1 dv: sums of the parts of the heads of a group, in their order. A thread
 * has two columns of a key. */
template <typename T, int D>
static __global__ void
__launch_bounds__(CU_THREADS) hopper_heads_kernel(const __grid_constant__ backward_call call)
{
	constexpr int WIDTH = column_size<D>::WIDTH;
	const struct tensor &t = blockIdx.y ? call.dv : call.dk;
	int heads = call.fwd.order.heads, groups = call.fwd.t.num_groups, keys = call.rows.end,
	    b = call.fwd.t.micro_batch, sample = blockIdx.z / groups, group = blockIdx.z % groups;
	int64_t at = (int64_t)blockIdx.x * CU_THREADS + threadIdx.x, key = at / (WIDTH / 2);
	int column = (int)(at % (WIDTH / 2)) * 2;
	const float *from =
	    call.parts[blockIdx.y] + ((int64_t)blockIdx.z * heads * keys + key) * WIDTH + column;
	float2 sum = {};

	if (key >= keys || column >= call.fwd.t.head_dim)
		return;
	for (int i = 0; i < heads; i++) {
		float2 x = *(const float2 *)(from + (int64_t)i * keys * WIDTH);

		sum.x += x.x;
		sum.y += x.y;
	}
	put_two(
	    row_of<T>(t, key * b + sample) + group * call.fwd.t.head_dim + column, sum.x, sum.y);
}

template <typename T, int D, bool CAP>
static __global__ void
__launch_bounds__(column_size<D>::THREADS, 1)
    hopper_backward_kernel(const __grid_constant__ backward_call call)
{
	typedef column_size<D> size;
	static_assert(column_bytes<D> <= 227 << 10);
	extern __shared__ __align__(1024) char memory[];
	uint32_t base = shared_address(memory), warp = threadIdx.x / 32;

	if (!SM90A_CODE)
		return;
	if (threadIdx.x == 0) {
		ring_make<size::QUERY_PLACES>(base + size::AT_QUERIES_FULL, 2 * GROUP / 32);
		ring_make<size::DOUT_PLACES>(base + size::AT_DOUT_FULL, 2 * GROUP / 32);
		ring_make<1>(base + size::AT_KEYS_FULL, 2 * GROUP);
		for (int i = 0; i < 2; i++) {
			barrier_make(base + size::AT_SUMS_FULL + i * 16, 2 * GROUP);
			barrier_make(base + size::AT_SUMS_FULL + i * 16 + 8, 1);
			barrier_make(base + size::AT_FETCHED + i * 8, 1);
		}
		for (int i = 0; i < STEP_NOTES; i++)
			barrier_make(base + size::AT_NOTED + i * 8, 1);
		barrier_make(base + size::AT_GRADIENTS_FULL, 2 * GROUP);
		barrier_make(base + size::AT_GRADIENTS_FULL + 8, 2 * GROUP / 32);
		barriers_made();
	}
	__syncthreads();
	if (threadIdx.x < GROUP) {
		registers_release<size::COPIER_REGISTERS>();
		if (is_elected()) {
			if (warp == 0)
				copy_columns<D>(call, base);
			else if (warp < 3)
				add_sums<D>(call, base, warp - 1);
		}
	} else {
		registers_claim<size::REGISTERS>();
		multiply_columns<T, D, CAP>(call, base);
	}
}

/* A block for each multiprocessor, unless there are fewer columns or fewer are wanted. */
template <typename T, int D, bool CAP>
static void
hopper_launch_columns(struct stream *st, const struct backward_call *call)
{
	void (*kernel)(const backward_call) = hopper_backward_kernel<T, D, CAP>;
	int blocks = columns_of(call->order), bytes = column_bytes<D>,
	    most = call->run.blocks > 0 ? call->run.blocks : st->device->num_sms;
	dim3 rows((unsigned)row_tiles_of(call->rows), (unsigned)call->fwd.t.num_heads,
	    (unsigned)call->fwd.t.micro_batch);

	if (blocks > most)
		blocks = most;
	if (!cu_ok(st->device,
		cudaFuncSetAttribute(
		    (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
		"attention"))
		return;
	hopper_rows_kernel<T, D><<<rows, CU_THREADS, 0, cu_handle(st)>>>(*call);
	if (call->places) {
		dim3 grid((unsigned)int64_div_up(call->order.columns, CU_THREADS),
		    (unsigned)call->fwd.t.micro_batch);

		hopper_places_kernel<D><<<grid, CU_THREADS, 0, cu_handle(st)>>>(*call);
	}
	kernel<<<(unsigned)blocks, column_size<D>::THREADS, (size_t)bytes, cu_handle(st)>>>(*call);
	if (call->parts[0]) {
		int64_t pairs = (int64_t)call->rows.end * (column_size<D>::WIDTH / 2);
		dim3 grid((unsigned)int64_div_up(pairs, CU_THREADS), 2,
		    (unsigned)(call->fwd.t.micro_batch * call->fwd.t.num_groups));

		hopper_heads_kernel<T, D><<<grid, CU_THREADS, 0, cu_handle(st)>>>(*call);
	}
}

#endif
