/*
 * embedding.cu - rows of a table by number, and the sum of gradients into them. Source:
 * docs/math.md 2.7
 *
 * For the sum, the rows of dy are sorted by the table row that they go to, with a stable sort: then
 * each table row has one run of rows in their own order, and its columns have one owner each, which
 * adds them one after another. Where the runs are is written down first, long ones apart, so that
 * the few long ones of frequent tokens start before the many short ones; in which order they are
 * listed changes no result. More rows than the workspace can sort are taken in portions, in order,
 * so that the sums are the same.
 */
#include "train/cuda/kernel.cuh"

#include <cub/device/device_radix_sort.cuh>

enum {
	/* rows sorted at once: eight arrays of 2 MiB, and the sort's own 16 MiB */
	PORTION = 1 << 19,
	LONG_RUN = 64, /* rows from which a run is long */
	AHEAD = 8,     /* rows of a run that are loaded at once */
	COLUMNS = 4,   /* of a lane */
};

/* A stretch of the sorted rows that go to one table row. */
struct run {
	int32_t first, count;
};

/* The number of runs found. */
struct tally {
	int32_t num_long, num_short;
};

/* The rows [first, first + count) of dy, as pairs of table row and row of dy, before and after
 * sorting. */
struct portion {
	int64_t first;
	int count;
	int32_t *key[2], *row[2];
	/* [2 PORTION / LONG_RUN..]: long ones from the front, short ones after */
	struct run *runs;
	struct tally *tally;
	void *temporary;
	size_t temporary_bytes;
	bool add; /* to what the table's row holds; else it is written */
};

/* The table's row for row i, or -1 when another rank holds it. */
static __device__ inline int64_t
table_row(const struct tensor &ids, int64_t i, int64_t first_row, int64_t num_rows)
{
	int64_t row = ((const int32_t *)ids.data)[i] - first_row;

	return row >= 0 && row < num_rows ? row : -1;
}

/* A row of another rank is zero, and adds nothing. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) gather_kernel(struct embedding e, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		int64_t row = table_row(e.ids, r, e.first_row, e.table.shape[0]);
		T *y = row_of<T>(e.y, r) + i * N;
		float x[N] = {}, before[N];

		if (row >= 0)
			load(x, row_of<T>(e.table, row) + i * N);
		else if (e.accumulate)
			continue;
#pragma unroll
		for (int k = 0; k < N; k++)
			x[k] *= (float)e.scale;
		if (e.accumulate) {
			load(before, y);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[k] = before[k] + x[k];
		}
		store(y, x);
	}
}

/* Rows without a table row here get the number after the table's last. Their key sorts after all
 * rows of the table, and list_kernel skips it. */
static __global__ void
__launch_bounds__(CU_THREADS) number_kernel(struct embedding_grad e, struct portion p)
{
	int i = blockIdx.x * CU_THREADS + threadIdx.x;
	int64_t row;

	if (i == 0)
		*p.tally = {};
	if (i >= p.count)
		return;
	row = table_row(e.ids, p.first + i, e.first_row, e.dtable.shape[0]);
	p.key[0][i] = (int32_t)(row < 0 ? e.dtable.shape[0] : row);
	p.row[0][i] = i;
}

/* The end of the run that begins at `first`: by doubling steps, then by halving. */
static __device__ inline int
run_end(const int32_t *key, int first, int count)
{
	int low = first, step = 1;

	while (low + step < count && key[low + step] == key[first]) {
		low += step;
		step *= 2;
	}
	for (; step > 0; step /= 2)
		if (low + step < count && key[low + step] == key[first])
			low += step;
	return low + 1;
}

/* A thread whose row begins a run lists it. */
static __global__ void
__launch_bounds__(CU_THREADS) list_kernel(struct portion p, int num_rows)
{
	int i = blockIdx.x * CU_THREADS + threadIdx.x;
	const int32_t *key = p.key[1];
	struct run r;

	if (i >= p.count || key[i] >= num_rows || (i > 0 && key[i - 1] == key[i]))
		return;
	r.first = i;
	r.count = run_end(key, i, p.count) - i;
	if (r.count >= LONG_RUN)
		p.runs[atomicAdd(&p.tally->num_long, 1)] = r;
	else
		p.runs[PORTION - 1 - atomicAdd(&p.tally->num_short, 1)] = r;
}

/* Adds the rows of dy with these numbers, times scale, to sum, N columns from dy on. The lanes of a
 * warp share the numbers of the next 32 rows; AHEAD rows are asked for before the first of them is
 * added. */
template <typename T, int N>
static __device__ inline void
add_run(const T *dy, int64_t stride, const int32_t *rows, int count, float scale, float (&sum)[N])
{
	int lane = threadIdx.x % 32;

	for (int done = 0; done < count; done += 32) {
		int left = min(32, count - done);
		int mine = lane < left ? rows[done + lane] : 0;

		for (int j = 0; j < left; j += AHEAD) {
			pack<T, N> x[AHEAD];

#pragma unroll
			for (int a = 0; a < AHEAD; a++) {
				int row = __shfl_sync(0xffffffffu, mine, (j + a) % 32);

				if (j + a < left)
					x[a] = fetch<T, N>(dy + row * stride);
			}
#pragma unroll
			for (int a = 0; a < AHEAD; a++) {
				float value[N];

				if (j + a >= left)
					continue;
				unpack(value, x[a]);
#pragma unroll
				for (int k = 0; k < N; k++)
					sum[k] = fmaf(scale, value[k], sum[k]);
			}
		}
	}
}

