/*
 * experts.cu - activations and biases of experts, whose rows are weighted. Source: docs/math.md 5.5
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
__launch_bounds__(CU_THREADS)
    expert_act_kernel(struct expert_act a, struct act_curve act, struct walk w)
{
	int64_t up_after = a.x.shape[1] - a.y.shape[1];

	w.rows = rows_of_round(a.counts, a.first, w.rows);
	FOR_PACKS(w, row, i)
	{
		float gate[N], up[N], y[N], weight = row_of<float>(a.weight, row)[0];

		load_both(gate, up, row_of<T>(a.x, row) + i * N, up_after);
		act_forward(act, y, gate, up);
#pragma unroll
		for (int k = 0; k < N; k++)
			y[k] *= weight;
		store(row_of<T>(a.y, row) + i * N, y);
	}
}

/* A pack of a row: dx and y are written; returns what it adds to dy . f(x). All of it is read
 * before anything is written. */
template <typename T, int N>
static __device__ inline float
act_grad(const struct expert_act_grad &g, const struct act_curve &act, int64_t row, int64_t at,
    float weight)
{
	int64_t up_after = g.x.shape[1] - g.y.shape[1];
	T *dx = row_of<T>(g.dx, row) + at;
	float gate[N], up[N], dy[N], d[N], y[N], sum = 0;

	load_both(gate, up, row_of<T>(g.x, row) + at, up_after);
	load(dy, row_of<T>(g.dy, row) + at);
#pragma unroll
	for (int k = 0; k < N; k++)
		d[k] = weight * dy[k];
	act_backward(act, y, gate, up, d);
#pragma unroll
	for (int k = 0; k < N; k++) {
		sum += dy[k] * y[k];
		y[k] *= weight;
	}
	store(row_of<T>(g.y, row) + at, y);
	store(dx, gate);
	if (up_after)
		store(dx + up_after, up);
	return sum;
}

template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) expert_act_grad_kernel(struct expert_act_grad g, struct act_curve act)
{
	int64_t rows = rows_of_round(g.counts, g.first, g.x.shape[0]);

	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < rows;
	     row += gridDim.x * (int64_t)WARPS) {
		float weight = row_of<float>(g.weight, row)[0], sum = 0;

		for (int64_t at = threadIdx.x % 32 * N; at < g.y.shape[1]; at += 32 * N)
			sum += act_grad<T, N>(g, act, row, at, weight);
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

	expert_act_kernel<T, N>
	    <<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*a, act_curve_of(a->kind, &a->gate), w);
}

