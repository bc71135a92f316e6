/*
 * normal.cu - normal random numbers by their place in a tensor: initial weights
 *
 * The counters and the formula of lib/base/rng.c, in double up to the one rounding: a thread turns
 * one block of four words into four numbers. The logarithm and the circle functions of the two
 * sides may differ in the last bits of a double.
 */
#include "train/cuda/rng.cuh"

/* struct normal as the kernel takes it: elements [first, first + count) of the sequence. */
struct normal_call {
	uint64_t key;
	uint32_t stream;
	int64_t first, count;
	double std;
};

/* Two words to two normals; (0, 1] for the logarithm. */
static __device__ inline void
box_muller(uint32_t a, uint32_t b, double out[2])
{
	double u = ((double)a + 1.0) * 0x1p-32, v = (double)b * 0x1p-32;
	double r = sqrt(-2.0 * log(u)), s, c;

	sincos(6.283185307179586476925 * v, &s, &c);
	out[0] = r * c;
	out[1] = r * s;
}

static __device__ inline void
put_double(float *p, double x)
{
	*p = (float)x;
}

static __device__ inline void
put_double(double *p, double x)
{
	*p = x;
}

static __device__ inline void
put_double(bf16 *p, double x)
{
	*p = __double2bfloat16(x);
}

static __device__ inline void
put_double(half *p, double x)
{
	*p = __double2half(x);
}

/* One thread per block of the generator; the first and the last may lie partly outside. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) normal_kernel(T *x, struct normal_call n)
{
	int64_t start = n.first / 4, end = (n.first + n.count + 3) / 4;

	for (int64_t b = start + blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; b < end;
	     b += gridDim.x * (int64_t)CU_THREADS) {
		uint32_t w[4];
		double z[4];

		philox(n.key, (uint64_t)b, n.stream, 0, w);
		box_muller(w[0], w[1], z);
		box_muller(w[2], w[3], z + 2);
#pragma unroll
		for (int k = 0; k < 4; k++) {
			int64_t i = 4 * b + k - n.first;

			if (i >= 0 && i < n.count)
				put_double(x + i, n.std * z[k]);
		}
	}
}

/* A few waves of blocks. */
template <typename T>
static void
launch(struct stream *st, const struct tensor *x, const struct normal_call *n)
{
	int64_t blocks = int64_min(
	    int64_div_up(n->count / 4 + 2, CU_THREADS), 32 * (int64_t)st->device->num_sms);

	normal_kernel<<<(unsigned)blocks, CU_THREADS, 0, cu_handle(st)>>>((T *)x->data, *n);
}

/* x is dense; its elements are numbered as they lie. */
void
cuda_normal(struct stream *st, const struct normal *n)
{
	const struct tensor *x = &n->x;
	struct normal_call c = { n->key, n->stream, n->first, tensor_elements(x), n->std };

	ops_require((x->ndim != 2 || x->stride[0] == x->shape[1]) && n->first >= 0);
	if (x->dtype == DTYPE_F64)
		launch<double>(st, x, &c);
	else
		PICK(x->dtype, launch)(st, x, &c);
	cu_launched(st, "normal");
}
