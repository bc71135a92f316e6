/*
 * drop.cu - rows that an expert has no capacity for. Source: docs/math.md 5.4
 *
 * A block has an expert, whose rows it finds in their order by their places. The least weight that
 * is kept is found by its bits, eight at a time from the highest, which are in the order of numbers
 * since no weight is below 0. Then every row is kept or not, and those that are get new places.
 */
#include "train/cuda/route.cuh"

enum { DIGIT = 8, BITS = 32, BINS = 1 << DIGIT };
static_assert((int)BINS == (int)CU_THREADS, "a thread has a bin");

/* The workspace: of each place the number of its row among all R k, and of each of these its place
 * among the rows that its expert keeps, or -1. */
struct lists {
	int32_t *row, *kept;
};

/* Of the rows of an expert those are kept whose weight is above this, and so many of just it. */
struct limit {
	uint32_t bits;
	int32_t equal;
};

static __device__ inline uint32_t
weight_bits(const struct drop_rows &d, int32_t i)
{
	return d.by_position ? 0 : ((const uint32_t *)d.route.weight.data)[i];
}

static __global__ void
__launch_bounds__(CU_THREADS) drop_list_kernel(struct drop_rows d, struct lists l)
{
	int64_t all = d.route.topk.shape[0] * d.route.topk.shape[1];
	const int32_t *permutation = (const int32_t *)d.route.permutation.data;

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < all;
	     i += gridDim.x * (int64_t)CU_THREADS)
		l.row[permutation[i * slices_of(d.route)]] = (int32_t)i;
}

/* How many of the rows have each value of eight bits, where the bits above are as in `like`. */
static __device__ inline int32_t
count_digit(const struct drop_rows &d, const int32_t *row, int rows, uint32_t like, int shift)
{
	__shared__ int32_t bins[BINS];

	bins[threadIdx.x] = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < rows; i += CU_THREADS) {
		uint32_t w = weight_bits(d, row[i]);

		if (shift + DIGIT == BITS || w >> (shift + DIGIT) == like >> (shift + DIGIT))
			atomicAdd(&bins[w >> shift & (BINS - 1)], 1);
	}
	__syncthreads();
	return bins[BINS - 1 - threadIdx.x];
}

/* More rows than capacity: a thread finds that its value of the digit is the least kept. */
static __device__ inline struct limit
find_limit(const struct drop_rows &d, const int32_t *row, int rows)
{
	__shared__ struct limit found;
	struct limit least = { 0, (int32_t)d.capacity };

	for (int shift = BITS - DIGIT; shift >= 0; shift -= DIGIT) {
		int32_t all, n = count_digit(d, row, rows, least.bits, shift),
			     to = block_prefix(n, &all);

		if (to >= least.equal && to - n < least.equal) {
			found.bits = least.bits | (uint32_t)(BINS - 1 - threadIdx.x) << shift;
			found.equal = least.equal - (to - n);
		}
		__syncthreads();
		least = found;
	}
	return least;
}

/* Where kept is read, all else follows from it. */
static __device__ inline bool
is_kept(const struct drop_rows &d, int32_t row, struct limit least, int32_t equal_before)
{
	uint32_t w = weight_bits(d, row);

	if (d.route.chosen)
		return ((const float *)d.kept.data)[row] > 0;
	return w > least.bits || (w == least.bits && equal_before < least.equal);
}

/* Returns how many rows the expert keeps. */
static __device__ inline int32_t
keep(const struct drop_rows &d, struct lists l, const int32_t *row, int rows, struct limit least)
{
	int32_t equals = 0, keeps = 0, all;

	for (int first = 0; first < rows; first += CU_THREADS) {
		bool is = first + (int)threadIdx.x < rows;
		int32_t i = is ? row[first + threadIdx.x] : 0;
		int32_t equal = is && weight_bits(d, i) == least.bits,
			before = equals + block_prefix(equal, &all) - equal;
		int32_t kept = is && is_kept(d, i, least, before), at;

		equals += all;
		at = keeps + block_prefix(kept, &all) - kept;
		keeps += all;
		if (!is)
			continue;
		l.kept[i] = kept ? at : -1;
		((float *)d.kept.data)[i] = (float)kept;
	}
	return keeps;
}

