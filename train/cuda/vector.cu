/*
 * vector.cu - element-wise operations and sums that know nothing of the model
 *
 * They take tensors of any floating type, also two of different types, so the type is looked at
 * where an element is read: the branch is the same for all threads and hides behind the memory.
 */
#include "train/cuda/kernel.cuh"

enum { PARTS = 1024 };          /* most partial sums of a long vector */

/* Element of a row in double, which holds every floating type exactly. */
static __device__ inline double
load_any(const struct tensor &t, int64_t row, int64_t column)
{
	int64_t i = row * t.stride[0] + column;

	switch (t.dtype) {
	case DTYPE_F64: return ((const double *)t.data)[i];
	case DTYPE_F32: return ((const float *)t.data)[i];
	case DTYPE_BF16: return to_float(((const bf16 *)t.data)[i]);
	default: return to_float(((const half *)t.data)[i]);
	}
}

/* Rounds once to the type of the tensor. */
static __device__ inline void
store_any(const struct tensor &t, int64_t row, int64_t column, double x)
{
	int64_t i = row * t.stride[0] + column;

	switch (t.dtype) {
	case DTYPE_F64: ((double *)t.data)[i] = x; break;
	case DTYPE_F32: ((float *)t.data)[i] = (float)x; break;
	case DTYPE_BF16: ((bf16 *)t.data)[i] = __double2bfloat16(x); break;
	default: ((half *)t.data)[i] = __double2half(x); break;
	}
}

/* The sum is taken in float and rounded once. */
static __global__ void
bias_kernel(struct tensor y, struct tensor bias)
{
	FOR_ELEMENTS(r, c, y.shape[0], y.shape[1])
		store_any(y, r, c, (float)load_any(y, r, c) + (float)load_any(bias, 0, c));
}

/* y += x in float, in double when y is. */
static __global__ void
add_kernel(struct tensor y, struct tensor x, int64_t rows, int64_t columns)
{
	FOR_ELEMENTS(r, c, rows, columns) {
		double a = load_any(y, r, c), b = load_any(x, r, c);

		store_any(y, r, c, y.dtype == DTYPE_F64 ? a + b : (float)a + (float)b);
	}
}

/* In float, in double when x is. */
static __global__ void
scale_kernel(struct tensor x, double factor, int64_t rows, int64_t columns)
{
	FOR_ELEMENTS(r, c, rows, columns) {
		double a = load_any(x, r, c);

		store_any(x, r, c, x.dtype == DTYPE_F64 ? a * factor : (float)a * (float)factor);
	}
}

/* For values other than zero, and for strided rows. */
static __global__ void
fill_kernel(struct tensor x, double value, int64_t rows, int64_t columns)
{
	FOR_ELEMENTS(r, c, rows, columns)
		store_any(x, r, c, value);
}

/* Through double, which is exact for every source, so there is one rounding. */
static __global__ void
cast_kernel(struct tensor dst, struct tensor src, int64_t rows, int64_t columns)
{
	FOR_ELEMENTS(r, c, rows, columns)
		store_any(dst, r, c, load_any(src, r, c));
}

/* Block i sums every gridDim.x-th run of CU_THREADS products. The order is fixed by length and
 * number of blocks; no atomics. */
static __global__ void
dot_kernel(struct tensor x, struct tensor y, int64_t count, double *part)
{
	double sum = 0;

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < count;
	     i += gridDim.x * (int64_t)CU_THREADS)
		sum += load_any(x, 0, i) * load_any(y, 0, i);
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		part[blockIdx.x] = sum;
}

