/*
 * hopper_bwd.cuh - the backward pass for compute capability 9.0, for heads of up to D columns
 *
 * One block a multiprocessor works on columns, of turns.h: a block of keys stays in shared memory
 * with its values, and tiles of rows of queries and of dout come through two places. Two
 * warpgroups multiply 64 keys each, whose dk and dv stay in registers for all heads of the group;
 * of wide heads they share 64 keys, hopper_bwd_wide.cuh. Rows of the scores are keys, so that
 * weights and gradients of scores are operands in registers as they stand; for dq, whose sums run
 * over the keys of both warpgroups, gradients go through shared memory, and each warpgroup computes
 * a half of it.
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

#include "train/cuda/attention/hopper_bwd_wide.cuh"

/* --- the warpgroups that multiply: columns --------------------------------------------------- */

/* Stores a warpgroup's 64 rows of dk or dv. */
template <typename T, int D>
static __device__ inline void
store_column(const backward_call &call, const struct tensor &t, const column_note &c,
    const float (&x)[column_size<D>::OWN_COLUMNS / 2], float factor)
{
	typedef column_size<D> size;
	int64_t b = call.fwd.t.micro_batch;
	int key = c.key + own_group() * size::NEXT_KEYS, d = call.fwd.t.head_dim,
	    column = own_group() * size::NEXT_COLUMNS;
	struct corner to = { (bf16 *)t.data + (key * b + c.sample) * t.stride[0] +
		    (int64_t)(c.head / call.fwd.order.heads) * d + column,
		b * t.stride[0], (int)(t.shape[0] / b) - key, d - column };

#pragma unroll
	for (int i = 0; i < size::OWN_COLUMNS / 16; i++) {
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
store_part(const backward_call &call, float *parts, const column_note &c,
    const float (&x)[column_size<D>::OWN_COLUMNS / 2], float factor)
{
	typedef column_size<D> size;
	constexpr int WIDTH = size::WIDTH;
	int key = c.key + own_group() * size::NEXT_KEYS + own_line(), keys = call.rows.end;
	float *to = parts +
	    (((int64_t)c.sample * call.fwd.t.num_heads + c.head) * keys + key) * WIDTH +
	    own_group() * size::NEXT_COLUMNS + column_of(0);

#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int i = 0; i < size::OWN_COLUMNS / 2 && key + 8 * h < keys; i += 4)
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
		store_part<D>(call, call.parts[1], c, l.dv, call.fwd.drop.keep);
	} else {
		store_column<T, D>(call, call.dk, c, l.dk, call.scale);
		store_column<T, D>(call, call.dv, c, l.dv, call.fwd.drop.keep);
	}
}

/* All steps of a column. */
template <typename T, int D, enum weighing HOW>
static __device__ inline void
all_steps(column_lane<D> &l, const backward_call &call, uint32_t base, progress &p, int steps)
{
	if constexpr (column_size<D>::WIDE)
		wide_steps<T, D, HOW>(l, call, base, p, steps);
	else
		column_steps<T, D, HOW>(l, call, base, p, steps);
}

/* All columns of the block. */
template <typename T, int D, enum weighing HOW>
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
		for (int i = 0; i < size::OWN_COLUMNS / 2; i++)
			l.dk[i] = l.dv[i] = 0;
		sums_done(l.dk);
		sums_done(l.dv);
		if (steps > 0) {
			all_steps<T, D, HOW>(l, call, base, p, steps);
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

	if (threadIdx.x < column_size<D>::TURNS)
		call.turns[tile * column_size<D>::TURNS + threadIdx.x] = 0;
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

template <typename T, int D, enum weighing HOW>
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
			uint32_t full = sums_barriers(base + size::AT_SUMS_FULL, i);

			barrier_make(full, size::WIDE ? GROUP : 2 * GROUP);
			barrier_make(full + 8, 1);
			barrier_make(base + size::AT_FETCHED + i * 8, 1);
		}
		for (int i = 0; i < STEP_NOTES; i++)
			barrier_make(base + size::AT_NOTED + i * 8, 1);
		for (int at : { size::AT_GRADIENTS_FULL, size::AT_WEIGHTS_FULL }) {
			barrier_make(base + at, 2 * GROUP);
			barrier_make(base + at + 8, 2 * GROUP / 32);
		}
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
		multiply_columns<T, D, HOW>(call, base);
	}
}

/* A block for each multiprocessor, unless there are fewer columns or fewer are wanted. */
template <typename T, int D, enum weighing HOW>
static void
hopper_launch_columns(struct stream *st, const struct backward_call *call)
{
	void (*kernel)(const backward_call) = hopper_backward_kernel<T, D, HOW>;
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

/* As hopper_launch_weighing and hopper_launch_width. */
template <typename T, int D>
static void
hopper_columns_weighing(struct stream *st, const struct backward_call *call)
{
	void (*launch)(struct stream *, const struct backward_call *) =
	    hopper_launch_columns<T, D, PLAIN>;

	if constexpr (D > 64)
		launch = call->fwd.t.softcap > 0 ? hopper_launch_columns<T, D, CAPPED> : launch;
	if constexpr (D <= 128)
		launch = call->fwd.t.drop.p > 0 ? hopper_launch_columns<T, D, DROPPED> : launch;
	launch(st, call);
}

template <int D>
static void
hopper_columns_width(struct stream *st, const struct backward_call *call)
{
	if (call->fwd.t.q.dtype == DTYPE_BF16)
		hopper_columns_weighing<bf16, D>(st, call);
	else
		hopper_columns_weighing<half, D>(st, call);
}

#endif
