/*
 * reduce.cu - sums over long vectors and over the rows of a matrix
 *
 * In two stages: a grid whose size follows from the shape alone leaves partial sums in the
 * workspace, and a second kernel adds them in their order. So the bits are the same on every GPU,
 * and no atomics are needed.
 */
#include "train/cuda/kernel.cuh"

enum {
	PARTS = 1056,         /* most partial sums of a long vector: 8 blocks on each of 132 SMs */
	COLUMN_BLOCKS = 1056, /* total number of blocks for column_sum */
	LANES = 32,
	GROUPS = CU_THREADS / LANES,
	FINISH_GROUPS = 32, /* of LANES threads in a block that adds parts */
};

/* --- vectors ---------------------------------------------------------------------------------- */

/* A block's sum becomes its part. */
static __device__ inline void
leave(double sum, double *part)
{
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		part[blockIdx.x] = sum;
}

/* x y of any types, one by one. */
static __global__ void
dot_any_kernel(struct tensor x, struct tensor y, int64_t count, double *part)
{
	double sum = 0;

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < count;
	     i += gridDim.x * (int64_t)CU_THREADS)
		sum += load_any(x, i) * load_any(y, i);
	leave(sum, part);
}

/* x y of F32 by packs of four; what is left over belongs to the first block. A product of two
 * floats is exact in double. SAME: y is x, read once. */
template <bool SAME>
static __global__ void
__launch_bounds__(CU_THREADS)
    dot_kernel(const float4 *x, const float4 *y, int64_t count, double *part)
{
	double sum[4] = { 0, 0, 0, 0 };
	int64_t packs = count / 4, rest = 4 * packs + threadIdx.x;

#pragma unroll 4
	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < packs;
	     i += gridDim.x * (int64_t)CU_THREADS) {
		float4 a = x[i], b = SAME ? a : y[i];

		sum[0] += (double)a.x * (double)b.x;
		sum[1] += (double)a.y * (double)b.y;
		sum[2] += (double)a.z * (double)b.z;
		sum[3] += (double)a.w * (double)b.w;
	}
	if (blockIdx.x == 0 && rest < count)
		sum[0] += (double)((const float *)x)[rest] * (double)((const float *)y)[rest];
	leave((sum[0] + sum[1]) + (sum[2] + sum[3]), part);
}

/* x x of 16 bits by packs; the first block takes the remainder. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) squares_kernel(const T *x, int64_t count, double *part)
{
	enum { N = full<T>::width };
	int64_t packs = count / N, rest = N * packs + threadIdx.x;
	double sum = 0;

#pragma unroll 4
	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < packs;
	     i += gridDim.x * (int64_t)CU_THREADS) {
		float a[N];

		load(a, x + i * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			sum += (double)a[k] * (double)a[k];
	}
	if (blockIdx.x == 0 && rest < count)
		sum += (double)to_float(x[rest]) * (double)to_float(x[rest]);
	leave(sum, part);
}

/* Counted in double: partial counts are added like the parts of dot. x - x is zero for finite
 * numbers alone. */
static __global__ void
nonfinite_any_kernel(struct tensor x, int64_t count, double *part)
{
	double sum = 0;

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < count;
	     i += gridDim.x * (int64_t)CU_THREADS) {
		double a = load_any(x, i);

		sum += a - a == 0 ? 0 : 1;
	}
	leave(sum, part);
}

/* By packs; the first block takes the remainder. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) nonfinite_kernel(const T *x, int64_t count, double *part)
{
	enum { N = full<T>::width };
	int64_t packs = count / N, rest = N * packs + threadIdx.x;
	int64_t found = 0;

#pragma unroll 4
	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < packs;
	     i += gridDim.x * (int64_t)CU_THREADS) {
		float a[N];

		load(a, x + i * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			found += !(a[k] - a[k] == 0);
	}
	if (blockIdx.x == 0 && rest < count)
		found += !(to_float(x[rest]) - to_float(x[rest]) == 0);
	leave((double)found, part);
}

/* One block: out += the sum of the parts. */
static __global__ void
finish_kernel(double *out, const double *part, int parts)
{
	double sum = 0;

	for (int i = threadIdx.x; i < parts; i += CU_THREADS)
		sum += part[i];
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		*out += sum;
}

/* The number of partial sums for a vector of this length. */
static int
num_parts(int64_t count)
{
	return (int)int64_max(1, int64_min(PARTS, int64_div_up(count, 16 * CU_THREADS)));
}

/* A vector, or a dense matrix as one. */
static bool
is_dense(const struct tensor *t)
{
	return t->ndim != 2 || t->stride[0] == t->shape[1];
}