/* Counted in double: partial counts are added like the parts of dot. */
static __global__ void
nonfinite_kernel(struct tensor x, int64_t count, double *part)
{
	double sum = 0;

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < count;
	     i += gridDim.x * (int64_t)CU_THREADS) {
		double a = load_any(x, 0, i);

		/* Zero for finite numbers alone. */
		sum += a - a == 0 ? 0 : 1;
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		part[blockIdx.x] = sum;
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

/* part[p][c] = the sum of every gridDim.y-th group of rows; 64 columns a block, four threads a
 * column. */
static __global__ void
column_part_kernel(struct tensor x, float *part)
{
	__shared__ float sums[4][64];
	int lane = threadIdx.x % 64, group = threadIdx.x / 64;
	int64_t c = blockIdx.x * (int64_t)64 + lane;
	float sum = 0;

	if (c < x.shape[1])
		for (int64_t r = blockIdx.y * (int64_t)4 + group; r < x.shape[0];
		     r += gridDim.y * (int64_t)4)
			sum += (float)load_any(x, r, c);
	sums[group][lane] = sum;
	__syncthreads();
	if (group == 0 && c < x.shape[1])
		part[blockIdx.y * x.shape[1] + c] =
		    (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
}

/* out += the sum of the parts of a column. */
static __global__ void
column_finish_kernel(float *out, const float *part, int64_t columns, int parts)
{
	int64_t c = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x;
	float sum = 0;

	if (c >= columns)
		return;
	for (int p = 0; p < parts; p++)
		sum += part[p * columns + c];
	out[c] += sum;
}

/* A dense matrix as the vector that it is in memory, so that short rows keep whole blocks busy. */
static struct tensor
flat(const struct tensor *t)
{
	return t->ndim == 2 && t->stride[0] != t->shape[1] ? *t : tensor_flat(t);
}

/* Two tensors of one shape, as vectors when both are dense. */
static void
flatten(struct tensor *a, struct tensor *b)
{
	struct tensor x = flat(a), y = flat(b);

	if (x.ndim != y.ndim)
		return;
	*a = x;
	*b = y;
}

/* Asks for one kernel, which stands for all: they are built for the same architectures. */
cudaError_t
cu_kernels_present(void)
{
	struct cudaFuncAttributes a;

	return cudaFuncGetAttributes(&a, finish_kernel);
}

/* y [T, n] += bias [n]. */
void
cuda_bias_add(struct stream *st, const struct tensor *y, const struct tensor *bias)
{
	cu_require(y->ndim == 2 && bias->shape[0] == y->shape[1]);
	bias_kernel<<<element_grid(y->shape[0], y->shape[1]), CU_THREADS, 0, cu_handle(st)>>>(
	    *y, *bias);
	cu_launched(st, "bias_add");
}

/* out [n] (F32) += sum over rows. Two stages, since few columns alone would leave the GPU idle;
 * the number of parts follows from the shape alone. */
void
cuda_column_sum(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	int64_t rows = x->shape[0], columns = x->shape[1];
	float *part = (float *)cu_workspace(st);
	int parts = (int)cu_max(
	    1, cu_min(cu_min(128, cu_div_up(rows, 16)), CU_WORKSPACE / 4 / cu_max(1, columns)));

	cu_require(x->ndim == 2 && out->shape[0] == columns && out->dtype == DTYPE_F32 &&
	    columns <= CU_WORKSPACE / 4);
	if (rows == 0 || columns == 0)
		return;
	column_part_kernel<<<dim3((unsigned)cu_div_up(columns, 64), (unsigned)parts), CU_THREADS, 0,
	    cu_handle(st)>>>(*x, part);
	column_finish_kernel<<<(unsigned)cu_div_up(columns, CU_THREADS), CU_THREADS, 0,
	    cu_handle(st)>>>((float *)out->data, part, columns, parts);
	cu_launched(st, "column_sum");
}

/* Shapes must agree, types need not. */
void
cuda_add(struct stream *st, const struct tensor *y, const struct tensor *x)
{
	struct tensor a = *y, b = *x;
	dim3 grid;

	cu_require(cu_same_shape(y, x));
	flatten(&a, &b);
	grid = element_grid(cu_rows(&a), cu_columns(&a));
	add_kernel<<<grid, CU_THREADS, 0, cu_handle(st)>>>(a, b, cu_rows(&a), cu_columns(&a));
	cu_launched(st, "add");
}

/* In place. */
void
cuda_scale(struct stream *st, const struct tensor *x, double factor)
{
	struct tensor a = flat(x);
	dim3 grid = element_grid(cu_rows(&a), cu_columns(&a));

	scale_kernel<<<grid, CU_THREADS, 0, cu_handle(st)>>>(
	    a, factor, cu_rows(&a), cu_columns(&a));
	cu_launched(st, "scale");
}

/* A dense tensor is zeroed as bytes. */
void
cuda_fill(struct stream *st, const struct tensor *x, double value)
{
	struct tensor a = flat(x);
	dim3 grid = element_grid(cu_rows(&a), cu_columns(&a));

	cu_require(dtype_is_float(x->dtype));
	st->device->last = "fill";
	if (value == 0 && a.ndim == 1)
		cu_ok(st->device, cudaMemsetAsync(a.data, 0, tensor_bytes(&a), cu_handle(st)),
		    "fill");
	else
		fill_kernel<<<grid, CU_THREADS, 0, cu_handle(st)>>>(
		    a, value, cu_rows(&a), cu_columns(&a));
	cu_launched(st, "fill");
}

/* Rows of one type, as bytes. */
static cudaError_t
copy_rows(struct stream *st, const struct tensor *to, const struct tensor *from)
{
	size_t size = dtype_size(to->dtype), width = (size_t)cu_columns(to) * size;

	if (to->ndim == 1)
		return cudaMemcpyAsync(
		    to->data, from->data, width, cudaMemcpyDeviceToDevice, cu_handle(st));
	return cudaMemcpy2DAsync(to->data, (size_t)to->stride[0] * size, from->data,
	    (size_t)from->stride[0] * size, width, (size_t)cu_rows(to), cudaMemcpyDeviceToDevice,
	    cu_handle(st));
}

/* Narrowing rounds to nearest, ties to even. Same types are copied as bytes, integers too. */
void
cuda_cast(struct stream *st, const struct tensor *dst, const struct tensor *src)
{
	struct tensor to = *dst, from = *src;
	int64_t rows, columns;

	cu_require(cu_same_shape(dst, src));
	cu_require(
	    dst->dtype == src->dtype || (dtype_is_float(dst->dtype) && dtype_is_float(src->dtype)));
	flatten(&to, &from);
	rows = cu_rows(&to);
	columns = cu_columns(&to);
	if (to.dtype == from.dtype)
		cu_ok(st->device, copy_rows(st, &to, &from), "cast");
	else
		cast_kernel<<<element_grid(rows, columns), CU_THREADS, 0, cu_handle(st)>>>(
		    to, from, rows, columns);
	cu_launched(st, "cast");
}

/* How many partial sums a vector of this length gets. */
static int
num_parts(int64_t count)
{
	return (int)cu_max(1, cu_min(PARTS, cu_div_up(count, 8 * CU_THREADS)));
}

/* out (F64) += sum of x y in double; the number of parts follows from the length alone, so the
 * bits are the same on every GPU. */
void
cuda_dot(
    struct stream *st, const struct tensor *out, const struct tensor *x, const struct tensor *y)
{
	int64_t count = tensor_elements(x);
	double *part = (double *)cu_workspace(st);
	int parts = num_parts(count);

	cu_require(out->dtype == DTYPE_F64 && count == tensor_elements(y) && flat(x).ndim == 1 &&
	    flat(y).ndim == 1);
	dot_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(*x, *y, count, part);
	finish_kernel<<<1, CU_THREADS, 0, cu_handle(st)>>>((double *)out->data, part, parts);
	cu_launched(st, "dot");
}

/* out (F64) += how many elements are NaN or infinite. */
void
cuda_count_nonfinite(struct stream *st, const struct tensor *out, const struct tensor *x)
{
	int64_t count = tensor_elements(x);
	double *part = (double *)cu_workspace(st);
	int parts = num_parts(count);

	cu_require(out->dtype == DTYPE_F64 && flat(x).ndim == 1);
	nonfinite_kernel<<<parts, CU_THREADS, 0, cu_handle(st)>>>(*x, count, part);
	finish_kernel<<<1, CU_THREADS, 0, cu_handle(st)>>>((double *)out->data, part, parts);
	cu_launched(st, "count_nonfinite");
}
