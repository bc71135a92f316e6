/*
 * norm_walk.cu - norms of rows of any length and place, and the entries for all
 *
 * One block per head of a row, which is read again in each pass: it is in the caches by then. The
 * residual sum before it is a kernel of its own here (dropout.cu). S is the type of the residual
 * stream, T that of activations.
 */
#include "train/cuda/norm.cuh"

/* y = (x - mean) rstd (weight + shift) + bias; the mean is of LayerNorm alone. blockIdx.y: the
 * head. */
template <typename S, typename T>
static __global__ void
walk_fwd_kernel(struct norm_call n)
{
	int64_t row = blockIdx.x, h = n.x.shape[1], at = row * gridDim.y + blockIdx.y;
	const S *x = row_of<S>(n.x, row) + blockIdx.y * h;
	const T *weight = (const T *)n.weight, *bias = (const T *)n.bias;
	T *y = row_of<T>(n.y, row) + blockIdx.y * h;
	float mean = 0, rstd, sum = 0;

	if (n.mean) {
		for (int64_t i = threadIdx.x; i < h; i += CU_THREADS)
			sum += to_float(x[i]);
		mean = block_sum(sum) / (float)h;
	}
	sum = 0;
	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS) {
		float centred = to_float(x[i]) - mean;

		sum += centred * centred;
	}
	rstd = 1 / sqrtf(block_sum(sum) / (float)h + n.eps);
	for (int64_t i = threadIdx.x; n.y.data && i < h; i += CU_THREADS)
		put(&y[i],
		    fmaf((to_float(x[i]) - mean) * rstd, to_float(weight[i]) + n.shift,
			bias ? to_float(bias[i]) : 0));
	if (threadIdx.x)
		return;
	n.rstd[at] = rstd;
	if (n.mean)
		n.mean[at] = mean;
}

/* dx += rstd (g - mean g - xhat mean(g xhat)) with g = dy (weight + shift); mean g only in
 * LayerNorm. blockIdx.y: the head. */
template <typename S, typename T>
static __global__ void
walk_bwd_kernel(struct norm_grad n)
{
	int64_t row = blockIdx.x, h = n.x.shape[1], at = row * gridDim.y + blockIdx.y;
	const S *x = row_of<S>(n.x, row) + blockIdx.y * h;
	const T *dy = row_of<T>(n.dy, row) + blockIdx.y * h, *weight = (const T *)n.weight.data;
	S *dx = row_of<S>(n.dx, row) + blockIdx.y * h;
	float mean = n.mean.data ? ((const float *)n.mean.data)[at] : 0,
	      rstd = ((const float *)n.rstd.data)[at];
	float shift = (float)n.shift, a = 0, c = 0;

	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS) {
		float g = to_float(dy[i]) * (to_float(weight[i]) + shift);

		a += g;
		c += g * ((to_float(x[i]) - mean) * rstd);
	}
	a = n.mean.data ? block_sum(a) / (float)h : 0;
	c = block_sum(c) / (float)h;
	for (int64_t i = threadIdx.x; i < h; i += CU_THREADS) {
		float g = to_float(dy[i]) * (to_float(weight[i]) + shift),
		      xhat = (to_float(x[i]) - mean) * rstd;

		put(&dx[i], to_float(dx[i]) + rstd * (g - a - xhat * c));
	}
}

/* part[p][0][c] = the sum of dy xhat, part[p][1][c] that of dy and part[p][2][c], when asked for,
 * that of dx as it is stored, over every gridDim.y-th group of four rows. 64 columns a block let
 * lanes read neighbours; four groups of rows hide the latency. blockIdx.z: the head, whose parts
 * are gridDim.y after those of the one before. */