/* F32 that can be read by packs. */
static bool
is_fast(const struct tensor *t)
{
	return t->dtype == DTYPE_F32 && (uintptr_t)t->data % 16 == 0;
}

/* out (F64) += sum of x y in double. */
void
cuda_dot(struct stream *st, const struct dot *d)
{
	const struct tensor *out = &d->out, *x = &d->x, *y = &d->y;
	int64_t count = tensor_elements(x);
	double *part = (double *)cu_workspace(st);
	const float4 *a = (const float4 *)x->data, *b = (const float4 *)y->data;
	int parts = num_parts(count);

	ops_require(
	    out->dtype == DTYPE_F64 && count == tensor_elements(y) && is_dense(x) && is_dense(y));
	if (a == b && x->dtype == DTYPE_BF16 && (uintptr_t)a % 16 == 0)
		squares_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(
		    (const bf16 *)x->data, count, part);
	else if (!is_fast(x) || !is_fast(y))
		dot_any_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(*x, *y, count, part);
	else if (a == b)
		dot_kernel<true><<<parts, CU_THREADS, 0, cu_handle(st)>>>(a, a, count, part);
	else
		dot_kernel<false><<<parts, CU_THREADS, 0, cu_handle(st)>>>(a, b, count, part);
	finish_kernel<<<1, CU_THREADS, 0, cu_handle(st)>>>((double *)out->data, part, parts);
	cu_launched(st, "dot");
}

/* The counts of one type in the workspace. */
template <typename T>
static void
launch_nonfinite(struct stream *st, const struct tensor *x, int parts)
{
	nonfinite_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(
	    (const T *)x->data, tensor_elements(x), (double *)cu_workspace(st));
}

/* y (F64) += how many elements of x are NaN or infinite. */
void
cuda_count_nonfinite(struct stream *st, const struct pair *p)
{
	const struct tensor *out = &p->y, *x = &p->x;
	int64_t count = tensor_elements(x);
	double *part = (double *)cu_workspace(st);
	int parts = num_parts(count);

	ops_require(out->dtype == DTYPE_F64 && is_dense(x));
	if (x->dtype == DTYPE_F64 || (uintptr_t)x->data % 16 != 0)
		nonfinite_any_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(*x, count, part);
	else
		PICK(x->dtype, launch_nonfinite)(st, x, parts);
	finish_kernel<<<1, CU_THREADS, 0, cu_handle(st)>>>((double *)out->data, part, parts);
	cu_launched(st, "count_nonfinite");
}

/* Zeros of either sign, counted like numbers that are not finite. */
static __global__ void
zero_any_kernel(struct tensor x, int64_t count, double *part)
{
	double sum = 0;

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < count;
	     i += gridDim.x * (int64_t)CU_THREADS)
		sum += load_any(x, i) == 0 ? 1 : 0;
	leave(sum, part);
}

/* y (F64) += how many elements of x are zero. Only --log-num-zeros-in-grad needs it, so it does not
 * read by packs. */
void
cuda_count_zero(struct stream *st, const struct pair *p)
{
	const struct tensor *out = &p->y, *x = &p->x;
	int64_t count = tensor_elements(x);
	double *part = (double *)cu_workspace(st);
	int parts = num_parts(count);

	ops_require(out->dtype == DTYPE_F64 && is_dense(x));
	zero_any_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(*x, count, part);
	finish_kernel<<<1, CU_THREADS, 0, cu_handle(st)>>>((double *)out->data, part, parts);
	cu_launched(st, "count_zero");
}

/* --- columns ---------------------------------------------------------------------------------- */

/* part[p][c] = the sum of every gridDim.y-th group of GROUPS rows; a warp reads LANES packs of a
 * row. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) column_part_kernel(struct tensor x, float *part)
{
	__shared__ float sums[GROUPS][LANES * N];
	int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
	int64_t first = blockIdx.x * (int64_t)(LANES * N), c = first + lane * N,
		columns = x.shape[1];
	float sum[N], a[N];

#pragma unroll
	for (int k = 0; k < N; k++)
		sum[k] = 0;
	if (c < columns)
#pragma unroll 4
		for (int64_t r = blockIdx.y * (int64_t)GROUPS + group; r < x.shape[0];
		     r += gridDim.y * (int64_t)GROUPS) {
			load(a, row_of<T>(x, r) + c);
#pragma unroll
			for (int k = 0; k < N; k++)
				sum[k] += a[k];
		}
#pragma unroll
	for (int k = 0; k < N; k++)
		sums[group][lane * N + k] = sum[k];
	__syncthreads();
	for (int i = threadIdx.x; i < LANES * N && first + i < columns; i += CU_THREADS) {
		float total = 0;

#pragma unroll
		for (int g = 0; g < GROUPS; g++)
			total += sums[g][i];
		part[blockIdx.y * columns + first + i] = total;
	}
}

/* Each group of threads adds every FINISH_GROUPS-th part of LANES columns, then their sums are
 * added in order. blockIdx.y is the array. */
