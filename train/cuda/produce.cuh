/*
 * produce.cuh - results that go into 8 bits as they are made: the tiles of quantise.cuh, from what
 * an operation computes in place of what it has stored
 *
 * A maker is a struct of an operation's inputs. It has RESULTS, how many results it makes of a
 * tile, at most RESULTS_MAX, and a function make() of four rows and eight columns of each, in BF16.
 * These are copied bit for bit as quantise would copy them.
 */
#ifndef TRAIN_CUDA_PRODUCE_CUH
#define TRAIN_CUDA_PRODUCE_CUH

#include "train/cuda/quantise.cuh"

/* As many as a thread holds of lines. */
enum { RESULTS_MAX = 2 };

/* Where a result goes, from column `first` on; without data: not there. */
struct target {
	struct tensor kept, q, qt;
	enum dtype type;              /* of the copies */
	const float *factor;          /* of copies by one factor, else NULL */
	struct tensor scale, scale_t; /* of lines */
	int *amax;
	/* the host's: the factor is to follow from the largest; or NULL */
	const struct quantise *current;
	int64_t first;
};

/* All of a call: results of so many rows and columns. */
struct targets {
	struct target of[RESULTS_MAX];
	int64_t rows, columns;
};

/* A quad of rows of a tile: its place, and whether there is anything. */
struct spot {
	int64_t row, column;
	int quad, group;
	bool inside;
};

static __device__ inline struct spot
spot_of(const struct targets &t, int half)
{
	struct place p = place_of();
	struct spot s = { p.row + half * (SIDE / 2), p.column, p.quad + half * (QUADS / HALVES),
		p.group, false };

	s.inside = s.row < t.rows && s.column < t.columns;
	return s;
}

/* Four rows of every result; zeros where there is nothing. */
template <typename M> struct made {
	pack<bf16, COLUMNS> of[M::RESULTS][ROWS];
};

/* What a block has in shared memory. */
template <typename M> struct workplace {
	struct transposed tile[M::RESULTS];
	struct column_room<bf16> room;
};

/* By the type of the target. */
static __device__ inline struct codes
encode_for(const struct target &t, const pack<bf16, COLUMNS> (&x)[ROWS],
    const float (&by_row)[ROWS], const float (&by_column)[COLUMNS])
{
	return t.type == DTYPE_F8_E4M3 ? encode<bf16, DTYPE_F8_E4M3>(x, by_row, by_column)
				       : encode<bf16, DTYPE_F8_E5M2>(x, by_row, by_column);
}

/* Stores four rows of a result as they are. */
static __device__ inline void
keep(const struct target &t, const pack<bf16, COLUMNS> (&x)[ROWS], const struct spot &s)
{
#pragma unroll
	for (int i = 0; i < ROWS; i++)
		if (s.inside && t.kept.data)
			move<bf16, COLUMNS>(
			    row_of<bf16>(t.kept, s.row + i) + t.first + s.column, &x[i]);
}

/* The transposes of a tile go out, when all of it is transposed. */
template <typename M>
static __device__ inline void
write_transposes(const struct targets &t, const struct workplace<M> &w)
{
	__syncthreads();
#pragma unroll
	for (int k = 0; k < M::RESULTS; k++)
		if (t.of[k].qt.data)
			write_transposed(t.of[k].qt, &w.tile[k], t.of[k].first, t.columns);
}

/* --- one factor ------------------------------------------------------------------------------- */

