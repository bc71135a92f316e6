/*
 * experts.cu - activations of experts, whose rows are weighted. Source: docs/math.md 5.5
 *
 * How many rows of a round there are stands in the device's memory: every warp adds up the counts,
 * which are few, and a grid of a few blocks an SM walks over the rows that there are. In the
 * backward pass a warp has a row, so that the sum over it needs no other; its order follows from
 * the row's length and alignment.
 */
#include "train/cuda/act.cuh"

enum { BLOCKS = 8, WARPS = CU_THREADS / 32 }; /* blocks an SM */

/* gate, or x where nothing is gated, and up. */
template <typename T, int N>
static __device__ inline void
load_both(float (&gate)[N], float (&up)[N], const T *x, int64_t up_after)
{
	load(gate, x);
	if (up_after)
		load(up, x + up_after);
}

/* y = weight f(x), or weight f(gate) up. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) expert_act_kernel(struct expert_act a, struct walk w)
{
	int64_t up_after = a.x.shape[1] - a.y.shape[1];

	w.rows = rows_of_round(a.counts, a.first, w.rows);
	FOR_PACKS(w, row, i)
	{
		float gate[N], up[N], y[N], weight = row_of<float>(a.weight, row)[0];
		struct value v[N];

		load_both(gate, up, row_of<T>(a.x, row) + i * N, up_after);
		evaluate(a.kind, v, gate);
#pragma unroll
		for (int k = 0; k < N; k++)
			y[k] = weight * (up_after ? v[k].f * up[k] : v[k].f);
		store(row_of<T>(a.y, row) + i * N, y);
	}
}

/* A pack of a row: dx and y are written; returns what it adds to dy . f(x). All of it is read
 * before anything is written. */
template <typename T, int N>
static __device__ inline float
act_grad(const struct expert_act_grad &g, int64_t row, int64_t at, float weight)
{
	int64_t up_after = g.x.shape[1] - g.y.shape[1];
	T *dx = row_of<T>(g.dx, row) + at;
	float gate[N], up[N], dy[N], y[N], sum = 0;
	struct value v[N];

	load_both(gate, up, row_of<T>(g.x, row) + at, up_after);
	load(dy, row_of<T>(g.dy, row) + at);
	evaluate(g.kind, v, gate);
#pragma unroll
	for (int k = 0; k < N; k++) {
		float a = up_after ? v[k].f * up[k] : v[k].f, d = weight * dy[k];

		sum += dy[k] * a;
		y[k] = weight * a;
		gate[k] = (up_after ? d * up[k] : d) * v[k].slope;
		up[k] = d * v[k].f;
	}
	store(row_of<T>(g.y, row) + at, y);
	store(dx, gate);
	if (up_after)
		store(dx + up_after, up);
	return sum;
}

template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) expert_act_grad_kernel(struct expert_act_grad g)
{
	int64_t rows = rows_of_round(g.counts, g.first, g.x.shape[0]);

	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < rows;
	     row += gridDim.x * (int64_t)WARPS) {
		float weight = row_of<float>(g.weight, row)[0], sum = 0;

		for (int64_t at = threadIdx.x % 32 * N; at < g.y.shape[1]; at += 32 * N)
			sum += act_grad<T, N>(g, row, at, weight);
		sum = warp_sum(sum);
		if (threadIdx.x % 32 == 0)
			row_of<float>(g.dweight, row)[0] = sum;
	}
}

static unsigned
blocks_for(const struct stream *st, int64_t most)
{
	return (unsigned)int64_max(1, int64_min(most, BLOCKS * (int64_t)st->device->num_sms));
}

template <typename T, int N>
static void
launch(struct stream *st, const struct expert_act *a)
{
	struct walk w = walk_by(a->y.shape[0], a->y.shape[1] / N, blocks_for(st, INT64_MAX));

	expert_act_kernel<T, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*a, w);
}

template <typename T, int N>
static void
launch(struct stream *st, const struct expert_act_grad *g)
{
	expert_act_grad_kernel<T, N>
	    <<<blocks_for(st, int64_div_up(g->x.shape[0], WARPS)), CU_THREADS, 0, cu_handle(st)>>>(
		*g);
}

/* The halves of a gated row must begin with a pack. */
template <typename T>
static void
forward(struct stream *st, const struct expert_act *a)
{
	enum { N = full<T>::width };

	if (cu_packs(&a->y, N) && cu_packs(&a->x, N))
		launch<T, N>(st, a);
	else
		launch<T, 1>(st, a);
}

template <typename T>
static void
backward(struct stream *st, const struct expert_act_grad *g)
{
	enum { N = full<T>::width };

	if (cu_packs(&g->y, N) && cu_packs(&g->x, N) && cu_packs(&g->dx, N) && cu_packs(&g->dy, N))
		launch<T, N>(st, g);
	else
		launch<T, 1>(st, g);
}

/* A gated kind has two columns of x for one of y; weights and their gradients are columns. */
static void
check(enum act_kind kind, const struct tensor *y, const struct tensor *x, const struct tensor *w)
{
	ops_require(y->ndim == 2 && x->ndim == 2 && w->ndim == 2 && x->dtype == y->dtype);
	ops_require(
	    x->shape[0] == y->shape[0] && x->shape[1] == y->shape[1] * (is_gated(kind) ? 2 : 1));
	ops_require(w->dtype == DTYPE_F32 && w->shape[0] == y->shape[0] && w->shape[1] == 1);
}

void
cuda_expert_act(struct stream *st, const struct expert_act *a)
{
	check(a->kind, &a->y, &a->x, &a->weight);
	ops_require(a->counts.dtype == DTYPE_I32 && a->counts.ndim == 2);
	PICK(a->x.dtype, forward)(st, a);
	cu_launched(st, "expert_act");
}

void
cuda_expert_act_grad(struct stream *st, const struct expert_act_grad *g)
{
	check(g->kind, &g->y, &g->x, &g->weight);
	check(g->kind, &g->dy, &g->dx, &g->dweight);
	ops_require(g->dx.dtype == g->x.dtype && tensor_same_shape(&g->dy, &g->y));
	ops_require(g->counts.dtype == DTYPE_I32 && g->counts.ndim == 2);
	PICK(g->x.dtype, backward)(st, g);
	cu_launched(st, "expert_act_grad");
}
