/* argmax.cu - the likeliest token of each row, of the vocabulary columns held here, one block per
 * row */
#include "train/cuda/kernel.cuh"

/* The largest value seen, and the first column that has it; -1: none. */
struct best {
	float value;
	int column;
};

/* The better of two; symmetric, so that a butterfly gives every lane the same. */
static __device__ inline struct best
better(struct best a, struct best b)
{
	bool second = b.value > a.value ||
	    (b.value == a.value && b.column >= 0 && (a.column < 0 || b.column < a.column));

	return second ? b : a;
}

static __device__ inline struct best
warp_best(struct best x)
{
	for (int step = 16; step > 0; step /= 2) {
		struct best other = { __shfl_xor_sync(0xffffffffu, x.value, step),
			__shfl_xor_sync(0xffffffffu, x.column, step) };

		x = better(x, other);
	}
	return x;
}

/* A thread's columns rise, so a later one has to be larger. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) argmax_kernel(struct argmax a)
{
	__shared__ struct best part[CU_THREADS / 32];
	const T *z = row_of<T>(a.logits, blockIdx.x);
	struct best x = { -INFINITY, -1 };

	for (int64_t i = threadIdx.x; i < a.valid_columns; i += CU_THREADS) {
		float v = to_float(z[i]);

		if (v > x.value)
			x = { v, (int)i };
	}
	x = warp_best(x);
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = x;
	__syncthreads();
	if (threadIdx.x >= 32)
		return;
	x = { -INFINITY, -1 };
	if (threadIdx.x < CU_THREADS / 32)
		x = part[threadIdx.x];
	x = warp_best(x);
	if (threadIdx.x)
		return;
	((float *)a.value.data)[blockIdx.x] = x.value;
	((int32_t *)a.index.data)[blockIdx.x] =
	    x.column < 0 ? -1 : (int32_t)(a.first_column + x.column);
}

template <typename T>
static void
launch(struct stream *st, const struct argmax *a)
{
	argmax_kernel<T><<<(unsigned)a->logits.shape[0], CU_THREADS, 0, cu_handle(st)>>>(*a);
}

void
cuda_argmax(struct stream *st, const struct argmax *a)
{
	int64_t count = a->logits.shape[0];

	ops_require(a->logits.ndim == 2 && a->valid_columns >= 0 &&
	    a->valid_columns <= a->logits.shape[1] && a->logits.shape[1] <= INT32_MAX &&
	    a->value.dtype == DTYPE_F32 && a->index.dtype == DTYPE_I32);
	ops_require(tensor_elements(&a->value) == count && tensor_elements(&a->index) == count);
	if (count == 0)
		return;
	PICK(a->logits.dtype, launch)(st, a);
	cu_launched(st, "argmax");
}
