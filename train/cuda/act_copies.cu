/*
 * act_copies.cu - activations and their gradients straight into 8 bits
 *
 * A block makes a tile of y from the tiles of gate and up that it reads, or of y and both halves of
 * the gradient from dy too, and copies what it has made as quantise would copy the stored numbers
 * (quantise.cuh). So what was written to be read again is not: of SwiGLU's backward pass, with y
 * rebuilt for its transpose and nothing kept in 16 bits, 11 bytes an element of y are moved in
 * place of 23.
 */
#include "train/cuda/act.cuh"
#include "train/cuda/quantise.cuh"

/* Where a result goes; without data: not there. */
struct target {
	struct tensor kept, q, qt;
	enum dtype type; /* of the copies */
	const float *factor;
	int *amax;
	bool wanted;
};

struct copies_call {
	enum act_kind kind;
	bool gated;
	int64_t columns; /* of y */
	struct tensor x, dy;
	struct target y, dx;
};

/* What four rows of a thread's part become. */
template <typename T> struct results {
	pack<T, COLUMNS> y[ROWS], gate[ROWS], up[ROWS];
};

/* A quad of rows: where it begins, and whether it lies in the tensors. */
struct spot {
	int64_t row, column;
	bool inside;
};

/* Zeros where there is nothing, which become zeros. */
template <typename T, bool BACKWARD>
static __device__ inline struct results<T>
compute(const struct copies_call &c, const struct spot &s) {
	struct results<T> r;

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		const T *x = row_of<T>(c.x, s.row + i) + s.column;
		float gate[COLUMNS] = {}, up[COLUMNS] = {}, dy[COLUMNS] = {}, y[COLUMNS];

		if (s.inside) {
			load(gate, x);
			if (c.gated)
				load(up, x + c.columns);
			if (BACKWARD)
				load(dy, row_of<T>(c.dy, s.row + i) + s.column);
		}
		if (BACKWARD)
			act_backward(c.kind, y, gate, up, dy);
		else
			act_forward(c.kind, y, gate, up);
		r.y[i] = packed<T, COLUMNS>(y);
		r.gate[i] = packed<T, COLUMNS>(gate);
		r.up[i] = packed<T, COLUMNS>(up);
	}
	return r;
}

/* The rows of a result go out, kept and copied; their codes, and their part in the largest. */
template <typename T>
static __device__ inline struct codes
deliver(
    const struct target &t, const pack<T, COLUMNS> (&x)[ROWS], const struct spot &s, uint32_t *most)
{
	const float f = *t.factor, by_row[ROWS] = { f, f, f, f },
		    alike[COLUMNS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	struct codes v = t.type == DTYPE_F8_E4M3 ? encode<T, DTYPE_F8_E4M3>(x, by_row, alike)
						 : encode<T, DTYPE_F8_E5M2>(x, by_row, alike);

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		*most = max(*most, largest_of(x[i]));
		if (s.inside && t.kept.data)
			move<T, COLUMNS>(row_of<T>(t.kept, s.row + i) + s.column, &x[i]);
	}
	if (s.inside && t.q.data)
		write_rows(t.q, v, s.row, s.column);
	return v;
}

/* A target's largest so far. */
static __device__ inline void
finish(const struct target &t, uint32_t most)
{
	if (t.wanted && t.amax)
		raise_amax(t.amax, block_largest(most));
}