template <typename T, int N>
static void
launch(struct stream *st, const struct expert_act_grad *g)
{
	expert_act_grad_kernel<T, N>
	    <<<blocks_for(st, int64_div_up(g->x.shape[0], WARPS)), CU_THREADS, 0, cu_handle(st)>>>(
		*g, act_curve_of(g->kind, &g->gate));
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

/* --- biases ----------------------------------------------------------------------------------- */

/* Where the rows of each expert begin in a round, in shared memory: of E_l + 1 numbers the last is
 * the end. All threads of the block, with a barrier at the end. */
static __device__ inline int *
expert_rows(const struct tensor &counts, int64_t first, int64_t round)
{
	extern __shared__ int begin[];
	int experts = (int)counts.shape[1];

	for (int i = threadIdx.x; i < experts; i += CU_THREADS) {
		int n = 0;

		for (int64_t s = 0; s < counts.shape[0]; s++)
			n += row_of<int32_t>(counts, s)[i];
		begin[i + 1] = n;
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		int64_t at = -first;

		for (int i = 0; i <= experts; i++) {
			at += i > 0 ? begin[i] : 0;
			begin[i] = (int)(at < 0 ? 0 : at < round ? at : round);
		}
	}
	__syncthreads();
	return begin;
}

/* The expert whose rows have this one, which is before the last one's end: the last that begins at
 * it or before. */
static __device__ inline int
expert_of(const int *begin, int experts, int64_t row)
{
	int low = 0, high = experts - 1;

	while (low < high) {
		int middle = (low + high + 1) / 2;

		if (begin[middle] <= row)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* y[r] += weight[r] bias of the row's expert. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) expert_bias_kernel(struct expert_bias b, struct walk w)
{
	const int *begin = expert_rows(b.counts, b.first, w.rows);
	int experts = (int)b.counts.shape[1];

	w.rows = begin[experts];
	FOR_PACKS(w, row, i)
	{
		const T *bias =
		    (const T *)b.bias.data + expert_of(begin, experts, row) * b.y.shape[1] + i * N;
		float y[N], x[N], weight = b.weight.data ? row_of<float>(b.weight, row)[0] : 1;

		load(y, row_of<T>(b.y, row) + i * N);
		load(x, bias);
#pragma unroll
		for (int k = 0; k < N; k++)
			y[k] += weight * x[k];
		store(row_of<T>(b.y, row) + i * N, y);
	}
}

enum { SUM_COLUMNS = 32, SUM_ROWS = CU_THREADS / SUM_COLUMNS };

/* dbias of SUM_COLUMNS columns of the expert blockIdx.y: a thread adds every SUM_ROWS-th of its
 * rows, and the first thread of a column those sums. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) expert_bias_sum_kernel(struct expert_bias_grad g)
{
	const int *begin = expert_rows(g.counts, g.first, g.dy.shape[0]);
	__shared__ float part[SUM_ROWS][SUM_COLUMNS];
	int x = threadIdx.x % SUM_COLUMNS, y = threadIdx.x / SUM_COLUMNS, expert = blockIdx.y;
	int64_t column = blockIdx.x * (int64_t)SUM_COLUMNS + x, n = g.dy.shape[1];
	float sum = 0;

	for (int64_t row = begin[expert] + y; column < n && row < begin[expert + 1];
	     row += SUM_ROWS)
		sum += (g.weight.data ? row_of<float>(g.weight, row)[0] : 1) *
		    to_float(row_of<T>(g.dy, row)[column]);
	part[y][x] = sum;
	__syncthreads();
	if (y > 0 || column >= n)
		return;
	for (int i = 1; i < SUM_ROWS; i++)
		sum += part[i][x];
	float *to = (float *)g.dbias.data + expert * n + column;
	*to = g.beta > 0 ? *to + sum : sum;
}

/* dweight[r] += dy[r] . bias: a warp a row. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) expert_bias_dot_kernel(struct expert_bias_grad g)
{
	const int *begin = expert_rows(g.counts, g.first, g.dy.shape[0]);
	int experts = (int)g.counts.shape[1];
	int64_t n = g.dy.shape[1];

	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < begin[experts];
	     row += gridDim.x * (int64_t)WARPS) {
		const T *dy = row_of<T>(g.dy, row),
			*bias = (const T *)g.bias.data + expert_of(begin, experts, row) * n;
		float sum = 0;

		for (int64_t i = threadIdx.x % 32; i < n; i += 32)
			sum += to_float(dy[i]) * to_float(bias[i]);
		sum = warp_sum(sum);
		if (threadIdx.x % 32 == 0)
			row_of<float>(g.dweight, row)[0] += sum;
	}
}

/* Of the numbers of expert_rows. */
static size_t
rows_bytes(const struct tensor *counts)
{
	return (size_t)(counts->shape[1] + 1) * sizeof(int);
}

template <typename T, int N>
static void
launch(struct stream *st, const struct expert_bias *b)
{
	struct walk w = walk_by(b->y.shape[0], b->y.shape[1] / N, blocks_for(st, INT64_MAX));

	expert_bias_kernel<T, N>
	    <<<w.blocks, CU_THREADS, rows_bytes(&b->counts), cu_handle(st)>>>(*b, w);
}

template <typename T>
static void
add_bias(struct stream *st, const struct expert_bias *b)
{
	enum { N = full<T>::width };

	if (cu_packs(&b->y, N) && b->y.shape[1] % N == 0 && (uintptr_t)b->bias.data % 16 == 0)
		launch<T, N>(st, b);
	else
		launch<T, 1>(st, b);
}

template <typename T>
static void
bias_backward(struct stream *st, const struct expert_bias_grad *g)
{
	size_t bytes = rows_bytes(&g->counts);
	dim3 grid(
	    (unsigned)int64_div_up(g->dy.shape[1], SUM_COLUMNS), (unsigned)g->counts.shape[1]);

	expert_bias_sum_kernel<T><<<grid, CU_THREADS, bytes, cu_handle(st)>>>(*g);
	if (g->dweight.data)
		expert_bias_dot_kernel<T><<<blocks_for(st, int64_div_up(g->dy.shape[0], WARPS)),
		    CU_THREADS, bytes, cu_handle(st)>>>(*g);
}

void
cuda_expert_bias(struct stream *st, const struct expert_bias *b)
{
	expert_bias_check(b, DTYPE_F32);
	ops_require(b->bias.dtype == b->y.dtype);
	PICK(b->y.dtype, add_bias)(st, b);
	cu_launched(st, "expert_bias");
}

void
cuda_expert_bias_grad(struct stream *st, const struct expert_bias_grad *g)
{
	expert_bias_grad_check(g, DTYPE_F32);
	ops_require(!g->bias.data || g->bias.dtype == g->dy.dtype);
	PICK(g->dy.dtype, bias_backward)(st, g);
	cu_launched(st, "expert_bias_grad");
}
