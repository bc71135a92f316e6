/*
 * rows.cu - the kernels of an exchange of rows: which of them go where, and their copies to memory
 * of other GPUs
 *
 * The rows that a rank writes lie in as many stretches as there are experts: of one rank for one
 * expert. Two prefix sums over the counts tell where each begins, on either side. Stretches follow
 * each other by rank from the next one's on, so that all ranks write to different ones at a time.
 * The copies then walk over all rows, a warp for each; of rows that are a number or two, a thread.
 */
#include "train/nccl/impl.h"

enum { THREADS = 256, WARPS = THREADS / 32, BLOCKS = 4 /* an SM */, AHEAD = 4 };
static_assert(ROWS_STRETCHES % THREADS == 0, "a thread has as many stretches as any other");

/* --- where rows go ---------------------------------------------------------------------------- */

static __device__ inline int32_t
count_of(const struct rows_copy &c, int rank, int64_t expert)
{
	return ((const int32_t *)c.counts.data)[rank * c.counts.stride[0] + expert];
}

/* Stretch i of the order that a rank takes: its expert among all, and whose rows they are. */
struct place {
	int64_t expert;
	int rank;
};

static __device__ inline struct place
taken_place(const struct rows_copy &c, int taker, int64_t i)
{
	int64_t local = c.counts.shape[1] / c.size;
	struct place p = { taker * local + i / c.size, (int)(i % c.size) };

	return p;
}

/* In which stretch of this rank's table the rows of `rank` for an expert are: by whom they are
 * written to, the next rank first. */
static __device__ inline int64_t
number_of(const struct rows_copy &c, int rank, int64_t expert)
{
	int64_t local = c.counts.shape[1] / c.size;
	int to = c.back ? rank : (int)(expert / local);

	return (to - c.rank - 1 + 2 * c.size) % c.size * local + expert % local;
}

/* Of the sums before i within a warp's 32 neighbours; before gets that of all of them too. */
static __device__ inline int32_t
warp_prefix(int32_t x, int32_t *before)
{
	int lane = threadIdx.x % 32;
	int32_t sum = x, all;

	for (int step = 1; step < 32; step *= 2) {
		int32_t other = __shfl_up_sync(0xffffffffu, sum, step);

		sum += lane >= step ? other : 0;
	}
	all = __shfl_sync(0xffffffffu, sum, 31);
	sum += *before - x;
	*before += all;
	return sum;
}

/* What a rank sends, in the order of experts: where those of this table begin. */
static __device__ void
find_routed(const struct rows_copy &c, int rank, int32_t *routed)
{
	int64_t experts = c.counts.shape[1], local = experts / c.size;
	int32_t before = 0;

	for (int64_t first = 0; first < experts; first += 32) {
		int64_t x = first + threadIdx.x % 32;
		int32_t at = warp_prefix(x < experts ? count_of(c, rank, x) : 0, &before);

		if (x < experts && (c.back ? x / local == c.rank : rank == c.rank))
			routed[number_of(c, rank, x)] = at;
	}
}

/* What a rank takes, in the order of experts and ranks: likewise. */
static __device__ void
find_taken(const struct rows_copy &c, int taker, int32_t *taken)
{
	int64_t experts = c.counts.shape[1];
	int32_t before = 0;

	for (int64_t first = 0; first < experts; first += 32) {
		int64_t i = first + threadIdx.x % 32;
		struct place p = taken_place(c, taker, i);
		bool is = i < experts;
		int32_t at = warp_prefix(is ? count_of(c, p.rank, p.expert) : 0, &before);

		if (is && (c.back ? taker == c.rank : p.rank == c.rank))
			taken[number_of(c, p.rank, p.expert)] = at;
	}
}

/* Stretch i of the table, cut to the window; end is not known yet. */
static __device__ inline struct rows_stretch
stretch_at(const struct rows_copy &c, int64_t i, int32_t routed, int32_t taken)
{
	int64_t local = c.counts.shape[1] / c.size;
	int to = (int)((c.rank + 1 + i / local) % c.size);
	int32_t rows = c.back ? count_of(c, to, c.rank * local + i % local)
			      : count_of(c, c.rank, to * local + i % local);
	int64_t begin = taken - c.first, from = begin < 0 ? 0 : begin,
		end = begin + rows < c.window ? begin + rows : c.window;
	int32_t here = (int32_t)from, there = (int32_t)(routed + from - begin);
	struct rows_stretch s = { c.back ? here : there, c.back ? there : here, to,
		(int32_t)(end > from ? end - from : 0) };

	return s;
}

