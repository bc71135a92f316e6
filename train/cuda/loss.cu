/*
 * loss.cu - cross entropy and z-loss over the vocabulary columns held here, one block per row.
 * Source: docs/math.md 2.8, docs/parallelism.md 2.2; Milakov & Gimelshein 2018 arXiv:1805.02867 for
 * the running maximum
 *
 * The statistics of a row are taken in one sweep: a thread keeps the maximum it has seen and the
 * sum of exponentials below it. What fits of the row in shared memory is kept there for the
 * gradient, so the logits pass the memory once in each direction; the rest is read again, out of
 * the second-level cache, since few rows are under way at a time. A sum's order depends on the
 * width of a row alone. Statistics are F32.
 */
#include "train/cuda/async.cuh"

enum {
	THREADS_MAX = 1024,
	SHARE = 112 << 10, /* bytes of a row of which two are on an SM at a time */
	PAIR = 2,
	AHEAD = 4, /* packs per thread and turn, and how many turns ahead it loads */
};

/* The running maximum and the sum of exponentials below it; the label's logit or 0. */
struct stats {
	float max, sum, label;
};

/* Column of row i's label here, or -1 when it is another rank's or padding. */
static __device__ inline int64_t
label_column(const struct xent &x, int64_t row)
{
	int64_t column = ((const int32_t *)x.labels.data)[row] - x.first_column;

	return column >= 0 && column < x.valid_columns ? column : -1;
}

/* The logarithm of e to base 2. */
static __device__ inline float
log2_e(void)
{
	return 1.4426950408889634f;
}

/* e^(x - max), given max log2 e, by the hardware's 2^x: the instructions of two exponentials an
 * element come next after memory in what limits the speed here. */
static __device__ inline float
power(float x, float scaled_max)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x, log2_e(), -scaled_max)));
	return y;
}

/* e^(x - max). */
static __device__ inline float
below(float x, float max)
{
	return power(x, max * log2_e());
}

/* A maximum to subtract: nothing was seen where it is -inf, and then nothing is taken off. */
static __device__ inline float
base(float max)
{
	return max == -INFINITY ? 0 : max;
}

/* Two statistics of parts of a row as one. Symmetric, so that a butterfly gives every lane the
 * same. */
static __device__ inline void
join(float &max, float &sum, float other_max, float other_sum)
{
	float m = fmaxf(max, other_max);

	sum = sum * below(max, base(m)) + other_sum * below(other_max, base(m));
	max = m;
}

/* Over all threads of the block, in all threads, in an order that the number of threads fixes. */
static __device__ inline void
block_join(float &max, float &sum)
{
	__shared__ float part[2][THREADS_MAX / 32];
	int warps = blockDim.x / 32, lane = threadIdx.x % 32;

	for (int step = 16; step > 0; step /= 2)
		join(max, sum, __shfl_xor_sync(0xffffffffu, max, step),
		    __shfl_xor_sync(0xffffffffu, sum, step));
	__syncthreads();
	if (lane == 0) {
		part[0][threadIdx.x / 32] = max;
		part[1][threadIdx.x / 32] = sum;
	}
	__syncthreads();
	max = lane < warps ? part[0][lane] : -INFINITY;
	sum = lane < warps ? part[1][lane] : 0;
	for (int step = 16; step > 0; step /= 2)
		join(max, sum, __shfl_xor_sync(0xffffffffu, max, step),
		    __shfl_xor_sync(0xffffffffu, sum, step));
}

/* Logits as the model means them, from those stored. */
template <int N>
static __device__ inline void
cap(const struct xent &x, float (&z)[N])
{
	float c = (float)x.softcap;

	if (c > 0)
#pragma unroll
		for (int k = 0; k < N; k++)
			z[k] = c * fast_tanh(z[k] / c);
}

/* The slope of cap, by what it gave. */
static __device__ inline float
cap_slope(const struct xent &x, float z)
{
	float y = x.softcap > 0 ? z / (float)x.softcap : 0;

	return 1 - y * y;
}

