/*
 * loss.cu - cross entropy and z-loss over the vocabulary columns held here, a block a row.
 * Source: spec/training.md 2.8, 5.1
 *
 * The three passes and their contract are those of cpu/loss.c; statistics are F32. One block a
 * row, and a sum's order depends on the number of its threads alone, the same on every GPU.
 * Logits are read again in each pass: a row of a large vocabulary does not fit registers.
 */
#include "train/cuda/kernel.cuh"

/* Column of row i's label here, or -1 when it is another rank's or padding. */
static __device__ inline int64_t
label_column(const struct xent &x, int64_t row)
{
	int64_t column = ((const int32_t *)x.labels.data)[row] - x.first_column;

	return column >= 0 && column < x.valid_columns ? column : -1;
}

/* The row maximum, -inf when all columns here are padding. */
template <typename T>
static __global__ void
max_kernel(struct xent x)
{
	int64_t row = blockIdx.x;
	const T *z = row_of<T>(x.logits, row);
	float max = -INFINITY;

	for (int64_t i = threadIdx.x; i < x.valid_columns; i += CU_THREADS)
		max = fmaxf(max, to_float(z[i]));
	max = block_max(max);
	if (threadIdx.x == 0)
		((float *)x.row_max.data)[row] = max;
}

/* The sum of exponentials and the label's shifted logit. */
template <typename T>
static __global__ void
sum_kernel(struct xent x)
{
	int64_t row = blockIdx.x, label = label_column(x, row);
	const T *z = row_of<T>(x.logits, row);
	float max = ((const float *)x.row_max.data)[row], sum = 0,
	      *out = (float *)x.sums.data + 2 * row;

	for (int64_t i = threadIdx.x; i < x.valid_columns; i += CU_THREADS)
		sum += expf(to_float(z[i]) - max);
	sum = block_sum(sum);
	if (threadIdx.x)
		return;
	out[0] = sum;
	out[1] = label < 0 ? 0 : to_float(z[label]) - max;
}

/* The two losses of a row, then its gradient when there is one to make: factor * softmax, less
 * the weight at the label. Derivative of the z-loss c lse^2 is 2 c lse softmax, hence the
 * factor. */
template <typename T>
static __global__ void
loss_kernel(struct xent x)
{
	int64_t row = blockIdx.x, label = label_column(x, row);
	T *z = row_of<T>(x.logits, row);
	float max = ((const float *)x.row_max.data)[row],
	      sum = ((const float *)x.sums.data)[2 * row];
	float log_sum = logf(sum), lse = max + log_sum, z_loss = (float)x.z_loss;
	float weight = (float)x.grad_scale * ((const float *)x.mask.data)[row],
	      factor = weight * (1 + 2 * z_loss * lse) / sum;

	if (threadIdx.x == 0) {
		((float *)x.loss.data)[row] = log_sum - ((const float *)x.sums.data)[2 * row + 1];
		((float *)x.zloss.data)[row] = z_loss * lse * lse;
	}
	if (x.grad_scale == 0)
		return;
	for (int64_t i = threadIdx.x; i < x.logits.shape[1]; i += CU_THREADS) {
		float g = i < x.valid_columns ? factor * expf(to_float(z[i]) - max) : 0;

		put(&z[i], i == label ? g - weight : g);
	}
}

/* One block a row; the caller has left out the case of no rows, which CUDA refuses. */
template <typename T>
static void
launch_max(struct stream *st, const struct xent *x)
{
	max_kernel<T><<<(unsigned)x->logits.shape[0], CU_THREADS, 0, cu_handle(st)>>>(*x);
}

/* The maximum must be that of all tensor ranks by now. */
template <typename T>
static void
launch_sum(struct stream *st, const struct xent *x)
{
	sum_kernel<T><<<(unsigned)x->logits.shape[0], CU_THREADS, 0, cu_handle(st)>>>(*x);
}

/* The sums must be those of all tensor ranks by now. */
template <typename T>
static void
launch_loss(struct stream *st, const struct xent *x)
{
	loss_kernel<T><<<(unsigned)x->logits.shape[0], CU_THREADS, 0, cu_handle(st)>>>(*x);
}

/* One step over all rows. */
static void
run(struct stream *st, const struct xent *x, void (*launch)(struct stream *, const struct xent *),
    const char *name)
{
	cu_require(
	    x->logits.ndim == 2 && x->valid_columns >= 0 && x->valid_columns <= x->logits.shape[1]);
	cu_require(x->labels.dtype == DTYPE_I32 && x->row_max.dtype == DTYPE_F32 &&
	    x->sums.dtype == DTYPE_F32);
	if (x->logits.shape[0] == 0)
		return;
	launch(st, x);
	cu_launched(st, name);
}

/* Fills row_max [T]; the caller takes the maximum over tensor ranks. */
void
cuda_xent_max(struct stream *st, const struct xent *x)
{
	run(st, x, PICK(x->logits.dtype, launch_max), "xent_max");
}

/* Fills sums [T, 2]; the caller sums over tensor ranks. */
void
cuda_xent_sum(struct stream *st, const struct xent *x)
{
	run(st, x, PICK(x->logits.dtype, launch_sum), "xent_sum");
}

/* Fills the losses and turns logits into their gradient, unless grad_scale is 0. */
void
cuda_xent_loss(struct stream *st, const struct xent *x)
{
	cu_require(x->mask.dtype == DTYPE_F32 && x->loss.dtype == DTYPE_F32 &&
	    x->zloss.dtype == DTYPE_F32);
	run(st, x, PICK(x->logits.dtype, launch_loss), "xent_loss");
}
