/*
 * quantise.cu - 8-bit copies of matrices and of their transposes, and the factors they are made by
 *
 * A block takes a tile (quantise.cuh), which it holds in registers from one reading; so the copies
 * cost what they move: 2 bytes read and 1 or 2 written for an element of 16 bits.
 *
 * Of blocks (QUANTISE_BLOCK) a tile holds whole ones in either direction, so their largest numbers
 * need no second reading. Source: docs/math.md 6; DeepSeek-AI 2024 arXiv:2412.19437, 3.3.
 */
#include "train/cuda/quantise.cuh"

/* What has a factor of its own: all of x, each 128 neighbours of a row (and of a column, for the
 * transpose), or each 128 x 128. */
enum { WHOLE, LINES, SQUARES };

/* One call's arguments. */
struct copy_call {
	struct tensor x, q, qt;       /* q, qt without data: not wanted */
	const float *factor;          /* WHOLE */
	struct tensor scale, scale_t; /* LINES, SQUARES: written */
	int *amax; /* the bits of a float, which are in the order of their numbers */
};

/* Whether a half of the part lies in x: all of it does, or nothing, as rows are multiples of 4, and
 * columns of 16. */
static __device__ inline bool
inside(const struct copy_call &c, const struct place &p, int half)
{
	return p.row + half * (SIDE / 2) < c.x.shape[0] && p.column < c.x.shape[1];
}

/* Zeros where there is nothing. */
template <typename T>
static __device__ inline void
load_part(pack<T, COLUMNS> (&x)[HALVES][ROWS], const struct copy_call &c, const struct place &p)
{
#pragma unroll
	for (int half = 0; half < HALVES; half++)
#pragma unroll
		for (int i = 0; i < ROWS; i++)
			x[half][i] = inside(c, p, half)
			    ? fetch<T, COLUMNS>(
				  row_of<T>(c.x, p.row + half * (SIDE / 2) + i) + p.column)
			    : pack<T, COLUMNS>();
}

/* --- largest numbers -------------------------------------------------------------------------- */

/* Of a whole matrix. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) largest_kernel(struct tensor x, int *amax, struct walk w)
{
	uint32_t most = 0;
	float all;

	FOR_PACKS(w, r, i)
	most = max(most, largest_of(fetch<T, N>(row_of<T>(x, r) + i * N)));
	all = block_largest(most);
	raise_amax(amax, all);
}

/* --- factors ---------------------------------------------------------------------------------- */

/* The factor and its inverse; both stay where there is no maximum to follow. As cpu/quantise.c. */
static __device__ inline void
set_scale(float *scale, float most, float largest, int margin)
{
	if (!(most > 0 && most < INFINITY))
		return;
	scale[SCALE_FACTOR] = fminf(SCALE_MAX, ldexpf(largest / most, -margin));
	scale[SCALE_INVERSE] = 1 / scale[SCALE_FACTOR];
}

/* The place of the factor holds the maximum. */
static __global__ void
current_kernel(float *scale, float *amax, float largest)
{
	float most = scale[SCALE_FACTOR];

	if (amax)
		*amax = fmaxf(*amax, most);
	scale[SCALE_FACTOR] = scale[SCALE_INVERSE] = 1;
	set_scale(scale, most, largest, 0);
}