/* One logit. */
template <typename T>
static __device__ inline float
logit(const struct xent &x, T stored)
{
	float z[1] = { to_float(stored) };

	cap(x, z);
	return z[0];
}

/* Takes a pack of logits into a thread's statistics. */
template <int N>
static __device__ inline void
take(float &max, float &sum, const float (&z)[N])
{
	float top = max, add = 0, scaled;

#pragma unroll
	for (int k = 0; k < N; k++)
		top = fmaxf(top, z[k]);
	scaled = base(top) * log2_e();
#pragma unroll
	for (int k = 0; k < N; k++)
		add += power(z[k], scaled);
	sum = sum * power(max, scaled) + add;
	max = top;
}

/* The first packs of a row, in shared memory. */
template <typename T, int N> struct kept {
	pack<T, N> *first;
	int count;
};

/* A pack of a row into a thread's statistics; the row's valid columns are real. */
template <typename T, int N>
static __device__ inline void
take_pack(struct stats &s, const struct xent &x, const pack<T, N> &p, int at)
{
	int valid = (int)x.valid_columns;
	float value[N];

	unpack(value, p);
	cap(x, value);
	if (at * N + N > valid)
#pragma unroll
		for (int k = 0; k < N; k++)
			value[k] = at * N + k < valid ? value[k] : -INFINITY;
	take(s.max, s.sum, value);
}

/* The part of a row that is not kept, from pack `first` on, four packs per thread at a time. */
template <typename T, int N>
static __device__ inline void
sweep_rest(struct stats &s, const struct xent &x, const T *z, int first)
{
	int packs = (int)(x.logits.shape[1] / N), step = blockDim.x;

	for (int at = first + threadIdx.x; at < packs; at += 4 * step) {
		pack<T, N> p[4];

#pragma unroll
		for (int u = 0; u < 4; u++)
			if (at + u * step < packs)
				p[u] = fetch<T, N>(z + (at + u * step) * N);
#pragma unroll
		for (int u = 0; u < 4; u++)
			if (at + u * step < packs)
				take_pack(s, x, p[u], at + u * step);
	}
}

/* Starts loading a thread's next PAIR packs from `at` on, as far as they are kept. */
template <typename T, int N>
static __device__ inline void
ask(const kept<T, N> &keep, const T *z, int at)
{
#pragma unroll
	for (int u = 0; u < PAIR; u++)
		if (at + u * (int)blockDim.x < keep.count)
			copy_16(shared_address(&keep.first[at + u * blockDim.x]),
			    z + (at + u * blockDim.x) * N, true);
	copies_asked();
}

/* The statistics of a row's valid columns in one sweep. What is kept is on its way AHEAD turns
 * before it is used, and while the rest is taken; a thread reads none but its own packs there. */
template <typename T, int N>
static __device__ inline struct stats
sweep(const struct xent &x, int64_t row, const kept<T, N> &keep)
{
	const T *z = row_of<T>(x.logits, row);
	int64_t label = label_column(x, row);
	int step = PAIR * blockDim.x;
	struct stats s = { -INFINITY, 0, 0 };

	if (keep.count > 0)
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			ask(keep, z, threadIdx.x + i * step);
	s.label = label < 0 ? 0 : logit(x, z[label]);
	sweep_rest<T, N>(s, x, z, keep.count);
	for (int at = threadIdx.x; at < keep.count; at += step) {
		copies_done_but<AHEAD - 1>();
#pragma unroll
		for (int u = 0; u < PAIR; u++)
			if (at + u * (int)blockDim.x < keep.count)
				take_pack(
				    s, x, keep.first[at + u * blockDim.x], at + u * blockDim.x);
		ask(keep, z, at + AHEAD * step);
	}
	block_join(s.max, s.sum);
	return s;
}

