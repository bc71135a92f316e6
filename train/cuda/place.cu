/*
 * place.cu - the order of rows that some of the experts take. Source: docs/math.md 5.5
 *
 * A block has an expert. The first kernel counts its rows, and the second walks over all rows once
 * more, by then with the rows of the experts before it, and gives its own their places: in the
 * order of rows, by prefix sums over a block's threads.
 */
#include "train/cuda/route.cuh"

/* How many ranks share each expert. */
static __host__ __device__ inline int
slices_of(const struct place_rows &p)
{
	return (int)(p.permutation.shape[1] / p.choice.shape[1]);
}

/* Where the rows for a slice of the block's expert stand among all counts. */
static __device__ inline int64_t
cell_of(const struct place_rows &p, int slice)
{
	int64_t local = p.counts.shape[1], rank = blockIdx.x / local * slices_of(p) + slice;

	return rank * local + blockIdx.x % local;
}

/* Whether choice i of all is there and is the block's expert. */
static __device__ inline bool
is_own(const struct place_rows &p, int64_t i)
{
	return i < p.choice.shape[0] * p.choice.shape[1] &&
	    ((const int32_t *)p.choice.data)[i] == p.first + blockIdx.x;
}

static __global__ void
__launch_bounds__(CU_THREADS) place_count_kernel(struct place_rows p)
{
	int64_t all = p.choice.shape[0] * p.choice.shape[1];
	int32_t rows = 0;

	for (int64_t i = threadIdx.x; i < all; i += CU_THREADS)
		rows += is_own(p, i);
	rows = block_sum(rows);
	for (int s = threadIdx.x; s < slices_of(p); s += CU_THREADS)
		((int32_t *)p.counts.data)[cell_of(p, s)] = rows;
}

/* Rows of the block's expert for a slice come after those of all counts before. */
static __global__ void
__launch_bounds__(CU_THREADS) place_kernel(struct place_rows p)
{
	const int32_t *counts = (const int32_t *)p.counts.data;
	int64_t all = p.choice.shape[0] * p.choice.shape[1];
	int slices = slices_of(p);
	int32_t *permutation = (int32_t *)p.permutation.data;

	for (int s = 0; s < slices; s++) {
		int32_t before = 0, rows;

		for (int64_t i = threadIdx.x; i < cell_of(p, s); i += CU_THREADS)
			before += counts[i];
		before = block_sum(before);
		for (int64_t first = 0; first < all; first += CU_THREADS) {
			int64_t i = first + threadIdx.x;
			int32_t own = is_own(p, i), to = block_prefix(own, &rows);

			if (own)
				permutation[i * slices + s] = before + to - 1;
			before += rows;
		}
	}
}

void
cuda_place_rows(struct stream *st, const struct place_rows *p)
{
	int64_t experts = tensor_elements(&p->counts) / slices_of(*p);

	ops_require(p->choice.dtype == DTYPE_I32 && p->permutation.dtype == DTYPE_I32 &&
	    p->counts.dtype == DTYPE_I32 && p->counts.ndim == 2 && p->first >= 0);
	ops_require(p->permutation.shape[0] == p->choice.shape[0] &&
	    p->permutation.shape[1] == slices_of(*p) * p->choice.shape[1]);
	cu_ok(st->device,
	    cudaMemsetAsync(
		p->permutation.data, 0xff, tensor_bytes(&p->permutation), cu_handle(st)),
	    "place_rows");
	place_count_kernel<<<(unsigned)experts, CU_THREADS, 0, cu_handle(st)>>>(*p);
	place_kernel<<<(unsigned)experts, CU_THREADS, 0, cu_handle(st)>>>(*p);
	cu_launched(st, "place_rows");
}