/* The one factor of the tile. */
template <int F8>
static __device__ inline float
square_factor(const struct copy_call &c, float largest)
{
	int e = block_exponent<F8>(__float_as_uint(largest));

	if (threadIdx.x == 0 && c.scale.data)
		row_of<float>(c.scale, blockIdx.z)[blockIdx.y] = power(-e);
	if (threadIdx.x == 0 && c.scale_t.data)
		row_of<float>(c.scale_t, blockIdx.y)[blockIdx.z] = power(-e);
	return power(e);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* The bits of the largest of a part. */
template <typename T>
static __device__ inline uint32_t
part_largest(const pack<T, COLUMNS> (&x)[HALVES][ROWS])
{
	uint32_t most = 0;

#pragma unroll
	for (int i = 0; i < HALVES * ROWS; i++)
		most = max(most, largest_stored(magnitudes_of(x[i / ROWS][i % ROWS])));
	return as_float_bits<T>(most);
}

/* One tile of one factor. */
template <typename T, int F8, int KIND>
static __global__ void
__launch_bounds__(CU_THREADS) copy_kernel(struct copy_call c)
{
	__shared__ struct transposed transposed;
	const struct place p = place_of();
	const float alike[COLUMNS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	pack<T, COLUMNS> x[HALVES][ROWS];
	uint32_t most;
	float f;

	load_part(x, c, p);
	most = part_largest(x);
	f = KIND == SQUARES ? square_factor<F8>(c, block_largest(most)) : *c.factor;
#pragma unroll
	for (int half = 0; half < HALVES; half++) {
		const float by_row[ROWS] = { f, f, f, f };
		struct codes v = encode<T, F8>(x[half], by_row, alike);

		if (c.q.data && inside(c, p, half))
			write_rows(c.q, v, p.row + half * (SIDE / 2), p.column);
		if (c.qt.data)
			transpose(&transposed, v, p.quad + half * (QUADS / HALVES), p.group);
	}
	__syncthreads();
	if (c.qt.data)
		write_transposed(c.qt, &transposed, 0, c.x.shape[1]);
	if (KIND == WHOLE && c.amax)
		raise_amax(c.amax, block_largest(most));
}

/* One tile of lines: the transpose has other factors, hence other codes. Three blocks on an SM, as
 * the steps wait for each other. */
template <typename T, int F8>
static __global__ void
__launch_bounds__(CU_THREADS, 3) lines_kernel(struct copy_call c)
{
	__shared__ struct transposed transposed;
	__shared__ struct column_room<T> room;
	const struct place p = place_of();
	const float columns_alike[COLUMNS] = { 1, 1, 1, 1, 1, 1, 1, 1 },
		    rows_alike[ROWS] = { 1, 1, 1, 1 };
	pack<T, COLUMNS> x[HALVES][ROWS];
	float by_column[COLUMNS];
	struct magnitudes<T> mine;

	load_part(x, c, p);
#pragma unroll
	for (int half = 0; c.q.data && half < HALVES; half++) {
		int64_t row = p.row + half * (SIDE / 2);
		float by_row[ROWS];
		struct codes v;

		row_factors<T, F8>(
		    by_row, x[half], row_of<float>(c.scale, blockIdx.y) + row, inside(c, p, half));
		v = encode<T, F8>(x[half], by_row, columns_alike);
		if (inside(c, p, half))
			write_rows(c.q, v, row, p.column);
	}
	if (!c.qt.data)
		return;
	mine = magnitudes_of(x[0][0]);
#pragma unroll
	for (int i = 1; i < HALVES * ROWS; i++)
		join(&mine, magnitudes_of(x[i / ROWS][i % ROWS]));
	column_factors<T, F8>(&room, mine,
	    row_of<float>(c.scale_t, blockIdx.z) + blockIdx.y * (int64_t)SIDE,
	    c.x.shape[1] - blockIdx.y * (int64_t)SIDE);
	take_factors(by_column, room);
#pragma unroll
	for (int half = 0; half < HALVES; half++)
		transpose(&transposed, encode<T, F8>(x[half], rows_alike, by_column),
		    p.quad + half * (QUADS / HALVES), p.group);
	__syncthreads();
	write_transposed(c.qt, &transposed, 0, c.x.shape[1]);
}

template <typename T, int F8>
static void
launch_copy(struct stream *st, const struct copy_call *c, int kind)
{
	static void (*const kernel[])(struct copy_call) = { copy_kernel<T, F8, WHOLE>,
		lines_kernel<T, F8>, copy_kernel<T, F8, SQUARES> };

	kernel[kind]<<<tiles_of(1, c->x.shape[0], c->x.shape[1]), CU_THREADS, 0, cu_handle(st)>>>(
	    *c);
}

template <typename T>
static void
copy(struct stream *st, const struct copy_call *c, int kind)
{
	enum dtype type = c->q.data ? c->q.dtype : c->qt.dtype;

	(type == DTYPE_F8_E4M3 ? launch_copy<T, DTYPE_F8_E4M3> : launch_copy<T, DTYPE_F8_E5M2>)(st,
	    c, kind);
}

template <typename T>
static void
largest(struct stream *st, const struct tensor *x, int *amax)
{
	bool wide = cu_packs(x, full<T>::width);
	struct walk w =
	    walk_of(st, tensor_num_rows(x), tensor_num_columns(x), wide ? full<T>::width : 1);

	(wide ? largest_kernel<T, full<T>::width>
	      : largest_kernel<T, 1>)<<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*x, amax, w);
}

void
cu_current_begin(struct stream *st, const struct quantise *q)
{
	float *scale = (float *)q->scale.data;

	cu_ok(st->device, cudaMemsetAsync(scale + SCALE_FACTOR, 0, sizeof *scale, cu_handle(st)),
	    "quantise");
}

void
cu_current_end(struct stream *st, const struct quantise *q)
{
	float *scale = (float *)q->scale.data;
	struct tensor largest = tensor_1d(scale + SCALE_FACTOR, DTYPE_F32, 1);

	if (q->share)
		q->share(q->sharer, st, &largest);
	current_kernel<<<1, 1, 0, cu_handle(st)>>>(scale, (float *)q->amax.data,
	    dtype_largest_float8(q->q.data ? q->q.dtype : q->qt.dtype));
}

/* The factor from x's largest, by way of its place. */
static void
set_current(struct stream *st, const struct quantise *q)
{
	cu_current_begin(st, q);
	PICK(q->x.dtype, largest)
	(st, &q->x, (int *)((float *)q->scale.data + SCALE_FACTOR));
	cu_current_end(st, q);
}

/* Shapes as in cpu/quantise.c; columns of copies are multiples of 16, rows too where there is a
 * transpose, else of 4, and addresses and the bytes of a row multiples of 16. */
static void
check_copies(const struct quantise *q)
{
	const struct tensor *x = &q->x;

	ops_require(x->shape[0] % (q->qt.data ? 16 : ROWS) == 0 && x->shape[1] % 16 == 0);
	ops_require(cu_packs(x, 16 / (int)dtype_size(x->dtype)));
	ops_require(!q->q.data || (tensor_same_shape(&q->q, x) && cu_packs(&q->q, 16)));
	ops_require(!q->qt.data ||
	    (q->qt.shape[0] == x->shape[1] && q->qt.shape[1] == x->shape[0] &&
		cu_packs(&q->qt, 16)));
	ops_require(!q->q.data || !q->qt.data || q->q.dtype == q->qt.dtype);
	ops_require(dtype_is_float8(q->q.data ? q->q.dtype : q->qt.dtype));
	ops_require(q->kind == QUANTISE_BLOCK || tensor_elements(&q->scale) == SCALE_ROW);
}

/* What has a factor of its own, by the shapes of the scales. */
static int
kind_of(const struct quantise *q)
{
	enum scale_kind row = SCALE_TENSOR, column = SCALE_TENSOR;

	if (q->kind != QUANTISE_BLOCK)
		return WHOLE;
	if (q->q.data)
		row = scale_kind(&q->scale, &q->q);
	if (q->qt.data)
		column = scale_kind(&q->scale_t, &q->qt);
	ops_require(!q->q.data || !q->qt.data || row == column);
	row = q->q.data ? row : column;
	ops_require(row != SCALE_TENSOR && !q->amax.data);
	return row == SCALE_LINES ? LINES : SQUARES;
}

bool
cu_has_float8(struct stream *st, const char *what)
{
	if (!st->device->float8)
		cu_fail(
		    st->device, what, "8-bit floats need a GPU of compute capability 8.9 or later");
	return st->device->float8;
}

/* The largest alone is of any GPU; 8 bits are not. */
static void
make_copies(struct stream *st, const struct quantise *q)
{
	struct copy_call c = {};
	bool current = q->kind == QUANTISE_CURRENT;

	if (!cu_has_float8(st, "quantise"))
		return;
	check_copies(q);
	if (current)
		set_current(st, q);
	c.x = q->x;
	c.q = q->q;
	c.qt = q->qt;
	c.factor = (const float *)q->scale.data + SCALE_FACTOR;
	c.amax = current ? NULL : (int *)q->amax.data;
	if (q->kind == QUANTISE_BLOCK && q->q.data)
		c.scale = q->scale;
	if (q->kind == QUANTISE_BLOCK && q->qt.data)
		c.scale_t = q->scale_t;
	PICK(q->x.dtype, copy)(st, &c, kind_of(q));
}

/* A bias's gradient is summed as beside a GEMM. */
void
cu_quantise_sums(struct stream *st, const struct tensor *x, const struct quantise *q)
{
	struct fill none = { q->sums, 0 };

	if (q->sums.data && !q->accumulate)
		cuda_fill(st, &none);
	if (q->sums.data)
		cu_column_sum(st, &q->sums, x);
}

void
cuda_quantise(struct stream *st, const struct quantise *q)
{
	ops_require(q->x.ndim == 2);
	cu_quantise_sums(st, &q->x, q);
	if (tensor_elements(&q->x) == 0)
		return;
	if (q->counts.data)
		cu_quantise_rows(st, q);
	else if (q->q.data || q->qt.data)
		make_copies(st, q);
	else if (q->amax.data)
		PICK(q->x.dtype, largest)(st, &q->x, (int *)q->amax.data);
	cu_launched(st, "quantise");
}

/* --- histories -------------------------------------------------------------------------------- */

/* A block a slot. The history moves on from its end, as many places at once as there are threads,
 * and each of them is read before any is written. */
static __global__ void
__launch_bounds__(CU_THREADS) scales_kernel(struct scales s)
{
	int slot = blockIdx.x;
	int64_t length = s.history.shape[1];
	float *history = (float *)s.history.data + slot * length,
	      *amax = (float *)s.amax.data + slot;
	float newest = *amax < INFINITY ? *amax : 0, most = newest;

	for (int64_t end = length; end > 1; end -= CU_THREADS) {
		int64_t place = end - 1 - threadIdx.x;
		float old = place > 0 ? history[place - 1] : 0;

		__syncthreads();
		if (place > 0)
			history[place] = old;
		most = s.most_recent ? most : fmaxf(most, old);
	}
	most = block_max(most);
	if (threadIdx.x > 0)
		return;
	history[0] = newest;
	*amax = 0;
	set_scale((float *)s.scale.data + SCALE_ROW * slot, most,
	    ((const float *)s.largest.data)[slot], s.margin);
}

/* Shapes as in cpu/quantise.c. */
void
cuda_scales(struct stream *st, const struct scales *s)
{
	int64_t slots = s->history.shape[0];

	ops_require(tensor_elements(&s->amax) == slots && tensor_elements(&s->largest) == slots);
	ops_require(tensor_elements(&s->scale) == SCALE_ROW * slots && s->history.shape[1] > 0);
	if (slots > 0)
		scales_kernel<<<(unsigned)slots, CU_THREADS, 0, cu_handle(st)>>>(*s);
	cu_launched(st, "scales");
}