/* Of the whole vocabulary: the parts in their order. */
static __device__ inline struct stats
combine(const struct xent &x, int64_t row)
{
	int64_t rows = x.logits.shape[0];
	struct stats s = { -INFINITY, 0, 0 };

	for (int p = 0; p < x.parts; p++) {
		const float *part = (const float *)x.stats.data + 3 * (p * rows + row);

		s.max = fmaxf(s.max, part[0]);
		s.label += part[2];
	}
	for (int p = 0; p < x.parts; p++) {
		const float *part = (const float *)x.stats.data + 3 * (p * rows + row);

		s.sum += part[1] * below(part[0], base(s.max));
	}
	return s;
}

/* The two losses of a row; returns the factor of softmax in its gradient, and in *weight what is
 * taken off at the label. Derivative of the z-loss c lse^2 is 2 c lse softmax, hence the factor. */
static __device__ inline float
put_loss(const struct xent &x, int64_t row, const struct stats &s, float *weight)
{
	float log_sum = logf(s.sum), lse = s.max + log_sum, z_loss = (float)x.z_loss;

	if (threadIdx.x == 0) {
		((float *)x.loss.data)[row] = log_sum - (s.label - s.max);
		((float *)x.zloss.data)[row] = z_loss * lse * lse;
	}
	*weight = (float)x.grad_scale * ((const float *)x.mask.data)[row];
	return *weight * (1 + 2 * z_loss * lse) / s.sum;
}

/* What the gradient of a row is made of: the factor of softmax, what is taken off at the label, and
 * the maximum times log2 e. */
struct slope {
	float factor, label, scaled;
};

/* The gradient of a pack of a row, with the label in column `label` of it or elsewhere. */
template <typename T, int N>
static __device__ inline void
put_pack(const struct xent &x, T *z, const pack<T, N> &p, int64_t label, const struct slope &g)
{
	float value[N];

	unpack(value, p);
	cap(x, value);
#pragma unroll
	for (int k = 0; k < N; k++) {
		float dz = g.factor * power(value[k], g.scaled);

		if (k == label)
			dz -= g.label;
		value[k] = dz * cap_slope(x, value[k]);
	}
	store(z, value);
}

/* logits <- gradient, zero in the padding. Packs that hold the label or padding are handled
 * separately: the rest takes most of the time. */
template <typename T, int N>
static __device__ inline void
put_gradient(const struct xent &x, int64_t row, const kept<T, N> &keep, const struct slope &g)
{
	T *z = row_of<T>(x.logits, row);
	int64_t label = label_column(x, row);
	int packs = (int)(x.logits.shape[1] / N), whole = (int)(x.valid_columns / N),
	    step = blockDim.x;
	int label_pack = label < 0 ? -1 : (int)(label / N);

#pragma unroll 4
	for (int at = threadIdx.x; at < whole; at += step) {
		pack<T, N> p =
		    at < keep.count ? fetch<T, N>(keep.first[at].at) : fetch<T, N>(z + at * N);

		if (at == label_pack)
			put_pack(x, z + at * N, p, label - at * N, g);
		else
			put_pack(x, z + at * N, p, -1, g);
	}
	for (int at = whole * N + threadIdx.x; at < packs * N; at += step) {
		if (at < x.valid_columns)
			put_pack(x, z + at, fetch<T, 1>(z + at), label - at, g);
		else
			put(&z[at], 0.0f);
	}
}

/* A row: its statistics, here or from the parts, the losses, and the gradient when there is one to
 * make. The label's logit has been read by all before anything is written. keep_packs packs of the
 * row stay in shared memory. */
template <typename T, int N>
static __global__ void
__launch_bounds__(THREADS_MAX) loss_kernel(struct xent x, int keep_packs)
{
	extern __shared__ uint4 shared[];
	kept<T, N> keep = { (pack<T, N> *)shared, keep_packs };
	int64_t row = blockIdx.x;
	struct stats s = x.stats.data ? combine(x, row) : sweep<T, N>(x, row, keep);
	struct slope g;

	g.factor = put_loss(x, row, s, &g.label);
	g.scaled = s.max * log2_e();
	if (x.grad_scale == 0)
		return;
	__syncthreads();
	put_gradient<T, N>(x, row, keep, g);
}

