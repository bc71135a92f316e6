/*
 * short_conv.cu - sums over the last positions of each channel. Source: docs/math.md 2.12
 *
 * A thread has N neighbouring channels of a strip of positions, whose last inputs it keeps, the
 * reach of the last one. Backward it goes TAPS - 1 positions further, for what these give to the
 * strip's inputs, and sums gradients of weights over its strips; their parts are added in order
 * afterwards. Fewer taps than TAPS are the last ones.
 */
#include "train/cuda/kernel.cuh"

enum {
	STRIP = 32, /* positions */
	USUAL = 4,  /* taps, and channels of a thread, of the kernels for the usual case */
	TAPS_MAX = 16,
	PARTS_MAX = 256 /* most parts of the sums of a weight's gradient */
};

static __device__ inline float
logistic(float z)
{
	return 1 / (1 + expf(-z));
}

/* The last TAPS inputs of N channels and their weights; position is that of the last input. */
template <int N, int TAPS> struct reach {
	float x[TAPS][N], weight[TAPS][N];
	int sample, channel, position, taps;
};

/* The input of a position, which may be before those of the pass; zeros where there is none. */
template <typename T, int N>
static __device__ inline void
load_input(const struct short_conv &c, float (&x)[N], int sample, int channel, int position)
{
	int taps = (int)c.weight.shape[1];
	bool before = position < 0;
	int64_t row = (int64_t)(before ? position + taps - 1 : position) * c.micro_batch + sample;

#pragma unroll
	for (int k = 0; k < N; k++)
		x[k] = 0;
	if (before ? c.before.data && row >= 0 : row < c.x.shape[0])
		load(x, row_of<T>(before ? c.before : c.x, row) + channel);
}

/* The weights, and the inputs before a position. */
template <typename T, int N, int TAPS>
static __device__ inline void
begin(const struct short_conv &c, struct reach<N, TAPS> *w, int position)
{
	w->taps = (int)c.weight.shape[1];
	w->position = position - 1;
#pragma unroll
	for (int j = 0; j < TAPS; j++)
#pragma unroll
		for (int k = 0; k < N; k++)
			w->weight[j][k] = j < TAPS - w->taps
			    ? 0
			    : to_float(row_of<T>(c.weight, w->channel + k)[j - TAPS + w->taps]);
#pragma unroll
	for (int j = 1; j < TAPS; j++)
		load_input<T, N>(c, w->x[j], w->sample, w->channel, position - TAPS + j);
}

/* The next position. */
template <typename T, int N, int TAPS>
static __device__ inline void
advance(const struct short_conv &c, struct reach<N, TAPS> *w)
{
#pragma unroll
	for (int j = 0; j + 1 < TAPS; j++)
#pragma unroll
		for (int k = 0; k < N; k++)
			w->x[j][k] = w->x[j + 1][k];
	w->position++;
	load_input<T, N>(c, w->x[TAPS - 1], w->sample, w->channel, w->position);
}

/* The first element of the reach that its last position sees. */
template <int N, int TAPS>
static __device__ inline int
first_seen(const struct short_conv &c, const struct reach<N, TAPS> &w)
{
	int64_t row = (int64_t)w.position * c.micro_batch + w.sample,
		begins = (c.first.data ? ((const int32_t *)c.first.data)[row] : 0) -
	    position_at(c.position),
		first = max(begins, (int64_t)(c.before.data ? 1 - w.taps : 0));

	return max((int)(first - w.position) + TAPS - 1, TAPS - w.taps);
}

/* The sums of its position before SiLU. */
template <int N, int TAPS>
static __device__ inline void
sum_reach(const struct reach<N, TAPS> &w, int first, float (&a)[N])
{
#pragma unroll
	for (int k = 0; k < N; k++)
		a[k] = 0;
#pragma unroll
	for (int j = 0; j < TAPS; j++)
#pragma unroll
		for (int k = 0; k < N; k++)
			a[k] += j >= first ? w.weight[j][k] * w.x[j][k] : 0;
}

template <typename T, int N, int TAPS>
static __global__ void
__launch_bounds__(CU_THREADS) short_conv_kernel(struct short_conv c)
{
	struct reach<N, TAPS> w;
	int positions = (int)(c.x.shape[0] / c.micro_batch), from = blockIdx.y * STRIP,
	    to = min(from + STRIP, positions);

	w.channel = (blockIdx.x * CU_THREADS + threadIdx.x) * N;
	w.sample = blockIdx.z;
	if (w.channel >= c.x.shape[1])
		return;
	begin<T>(c, &w, from);
	for (int at = from; at < to; at++) {
		float a[N];

		advance<T>(c, &w);
		sum_reach(w, first_seen(c, w), a);
#pragma unroll
		for (int k = 0; k < N; k++)
			a[k] *= logistic(a[k]);
		store(row_of<T>(c.y, (int64_t)at * c.micro_batch + w.sample) + w.channel, a);
	}
}

