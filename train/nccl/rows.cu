/*
 * rows.cu - the kernel of an exchange of rows: it writes those of this rank to the other GPUs of
 * the host
 *
 * The rows that a rank writes lie in as many stretches as there are experts: of one rank for one
 * expert. Two prefix sums over the counts tell where each begins, on either side; every block makes
 * them for itself. Stretches follow each other by rank from the next one's on, so that all ranks
 * write to different ones at a time. The blocks then walk over all rows, a warp for each; of rows
 * that are a number or two, a thread.
 *
 * Ranks tell each other that memory is open and that rows have come by the flags of peers.c. Blocks
 * that wait for them take half of the multiprocessors at most, so that the kernels of other
 * streams, for which another rank may wait, run beside them. A round in which no rank has rows,
 * which all know from the counts, is passed over.
 */
#include "train/nccl/impl.h"

enum { THREADS = 512, WARPS = THREADS / 32, BLOCKS_MAX = 64, AHEAD = 4 };
static_assert((int)WARPS >= (int)PEERS_MAX, "each block has warps for all ranks");

/* --- where rows go ---------------------------------------------------------------------------- */

/* Of every stretch where it begins in this rank's array and in that of its rank, in rows, and how
 * many rows of all are in it or before it: arrays of as many as there are experts. */
struct position_ranges {
	int32_t *from, *to, *end;
};

static __device__ inline int32_t
count_of(const struct rows_copy &c, int64_t rank, int64_t expert)
{
	return ((const int32_t *)c.counts.data)[rank * c.counts.stride[0] + expert];
}

static __device__ inline int64_t
local_experts(const struct rows_copy &c)
{
	return c.counts.shape[1] / c.size;
}

/* The rank that stretch i is written to. */
static __device__ inline int
rank_of(const struct rows_copy &c, int64_t i)
{
	return (int)((c.rank + 1 + i / local_experts(c)) % c.size);
}

/* The stretch of the rows of a rank for an expert. */
static __device__ inline int64_t
number_of(const struct rows_copy &c, int rank, int64_t expert)
{
	int64_t local = local_experts(c), to = c.back ? rank : expert / local;

	return (to - c.rank - 1 + 2 * c.size) % c.size * local + expert % local;
}

/* The sum of x over lower lanes and of what was before, which gets all of them. */
static __device__ inline int32_t
warp_prefix(int32_t x, int32_t *before)
{
	int32_t sum = x, first = *before;

	for (int step = 1; step < 32; step *= 2) {
		int32_t other = __shfl_up_sync(0xffffffffu, sum, step);

		sum += (int)threadIdx.x % 32 >= step ? other : 0;
	}
	*before += __shfl_sync(0xffffffffu, sum, 31);
	return first + sum - x;
}

/* Where this rank's stretches begin in what a rank routes, in the order of experts. */
static __device__ void
find_routed(const struct rows_copy &c, int rank, int32_t *routed)
{
	int64_t experts = c.counts.shape[1];
	int32_t before = 0;

#pragma unroll 4
	for (int64_t first = 0; first < experts; first += 32) {
		int64_t x = first + threadIdx.x % 32;
		int32_t at = warp_prefix(x < experts ? count_of(c, rank, x) : 0, &before);

		if (x < experts && (c.back ? x / local_experts(c) : rank) == c.rank)
			routed[number_of(c, rank, x)] = at;
	}
}

/* Where stretches begin in what a rank takes, in the order of its experts and then of ranks;
 * returns how many rows that are. */
static __device__ int32_t
find_taken(const struct rows_copy &c, int taker, int32_t *taken)
{
	int64_t experts = c.counts.shape[1];
	int32_t before = 0;

#pragma unroll 4
	for (int64_t first = 0; first < experts; first += 32) {
		int64_t i = first + threadIdx.x % 32, x = taker * local_experts(c) + i / c.size;
		int rank = (int)(i % c.size);
		int32_t at = warp_prefix(i < experts ? count_of(c, rank, x) : 0, &before);

		if (i < experts && (c.back ? taker : rank) == c.rank)
			taken[number_of(c, rank, x)] = at;
	}
	return before;
}

/* Cuts a stretch, which has the places in both orders, to the round; returns its rows. */
static __device__ inline int32_t
cut(const struct rows_copy &c, int64_t i, struct position_ranges s)
{
	int64_t expert = i % local_experts(c), rank = rank_of(c, i);
	int32_t rows = c.back ? count_of(c, rank, c.rank * local_experts(c) + expert)
			      : count_of(c, c.rank, rank * local_experts(c) + expert);
	int32_t *taken = c.back ? s.from : s.to, *routed = c.back ? s.to : s.from;
	int64_t begin = taken[i] - c.first, from = begin < 0 ? 0 : begin,
		end = begin + rows < c.round ? begin + rows : c.round;

	taken[i] = (int32_t)from;
	routed[i] += (int32_t)(from - begin);
	return (int32_t)(end > from ? end - from : 0);
}

/* Sums over the rows of lower stretches, by the first warp. */
static __device__ void
add_ends(int32_t *end, int count)
{
	int32_t before = 0;

	for (int first = 0; first < count; first += 32) {
		int i = first + threadIdx.x;
		int32_t x = i < count ? end[i] : 0, sum = x + warp_prefix(x, &before);

		if (i < count)
			end[i] = sum;
	}
}