/* One block. A warp has a rank: what one sends and all take, or one takes and all have sent. */
static __global__ void
__launch_bounds__(THREADS) rows_table_kernel(struct rows_copy c)
{
	__shared__ int32_t routed[ROWS_STRETCHES], taken[ROWS_STRETCHES], sums[WARPS];
	int warp = threadIdx.x / 32, experts = (int)c.counts.shape[1];
	int32_t before = 0;

	for (int i = warp; i < c.size; i += WARPS) {
		if (c.back || i == c.rank)
			find_routed(c, i, routed);
		if (!c.back || i == c.rank)
			find_taken(c, i, taken);
	}
	__syncthreads();
	for (int first = 0; first < experts; first += THREADS) {
		int i = first + threadIdx.x;
		struct rows_stretch s = {};
		int32_t of_warp = 0, end;

		if (i < experts)
			s = stretch_at(c, i, routed[i], taken[i]);
		end = warp_prefix(s.end, &of_warp) + s.end;
		if (threadIdx.x % 32 == 0)
			sums[warp] = of_warp;
		__syncthreads();
		s.end = end + before;
		for (int w = 0; w < WARPS; w++) {
			s.end += w < warp ? sums[w] : 0;
			before += sums[w];
		}
		__syncthreads();
		if (i < experts)
			c.table[i] = s;
	}
}

/* --- copies ----------------------------------------------------------------------------------- */

/* The stretch that has a row: the first that ends after it. */
static __device__ inline int
find(const int32_t *ends, int count, int64_t row)
{
	int low = 0, high = count - 1;

	while (low < high) {
		int middle = (low + high) / 2;

		if (ends[middle] > row)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Some of `words` words: all are read before one is written. */
template <typename W, int LANES>
static __device__ inline void
copy(W *to, const W *from, int64_t words)
{
	W x[AHEAD];

#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		if (i * LANES < words)
			x[i] = from[i * LANES];
#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		if (i * LANES < words)
			to[i * LANES] = x[i];
}

/* LANES threads a row, of `words` words of type W. */
template <typename W, int LANES>
static __global__ void
__launch_bounds__(THREADS) rows_copy_kernel(struct rows_copy c, int64_t words)
{
	__shared__ int32_t ends[ROWS_STRETCHES];
	int experts = (int)c.counts.shape[1], lane = threadIdx.x % LANES;

	for (int i = threadIdx.x; i < experts; i += THREADS)
		ends[i] = c.table[i].end;
	__syncthreads();
	for (int64_t row = (blockIdx.x * (int64_t)THREADS + threadIdx.x) / LANES;
	     row < ends[experts - 1]; row += gridDim.x * (int64_t)THREADS / LANES) {
		int i = find(ends, experts, row);
		struct rows_stretch s = c.table[i];
		int64_t in = row - (i ? ends[i - 1] : 0);
		const W *from = (const W *)c.in + (s.from + in) * words;
		W *to = (W *)c.out[s.rank] + (s.to + in) * words;

		for (int64_t k = lane; k < words; k += AHEAD * LANES)
			copy<W, LANES>(to + k, from + k, words - k);
	}
}

template <typename W>
static void
launch(const struct rows_copy *c, int num_sms, cudaStream_t stream)
{
	int64_t words = c->row_bytes / (int64_t)sizeof(W);
	unsigned blocks = (unsigned)(num_sms * BLOCKS);

	if (words >= 32)
		rows_copy_kernel<W, 32><<<blocks, THREADS, 0, stream>>>(*c, words);
	else
		rows_copy_kernel<W, 1><<<blocks, THREADS, 0, stream>>>(*c, words);
}

/* In the largest words that rows and all addresses are multiples of. */
cudaError_t
rows_copy(const struct rows_copy *c, int num_sms, cudaStream_t stream)
{
	uintptr_t at = (uintptr_t)c->in | (uintptr_t)c->row_bytes;

	for (int i = 0; i < c->size; i++)
		at |= (uintptr_t)c->out[i];
	rows_table_kernel<<<1, THREADS, 0, stream>>>(*c);
	if (at % 16 == 0)
		launch<uint4>(c, num_sms, stream);
	else if (at % 4 == 0)
		launch<uint32_t>(c, num_sms, stream);
	else
		launch<uint16_t>(c, num_sms, stream);
	return cudaGetLastError();
}