static __global__ void
__launch_bounds__(CU_THREADS) drop_select_kernel(struct drop_rows d, struct lists l)
{
	const int32_t *counts = (const int32_t *)d.route.counts.data;
	int64_t cell = cell_of(d.route, blockIdx.x, 0);
	int rows = counts[cell], keeps;
	int32_t before = 0;
	struct limit least = { 0, (int32_t)d.capacity };

	for (int64_t i = threadIdx.x; i < cell; i += CU_THREADS)
		before += counts[i];
	before = block_sum(before);
	if (!d.route.chosen && !d.by_position && rows > d.capacity)
		least = find_limit(d, l.row + before, rows);
	keeps = keep(d, l, l.row + before, rows, least);
	for (int i = threadIdx.x; i < slices_of(d.route); i += CU_THREADS)
		((int32_t *)d.taken.data)[cell_of(d.route, blockIdx.x, i)] = keeps;
}

/* After the rows of all counts before. */
static __global__ void
__launch_bounds__(CU_THREADS) drop_permutation_kernel(struct drop_rows d, struct lists l)
{
	extern __shared__ int32_t start[];
	int64_t all = d.route.topk.shape[0] * d.route.topk.shape[1];
	const int32_t *topk = (const int32_t *)d.route.topk.data;
	int slices = slices_of(d.route);
	int32_t *permutation = (int32_t *)d.route.permutation.data;

	prefix(start, (const int32_t *)d.taken.data, (int)(d.taken.shape[0] * d.taken.shape[1]));
	__syncthreads();
	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < all;
	     i += gridDim.x * (int64_t)CU_THREADS) {
		for (int s = 0; s < slices; s++)
			permutation[i * slices + s] =
			    l.kept[i] < 0 ? -1 : start[cell_of(d.route, topk[i], s)] + l.kept[i];
		if (d.choice.data)
			((int32_t *)d.choice.data)[i] = l.kept[i] < 0 ? -1 : topk[i];
	}
}

void
cuda_drop_rows(struct stream *st, const struct drop_rows *d)
{
	const struct route *r = &d->route;
	int64_t all = tensor_elements(&r->topk), slots = tensor_elements(&r->permutation);
	size_t cells = (size_t)tensor_elements(&r->counts) * sizeof(int32_t);
	unsigned blocks =
	    (unsigned)int64_min(int64_div_up(all, CU_THREADS), 8 * (int64_t)st->device->num_sms);
	struct lists l = { (int32_t *)cu_workspace(st), (int32_t *)cu_workspace(st) + slots };

	ops_require(d->kept.dtype == DTYPE_F32 && tensor_same_shape(&d->kept, &r->topk));
	ops_require(d->capacity > 0 && tensor_same_shape(&d->taken, &r->counts));
	ops_require(r->weight.dtype == DTYPE_F32 && d->taken.dtype == DTYPE_I32);
	ops_require(!d->choice.data ||
	    (d->choice.dtype == DTYPE_I32 && tensor_same_shape(&d->choice, &r->topk)));
	ops_require(cells <= 32 << 10 && all + slots <= (int64_t)(CU_WORKSPACE / sizeof(int32_t)));
	if (all == 0)
		return;
	drop_list_kernel<<<blocks, CU_THREADS, 0, cu_handle(st)>>>(*d, l);
	drop_select_kernel<<<(unsigned)r->logits.shape[1], CU_THREADS, 0, cu_handle(st)>>>(*d, l);
	drop_permutation_kernel<<<blocks, CU_THREADS, cells, cu_handle(st)>>>(*d, l);
	cu_launched(st, "drop_rows");
}
