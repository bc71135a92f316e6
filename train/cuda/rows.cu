/*
 * rows.cu - rows in the order of experts, and back. Source: docs/math.md 5.5
 *
 * A thread has a pack of a row and goes through the row's places: what is spread is read once, and
 * what is summed is added in their order. A row that was dropped has no place.
 */
#include "train/cuda/kernel.cuh"

/* x: [R, h], y: [P, h]. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) permute_kernel(struct permute r, struct walk w)
{
	FOR_PACKS(w, row, i)
	{
		const int32_t *permutation = row_of<int32_t>(r.permutation, row);
		pack<T, N> x = fetch<T, N>(row_of<T>(r.x, row) + i * N);

		for (int64_t j = 0; j < r.permutation.shape[1]; j++)
			if (permutation[j] >= 0)
				move<T, N>(row_of<T>(r.y, permutation[j]) + i * N, &x);
	}
}

/* x: [P, h], y: [R, h]. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) gather_rows_kernel(struct permute r, struct walk w)
{
	FOR_PACKS(w, row, i)
	{
		const int32_t *permutation = row_of<int32_t>(r.permutation, row);
		T *y = row_of<T>(r.y, row) + i * N;
		float sum[N] = {}, x[N];

		if (r.accumulate)
			load(sum, y);
#pragma unroll 4
		for (int64_t j = 0; j < r.permutation.shape[1]; j++) {
			if (permutation[j] < 0)
				continue;
			load(x, row_of<T>(r.x, permutation[j]) + i * N);
#pragma unroll
			for (int k = 0; k < N; k++)
				sum[k] += x[k];
		}
		store(y, sum);
	}
}

template <typename T, int N>
static void
launch(struct stream *st, const struct permute *r)
{
	struct walk w = walk_of(st, r->permutation.shape[0], r->x.shape[1], N);

	if (r->kind == ROWS_PERMUTE)
		permute_kernel<T, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*r, w);
	else
		gather_rows_kernel<T, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*r, w);
}

template <typename T>
static void
permute(struct stream *st, const struct permute *r)
{
	if (cu_packs(&r->y, full<T>::width) && cu_packs(&r->x, full<T>::width))
		launch<T, full<T>::width>(st, r);
	else
		launch<T, 1>(st, r);
}

void
cuda_permute(struct stream *st, const struct permute *r)
{
	const struct tensor *rows = r->kind == ROWS_PERMUTE ? &r->x : &r->y;

	ops_require(r->y.ndim == 2 && r->x.ndim == 2 && r->y.shape[1] == r->x.shape[1]);
	ops_require(r->y.dtype == r->x.dtype);
	ops_require(r->permutation.dtype == DTYPE_I32 && r->permutation.shape[0] == rows->shape[0]);
	PICK(r->x.dtype, permute)(st, r);
	cu_launched(st, "permute");
}
