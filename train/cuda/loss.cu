/*
 * loss.cu - cross entropy and z-loss over the vocabulary columns held here, a block a row.
 * Source: spec/training.md 2.8, 5.1; Milakov & Gimelshein 2018 arXiv:1805.02867 for the running maximum
 *
 * The statistics of a row are taken in one sweep: a thread keeps the maximum it has seen and the sum of
 * exponentials below it. What fits of the row in shared memory is kept there for the gradient, so the
 * logits pass the memory once in each direction; the rest is read again, out of the second-level cache,
 * since few rows are under way at a time. A sum's order depends on the width of a row alone. Statistics
 * are F32.
 */
#include "train/cuda/kernel.cuh"

enum {
	THREADS_MAX = 1024,
	SHARE = 112 << 10,              /* bytes of a row of which two are on an SM at a time */
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

/* e^(x - max) by the hardware's 2^x: the instructions of two exponentials an element are what limits
 * the speed here. */
static __device__ inline float
below(float x, float max)
{
	float y;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"((x - max) * 1.4426950408889634f));
	return y;
}

/* A maximum to subtract: nothing was seen where it is -inf, and then nothing is taken off. */
static __device__ inline float
base(float max)
{
	return max == -INFINITY ? 0 : max;
}

/* Two statistics of parts of a row as one. Symmetric, so that a butterfly gives every lane the same. */
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

/* Takes a pack of logits, of which `valid` are real, into a thread's statistics. */
template <int N>
static __device__ inline void
take(float &max, float &sum, float (&z)[N], int64_t valid)
{
	float top = max, add = 0;

	if (valid < N)
#pragma unroll
		for (int k = 0; k < N; k++)
			z[k] = k < valid ? z[k] : -INFINITY;
#pragma unroll
	for (int k = 0; k < N; k++)
		top = fmaxf(top, z[k]);
#pragma unroll
	for (int k = 0; k < N; k++)
		add += below(z[k], base(top));
	sum = sum * below(max, base(top)) + add;
	max = top;
}

/* The first packs of a row, in shared memory. */
template <typename T, int N>
struct kept {
	pack<T, N> *first;
	int64_t count;
};

/* The statistics of a row's valid columns in one sweep, four packs of a thread at a time. */
template <typename T, int N>
static __device__ inline struct stats
sweep(const struct xent &x, int64_t row, const kept<T, N> &keep)
{
	const T *z = row_of<T>(x.logits, row);
	int64_t label = label_column(x, row), packs = x.logits.shape[1] / N;
	struct stats s = { -INFINITY, 0, 0 };

	for (int64_t first = threadIdx.x; first < packs; first += 4 * (int64_t)blockDim.x) {
		pack<T, N> p[4];

#pragma unroll
		for (int u = 0; u < 4; u++)
			if (first + u * (int64_t)blockDim.x < packs)
				p[u] = fetch<T, N>(z + (first + u * (int64_t)blockDim.x) * N);
#pragma unroll
		for (int u = 0; u < 4; u++) {
			int64_t at = first + u * (int64_t)blockDim.x;
			float value[N];

			if (at >= packs)
				continue;
			if (at < keep.count)
				move<T, N>(&keep.first[at], &p[u]);
			unpack(value, p[u]);
			if (at * N < x.valid_columns)
				take(s.max, s.sum, value, x.valid_columns - at * N);
		}
	}
	block_join(s.max, s.sum);
	s.label = label < 0 ? 0 : to_float(z[label]);
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

/* The two losses of a row; returns the factor of softmax in its gradient, and in *weight what is taken
 * off at the label. Derivative of the z-loss c lse^2 is 2 c lse softmax, hence the factor. */
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

/* logits <- gradient, zero in the padding. */
template <typename T, int N>
static __device__ inline void
put_gradient(const struct xent &x, int64_t row, float max, const kept<T, N> &keep,
    const float (&factor)[2])
{
	T *z = row_of<T>(x.logits, row);
	int64_t label = label_column(x, row), packs = x.logits.shape[1] / N;
	int64_t label_pack = label < 0 ? -1 : label / N;

#pragma unroll 2
	for (int64_t at = threadIdx.x; at < packs; at += blockDim.x) {
		float value[N];

		if (at < keep.count)
			unpack(value, fetch<T, N>(keep.first[at].at));
		else
			load(value, z + at * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			value[k] = factor[0] * below(value[k], max);
		if (at == label_pack)
#pragma unroll
			for (int k = 0; k < N; k++)
				value[k] -= at * N + k == label ? factor[1] : 0;
		if (at * N + N > x.valid_columns)
#pragma unroll
			for (int k = 0; k < N; k++)
				value[k] = at * N + k < x.valid_columns ? value[k] : 0;
		store(z + at * N, value);
	}
}

/* A row: its statistics, here or from the parts, the losses, and the gradient when there is one to
 * make. The label's logit has been read by all before anything is written. keep_packs packs of the row stay
 * in shared memory. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS_MAX)
loss_kernel(struct xent x, int64_t keep_packs)
{
	extern __shared__ uint4 shared[];
	kept<T, N> keep = { (pack<T, N> *)shared, keep_packs };
	int64_t row = blockIdx.x;
	struct stats s = x.stats.data ? combine(x, row) : sweep<T, N>(x, row, keep);
	float factor[2];

	factor[0] = put_loss(x, row, s, &factor[1]);
	if (x.grad_scale == 0)
		return;
	__syncthreads();
	put_gradient<T, N>(x, row, s.max, keep, factor);
}

/* The statistics alone, for other ranks. */
template <typename T, int N>
static __global__ void __launch_bounds__(THREADS_MAX)
stats_kernel(struct xent x)
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

/* Threads for a row: so many that an SM is full, by two rows where both fit. */
static unsigned
num_threads(const struct xent *x)
{
	int64_t bytes = x->logits.shape[1] * (int64_t)dtype_size(x->logits.dtype);

	return bytes <= SHARE ? THREADS_MAX / 2 : THREADS_MAX;
}

/* Bytes of the row that a block can keep: nothing where it is not read twice, else what the GPU has,
 * less what the kernel has of its own. */
static int64_t
keep_bytes(const struct device *d, const struct xent *x)
{
	int64_t bytes = x->logits.shape[1] * (int64_t)dtype_size(x->logits.dtype);
	int room = 0;

	if (x->stats.data || x->grad_scale == 0 ||
	    cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->index) != cudaSuccess)
		return 0;
	return cu_min(bytes, (room - 1024) / 16 * 16);
}

/* A row a block. */
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
			 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes), "xent_loss"))
		loss_kernel<T, N>
		    <<<rows, num_threads(x), (size_t)bytes, cu_handle(st)>>>(*x, bytes / 16);
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
	cu_require(
	    x->logits.ndim == 2 && x->valid_columns >= 0 && x->valid_columns <= x->logits.shape[1]);
	cu_require(x->labels.dtype == DTYPE_I32);
	if (x->logits.shape[0] == 0)
		return;
	launch(st, x);
	cu_launched(st, name);
}

/* Fills stats [T, 3] with those of the columns here; gathering them is the caller's. */
void
cuda_xent_stats(struct stream *st, const struct xent *x)
{
	cu_require(x->stats.dtype == DTYPE_F32 &&
	    tensor_elements(&x->stats) == 3 * x->logits.shape[0]);
	run(st, x, PICK(x->logits.dtype, launch_stats), "xent_stats");
}

/* Fills the losses and turns logits into their gradient, unless grad_scale is 0. */
void
cuda_xent_loss(struct stream *st, const struct xent *x)
{
	cu_require(x->mask.dtype == DTYPE_F32 && x->loss.dtype == DTYPE_F32 &&
	    x->zloss.dtype == DTYPE_F32);
	cu_require(!x->stats.data ||
	    (x->stats.dtype == DTYPE_F32 &&
		tensor_elements(&x->stats) == 3 * x->parts * x->logits.shape[0]));
	run(st, x, PICK(x->logits.dtype, launch_loss), "xent_loss");
}