/* What is kept moves by the positions of the pass; a thread has a channel of a sample. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) keep_kernel(struct short_conv c)
{
	int channel = blockIdx.x * CU_THREADS + threadIdx.x, sample = blockIdx.y,
	    positions = (int)(c.x.shape[0] / c.micro_batch), taps = (int)c.weight.shape[1];

	if (channel >= c.x.shape[1])
		return;
	for (int at = 0; at < taps - 1; at++) {
		float x[1];

		load_input<T, 1>(c, x, sample, channel, positions - taps + 1 + at);
		put(row_of<T>(c.before, (int64_t)at * c.micro_batch + sample) + channel, x[0]);
	}
}

template <typename T>
static void
forward(struct stream *st, const struct short_conv *c)
{
	int64_t channels = c->x.shape[1], b = c->micro_batch,
		strips = int64_div_up(c->x.shape[0] / b, STRIP);
	dim3 wide(
	    (unsigned)int64_div_up(channels, USUAL * CU_THREADS), (unsigned)strips, (unsigned)b),
	    one((unsigned)int64_div_up(channels, CU_THREADS), (unsigned)strips, (unsigned)b),
	    kept(one.x, (unsigned)b);

	if (c->weight.shape[1] == USUAL && cu_packs(&c->x, USUAL) && cu_packs(&c->y, USUAL) &&
	    cu_packs(&c->before, USUAL))
		short_conv_kernel<T, USUAL, USUAL><<<wide, CU_THREADS, 0, cu_handle(st)>>>(*c);
	else
		short_conv_kernel<T, 1, TAPS_MAX><<<one, CU_THREADS, 0, cu_handle(st)>>>(*c);
	if (c->before.data)
		keep_kernel<T><<<kept, CU_THREADS, 0, cu_handle(st)>>>(*c);
}

static void
check(const struct short_conv *c)
{
	ops_require(c->micro_batch > 0 && c->x.shape[0] % c->micro_batch == 0);
	ops_require(c->weight.shape[0] == c->x.shape[1] && c->weight.shape[1] <= TAPS_MAX);
	ops_require(c->weight.dtype == c->x.dtype);
	ops_require(!c->first.data || c->first.dtype == DTYPE_I32);
}

void
cuda_short_conv(struct stream *st, const struct short_conv *c)
{
	check(c);
	ops_require(tensor_same_shape(&c->y, &c->x) && c->y.dtype == c->x.dtype);
	ops_require(!c->before.data ||
	    (c->before.shape[0] == (c->weight.shape[1] - 1) * c->micro_batch &&
		c->before.shape[1] == c->x.shape[1] && c->before.dtype == c->x.dtype));
	if (c->x.shape[0] > 0)
		PICK(c->x.dtype, forward)(st, c);
	cu_launched(st, "short_conv");
}

/* --- backward --------------------------------------------------------------------------------- */

/* Sums of a thread: of its weights, and of the inputs in its reach. */
template <int N, int TAPS> struct gradients {
	float weight[TAPS][N], x[TAPS][N];
};

template <int N, int TAPS>
static __device__ inline void
clear(float (&x)[TAPS][N])
{
#pragma unroll
	for (int j = 0; j < TAPS; j++)
#pragma unroll
		for (int k = 0; k < N; k++)
			x[j][k] = 0;
}

/* The gradient of the sums of the reach's position. */
template <typename T, int N, int TAPS>
static __device__ inline void
sum_gradients(
    const struct short_conv_grad &g, const struct reach<N, TAPS> &w, int first, float (&da)[N])
{
	float dy[N];

	sum_reach(w, first, da);
	load(dy, row_of<T>(g.dy, (int64_t)w.position * g.fwd.micro_batch + w.sample) + w.channel);
#pragma unroll
	for (int k = 0; k < N; k++) {
		float f = logistic(da[k]);

		da[k] = dy[k] * f * (1 + da[k] * (1 - f));
	}
}

/* A position of a strip, or after it: the reach and the sums of inputs move on, and the gradient
 * of the reach's first input, if it is of the strip, is complete. */
template <typename T, int N, int TAPS>
static __device__ inline void
take_position(const struct short_conv_grad &g, struct reach<N, TAPS> *w,
    struct gradients<N, TAPS> *sums, int from, int to)
{
	const struct short_conv &c = g.fwd;
	int complete;