/* One tile of y. The transpose of y waits in registers until those of the gradient have gone. */
template <typename T, bool BACKWARD>
static __global__ void
__launch_bounds__(CU_THREADS, 2) act_copies_kernel(struct copies_call c)
{
	__shared__ struct turned turned[BACKWARD ? 2 : 1];
	const struct place p = place_of();
	struct codes y[HALVES] = {};
	uint32_t most_y = 0, most_dx = 0;

#pragma unroll
	for (int half = 0; half < HALVES; half++) {
		int quad = p.quad + half * (QUADS / HALVES);
		int64_t row = p.row + half * (SIDE / 2);
		struct spot s = { row, p.column, row < c.x.shape[0] && p.column < c.columns };
		struct results<T> r = compute<T, BACKWARD>(c, s);

		if (c.y.wanted)
			y[half] = deliver(c.y, r.y, s, &most_y);
		if (!BACKWARD)
			continue;
		turn(&turned[0], deliver(c.dx, r.gate, s, &most_dx), quad, p.group);
		s.column += c.columns;
		if (c.gated)
			turn(&turned[BACKWARD], deliver(c.dx, r.up, s, &most_dx), quad, p.group);
	}
	__syncthreads();
	if (BACKWARD && c.dx.qt.data)
		write_turned(c.dx.qt, &turned[0], 0, c.columns);
	if (BACKWARD && c.dx.qt.data && c.gated)
		write_turned(c.dx.qt, &turned[BACKWARD], c.columns, c.columns);
	if (c.y.wanted && c.y.qt.data) {
		__syncthreads();
		turn(&turned[0], y[0], p.quad, p.group);
		turn(&turned[0], y[1], p.quad + QUADS / HALVES, p.group);
		__syncthreads();
		write_turned(c.y.qt, &turned[0], 0, c.columns);
	}
	finish(c.y, most_y);
	finish(c.dx, most_dx);
}

template <typename T>
static void
launch(struct stream *st, const struct copies_call *c)
{
	dim3 tiles(
	    (unsigned)int64_div_up(c->columns, SIDE), (unsigned)int64_div_up(c->x.shape[0], SIDE));

	(c->dy.data ? act_copies_kernel<T, true>
		    : act_copies_kernel<T, false>)<<<tiles, CU_THREADS, 0, cu_handle(st)>>>(*c);
}

/* A result's destinations, for one of rows x columns. */
static struct target
target_of(const struct quantise *q, const struct tensor *like, int64_t columns)
{
	struct target t = {};
	int64_t rows = like->shape[0];

	if (!q)
		return t;
	ops_require(q->kind == QUANTISE_DELAYED && !q->sums.data && (q->q.data || q->qt.data));
	ops_require(tensor_num_rows(&q->x) == rows && tensor_num_columns(&q->x) == columns);
	ops_require(!q->x.data ||
	    (q->x.dtype == like->dtype && cu_packs(&q->x, 16 / (int)dtype_size(like->dtype))));
	ops_require(!q->q.data || (tensor_same_shape(&q->q, &q->x) && cu_packs(&q->q, 16)));
	ops_require(!q->qt.data ||
	    (q->qt.shape[0] == columns && q->qt.shape[1] == rows && rows % 16 == 0 &&
		cu_packs(&q->qt, 16)));
	t.kept = q->x;
	t.q = q->q;
	t.qt = q->qt;
	t.type = q->q.data ? q->q.dtype : q->qt.dtype;
	t.factor = (const float *)q->scale.data + SCALE_FACTOR;
	t.amax = (int *)q->amax.data;
	t.wanted = true;
	return t;
}

/* Columns of y are multiples of 16, rows of 4, or of 16 where there is a transpose. */
void
cuda_act_copies(struct stream *st, enum act_kind kind, const struct act_copies *a)
{
	struct copies_call c = {};

	if (!cu_has_float8(st, "act_copies"))
		return;
	c.kind = kind;
	c.gated = act_gated(kind);
	c.columns = a->x.shape[1] / (c.gated ? 2 : 1);
	c.x = a->x;
	c.dy = a->dy;
	ops_require(a->x.ndim == 2 && a->x.shape[0] % ROWS == 0 && c.columns % 16 == 0);
	ops_require(cu_packs(&a->x, 16 / (int)dtype_size(a->x.dtype)));
	ops_require(!a->dy.data ||
	    (a->dy.dtype == a->x.dtype && a->dy.shape[0] == a->x.shape[0] &&
		a->dy.shape[1] == c.columns && cu_packs(&a->dy, 16 / (int)dtype_size(a->x.dtype))));
	ops_require(a->dy.data ? a->dx != NULL : a->y && !a->dx);
	c.y = target_of(a->y, &a->x, c.columns);
	c.dx = target_of(a->dx, &a->x, a->x.shape[1]);
	if (tensor_elements(&a->x) > 0)
		PICK(a->x.dtype, launch)(st, &c);
	cu_launched(st, "act_copies");
}