/* A warp takes 32 N columns of a run at a time, the long runs first. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS, 3)
    scatter_kernel(struct embedding_grad e, struct portion p, int chunks)
{
	int64_t num_long = p.tally->num_long, items = (num_long + p.tally->num_short) * chunks;
	int warps = gridDim.x * (CU_THREADS / 32);

	for (int64_t item = blockIdx.x * (CU_THREADS / 32) + threadIdx.x / 32; item < items;
	     item += warps) {
		int64_t i = item / chunks, c = (item % chunks * 32 + threadIdx.x % 32) * N;
		struct run r = p.runs[i < num_long ? i : PORTION - 1 - (i - num_long)];
		bool live = c < e.dy.shape[1];
		float *out = row_of<float>(e.dtable, p.key[1][r.first]) + c, sum[N] = {};

		if (p.add && live)
			load(sum, out);
		/* Lanes beyond the last column read the first, and write nothing. */
		add_run<T, N>(row_of<T>(e.dy, p.first) + (live ? c : 0), e.dy.stride[0],
		    p.row[1] + r.first, r.count, (float)e.scale, sum);
		if (live)
			store(out, sum);
	}
}

/* One thread per pack of y. */
template <typename T>
static void
forward(struct stream *st, const struct embedding *e)
{
	bool wide = cu_packs(&e->y, full<T>::width) && cu_packs(&e->table, full<T>::width);
	struct walk w = walk_of(st, e->y.shape[0], e->y.shape[1], wide ? (int)full<T>::width : 1);

	if (wide)
		gather_kernel<T, full<T>::width><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*e, w);
	else
		gather_kernel<T, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*e, w);
}

/* As many warps as the GPU holds; they divide the runs among them. */
template <typename T>
static void
scatter(struct stream *st, const struct embedding_grad *e, const struct portion *p)
{
	bool wide = cu_packs(&e->dy, COLUMNS) && cu_packs(&e->dtable, COLUMNS);
	int chunks = (int)int64_div_up(e->dy.shape[1], 32 * (wide ? COLUMNS : 1));
	unsigned blocks = (unsigned)st->device->num_sms * 3;

	if (wide)
		scatter_kernel<T, COLUMNS>
		    <<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*e, *p, chunks);
	else
		scatter_kernel<T, 1><<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*e, *p, chunks);
}

/* Places a portion's arrays in the workspace. PORTION is chosen so that CU_WORKSPACE has room for
 * them. */
static struct portion
portion_at(struct stream *st, const struct embedding_grad *e, int64_t first)
{
	int32_t *at = (int32_t *)cu_workspace(st);
	struct portion p;

	p.first = first;
	p.count = (int)int64_min(PORTION, e->dy.shape[0] - first);
	p.key[0] = at;
	p.key[1] = at + PORTION;
	p.row[0] = at + 2 * (size_t)PORTION;
	p.row[1] = at + 3 * (size_t)PORTION;
	p.runs = (struct run *)(at + 4 * (size_t)PORTION);
	p.tally = (struct tally *)(at + 6 * (size_t)PORTION);
	p.temporary = at + 7 * (size_t)PORTION;
	p.temporary_bytes = CU_WORKSPACE - 7 * (size_t)PORTION * sizeof *at;
	p.add = e->accumulate || first > 0;
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
	ops_require(e->y.ndim == 2 && e->table.ndim == 2 && e->y.shape[1] == e->table.shape[1]);
	ops_require(e->ids.dtype == DTYPE_I32 && e->ids.shape[0] == e->y.shape[0] &&
	    e->table.dtype == e->y.dtype);
	PICK(e->y.dtype, forward)(st, e);
	cu_launched(st, "embedding_fwd");
}

/* Sums into dtable in F32, in the order of the tokens: bitwise repeatable, unlike atomic additions.
 * Without accumulate all rows become zero first, and those of a run are then written. */
void
cuda_embedding_bwd(struct stream *st, const struct embedding_grad *e)
{
	struct fill none = { e->dtable, 0 };

	ops_require(e->dy.ndim == 2 && e->dtable.ndim == 2 && e->dy.shape[1] == e->dtable.shape[1]);
	ops_require(e->ids.dtype == DTYPE_I32 && e->ids.shape[0] == e->dy.shape[0] &&
	    e->dtable.dtype == DTYPE_F32 && e->dtable.shape[0] < INT32_MAX);
	if (!e->accumulate)
		cuda_fill(st, &none);
	for (int64_t first = 0; first < e->dy.shape[0] && e->dy.shape[1] > 0; first += PORTION) {
		struct portion p = portion_at(st, e, first);
		unsigned blocks = (unsigned)int64_div_up(p.count, CU_THREADS);

		number_kernel<<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*e, p);
		if (!sort(st, &p, e->dtable.shape[0]))
			return;
		list_kernel<<<blocks, CU_THREADS, 0, cu_handle(st)>>>(p, (int)e->dtable.shape[0]);
		PICK(e->dy.dtype, scatter)(st, e, &p);
	}
	cu_launched(st, "embedding_bwd");
}