static __global__ void
__launch_bounds__(LANES *FINISH_GROUPS) column_finish_kernel(struct column_parts c)
{
	__shared__ float sums[FINISH_GROUPS][LANES];
	int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
	int64_t column = blockIdx.x * (int64_t)LANES + lane;
	const float *part = c.part + blockIdx.y * c.columns + column;
	float *out = blockIdx.y == 0 ? c.out[0] : blockIdx.y == 1 ? c.out[1] : c.out[2], sum = 0;

	if (!out)
		return;
	if (column < c.columns)
#pragma unroll 8
		for (int p = group; p < c.parts; p += FINISH_GROUPS)
			sum += part[p * c.part_stride];
	sums[group][lane] = sum;
	__syncthreads();
	if (group != 0 || column >= c.columns)
		return;
	sum = 0;
	for (int g = 0; g < FINISH_GROUPS; g++)
		sum += sums[g][lane];
	out += column;
	*out = c.beta == 0 ? sum : c.beta * *out + sum;
}

/* A block of 1024 threads for 32 columns: the parts are few and the columns too. */
void
cu_finish_columns(struct stream *st, const struct column_parts *c)
{
	unsigned arrays = CU_SUMS;
	dim3 grid;

	while (arrays > 1 && !c->out[arrays - 1])
		arrays--;
	grid = dim3((unsigned)int64_div_up(c->columns, LANES), arrays);
	column_finish_kernel<<<grid, LANES * FINISH_GROUPS, 0, cu_handle(st)>>>(*c);
}

/* The partial sums by packs of N or one by one; returns how many parts there are. */
template <typename T>
static int
column_parts(struct stream *st, const struct tensor *x)
{
	int n = cu_packs(x, full<T>::width) ? (int)full<T>::width : 1;
	int64_t across = int64_div_up(x->shape[1], LANES * n);
	int parts = (int)int64_max(1,
	    int64_min(int64_min(COLUMN_BLOCKS / across, int64_div_up(x->shape[0], 4 * GROUPS)),
		CU_WORKSPACE / 4 / x->shape[1]));
	dim3 grid((unsigned)across, (unsigned)parts);
	float *part = (float *)cu_workspace(st);

	if (n > 1)
		column_part_kernel<T, full<T>::width>
		    <<<grid, CU_THREADS, 0, cu_handle(st)>>>(*x, part);
	else
		column_part_kernel<T, 1><<<grid, CU_THREADS, 0, cu_handle(st)>>>(*x, part);
	return parts;
}

/* out [n] (F32) += sum over rows; the number of parts follows from the shape, and from whether its
 * rows are whole packs. */
void
cu_column_sum(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	int64_t columns = x->shape[1];
	struct column_parts c = { { (float *)out->data }, (const float *)cu_workspace(st), columns,
		columns, 0, 1 };

	ops_require(x->ndim == 2 && out->shape[0] == columns && out->dtype == DTYPE_F32 &&
	    columns <= CU_WORKSPACE / 4);
	if (x->shape[0] == 0 || columns == 0)
		return;
	c.parts = PICK(x->dtype, column_parts)(st, x);
	cu_finish_columns(st, &c);
	cu_launched(st, "column_sum");
}

/* --- rows ------------------------------------------------------------------------------------- */

/* A block a row. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) row_sum_kernel(float *out, struct tensor x)
{
	const T *row = row_of<T>(x, blockIdx.x);
	float sum = 0;

	for (int64_t i = threadIdx.x; i < x.shape[1]; i += CU_THREADS)
		sum += to_float(row[i]);
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		out[blockIdx.x] += sum;
}

/* The rows are at least one. */
template <typename T>
static void
launch_row_sum(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	row_sum_kernel<T>
	    <<<(unsigned)x->shape[0], CU_THREADS, 0, cu_handle(st)>>>((float *)out->data, *x);
}

/* For a bias gradient whose operand is stored by rows, which no layer asks for. */
void
cu_row_sum(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	if (x->shape[0] > 0)
		PICK(x->dtype, launch_row_sum)(st, out, x);
	cu_launched(st, "row_sum");
}
