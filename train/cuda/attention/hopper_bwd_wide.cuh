/*
 * hopper_bwd_wide.cuh - the backward pass for compute capability 9.0: a step of a column of wide
 * heads
 *
 * A block has 64 keys, and either warpgroup computes the weights and gradients of scores of a half
 * of a tile's rows. Both go through shared memory: of dv, dk and dq a warpgroup computes a half of
 * the columns, of all rows. As with narrower heads dk and dq of a step come in the next one, beside
 * its exponentials. The warpgroup's columns of dq leave in two parts, through a place of its own.
 */
#ifndef TRAIN_CUDA_ATTENTION_HOPPER_BWD_WIDE_CUH
#define TRAIN_CUDA_ATTENTION_HOPPER_BWD_WIDE_CUH

#include "train/cuda/attention/hopper_bwd_step.cuh"

/* Issues c += a b of 64 keys and the warpgroup's columns, summed over the rows of a tile. The
 * elements of a, weights or gradients of scores, are in shared memory, and b is queries or dout. */
template <typename T, int D>
static __device__ inline void
issue_own_columns(float (&c)[column_size<D>::OWN_COLUMNS / 2], uint32_t elements, uint32_t rows)
{
	typedef column_size<D> size;
	constexpr int COLUMNS = size::OWN_COLUMNS;
	uint64_t a = operand_at(elements),
		 b = operand_at(rows + own_group() * COLUMNS / BOX * BOX_BYTES, BOX_BYTES);

#pragma unroll
	for (int i = 0; i < size::ROWS; i += 16) {
		multiply<COLUMNS, true, false, T>(c, a, b, 1);
		a = operand_next<true>(a);
		b = operand_next<false>(b);
	}
	wgmma_commit();
}

/* Issues a part of the warpgroup's columns of a step's dq: 64 of them. */
template <typename T, int D>
static __device__ inline void
issue_dq_part(float (&dq)[32], uint32_t base, int part)
{
	typedef column_size<D> size;
	uint64_t a = operand_at(base + size::AT_GRADIENTS),
		 b = operand_at(
		     base + size::AT_KEYS + (own_group() * size::PARTS + part) * BOX_BYTES);

#pragma unroll
	for (int i = 0; i < size::KEYS; i += 16) {
		multiply<BOX, false, false, T>(dq, a, b, i > 0);
		a = operand_next<false>(a);
		b = operand_next<false>(b);
	}
	wgmma_commit();
}

/* Gives the rounded elements of the warpgroup's rows to both, when both have read those before. */
template <int D>
static __device__ inline void
share_elements(const column_lane<D> &l, uint32_t to, uint32_t barriers, uint32_t step)
{
	constexpr int PIECES = column_size<D>::OWN_ROWS / 8;

	wait_free(barriers, gradients_at(step));
	store_lines<PIECES>(to, l.rounded, own_group() * PIECES);
	fence_async_proxy();
	barrier_arrive(barriers);
}

/* Issues dk and the first part of dq of the step before, when both warpgroups have written its
 * gradients of scores. */
template <typename T, int D>
static __device__ inline void
issue_wide_rest(column_lane<D> &l, uint32_t base, const progress &p)
{
	typedef column_size<D> size;

	wait_full(base + size::AT_GRADIENTS_FULL, gradients_at(p.step - 1));
	wgmma_fence();
	issue_own_columns<T, D>(l.dk, base + size::AT_GRADIENTS, queries_of<D>(base, p.step - 1));
	issue_dq_part<T, D>(l.dq, base, 0);
}

/* They are there: gives the first part, and issues the second. */
template <typename T, int D>
static __device__ inline void
give_first_part(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p)
{
	wgmma_wait<0>();
	sums_done(l.dk);
	sums_done(l.dq);
	free_place(base + column_size<D>::AT_QUERIES_FULL, queries_at<D>(p.step - 1));
	give_dq<T, D>(l.dq, call, base, p, 0);
	wgmma_fence();
	issue_dq_part<T, D>(l.dq, base, 1);
}

/* Scores of the warpgroup's rows. */
template <typename T, int D>
static __device__ inline void
issue_own_rows(float (&c)[column_size<D>::OWN_ROWS / 2], uint32_t keys, uint32_t rows)
{
	constexpr int ROWS = column_size<D>::OWN_ROWS;

	wgmma_fence();
	issue_by_rows<T, D, ROWS>(c, keys, rows + own_group() * ROWS * BOX_LINE);
}

/* A step up to its gradients of scores, and but for the first of a column the rest of the step
 * before. */
template <typename T, int D, enum weighing HOW, bool FIRST>
static __device__ inline void
wide_step(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p)
{
	typedef column_size<D> size;
	uint32_t dout = forget(base) + size::AT_DOUT, dout_full = base + size::AT_DOUT_FULL,
		 weights = base + size::AT_WEIGHTS_FULL, gradients = base + size::AT_GRADIENTS_FULL,
		 statistics = base + size::AT_STATISTICS +
	    p.step % size::QUERY_PLACES * size::LSE_DELTA +
	    (own_group() * size::NEXT_ROWS + threadIdx.x % 4 * 2) * 4;
	step_note n;

	wait_full(base + size::AT_QUERIES_FULL, queries_at<D>(p.step));
	issue_own_rows<T, D>(l.scores, base + size::AT_KEYS, queries_of<D>(base, p.step));
	if (!FIRST)
		issue_wide_rest<T, D>(l, base, p);
	wgmma_wait<FIRST ? 0 : 2>();
	sums_done(l.scores);
	n = *step_note_at<D>(base, p.step);
	weigh_rows<T, D, HOW>(l, call, base, n, statistics);
	if (!FIRST)
		give_first_part<T, D>(l, call, base, p);
	share_elements<D>(l, base + size::AT_WEIGHTS, weights, p.step);
	wait_full(dout_full, dout_at<D>(p.step));
	issue_own_rows<T, D>(l.weights_in, base + size::AT_VALUES, dout);
	wait_full(weights, gradients_at(p.step));
	wgmma_fence();
	issue_own_columns<T, D>(l.dv, base + size::AT_WEIGHTS, dout);
	wgmma_wait<1>();
	sums_done(l.weights_in);
	take_gradients<D, HOW>(l, statistics + size::ROWS * 4, 0, 1);
	round_gradients<T, D>(l);
	if (!FIRST) {
		sums_done(l.dq);
		free_place(gradients, gradients_at(p.step - 1));
		give_dq<T, D>(l.dq, call, base, p, 1);
	}
	wgmma_wait<0>();
	sums_done(l.dv);
	free_place(dout_full, dout_at<D>(p.step));
	free_place(weights, gradients_at(p.step));
	share_elements<D>(l, base + size::AT_GRADIENTS, gradients, p.step);
	p.kind = n.kind;
	p.step++;
}

/* All steps of a column. Keys are read until the last dq. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
wide_steps(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p, int steps)
{
	typedef column_size<D> size;

	wide_step<T, D, HOW, true>(l, call, base, p);
	for (int i = 1; i < steps; i++)
		wide_step<T, D, HOW, false>(l, call, base, p);
	issue_wide_rest<T, D>(l, base, p);
	give_first_part<T, D>(l, call, base, p);
	wgmma_wait<0>();
	sums_done(l.dq);
	free_place(base + size::AT_GRADIENTS_FULL, gradients_at(p.step - 1));
	barrier_arrive(base + size::AT_KEYS_FULL + 8);
	give_dq<T, D>(l.dq, call, base, p, 1);
}

#endif