/* A tile of every result, each by one factor; without copies, their largest numbers alone. */
template <typename M>
static __device__ inline void
tile_by_factors(const M &maker, const struct targets &t, struct workplace<M> *w)
{
	const float alike[COLUMNS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	uint32_t most[M::RESULTS] = {};

#pragma unroll 1
	for (int half = 0; half < HALVES; half++) {
		struct spot s = spot_of(t, half);
		struct made<M> made = make(maker, s);

#pragma unroll
		for (int k = 0; k < M::RESULTS; k++) {
			const struct target &to = t.of[k];
			const float f = to.factor ? *to.factor : 1, by_row[ROWS] = { f, f, f, f };
			struct codes v;

#pragma unroll
			for (int i = 0; i < ROWS; i++)
				most[k] =
				    max(most[k], largest_stored(magnitudes_of(made.of[k][i])));
			keep(to, made.of[k], s);
			if (!to.factor)
				continue;
			v = encode_for(to, made.of[k], by_row, alike);
			if (to.q.data && s.inside)
				write_rows(to.q, v, s.row, to.first + s.column);
			if (to.qt.data)
				transpose(&w->tile[k], v, s.quad, s.group);
		}
	}
	write_transposes(t, *w);
#pragma unroll
	for (int k = 0; k < M::RESULTS; k++)
		if (t.of[k].amax)
			raise_amax(t.of[k].amax, block_largest(as_float_bits<bf16>(most[k])));
}

/* --- lines ------------------------------------------------------------------------------------ */

/* The copies of four rows of a result, and the scales of their lines. */
static __device__ inline void
put_rows(const struct target &t, const pack<bf16, COLUMNS> (&x)[ROWS], const struct spot &s)
{
	const float alike[COLUMNS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	float by_row[ROWS], *to = row_of<float>(t.scale, t.first / SIDE + blockIdx.y) + s.row;
	struct codes v;

	if (t.type == DTYPE_F8_E4M3)
		row_factors<bf16, DTYPE_F8_E4M3>(by_row, x, to, s.inside);
	else
		row_factors<bf16, DTYPE_F8_E5M2>(by_row, x, to, s.inside);
	v = encode_for(t, x, by_row, alike);
	if (s.inside)
		write_rows(t.q, v, s.row, t.first + s.column);
}

/* The factors of the tile's columns, and the scales of their lines. */
static __device__ inline void
find_columns(struct column_room<bf16> *room, const struct target &t, int64_t columns,
    const pack<bf16, COLUMNS> (&x)[HALVES][ROWS])
{
	struct magnitudes<bf16> most = magnitudes_of(x[0][0]);
	int64_t first = blockIdx.y * (int64_t)SIDE;
	float *to = row_of<float>(t.scale_t, blockIdx.z) + t.first + first;

#pragma unroll
	for (int i = 1; i < HALVES * ROWS; i++)
		join(&most, magnitudes_of(x[i / ROWS][i % ROWS]));
	if (t.type == DTYPE_F8_E4M3)
		column_factors<bf16, DTYPE_F8_E4M3>(room, most, to, columns - first);
	else
		column_factors<bf16, DTYPE_F8_E5M2>(room, most, to, columns - first);
}

/* A tile of every result, by lines: it is held until the factors of its columns are known. */
template <typename M>
static __device__ inline void
tile_by_lines(const M &maker, const struct targets &t, struct workplace<M> *w)
{
	const float alike[ROWS] = { 1, 1, 1, 1 };
	pack<bf16, COLUMNS> x[M::RESULTS][HALVES][ROWS];

#pragma unroll
	for (int half = 0; half < HALVES; half++) {
		struct spot s = spot_of(t, half);
		struct made<M> made = make(maker, s);

#pragma unroll
		for (int k = 0; k < M::RESULTS; k++) {
#pragma unroll
			for (int i = 0; i < ROWS; i++)
				x[k][half][i] = made.of[k][i];
			keep(t.of[k], made.of[k], s);
			if (t.of[k].q.data)
				put_rows(t.of[k], made.of[k], s);
		}
	}
#pragma unroll
	for (int k = 0; k < M::RESULTS; k++) {
		float by_column[COLUMNS];

		if (!t.of[k].qt.data)
			continue;
		find_columns(&w->room, t.of[k], t.columns, x[k]);
		take_factors(by_column, w->room);
#pragma unroll
		for (int half = 0; half < HALVES; half++) {
			struct spot s = spot_of(t, half);

			transpose(&w->tile[k], encode_for(t.of[k], x[k][half], alike, by_column),
			    s.quad, s.group);
		}
	}
	write_transposes(t, *w);
}

/* --- launching -------------------------------------------------------------------------------- */

template <typename M, bool LINES>
static __device__ inline void
produce_tile(const M &maker, const struct targets &t, struct workplace<M> *w)
{
	if (LINES)
		tile_by_lines(maker, t, w);
	else
		tile_by_factors(maker, t, w);
}

/* Blocks on an SM: as many as have registers for all that a thread asks for at once. */
template <typename M, bool LINES> struct produce_blocks {
	enum { count = LINES || M::RESULTS > 1 ? 2 : 3 };
};

template <typename M, bool LINES>
static __global__ void
__launch_bounds__(CU_THREADS, produce_blocks<M, LINES>::count)
    produce_kernel(M maker, struct targets t)
{
	__shared__ struct workplace<M> w;

	produce_tile<M, LINES>(maker, t, &w);
}

/* Two makers that read the same: blocks that follow each other take the same tile, so that the
 * second finds it in the cache. */
template <typename M, typename N, bool LINES>
static __global__ void
__launch_bounds__(CU_THREADS, 2)
    produce_both_kernel(M first, struct targets t, N second, struct targets u)
{
	__shared__ union {
		struct workplace<M> m;
		struct workplace<N> n;
	} w;

	if (blockIdx.x == 0)
		produce_tile<M, LINES>(first, t, &w.m);
	else
		produce_tile<N, LINES>(second, u, &w.n);
}

/* Where a result shaped like `like` is kept, and the copies of it; rows are multiples of 4, or of
 * 16 for a transpose, columns of 16. */
static inline struct target
target_of(const struct tensor *kept, const struct quantise *q, const struct tensor *like)
{
	struct target t = {};
	int64_t rows = like->shape[0], columns = like->shape[1];
	float *scale = (float *)q->scale.data;
	bool block = q->kind == QUANTISE_BLOCK, current = q->kind == QUANTISE_CURRENT;

	t.kept = *kept;
	ops_require(cu_packs(kept, 16 / (int)dtype_size(like->dtype)));
	ops_require(!q->sums.data || kept->data);
	if (!quantise_makes(q))
		return t;
	ops_require(rows % (q->qt.data ? 16 : ROWS) == 0 && columns % 16 == 0);
	ops_require(!q->q.data || (tensor_same_shape(&q->q, like) && cu_packs(&q->q, 16)));
	ops_require(!q->qt.data ||
	    (q->qt.shape[0] == columns && q->qt.shape[1] == rows && cu_packs(&q->qt, 16)));
	ops_require(block || tensor_elements(&q->scale) == SCALE_ROW);
	ops_require(!block || !q->q.data || scale_kind(&q->scale, &q->q) == SCALE_LINES);
	ops_require(!block || !q->qt.data || scale_kind(&q->scale_t, &q->qt) == SCALE_LINES);
	t.q = q->q;
	t.qt = q->qt;
	t.type = q->q.data ? q->q.dtype : q->qt.dtype;
	t.factor = block ? NULL : scale + SCALE_FACTOR;
	t.amax = current ? NULL : (int *)q->amax.data;
	t.current = current ? q : NULL;
	if (block && q->q.data)
		t.scale = q->scale;
	if (block && q->qt.data)
		t.scale_t = q->scale_t;
	return t;
}

/* Whether the copies of a call are of lines; all are then. */
static inline bool
by_lines(const struct targets &t)
{
	bool lines = false, whole = false;

	for (int k = 0; k < RESULTS_MAX; k++) {
		lines = lines || t.of[k].scale.data || t.of[k].scale_t.data;
		whole = whole || t.of[k].factor;
	}
	ops_require(!(lines && whole));
	return lines;
}

/* Factors that follow from results' own largest numbers need a making for these. Results of one
 * call are parts of one tensor, with one factor. */
template <typename M>
static void
find_factor(struct stream *st, const M &maker, const struct targets &t)
{
	const struct target *to = &t.of[0];
	struct targets largest = {};

	if (!to->current)
		return;
	largest.rows = t.rows;
	largest.columns = t.columns;
	for (int k = 0; k < M::RESULTS; k++)
		largest.of[k].amax = (int *)((float *)to->current->scale.data + SCALE_FACTOR);
	cu_current_begin(st, to->current);
	produce_kernel<M, false>
	    <<<tiles_of(1, t.rows, t.columns), CU_THREADS, 0, cu_handle(st)>>>(maker, largest);
	cu_current_end(st, to->current);
}

/* The results of a call go where they belong. */
template <typename M>
static void
produce(struct stream *st, const M &maker, const struct targets &t)
{
	if (t.rows == 0 || t.columns == 0)
		return;
	find_factor(st, maker, t);
	(by_lines(t)
		? produce_kernel<M, true>
		: produce_kernel<M,
		      false>)<<<tiles_of(1, t.rows, t.columns), CU_THREADS, 0, cu_handle(st)>>>(
	    maker, t);
}

/* Those of two calls on the same rows and columns, of which the second is not kept in the place of
 * what the first reads. */
template <typename M, typename N>
static void
produce_both(struct stream *st, const M &first, const struct targets &t, const N &second,
    const struct targets &u)
{
	if (t.rows == 0 || t.columns == 0)
		return;
	find_factor(st, first, t);
	find_factor(st, second, u);
	ops_require(by_lines(t) == by_lines(u));
	(by_lines(t)
		? produce_both_kernel<M, N, true>
		: produce_both_kernel<M, N,
		      false>)<<<tiles_of(2, t.rows, t.columns), CU_THREADS, 0, cu_handle(st)>>>(
	    first, t, second, u);
}

#endif