/* By all threads. False where the round has no row on any rank. */
static __device__ bool
find_ranges(const struct rows_copy &c, struct position_ranges s)
{
	int experts = (int)c.counts.shape[1];
	bool some = false;

	for (int i = threadIdx.x / 32; i < c.size; i += WARPS) {
		if (c.back || i == c.rank)
			find_routed(c, i, c.back ? s.to : s.from);
		some |= find_taken(c, i, c.back ? s.from : s.to) > c.first;
	}
	if (!__syncthreads_or(some))
		return false;
	for (int i = threadIdx.x; i < experts; i += THREADS)
		s.end[i] = cut(c, i, s);
	__syncthreads();
	if (threadIdx.x < 32)
		add_ends(s.end, experts);
	__syncthreads();
	return true;
}

/* --- flags ------------------------------------------------------------------------------------ */

/* A thread for each other rank; what the block has written, or seen written, is there before. */
static __device__ inline void
tell(const struct rows_copy &c, enum flag kind)
{
	int rank = threadIdx.x;

	if (rank >= c.size || rank == c.rank)
		return;
	__threadfence_system();
	*(volatile uint32_t *)(c.flags[rank] + kind * PEERS_MAX + c.rank) = c.number;
}

/* Numbers go round. What ranks wrote before is there for the block after its next barrier. */
static __device__ inline void
await(const struct rows_copy &c, enum flag kind)
{
	int rank = threadIdx.x;
	const volatile uint32_t *at;

	if (rank >= c.size || rank == c.rank)
		return;
	at = c.flags[c.rank] + kind * PEERS_MAX + rank;
	while ((int32_t)(*at - c.number) < 0)
		__nanosleep(20);
	__threadfence_system();
}

/* Whether all other blocks have come here; what they wrote is there then. */
static __device__ inline bool
is_last(uint32_t *arrived)
{
	bool last = false;

	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence_system();
		last = atomicAdd(arrived, 1) == gridDim.x - 1;
		if (last)
			*arrived = 0;
		__threadfence_system();
	}
	return __syncthreads_or(last);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* The stretch that has a row: the first that ends after it. */
static __device__ inline int
find(const int32_t *end, int count, int64_t row)
{
	int low = 0, high = count - 1;

	while (low < high) {
		int middle = (low + high) / 2;

		if (end[middle] > row)
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

/* Rows [row, end), of which there are `step` from one of a thread's to its next, by LANES threads
 * each, in words of type W. */
struct walk {
	int64_t row, end, step;
};

template <typename W, int LANES>
static __device__ void
copy_rows(const struct rows_copy &c, struct position_ranges s, struct walk w)
{
	int64_t words = c.row_bytes / (int64_t)sizeof(W);

	for (; w.row < w.end; w.row += w.step) {
		int i = find(s.end, (int)c.counts.shape[1], w.row);
		int64_t in = w.row - (i ? s.end[i - 1] : 0);
		const W *from = (const W *)c.in + (s.from[i] + in) * words;
		W *to = (W *)c.out[rank_of(c, i)] + (s.to[i] + in) * words;

		for (int64_t k = threadIdx.x % LANES; k < words; k += AHEAD * LANES)
			copy<W, LANES>(to + k, from + k, words - k);
	}
}

/* One warp in `size` copies what stays on this GPU, which the last stretches have: that is bound by
 * other limits than what the rest write to others meanwhile. */
template <int LANES>
static __device__ struct walk
walk_of(const struct rows_copy &c, struct position_ranges s)
{
	int64_t experts = c.counts.shape[1], warp = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32,
		warps = gridDim.x * (int64_t)WARPS, own = warps / c.size, round = warp / c.size,
		among = warp % c.size, lane = threadIdx.x % 32 / LANES;
	int32_t away = s.end[experts - local_experts(c) - 1];
	struct walk stay = { away + round * (32 / LANES) + lane, s.end[experts - 1],
		own * (32 / LANES) },
		    leave = { (round * (c.size - 1) + among) * (32 / LANES) + lane, away,
			    (warps - own) * (32 / LANES) };

	return among == c.size - 1 ? stay : leave;
}

template <typename W, int LANES>
static __global__ void
__launch_bounds__(THREADS) rows_kernel(struct rows_copy c)
{
	extern __shared__ int32_t shared[];
	int experts = (int)c.counts.shape[1];
	struct position_ranges s = { shared, shared + experts, shared + 2 * experts };

	if (!find_ranges(c, s))
		return;
	if (blockIdx.x == 0)
		tell(c, FLAG_OPEN);
	await(c, FLAG_OPEN);
	__syncthreads();
	copy_rows<W, LANES>(c, s, walk_of<LANES>(c, s));
	if (!is_last(c.arrived))
		return;
	tell(c, FLAG_CAME);
	await(c, FLAG_CAME);
}

template <typename W>
static void
launch(const struct rows_copy *c, int num_sms, cudaStream_t stream)
{
	size_t shared = 3 * (size_t)c->counts.shape[1] * sizeof(int32_t);
	int blocks = num_sms / 2 < BLOCKS_MAX ? num_sms / 2 : BLOCKS_MAX;

	if (c->row_bytes / (int64_t)sizeof(W) >= 32)
		rows_kernel<W, 32><<<blocks, THREADS, shared, stream>>>(*c);
	else
		rows_kernel<W, 1><<<blocks, THREADS, shared, stream>>>(*c);
}

/* In the largest words that rows and all addresses are multiples of. */
cudaError_t
rows_copy(const struct rows_copy *c, int num_sms, cudaStream_t stream)
{
	uintptr_t at = (uintptr_t)c->in | (uintptr_t)c->row_bytes;

	for (int i = 0; i < c->size; i++)
		at |= (uintptr_t)c->out[i];
	if (at % 16 == 0)
		launch<uint4>(c, num_sms, stream);
	else if (at % 4 == 0)
		launch<uint32_t>(c, num_sms, stream);
	else
		launch<uint16_t>(c, num_sms, stream);
	return cudaGetLastError();
}