template <typename S, typename T>
static __global__ void
walk_part_kernel(struct norm_grad n, float *part)
{
	__shared__ float sums[CU_SUMS][4][64];
	int lane = threadIdx.x % 64, group = threadIdx.x / 64, wanted = norm_sums(&n);
	int64_t h = n.x.shape[1], c = blockIdx.x * (int64_t)64 + lane, first = blockIdx.z * h,
		p = blockIdx.z * (int64_t)gridDim.y + blockIdx.y;
	float weight = 0, bias = 0, dx = 0;

	if (c < h)
		for (int64_t r = blockIdx.y * (int64_t)4 + group; r < n.x.shape[0];
		     r += gridDim.y * (int64_t)4) {
			int64_t at = r * gridDim.z + blockIdx.z;
			float mean = n.mean.data ? ((const float *)n.mean.data)[at] : 0,
			      rstd = ((const float *)n.rstd.data)[at];
			float dy = to_float(row_of<T>(n.dy, r)[first + c]);

			weight += dy * ((to_float(row_of<S>(n.x, r)[first + c]) - mean) * rstd);
			bias += dy;
			if (wanted > 2)
				dx += to_float(row_of<S>(n.dx, r)[first + c]);
		}
	sums[0][group][lane] = weight;
	sums[1][group][lane] = bias;
	sums[2][group][lane] = dx;
	__syncthreads();
	if (group < wanted && c < h) {
		const float(*s)[64] = sums[group];

		part[(wanted * p + group) * h + c] =
		    (s[0][lane] + s[1][lane]) + (s[2][lane] + s[3][lane]);
	}
}

/* In registers where possible; otherwise the residual sum first, then one block per head. */
template <typename S, typename T>
static void
forward(struct stream *st, const struct norm_call *call, int64_t heads)
{
	struct norm_call n = *call;

	if (sizeof(S) == sizeof(T) &&
	    (heads > 1 ? norm_heads_fwd<T>(st, &n, heads) : norm_held_fwd<T>(st, &n)))
		return;
	if (n.sum) {
		residual_rows(st, &n);
		n.x = n.stored;
	}
	walk_fwd_kernel<S, T>
	    <<<dim3((unsigned)n.x.shape[0], (unsigned)heads), CU_THREADS, 0, cu_handle(st)>>>(n);
}

/* Kernels of whole rows and of any length add to dx: zeros where it is to be written. */
static void
clear_dx(struct stream *st, const struct norm_grad *n, int64_t heads)
{
	struct fill none = { n->dx, 0 };

	none.x.shape[1] *= heads;
	cuda_fill(st, &none);
}

/* Returns the number of partial sums in the workspace. By rows for dx, then by columns; enough
 * parts to keep the GPU busy, at least 16 rows each. */
template <typename S, typename T>
static int
backward(struct stream *st, const struct norm_grad *n, int64_t heads)
{
	int64_t rows = n->x.shape[0], h = n->x.shape[1], parts = 0;

	if (sizeof(S) == sizeof(T) && heads > 1)
		parts = norm_heads_bwd<T>(st, n, heads);
	if (parts == 0 && n->writes_dx)
		clear_dx(st, n, heads);
	if (sizeof(S) == sizeof(T) && heads == 1)
		parts = norm_held_bwd<T>(st, n);
	if (parts > 0)
		return (int)parts;
	parts = int64_max(
	    1, int64_min(int64_min(128, int64_div_up(rows, 16)), norm_parts_max(n) / heads));
	walk_bwd_kernel<S, T>
	    <<<dim3((unsigned)rows, (unsigned)heads), CU_THREADS, 0, cu_handle(st)>>>(*n);
	walk_part_kernel<S, T>
	    <<<dim3((unsigned)int64_div_up(h, 64), (unsigned)parts, (unsigned)heads), CU_THREADS, 0,
		cu_handle(st)>>>(*n, (float *)cu_workspace(st));
	return (int)(parts * heads);
}

/* Shapes as in cpu/norm.c; y, if it is stored, and weight are of one type, statistics F32. */
static void
check(const struct norm *n)
{
	enum dtype type = n->weight.dtype;

	ops_require(n->rstd.dtype == DTYPE_F32 && cu_streams(n->x.dtype, type) &&
	    (!n->bias.data || n->bias.dtype == type));
	ops_require(n->y.data || quantise_makes(&n->copies));
	ops_require(!n->y.data || (tensor_same_shape(&n->x, &n->y) && n->y.dtype == type));
}

