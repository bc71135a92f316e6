/*
 * norm.cu - LayerNorm and RMSNorm, a block a row; the sums over rows in two stages. Source:
 * spec/training.md 2.2 and 2.3
 *
 * A row is read again for each of its passes: it is in the caches by then.
 */
#include "train/cuda/kernel.cuh"

/* y = (x - mean) rstd weight + bias; the mean is of LayerNorm alone, which has a bias. */
template <typename T>
static __global__ void
norm_fwd_kernel(struct norm n)
{
	int64_t row = blockIdx.x, h = n.x.shape[1];
	const T *x = row_of<T>(n.x, row), *weight = (const T *)n.weight.data,
		*bias = (const T *)n.bias.data;
	T *y = row_of<T>(n.y, row);
	float mean = 0, rstd, sum = 0;

	if (bias) {
		for (int64_t i = threadIdx.x; i < h; i += CU_THREADS)
			sum += to_float(x[i]);
		mean = block_sum(sum) / (float)h;
	}
	sum = 0;
	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS) {
		float centred = to_float(x[i]) - mean;

		sum += centred * centred;
	}
	rstd = 1 / sqrtf(block_sum(sum) / (float)h + (float)n.eps);
	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS)
		put(&y[i],
		    (to_float(x[i]) - mean) * rstd * to_float(weight[i]) +
			(bias ? to_float(bias[i]) : 0));
	if (threadIdx.x)
		return;
	((float *)n.rstd.data)[row] = rstd;
	if (bias)
		((float *)n.mean.data)[row] = mean;
}

/* dx += rstd (g - mean g - xhat mean(g xhat)) with g = dy weight; mean g only in LayerNorm. */
template <typename T>
static __global__ void
norm_bwd_kernel(struct norm_grad n)
{
	int64_t row = blockIdx.x, h = n.x.shape[1];
	const T *x = row_of<T>(n.x, row), *dy = row_of<T>(n.dy, row),
		*weight = (const T *)n.weight.data;
	T *dx = row_of<T>(n.dx, row);
	float mean = n.mean.data ? ((const float *)n.mean.data)[row] : 0,
	      rstd = ((const float *)n.rstd.data)[row];
	float a = 0, c = 0;

	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS) {
		float g = to_float(dy[i]) * to_float(weight[i]);

		a += g;
		c += g * ((to_float(x[i]) - mean) * rstd);
	}
	a = n.mean.data ? block_sum(a) / (float)h : 0;
	c = block_sum(c) / (float)h;
	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS) {
		float g = to_float(dy[i]) * to_float(weight[i]),
		      xhat = (to_float(x[i]) - mean) * rstd;

		put(&dx[i], to_float(dx[i]) + rstd * (g - a - xhat * c));
	}
}

/* part[p][0][c] = the sum of dy xhat and part[p][1][c] that of dy, over every gridDim.y-th group
 * of four rows. 64 columns a block let lanes read neighbours; four groups of rows hide the
 * latency. */
template <typename T>
static __global__ void
norm_part_kernel(struct norm_grad n, float *part)
{
	__shared__ float sums[2][4][64];
	int lane = threadIdx.x % 64, group = threadIdx.x / 64;
	int64_t h = n.x.shape[1], c = blockIdx.x * (int64_t)64 + lane;
	float weight = 0, bias = 0;

	if (c < h)
		for (int64_t r = blockIdx.y * (int64_t)4 + group; r < n.x.shape[0];
		     r += gridDim.y * (int64_t)4) {
			float mean = n.mean.data ? ((const float *)n.mean.data)[r] : 0,
			      rstd = ((const float *)n.rstd.data)[r];
			float dy = to_float(row_of<T>(n.dy, r)[c]);

			weight += dy * ((to_float(row_of<T>(n.x, r)[c]) - mean) * rstd);
			bias += dy;
		}
	sums[0][group][lane] = weight;
	sums[1][group][lane] = bias;
	__syncthreads();
	if (group < 2 && c < h) {
		const float (*s)[64] = sums[group];

		part[(2 * blockIdx.y + group) * h + c] =
		    (s[0][lane] + s[1][lane]) + (s[2][lane] + s[3][lane]);
	}
}

/* dweight and dbias += the sums of their parts. In the order of the parts, so the sum is the
 * same in every run. */
static __global__ void
norm_finish_kernel(float *dweight, float *dbias, const float *part, int64_t h, int parts)
{
	int64_t c = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x;
	float weight = 0, bias = 0;

	if (c >= h)
		return;
	for (int p = 0; p < parts; p++) {
		weight += part[2 * p * h + c];
		bias += part[(2 * p + 1) * h + c];
	}
	dweight[c] += weight;
	if (dbias)
		dbias[c] += bias;
}

/* A block a row; rows are at least one here. */
template <typename T>
static void
forward(struct stream *st, const struct norm *n)
{
	norm_fwd_kernel<T><<<(unsigned)n->x.shape[0], CU_THREADS, 0, cu_handle(st)>>>(*n);
}

/* By rows for dx, then by columns. The number of parts follows from the shape alone, so the
 * order of the sums does not depend on the GPU; enough parts to keep it busy, at least 16 rows
 * each. */
template <typename T>
static void
backward(struct stream *st, const struct norm_grad *n)
{
	int64_t rows = n->x.shape[0], h = n->x.shape[1];
	int parts = (int)cu_max(1, cu_min(cu_min(128, cu_div_up(rows, 16)), CU_WORKSPACE / 8 / h));
	float *part = (float *)cu_workspace(st);

	norm_bwd_kernel<T><<<(unsigned)rows, CU_THREADS, 0, cu_handle(st)>>>(*n);
	norm_part_kernel<T>
	    <<<dim3((unsigned)cu_div_up(h, 64), (unsigned)parts), CU_THREADS, 0, cu_handle(st)>>>(
		*n, part);
	norm_finish_kernel<<<(unsigned)cu_div_up(h, CU_THREADS), CU_THREADS, 0, cu_handle(st)>>>(
	    (float *)n->dweight.data, (float *)n->dbias.data, part, h, parts);
}

/* Shapes as in cpu/norm.c; activations and weight are of one type, statistics F32. */
void
cuda_norm_fwd(struct stream *st, const struct norm *n)
{
	cu_require(
	    n->x.ndim == 2 && cu_same_shape(&n->x, &n->y) && n->weight.shape[0] == n->x.shape[1]);
	cu_require(n->rstd.dtype == DTYPE_F32 && n->x.dtype == n->y.dtype &&
	    n->x.dtype == n->weight.dtype);
	if (tensor_elements(&n->x) == 0)
		return;
	PICK(n->x.dtype, forward)(st, n);
	cu_launched(st, "norm_fwd");
}

/* Adds to dx, dweight and dbias. The width is bounded by one row of both sums in the workspace. */
void
cuda_norm_bwd(struct stream *st, const struct norm_grad *n)
{
	cu_require(n->x.ndim == 2 && cu_same_shape(&n->x, &n->dy) && cu_same_shape(&n->x, &n->dx));
	cu_require(n->dweight.dtype == DTYPE_F32 && n->rstd.dtype == DTYPE_F32 &&
	    n->x.shape[1] <= CU_WORKSPACE / 8);
	cu_require(n->x.dtype == n->dy.dtype && n->x.dtype == n->dx.dtype &&
	    n->x.dtype == n->weight.dtype);
	if (tensor_elements(&n->x) == 0)
		return;
	PICK(n->x.dtype, backward)(st, n);
	cu_launched(st, "norm_bwd");
}
