/* scale_columns.cu - columns times a number each; a thread has a column */
#include "train/cuda/kernel.cuh"

/* The products of a column are added before they are replaced, since y may be x. */
static __global__ void
scale_columns_kernel(struct scale_columns a)
{
	int64_t c = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x;
	float sum = 0;

	if (c >= a.x.shape[1])
		return;
	for (int64_t r = 0; r < a.x.shape[0]; r++) {
		float x = (float)load_any(a.x, r * a.x.stride[0] + c);

		if (a.dg.data)
			sum += x * (float)load_any(a.input, r * a.input.stride[0] + c);
		store_any(a.y, r * a.y.stride[0] + c, x * (float)load_any(a.g, c));
	}
	if (a.dg.data)
		((float *)a.dg.data)[c] += sum;
}

void
cuda_scale_columns(struct stream *st, const struct scale_columns *a)
{
	ops_require(a->x.ndim == 2 && tensor_same_shape(&a->y, &a->x) && a->g.ndim == 1 &&
	    a->g.shape[0] == a->x.shape[1]);
	ops_require(!a->dg.data ||
	    (tensor_same_shape(&a->input, &a->x) && tensor_same_shape(&a->dg, &a->g) &&
		a->dg.dtype == DTYPE_F32));
	scale_columns_kernel<<<(unsigned)int64_div_up(a->x.shape[1], CU_THREADS), CU_THREADS, 0,
	    cu_handle(st)>>>(*a);
	cu_launched(st, "scale_columns");
}