/* The norm alone. */
static struct norm_call
call_of(const struct norm *n)
{
	struct norm_call c = {};

	if (n->y.data)
		c.y = tensor_columns(&n->y, 0, n->weight.shape[0]);
	c.x = tensor_columns(&n->x, 0, n->weight.shape[0]);
	c.weight = n->weight.data;
	c.bias = n->bias.data;
	c.mean = (float *)n->mean.data;
	c.rstd = (float *)n->rstd.data;
	c.eps = (float)n->eps;
	c.shift = (float)n->shift;
	return c;
}

/* A row for each group of warps, a head for a part of one, or either for a block; copies in tiles,
 * after it. */
void
cuda_norm_fwd(struct stream *st, const struct norm *n)
{
	int64_t heads = norm_heads(&n->x, &n->weight);
	struct norm_call c = call_of(n);
	bool copies = quantise_makes(&n->copies);

	check(n);
	ops_require(heads == 1 || !copies);
	if (tensor_elements(&n->x) == 0)
		return;
	if (!copies || !n->has_stats)
		PICK_STREAM(n->x.dtype, n->weight.dtype, forward)(st, &c, heads);
	if (copies)
		cu_norm_copies(st, n);
	cu_launched(st, "norm_fwd");
}

/* The norm of the residual sum r->y, in the same pass over the rows. */
void
cu_residual_norm(struct stream *st, const struct residual *r)
{
	struct norm_call c = call_of(&r->norm);

	check(&r->norm);
	ops_require(norm_heads(&r->norm.x, &r->norm.weight) == 1);
	ops_require(r->norm.x.data == r->y.data && r->norm.x.dtype == r->y.dtype &&
	    r->norm.weight.dtype == r->x.dtype && tensor_same_shape(&r->norm.x, &r->y));
	if (tensor_elements(&r->y) == 0)
		return;
	c.sum = true;
	c.x = r->x;
	c.stored = r->y;
	c.residual = r->residual;
	c.mask = mask_of(&r->drop);
	PICK_STREAM(r->y.dtype, r->norm.weight.dtype, forward)(st, &c, 1);
	if (quantise_makes(&r->norm.copies))
		cu_norm_copies(st, &r->norm);
	cu_launched(st, "residual_fwd");
}

/* The columns of the first head. */
static struct norm_grad
first_head(const struct norm_grad *n)
{
	struct norm_grad first = *n;
	int64_t d = n->weight.shape[0];

	first.dx = tensor_columns(&n->dx, 0, d);
	first.x = tensor_columns(&n->x, 0, d);
	first.dy = tensor_columns(&n->dy, 0, d);
	return first;
}

/* dweight, dbias and the sums of dx are written or added to, through partial sums in the workspace.
 * The width is bounded by one row of all sums there, for each head. */
void
cuda_norm_bwd(struct stream *st, const struct norm_grad *n)
{
	int64_t heads = norm_heads(&n->x, &n->weight), h = n->weight.shape[0];
	struct norm_grad first = first_head(n);
	struct column_parts c = {
		{ (float *)n->dweight.data, (float *)n->dbias.data, (float *)n->dx_sum.data },
		(const float *)cu_workspace(st), h, norm_sums(n) * h, 0, n->accumulate ? 1.0f : 0.0f
	};

	ops_require(tensor_same_shape(&n->x, &n->dy) && tensor_same_shape(&n->x, &n->dx));
	ops_require(n->dweight.dtype == DTYPE_F32 && n->rstd.dtype == DTYPE_F32);
	ops_require(!n->dx_sum.data ||
	    (heads == 1 && n->dx_sum.dtype == DTYPE_F32 && n->dx_sum.shape[0] == h));
	ops_require(cu_streams(n->x.dtype, n->dy.dtype) && n->x.dtype == n->dx.dtype &&
	    n->dy.dtype == n->weight.dtype);
	ops_require(norm_parts_max(&first) >= heads);
	if (n->x.shape[0] > 0)
		c.parts = PICK_STREAM(n->x.dtype, n->dy.dtype, backward)(st, &first, heads);
	cu_finish_columns(st, &c);
	cu_launched(st, "norm_bwd");
}
