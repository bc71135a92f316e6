/*
 * rope.cu - rotary positions, a block a row. Source: spec/training.md 2.4
 *
 * The same pairs and the same table as cpu/rope.c, the table in F32. Turned in place: a thread
 * owns both elements of a pair, so nothing is read after it was written.
 */
#include "train/cuda/kernel.cuh"

/* Threads share out the pairs of all heads of a row; the backward pass turns by the negative angle.
 */
template <typename T>
static __global__ void
rope_kernel(struct rope r)
{
	int64_t row = blockIdx.x;
	int half = r.rotary_dim / 2;
	const float *table = row_of<float>(r.table, ((const int32_t *)r.positions.data)[row]);

	for (int i = threadIdx.x; i < r.num_heads * half; i += CU_THREADS) {
		int pair = i % half;
		T *x = row_of<T>(r.x, row) + (int64_t)(i / half) * r.head_dim;
		T *first = x + (r.interleaved ? 2 * pair : pair),
		  *second = first + (r.interleaved ? 1 : half);
		float u = to_float(*first), v = to_float(*second);
		float cosine = table[2 * pair],
		      sine = r.backward ? -table[2 * pair + 1] : table[2 * pair + 1];

		put(first, u * cosine - v * sine);
		put(second, v * cosine + u * sine);
	}
}

/* One block a token; there is at least one. */
template <typename T>
static void
launch(struct stream *st, const struct rope *r)
{
	rope_kernel<T><<<(unsigned)r->x.shape[0], CU_THREADS, 0, cu_handle(st)>>>(*r);
}

/* Positions are below the table's rows: the sequence length of the plan bounds both. */
void
cuda_rope(struct stream *st, const struct rope *r)
{
	cu_require(r->x.ndim == 2 && r->x.shape[1] == (int64_t)r->num_heads * r->head_dim);
	cu_require(r->rotary_dim % 2 == 0 && r->rotary_dim <= r->head_dim);
	cu_require(r->table.dtype == DTYPE_F32 && r->positions.dtype == DTYPE_I32);
	if (r->x.shape[0] == 0 || r->rotary_dim == 0)
		return;
	PICK(r->x.dtype, launch)(st, r);
	cu_launched(st, "rope");
}
