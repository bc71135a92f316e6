/*
 * embedding.cu - rows of a table by number, and the sum of gradients into them. Source:
 * spec/training.md 2.7
 *
 * For the sum, the rows of dy are sorted by the table row that they go to, with a stable sort: then
 * each table row has one run of rows in their own order, and one owner that adds them one after
 * another. More rows than the workspace can sort are taken in portions, in order, so that the sums
 * are the same.
 */
#include "train/cuda/kernel.cuh"

#include <cub/device/device_radix_sort.cuh>

enum { PORTION = 1 << 20 };             /* rows that are sorted at once: four arrays of 4 MiB, and the sort's own 16 MiB */

/* The rows [first, first + count) of dy, as pairs of table row and row of dy, before and after
 * sorting. */
struct portion {
	int64_t first;
	int count;
	int32_t *key[2], *row[2];
	void *temporary;
	size_t temporary_bytes;
};

/* The table's row for row i, or -1 when another rank holds it. */
static __device__ inline int64_t
table_row(const struct tensor &ids, int64_t i, int64_t first_row, int64_t num_rows)
{
	int64_t row = ((const int32_t *)ids.data)[i] - first_row;

	return row >= 0 && row < num_rows ? row : -1;
}

/* A row that is not here is zero, and adds nothing. */
template <typename T>
static __global__ void
gather_kernel(struct embedding e)
{
	FOR_ELEMENTS(r, c, e.y.shape[0], e.y.shape[1]) {
		int64_t row = table_row(e.ids, r, e.first_row, e.table.shape[0]);
		T *y = &row_of<T>(e.y, r)[c];
		float x = row < 0 ? 0 : to_float(row_of<T>(e.table, row)[c]);

		if (!e.accumulate)
			put(y, x);
		else if (row >= 0)
			put(y, to_float(*y) + x);
	}
}

/* Rows that go nowhere get the number behind the table's last. Their key sorts behind all rows
 * of the table, and scatter_kernel skips it. */
static __global__ void
number_kernel(struct embedding_grad e, struct portion p)
{
	int i = blockIdx.x * CU_THREADS + threadIdx.x;
	int64_t row;

	if (i >= p.count)
		return;
	row = table_row(e.ids, p.first + i, e.first_row, e.dtable.shape[0]);
	p.key[0][i] = (int32_t)(row < 0 ? e.dtable.shape[0] : row);
	p.row[0][i] = i;
}

/* Block i owns the table row whose run starts at i, if one does, in CU_THREADS of its columns. */
template <typename T>
static __global__ void
scatter_kernel(struct embedding_grad e, struct portion p)
{
	int first = blockIdx.x, key = p.key[1][first];
	int64_t c = blockIdx.y * (int64_t)CU_THREADS + threadIdx.x;
	float *out, sum;

	if (key >= e.dtable.shape[0] || (first > 0 && p.key[1][first - 1] == key) ||
	    c >= e.dy.shape[1])
		return;
	out = row_of<float>(e.dtable, key) + c;
	sum = *out;
	for (int i = first; i < p.count && p.key[1][i] == key; i++)
		sum += to_float(row_of<T>(e.dy, p.first + p.row[1][i])[c]);
	*out = sum;
}

/* A thread an element of y. */
template <typename T>
static void
forward(struct stream *st, const struct embedding *e)
{
	gather_kernel<T>
	    <<<element_grid(e->y.shape[0], e->y.shape[1]), CU_THREADS, 0, cu_handle(st)>>>(*e);
}

/* Blocks whose row goes on a run that began before end at once; that is cheaper than finding the
 * runs first. */
template <typename T>
static void
scatter(struct stream *st, const struct embedding_grad *e, const struct portion *p)
{
	dim3 grid((unsigned)p->count, (unsigned)cu_div_up(e->dy.shape[1], CU_THREADS));

	scatter_kernel<T><<<grid, CU_THREADS, 0, cu_handle(st)>>>(*e, *p);
}

/* Where a portion's arrays lie in the workspace. CU_WORKSPACE has room for all of it by the
 * choice of PORTION. */
static struct portion
portion_at(struct stream *st, int64_t first, int64_t rows)
{
	int32_t *at = (int32_t *)cu_workspace(st);
	struct portion p;

	p.first = first;
	p.count = (int)cu_min(PORTION, rows - first);
	p.key[0] = at;
	p.key[1] = at + PORTION;
	p.row[0] = at + 2 * (size_t)PORTION;
	p.row[1] = at + 3 * (size_t)PORTION;
	p.temporary = at + 4 * (size_t)PORTION;
	p.temporary_bytes = CU_WORKSPACE - 4 * (size_t)PORTION * sizeof *at;
	return p;
}

/* Sorts the pairs by the bits that table rows have; false when that failed. Radix sort is
 * stable, which is what keeps the tokens in order. */
static bool
sort(struct stream *st, const struct portion *p, int64_t num_rows)
{
	size_t bytes = p->temporary_bytes;
	int bits = 1;

	while (num_rows >> bits)
		bits++;
	return cu_ok(st->device,
	    cub::DeviceRadixSort::SortPairs(p->temporary, bytes, p->key[0], p->key[1], p->row[0],
		p->row[1], p->count, 0, bits, cu_handle(st)),
	    "embedding_bwd");
}

/* Rows of other ranks become zeros, so that the sum over tensor ranks completes them. */
void
cuda_embedding_fwd(struct stream *st, const struct embedding *e)
{
	cu_require(e->y.ndim == 2 && e->table.ndim == 2 && e->y.shape[1] == e->table.shape[1]);
	cu_require(e->ids.dtype == DTYPE_I32 && e->ids.shape[0] == e->y.shape[0] &&
	    e->table.dtype == e->y.dtype);
	PICK(e->y.dtype, forward)(st, e);
	cu_launched(st, "embedding_fwd");
}

/* Adds to dtable in F32, in the order of the tokens: bitwise repeatable, unlike atomics. */
void
cuda_embedding_bwd(struct stream *st, const struct embedding_grad *e)
{
	cu_require(e->dy.ndim == 2 && e->dtable.ndim == 2 && e->dy.shape[1] == e->dtable.shape[1]);
	cu_require(e->ids.dtype == DTYPE_I32 && e->dtable.dtype == DTYPE_F32 &&
	    e->dtable.shape[0] < INT32_MAX);
	for (int64_t first = 0; first < e->dy.shape[0] && e->dy.shape[1] > 0; first += PORTION) {
		struct portion p = portion_at(st, first, e->dy.shape[0]);

		number_kernel<<<(unsigned)cu_div_up(p.count, CU_THREADS), CU_THREADS, 0,
		    cu_handle(st)>>>(*e, p);
		if (!sort(st, &p, e->dtable.shape[0]))
			return;
		PICK(e->dy.dtype, scatter)(st, e, &p);
	}
	cu_launched(st, "embedding_bwd");
}
