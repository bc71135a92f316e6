/*
 * act.cu - activation functions, and those that gate one half of a row by the other
 *
 * A thread takes a pack of y, and of a gated kind gate and up of it, so nothing is read after it
 * was written, in place or not.
 */
#include "train/cuda/act.cuh"
#include "train/cuda/early.cuh"

/* One call's arguments, passed to the kernels by value. */
struct act_call {
	struct act_curve act;
	bool gated;
	int64_t columns;            /* of y */
	struct tensor y, dx, dy, x; /* y without data: not wanted */
};

/* y = f(x), or f(gate) up. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) act_fwd_kernel(struct act_call a, struct walk w)
{
	let_next_begin();
	await_previous();
	FOR_PACKS(w, r, i)
	{
		const T *x = row_of<T>(a.x, r) + i * N;
		float gate[N], up[N], y[N];

		load(gate, x);
		if (a.gated)
			load(up, x + a.columns);
		act_forward(a.act, y, gate, up);
		store(row_of<T>(a.y, r) + i * N, y);
	}
}

/* dx = dy f'(x), or dgate = dy up f'(gate) and dup = dy f(gate); recomputes y if it is wanted. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) act_bwd_kernel(struct act_call a, struct walk w)
{
	let_next_begin();
	await_previous();
	FOR_PACKS(w, r, i)
	{
		const T *x = row_of<T>(a.x, r) + i * N;
		T *dx = row_of<T>(a.dx, r) + i * N;
		float gate[N], up[N], dy[N], y[N];

		load(gate, x);
		load(dy, row_of<T>(a.dy, r) + i * N);
		if (a.gated)
			load(up, x + a.columns);
		act_backward(a.act, y, gate, up, dy);
		if (a.y.data)
			store(row_of<T>(a.y, r) + i * N, y);
		store(dx, gate);
		if (a.gated)
			store(dx + a.columns, up);
	}
}

/* Whether all tensors of a call can be moved in packs of n. The halves of a gated row must begin
 * with one. */
static bool
packs(const struct act_call *a, int n)
{
	return a->columns % n == 0 && cu_packs(&a->y, n) && cu_packs(&a->dx, n) &&
	    cu_packs(&a->dy, n) && cu_packs(&a->x, n);
}

/* Dense rows of a kind without gate are one vector. */
static void
flatten(struct act_call *a, int64_t *rows)
{
	struct tensor *t[4] = { &a->y, &a->dx, &a->dy, &a->x };

	for (int i = 0; i < 4; i++)
		if (a->gated ||
		    (t[i]->data && t[i]->ndim == 2 && t[i]->stride[0] != t[i]->shape[1]))
			return;
	for (int i = 0; i < 4; i++)
		if (t[i]->data)
			*t[i] = tensor_flat(t[i]);
	a->columns *= *rows;
	*rows = 1;
}

/* The same kernel for single elements and for packs. */
struct act_kernels {
	void (*one)(struct act_call a, struct walk w);
	void (*pack)(struct act_call a, struct walk w);
};

/* One thread per pack of y or dy; a pack of dy writes both halves of dx, so no element is written
 * twice. */
static void
launch(struct stream *st, const struct act_call *call, int64_t rows, int width,
    const struct act_kernels *kernels)
{
	struct act_call a = *call;
	bool wide;
	struct walk w;

	flatten(&a, &rows);
	wide = packs(&a, width);
	w = walk_of(st, rows, a.columns, wide ? width : 1);
	cu_launch_small_early(
	    st, wide ? kernels->pack : kernels->one, { w.blocks, CU_THREADS, 0 }, a, w);
}

template <typename T>
static void
forward(struct stream *st, const struct act_call *call, int64_t rows)
{
	const struct act_kernels k = { act_fwd_kernel<T, 1>, act_fwd_kernel<T, full<T>::width> };

	launch(st, call, rows, full<T>::width, &k);
}

template <typename T>
static void
backward(struct stream *st, const struct act_call *call, int64_t rows)
{
	const struct act_kernels k = { act_bwd_kernel<T, 1>, act_bwd_kernel<T, full<T>::width> };

	launch(st, call, rows, full<T>::width, &k);
}

/* A gated kind has two columns of x for one of y. */
static bool
check(enum act_kind kind, const struct tensor *y, const struct tensor *x)
{
	bool gated = is_gated(kind);

	ops_require(tensor_num_rows(x) == tensor_num_rows(y) &&
	    tensor_num_columns(x) == tensor_num_columns(y) * (gated ? 2 : 1) &&
	    x->dtype == y->dtype);
	return gated;
}

/* Shapes as in cpu/act.c. One type for all: the layers' storage type. */
void
cuda_act_fwd(struct stream *st, const struct act *g)
{
	struct act_call a = {};

	if (quantise_makes(&g->copies)) {
		cu_act_copies(st, g);
		cu_launched(st, "act_fwd");
		return;
	}
	a.act = act_curve_of(g->kind, &g->gate);
	a.gated = check(g->kind, &g->y, &g->x);
	a.columns = tensor_num_columns(&g->y);
	a.y = g->y;
	a.x = g->x;
	PICK(g->x.dtype, forward)(st, &a, tensor_num_rows(&g->y));
	cu_launched(st, "act_fwd");
}

/* dx is written, not added to. */
void
cuda_act_bwd(struct stream *st, const struct act_grad *g)
{
	struct act_call a = {};

	if (quantise_makes(&g->dx_copies) || quantise_makes(&g->y_copies)) {
		cu_act_grad_copies(st, g);
		cu_launched(st, "act_bwd");
		return;
	}
	a.act = act_curve_of(g->kind, &g->gate);
	a.gated = check(g->kind, &g->dy, &g->x);
	ops_require(tensor_same_shape(&g->dx, &g->x) && g->dx.dtype == g->x.dtype);
	ops_require(!g->y.data || (tensor_same_shape(&g->y, &g->dy) && g->y.dtype == g->x.dtype));
	a.columns = tensor_num_columns(&g->dy);
	a.y = g->y;
	a.dx = g->dx;
	a.dy = g->dy;
	a.x = g->x;
	PICK(g->x.dtype, backward)(st, &a, tensor_num_rows(&g->dy));
	cu_launched(st, "act_bwd");
}
