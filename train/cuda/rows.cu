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
__launch_bounds__(CU_THREADS) rows_spread_kernel(struct rows_by r, struct walk w)
{
	FOR_PACKS(w, row, i)
	{
		const int32_t *place = row_of<int32_t>(r.place, row);
		pack<T, N> x = fetch<T, N>(row_of<T>(r.x, row) + i * N);

		for (int64_t j = 0; j < r.place.shape[1]; j++)
			if (place[j] >= 0)
				move<T, N>(row_of<T>(r.y, place[j]) + i * N, &x);
	}
}

/* x: [P, h], y: [R, h]. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) rows_sum_kernel(struct rows_by r, struct walk w)
{
	FOR_PACKS(w, row, i)
	{
		const int32_t *place = row_of<int32_t>(r.place, row);
		T *y = row_of<T>(r.y, row) + i * N;
		float sum[N] = {}, x[N];

		if (r.accumulate)
			load(sum, y);
#pragma unroll 4
		for (int64_t j = 0; j < r.place.shape[1]; j++) {
			if (place[j] < 0)
				continue;
			load(x, row_of<T>(r.x, place[j]) + i * N);
#pragma unroll
			for (int k = 0; k < N; k++)
				sum[k] += x[k];
		}
		store(y, sum);
	}
}

template <typename T, int N>
static void
launch(struct stream *st, const struct rows_by *r)
{
	struct walk w = walk_of(st, r->place.shape[0], r->x.shape[1], N);

	if (r->kind == ROWS_SPREAD)
		rows_spread_kernel<T, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*r, w);
	else
		rows_sum_kernel<T, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*r, w);
}

template <typename T>
static void
rows_by(struct stream *st, const struct rows_by *r)
{
	if (cu_packs(&r->y, full<T>::width) && cu_packs(&r->x, full<T>::width))
		launch<T, full<T>::width>(st, r);
	else
		launch<T, 1>(st, r);
}

void
cuda_rows_by(struct stream *st, const struct rows_by *r)
{
	const struct tensor *rows = r->kind == ROWS_SPREAD ? &r->x : &r->y;

	ops_require(r->y.ndim == 2 && r->x.ndim == 2 && r->y.shape[1] == r->x.shape[1]);
	ops_require(r->y.dtype == r->x.dtype);
	ops_require(r->place.dtype == DTYPE_I32 && r->place.shape[0] == rows->shape[0]);
	PICK(r->x.dtype, rows_by)(st, r);
	cu_launched(st, "rows_by");
}