/* The statistics alone, for other ranks. */
template <typename T, int N>
static __global__ void
__launch_bounds__(THREADS_MAX) stats_kernel(struct xent x)
{
	kept<T, N> none = { NULL, 0 };
	int64_t row = blockIdx.x;
	struct stats s = sweep<T, N>(x, row, none);
	float *out = (float *)x.stats.data + 3 * row;

	if (threadIdx.x)
		return;
	out[0] = s.max;
	out[1] = s.sum;
	out[2] = s.label;
}

/* Threads per row: as many as fill an SM, with two rows where both fit. */
static unsigned
num_threads(const struct xent *x)
{
	int64_t bytes = x->logits.shape[1] * (int64_t)dtype_size(x->logits.dtype);

	return bytes <= SHARE ? THREADS_MAX / 2 : THREADS_MAX;
}

/* Bytes of the row that a block can keep: nothing where it is not read twice, else what the GPU
 * has, less what the kernel has of its own. */
static int64_t
keep_bytes(const struct device *d, const struct xent *x)
{
	int64_t bytes = x->logits.shape[1] * (int64_t)dtype_size(x->logits.dtype);

	if (x->stats.data || x->grad_scale == 0)
		return 0;
	return int64_min(bytes, (d->shared_block - 1024) / 16 * 16);
}

/* One block per row. */
template <typename T>
static void
launch_loss(struct stream *st, const struct xent *x)
{
	enum { N = full<T>::width };
	unsigned rows = (unsigned)x->logits.shape[0];
	int64_t bytes = keep_bytes(st->device, x);

	if (!cu_packs(&x->logits, N))
		loss_kernel<T, 1><<<rows, num_threads(x), 0, cu_handle(st)>>>(*x, 0);
	else if (cu_ok(st->device,
		     cudaFuncSetAttribute(loss_kernel<T, N>,
			 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
		     "xent_loss"))
		loss_kernel<T, N>
		    <<<rows, num_threads(x), (size_t)bytes, cu_handle(st)>>>(*x, (int)(bytes / 16));
}

/* As launch_loss. */
template <typename T>
static void
launch_stats(struct stream *st, const struct xent *x)
{
	unsigned rows = (unsigned)x->logits.shape[0];

	if (cu_packs(&x->logits, full<T>::width))
		stats_kernel<T, full<T>::width><<<rows, num_threads(x), 0, cu_handle(st)>>>(*x);
	else
		stats_kernel<T, 1><<<rows, num_threads(x), 0, cu_handle(st)>>>(*x);
}

/* One step over all rows. */
static void
run(struct stream *st, const struct xent *x, void (*launch)(struct stream *, const struct xent *),
    const char *name)
{
	ops_require(x->logits.ndim == 2 && x->valid_columns >= 0 &&
	    x->valid_columns <= x->logits.shape[1] && x->logits.shape[1] <= INT32_MAX);
	ops_require(x->labels.dtype == DTYPE_I32);
	if (x->logits.shape[0] == 0)
		return;
	launch(st, x);
	cu_launched(st, name);
}

/* Fills stats [T, 3] with those of the columns here; gathering them is the caller's. */
void
cuda_xent_stats(struct stream *st, const struct xent *x)
{
	ops_require(
	    x->stats.dtype == DTYPE_F32 && tensor_elements(&x->stats) == 3 * x->logits.shape[0]);
	run(st, x, PICK(x->logits.dtype, launch_stats), "xent_stats");
}

/* Fills the losses and turns logits into their gradient, unless grad_scale is 0. */
void
cuda_xent_loss(struct stream *st, const struct xent *x)
{
	ops_require(x->mask.dtype == DTYPE_F32 && x->loss.dtype == DTYPE_F32 &&
	    x->zloss.dtype == DTYPE_F32);
	ops_require(!x->stats.data ||
	    (x->stats.dtype == DTYPE_F32 &&
		tensor_elements(&x->stats) == 3 * x->parts * x->logits.shape[0]));
	run(st, x, PICK(x->logits.dtype, launch_loss), "xent_loss");
}