	advance<T>(c, w);
	complete = w->position - TAPS + 1;
#pragma unroll
	for (int j = 0; j < TAPS; j++)
#pragma unroll
		for (int k = 0; k < N; k++)
			sums->x[j][k] = j + 1 < TAPS ? sums->x[j + 1][k] : 0;
	if ((int64_t)w->position * c.micro_batch < c.x.shape[0]) {
		int first = first_seen(c, *w);
		float da[N];

		sum_gradients<T>(g, *w, first, da);
#pragma unroll
		for (int j = 0; j < TAPS; j++)
#pragma unroll
			for (int k = 0; k < N; k++) {
				float seen = j >= first ? da[k] : 0;

				sums->x[j][k] += seen * w->weight[j][k];
				sums->weight[j][k] += w->position < to ? seen * w->x[j][k] : 0;
			}
	}
	if (complete >= from && complete < to)
		store(row_of<T>(g.dx, (int64_t)complete * c.micro_batch + w->sample) + w->channel,
		    sums->x[0]);
}

/* blockIdx.y is the part, which has every gridDim.y-th strip of all samples. part is
 * [parts,c,taps]. */
template <typename T, int N, int TAPS>
static __global__ void
__launch_bounds__(CU_THREADS)
    short_conv_grad_kernel(struct short_conv_grad g, float *part, int strips)
{
	struct reach<N, TAPS> w;
	struct gradients<N, TAPS> sums;
	int positions = (int)(g.fwd.x.shape[0] / g.fwd.micro_batch);

	w.channel = (blockIdx.x * CU_THREADS + threadIdx.x) * N;
	if (w.channel >= g.fwd.x.shape[1])
		return;
	clear(sums.weight);
	for (int i = blockIdx.y; i < strips * g.fwd.micro_batch; i += gridDim.y) {
		int from = i % strips * STRIP, to = min(from + STRIP, positions);

		w.sample = i / strips;
		begin<T>(g.fwd, &w, from);
		clear(sums.x);
		for (int at = from; at < to + TAPS - 1; at++)
			take_position<T>(g, &w, &sums, from, to);
	}
	part += ((int64_t)blockIdx.y * g.fwd.x.shape[1] + w.channel) * w.taps;
#pragma unroll
	for (int j = 0; j < TAPS; j++)
#pragma unroll
		for (int k = 0; k < N; k++)
			if (j >= TAPS - w.taps)
				part[k * w.taps + j - TAPS + w.taps] = sums.weight[j][k];
}

template <typename T>
static void
backward(struct stream *st, const struct short_conv_grad *g)
{
	const struct tensor *x = &g->fwd.x;
	int64_t strips = int64_div_up(x->shape[0] / g->fwd.micro_batch, STRIP),
		weights = tensor_elements(&g->dweight),
		parts = int64_min(int64_min(strips * g->fwd.micro_batch, PARTS_MAX),
		    CU_WORKSPACE / (int64_t)sizeof(float) / weights);
	dim3 wide((unsigned)int64_div_up(x->shape[1], USUAL * CU_THREADS), (unsigned)parts),
	    one((unsigned)int64_div_up(x->shape[1], CU_THREADS), (unsigned)parts);
	struct column_parts sums = { { (float *)g->dweight.data }, (const float *)cu_workspace(st),
		weights, weights, (int)parts, g->accumulate ? 1.0f : 0.0f };

	ops_require(parts > 0);
	if (g->fwd.weight.shape[1] == USUAL && cu_packs(x, USUAL) && cu_packs(&g->dx, USUAL) &&
	    cu_packs(&g->dy, USUAL))
		short_conv_grad_kernel<T, USUAL, USUAL><<<wide, CU_THREADS, 0, cu_handle(st)>>>(
		    *g, (float *)cu_workspace(st), (int)strips);
	else
		short_conv_grad_kernel<T, 1, TAPS_MAX><<<one, CU_THREADS, 0, cu_handle(st)>>>(
		    *g, (float *)cu_workspace(st), (int)strips);
	cu_finish_columns(st, &sums);
}

void
cuda_short_conv_grad(struct stream *st, const struct short_conv_grad *g)
{
	const struct short_conv *c = &g->fwd;

	check(c);
	ops_require(tensor_same_shape(&g->dx, &c->x) && tensor_same_shape(&g->dy, &c->x) &&
	    g->dx.dtype == c->x.dtype && g->dy.dtype == c->x.dtype);
	ops_require(tensor_same_shape(&g->dweight, &c->weight) && g->dweight.dtype == DTYPE_F32 &&
	    !c->before.data);
	if (c->x.shape[0] > 0)
		PICK(c->x.dtype, backward)(st, g);
	cu_launched(st, "short_conv_grad");
}
