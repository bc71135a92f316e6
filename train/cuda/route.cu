/*
 * route.cu - the router of experts: top-k, weights, order of rows, and their gradients. Source:
 * docs/math.md 5
 *
 * A warp has a row: lane l holds experts l, l + 32, l + 64 and so on. The order of rows is a sort
 * by counting: a block marks in a map of bits which of its BATCH rows chose an expert, so that the
 * place of a row among them is a number of bits, whatever the order in which they were marked. Sums
 * over rows are in double, of parts whose number follows from the rows alone.
 */
#include "train/cuda/route.cuh"

enum {
	BATCH = CU_THREADS, /* rows of a block that sorts, one a thread */
	WORDS = BATCH / 32, /* of a map's line */
	PARTS = 1056,       /* most partial sums over rows: 8 blocks on each of 132 SMs */
};
/* In the order of struct route_grad, those over rows first. */
enum { BALANCE, SQUARE, ENTROPY, SUMS, ROUNDS = SUMS, RECEIVED, ALL_SUMS };

/* --- one row ---------------------------------------------------------------------------------- */

/* 1 / (1 + e^-x); 0 and 1 at the ends, without overflow to NaN. */
static __device__ inline float
logistic(float x)
{
	return 1 / (1 + expf(-x));
}

/* The logits of this lane's experts; -inf where there is none. */
template <int PER>
static __device__ inline void
load_logits(const struct route &r, int64_t row, float (&z)[PER])
{
	const float *from = row_of<float>(r.logits, row);

#pragma unroll
	for (int p = 0; p < PER; p++) {
		int i = lane_of() + 32 * p;

		z[p] = i < r.logits.shape[1] ? from[i] : -INFINITY;
	}
}

/* A number in the same order, and back; one that does not compare is 0. */
static __device__ inline uint32_t
order_of(float x)
{
	/* a zero loses its sign */
	uint32_t bits = __float_as_uint(x + 0.0f);

	return isnan(x) ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static __device__ inline float
number_of(uint32_t order)
{
	return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

/* What an expert is chosen by, or without the bias. */
static __device__ inline float
score_of(const struct route &r, float z, int expert, bool biased)
{
	float score = r.score == ROUTE_SIGMOID ? logistic(z) : z;

	return biased && r.bias.data ? score + (float)load_any(r.bias, expert) : score;
}

template <int PER>
static __device__ inline float
log_sum(const float (&z)[PER])
{
	float max = -INFINITY, sum = 0;

#pragma unroll
	for (int p = 0; p < PER; p++)
		max = fmaxf(max, z[p]);
	max = warp_max(max);
#pragma unroll
	for (int p = 0; p < PER; p++)
		sum += expf(z[p] - max);
	return max + logf(warp_sum(sum));
}

/* Whether this is the first of the open lanes with the highest x; *top: that x, in every lane, or 0
 * where no lane is open. */
static __device__ inline bool
takes_highest(uint32_t x, bool open, uint32_t *top)
{
	uint32_t lanes;

	*top = warp_max(open ? x : 0u);
	lanes = __ballot_sync(0xffffffffu, open && x == *top);
	return lane_of() == __ffs(lanes) - 1;
}

/* The sum of the highest scores of a group of experts, in every lane. */
template <int PER>
static __device__ inline float
group_score(const struct route &r, const uint32_t (&order)[PER], int group)
{
	int size = (int)(r.logits.shape[1] / r.groups);
	uint32_t left = 0;
	float sum = 0;

#pragma unroll
	for (int p = 0; p < PER; p++)
		left |= (uint32_t)((lane_of() + 32 * p) / size == group) << p;
	for (int64_t j = 0; j < r.group_scores; j++) {
		uint32_t best = 0, top, at = 0;

#pragma unroll
		for (int p = PER - 1; p >= 0; p--)
			if (left >> p & 1 && order[p] >= best) {
				best = order[p];
				at = 1u << p;
			}
		if (takes_highest(best, left, &top))
			left &= ~at;
		sum += number_of(top);
	}
	return sum;
}

/* The best groups, a bit for each; a lane keeps the score of the group of its number. */
template <int PER>
static __device__ inline uint32_t
best_groups(const struct route &r, const float (&z)[PER])
{
	uint32_t order[PER], mine = 0, top;
	float lse = r.score == ROUTE_PRE_SOFTMAX ? log_sum(z) : 0;
	bool open = lane_of() < r.groups;

#pragma unroll
	for (int p = 0; p < PER; p++) {
		int i = lane_of() + 32 * p;

		order[p] = i >= r.logits.shape[1]  ? 0
		    : r.score == ROUTE_PRE_SOFTMAX ? order_of(expf(z[p] - lse))
						   : order_of(score_of(r, z[p], i, true));
	}
	for (int g = 0; g < r.groups; g++) {
		float sum = group_score(r, order, g);

		mine = lane_of() == g ? order_of(sum) : mine;
	}
	for (int64_t j = 0; j < r.group_topk; j++)
		if (takes_highest(mine, open, &top))
			open = false;
	return __ballot_sync(0xffffffffu, lane_of() < r.groups && !open);
}

/* The k highest, of equal ones the lower number: bit p of a lane is set where its p-th expert is
 * one of them. They are those that a row is sent to, or without bias and groups. */
template <int PER>
static __device__ inline uint32_t
choose(const struct route &r, const float (&z)[PER], bool routes)
{
	uint32_t rank[PER], chosen = 0, left = 0,
			    groups = routes && r.groups ? best_groups(r, z) : ~0u;
	int size = r.groups ? (int)(r.logits.shape[1] / r.groups) : CU_EXPERTS;

#pragma unroll
	for (int p = 0; p < PER; p++)
		if (lane_of() + 32 * p < r.logits.shape[1]) {
			int group = (lane_of() + 32 * p) / size;

			rank[p] = groups >> group & 1
			    ? order_of(score_of(r, z[p], lane_of() + 32 * p, routes))
			    : 0;
			left |= 1u << p;
		}
	for (int64_t j = 0; j < r.topk.shape[1]; j++) {
		uint32_t best = 0, first = ~0u;

#pragma unroll
		for (int p = 0; p < PER; p++)
			best = left >> p & 1 ? max(best, rank[p]) : best;
		best = warp_max(best);
#pragma unroll
		for (int p = PER - 1; p >= 0; p--)
			first = left >> p & 1 && rank[p] == best ? lane_of() + 32 * p : first;
		first = ~warp_max(~first);
		if (first % 32 == (uint32_t)lane_of())
			chosen |= 1u << first / 32;
		left &= ~chosen;
	}
	return chosen;
}

/* Of top-k indices that are there. */
template <int PER>
static __device__ inline uint32_t
chosen_before(const struct route &r, int64_t row)
{
	const int32_t *topk = row_of<int32_t>(r.topk, row);
	uint32_t chosen = 0;

	for (int64_t j = 0; j < r.topk.shape[1]; j++)
		chosen |= (uint32_t)(topk[j] % 32 == lane_of()) << topk[j] / 32;
	return chosen;
}

/* The sum that divides the sigmoids of the chosen. */
template <int PER>
static __device__ inline float
chosen_sum(const struct route &r, const float (&z)[PER], uint32_t chosen)
{
	float sum = 0;

#pragma unroll
	for (int p = 0; p < PER; p++)
		sum += chosen >> p & 1 ? logistic(z[p]) : 0;
	return r.topk.shape[1] == 1 ? 1 : warp_sum(sum) + 1e-20f;
}

/* The softmax of the chosen. */
template <int PER>
static __device__ inline void
softmax(const float (&z)[PER], uint32_t chosen, float (&w)[PER])
{
	float max = -INFINITY, sum = 0;

#pragma unroll
	for (int p = 0; p < PER; p++)
		max = chosen >> p & 1 ? fmaxf(max, z[p]) : max;
	max = warp_max(max);
#pragma unroll
	for (int p = 0; p < PER; p++)
		sum += w[p] = chosen >> p & 1 ? expf(z[p] - max) : 0;
	sum = warp_sum(sum);
#pragma unroll
	for (int p = 0; p < PER; p++)
		w[p] /= sum;
}

/* The weights of the chosen; those of others are any. */
template <int PER>
static __device__ inline void
weigh(const struct route &r, const float (&z)[PER], uint32_t chosen, float (&w)[PER])
{
	bool sigmoid = r.score == ROUTE_SIGMOID;
	float by = 0;

	if (r.score == ROUTE_SOFTMAX)
		softmax(z, chosen, w);
	else
		by = sigmoid ? chosen_sum(r, z, chosen) : log_sum(z);
#pragma unroll
	for (int p = 0; p < PER; p++) {
		if (r.score != ROUTE_SOFTMAX)
			w[p] = sigmoid ? logistic(z[p]) / by : expf(z[p] - by);
		w[p] *= (float)r.scale;
	}
}

/* --- the forward pass ------------------------------------------------------------------------- */

/* The chosen in rising order of experts, and their weights, unless these are NULL: before each are
 * those of the same p in lower lanes, and those of lower p. */
template <int PER>
static __device__ inline void
store_chosen(int32_t *topk, float *weight, uint32_t chosen, const float (&w)[PER])
{
	int before = 0;

#pragma unroll
	for (int p = 0; p < PER; p++) {
		uint32_t lanes = __ballot_sync(0xffffffffu, chosen >> p & 1);
		int j = before + __popc(lanes & ((1u << lane_of()) - 1));

		if (chosen >> p & 1 && topk)
			topk[j] = lane_of() + 32 * p;
		if (chosen >> p & 1 && weight)
			weight[j] = w[p];
		before += __popc(lanes);
	}
}

/* With a bias or groups the top-k indices without them are left in the row's permutation, until
 * these are made. */
template <int PER>
static __global__ void
__launch_bounds__(CU_THREADS) route_rows_kernel(struct route r)
{
	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < r.logits.shape[0];
	     row += gridDim.x * (int64_t)WARPS) {
		float z[PER], w[PER];
		uint32_t chosen;

		load_logits(r, row, z);
		chosen = r.chosen ? chosen_before<PER>(r, row) : choose(r, z, true);
		weigh(r, z, chosen, w);
		store_chosen(r.chosen ? NULL : row_of<int32_t>(r.topk, row),
		    row_of<float>(r.weight, row), chosen, w);
		if (loads_apart(r))
			store_chosen(
			    row_of<int32_t>(r.permutation, row), NULL, choose(r, z, false), w);
	}
}

/* Of each expert a line of WORDS words, with a bit for each row of the block that chose it; the
 * top-k indices are the first k columns of `topk`. */
static __device__ inline void
mark(const struct route &r, const struct tensor &topk, uint32_t *map)
{
	int64_t row = blockIdx.x * (int64_t)BATCH + threadIdx.x;

	for (int i = threadIdx.x; i < r.logits.shape[1] * WORDS; i += CU_THREADS)
		map[i] = 0;
	__syncthreads();
	for (int64_t j = 0; row < r.topk.shape[0] && j < r.topk.shape[1]; j++)
		atomicOr(&map[row_of<int32_t>(topk, row)[j] * WORDS + threadIdx.x / 32],
		    1u << lane_of());
	__syncthreads();
}

/* Bits of a line below one of them. */
static __device__ inline int
bits_below(const uint32_t *line, int end)
{
	int n = 0;

#pragma unroll
	for (int i = 0; i < WORDS; i++)
		n += __popc(line[i] &
		    (end >= 32 * (i + 1)    ? ~0u
			    : end <= 32 * i ? 0
					    : (1u << end % 32) - 1));
	return n;
}

/* Of a line the rows of a group. */
static __device__ inline int
bits_of_group(const uint32_t *line, int64_t group, int64_t groups)
{
	int64_t first = blockIdx.x * (int64_t)BATCH % groups;
	int n = 0;

	for (int64_t i = (group - first + groups) % groups; i < BATCH; i += groups)
		n += line[i / 32] >> i % 32 & 1;
	return n;
}

/* part [E, blocks]: the rows of each expert in each block; load, of zeros, gets those of all, by
 * the top-k indices without bias and groups. */
static __global__ void
__launch_bounds__(CU_THREADS) route_count_kernel(struct route r, int32_t *part)
{
	extern __shared__ uint32_t map[];
	int experts = (int)r.logits.shape[1];
	int64_t groups = r.load.shape[0];

	mark(r, r.topk, map);
	for (int x = threadIdx.x; x < experts; x += CU_THREADS)
		part[x * (int64_t)gridDim.x + blockIdx.x] = bits_below(map + x * WORDS, BATCH);
	if (loads_apart(r)) {
		__syncthreads();
		mark(r, r.permutation, map);
	}
	for (int64_t i = threadIdx.x; i < groups * experts; i += CU_THREADS) {
		int n = bits_of_group(map + i % experts * WORDS, i / experts, groups);

		if (n)
			atomicAdd((int32_t *)r.load.data + i, n);
	}
}

/* A block for each expert: of its rows in each block those in the blocks before. After the lines
 * are the rows of each expert. */
static __global__ void
__launch_bounds__(CU_THREADS) route_scan_kernel(struct route r, int32_t *part, int blocks)
{
	int32_t *line = part + blockIdx.x * (int64_t)blocks, all = prefix(line, line, blocks);

	if (threadIdx.x == 0)
		part[gridDim.x * (int64_t)blocks + blockIdx.x] = all;
	for (int i = threadIdx.x; i < slices_of(r); i += CU_THREADS)
		((int32_t *)r.counts.data)[cell_of(r, blockIdx.x, i)] = all;
}

/* A range of experts whose slices are on the same ranks: the rows of those before it, and its own.
 */
struct range {
	int32_t before, rows;
};

/* start [E + 1]: the rows of lower experts. */
static __device__ inline struct range
range_of(const struct route &r, const int32_t *start, int expert)
{
	int local = (int)r.counts.shape[1], first = expert / local * local;

	return { start[first], start[first + local] - start[first] };
}

/* Before a row are those of lower experts, of its expert those of the blocks before, and those
 * before it in its block. That is its place where experts have one slice. Where they have more,
 * each range of experts before its own is there so many times, and its own once before each slice
 * after the first. */
static __global__ void
__launch_bounds__(CU_THREADS) route_permutation_kernel(struct route r, const int32_t *part)
{
	extern __shared__ uint32_t map[];
	int experts = (int)r.logits.shape[1], slices = slices_of(r);
	int32_t *start = (int32_t *)map + experts * WORDS, all;
	int64_t row = blockIdx.x * (int64_t)BATCH + threadIdx.x;

	mark(r, r.topk, map);
	all = prefix(start, part + experts * (int64_t)gridDim.x, experts);
	if (threadIdx.x == 0)
		start[experts] = all;
	__syncthreads();
	for (int64_t j = 0; row < r.topk.shape[0] && j < r.topk.shape[1]; j++) {
		int x = row_of<int32_t>(r.topk, row)[j];
		int32_t permutation = start[x] + part[x * (int64_t)gridDim.x + blockIdx.x] +
		    bits_below(map + x * WORDS, threadIdx.x);
		struct range range = range_of(r, start, x);

		for (int i = 0; i < slices; i++)
			row_of<int32_t>(r.permutation, row)[j * slices + i] =
			    permutation + (slices - 1) * range.before + i * range.rows;
	}
}

static void
check(const struct route *r)
{
	ops_require(r->logits.dtype == DTYPE_F32 && r->weight.dtype == DTYPE_F32);
	ops_require(r->topk.dtype == DTYPE_I32 && r->permutation.dtype == DTYPE_I32);
	ops_require(r->counts.dtype == DTYPE_I32 && r->load.dtype == DTYPE_I32);
	ops_require(r->logits.shape[1] <= CU_EXPERTS && r->topk.shape[1] <= r->logits.shape[1]);
	ops_require(r->topk.shape[0] == r->logits.shape[0] &&
	    tensor_same_shape(&r->weight, &r->topk) && r->permutation.shape[0] == r->topk.shape[0]);
	ops_require(r->permutation.shape[1] % r->topk.shape[1] == 0 && r->counts.ndim == 2 &&
	    tensor_elements(&r->counts) == r->logits.shape[1] * slices_of(*r));
	ops_require((int64_div_up(r->logits.shape[0], BATCH) + 1) * r->logits.shape[1] <=
	    (int64_t)(CU_WORKSPACE / sizeof(int32_t)));
	ops_require(!r->groups ||
	    (r->logits.shape[1] % r->groups == 0 && r->groups <= 32 && r->group_topk <= r->groups &&
		r->group_scores <= r->logits.shape[1] / r->groups));
}

/* One of six functions, the first for whose lanes the experts are few enough. */
#define PICK_PER(experts, f) \
	((experts) <= 32           ? f<1> \
		: (experts) <= 64  ? f<2> \
		: (experts) <= 128 ? f<4> \
		: (experts) <= 256 ? f<8> \
		: (experts) <= 512 ? f<16> \
				   : f<32>)

void
cuda_route(struct stream *st, const struct route *r)
{
	int64_t rows = r->logits.shape[0], experts = r->logits.shape[1],
		lines = int64_div_up(rows, WARPS), most = 64 * (int64_t)st->device->num_sms;
	unsigned blocks = (unsigned)int64_div_up(rows, BATCH);
	size_t map = (size_t)experts * WORDS * sizeof(uint32_t);
	int32_t *part = (int32_t *)cu_workspace(st);

	check(r);
	cu_ok(st->device, cudaMemsetAsync(r->load.data, 0, tensor_bytes(&r->load), cu_handle(st)),
	    "route");
	if (rows)
		PICK_PER(experts, route_rows_kernel)<<<(unsigned)int64_min(lines, most), CU_THREADS,
		    0, cu_handle(st)>>>(*r);
	if (rows)
		route_count_kernel<<<blocks, CU_THREADS, map, cu_handle(st)>>>(*r, part);
	route_scan_kernel<<<(unsigned)experts, CU_THREADS, 0, cu_handle(st)>>>(
	    *r, part, (int)blocks);
	if (rows)
		route_permutation_kernel<<<blocks, CU_THREADS,
		    map + (size_t)(experts + 1) * sizeof(int32_t), cu_handle(st)>>>(*r, part);
	cu_launched(st, "route");
}

/* --- the backward pass ------------------------------------------------------------------------ */

/* Of a row what this lane's experts have; weights and their gradients are 0 where not chosen. */
template <int PER> struct grad_row {
	float z[PER], p[PER], w[PER], dw[PER], dz[PER];
	uint32_t chosen;
	float lse, sum; /* what divides p, where that is sigmoids */
};

template <int PER>
static __device__ inline void
load_chosen(const struct route_grad &g, int64_t row, struct grad_row<PER> &x)
{
	const int32_t *topk = row_of<int32_t>(g.fwd.topk, row);
	const float *w = row_of<float>(g.fwd.weight, row), *dw = row_of<float>(g.dweight, row);

#pragma unroll
	for (int p = 0; p < PER; p++)
		x.w[p] = x.dw[p] = 0;
	x.chosen = 0;
	for (int64_t j = 0; j < g.fwd.topk.shape[1]; j++) {
		int here = topk[j] % 32 == lane_of() ? topk[j] / 32 : -1;

#pragma unroll
		for (int p = 0; p < PER; p++)
			if (here == p) {
				x.w[p] = w[j];
				x.dw[p] = dw[j];
				x.chosen |= 1u << p;
			}
	}
}

/* p: the softmax, or the sigmoids divided by their sum; 0 where there is no expert. */
template <int PER>
static __device__ inline void
shares(const struct route &r, struct grad_row<PER> &x)
{
	x.lse = log_sum(x.z);
	x.sum = 0;
#pragma unroll
	for (int p = 0; p < PER; p++) {
		x.p[p] = r.score != ROUTE_SIGMOID            ? expf(x.z[p] - x.lse)
		    : lane_of() + 32 * p < r.logits.shape[1] ? logistic(x.z[p])
							     : 0;
		x.sum += x.p[p];
	}
	x.sum = warp_sum(x.sum);
	if (r.score == ROUTE_SIGMOID)
#pragma unroll
		for (int p = 0; p < PER; p++)
			x.p[p] /= x.sum;
}

/* dz: that of the weights of the chosen. Σ dw w is the same for all three: what the division by the
 * sum takes back, times the scale. */
template <int PER>
static __device__ inline void
weights_grad(const struct route &r, struct grad_row<PER> &x)
{
	float mean = 0, by = r.score == ROUTE_SIGMOID ? chosen_sum(r, x.z, x.chosen) : 1,
	      scale = (float)r.scale;

#pragma unroll
	for (int p = 0; p < PER; p++)
		mean += x.dw[p] * x.w[p];
	mean = warp_sum(mean);
#pragma unroll
	for (int p = 0; p < PER; p++) {
		bool chosen = x.chosen >> p & 1;
		float s = logistic(x.z[p]);

		if (r.score == ROUTE_SOFTMAX)
			x.dz[p] = chosen ? x.w[p] * (x.dw[p] - mean / scale) : 0;
		else if (r.score == ROUTE_PRE_SOFTMAX)
			x.dz[p] = x.w[p] * x.dw[p] - x.p[p] * mean;
		else
			x.dz[p] = chosen ? (scale * x.dw[p] - (r.topk.shape[1] > 1 ? mean : 0)) /
				by * s * (1 - s)
					 : 0;
	}
}

/* The load joins the total. */
static __global__ void
add_load_kernel(struct route_grad g)
{
	int x = blockIdx.x * CU_THREADS + threadIdx.x;

	if (x < g.total.shape[0])
		((double *)g.total.data)[x] += ((const int32_t *)g.fwd.load.data)[x];
}

/* What multiplies loads, or the total, if there is one, to a mean of loads; in every lane. */
static __device__ inline double
share_of(const struct route_grad &g)
{
	double one = 0, all = 0;

	if (!g.total.data)
		return 1;
	for (int x = lane_of(); x < g.total.shape[0]; x += 32) {
		one += ((const int32_t *)g.fwd.load.data)[x];
		all += ((const double *)g.total.data)[x];
	}
	return warp_sum(one) / warp_sum(all);
}

/* dz += those of the two losses; sums += what the row adds to the sums over rows, in every lane. */
template <int PER>
static __device__ inline void
losses_grad(const struct route_grad &g, int64_t row, double share, struct grad_row<PER> &x,
    double (&sums)[SUMS])
{
	const int32_t *load = row_of<int32_t>(g.fwd.load, row % g.fwd.load.shape[0]);
	const double *total = (const double *)g.total.data;
	bool sigmoid = g.fwd.score == ROUTE_SIGMOID;
	double mean = 0, entropy = 0, factor = g.factor.data ? *(const double *)g.factor.data : 1;
	float n[PER], balance = (float)(g.balance * factor * share),
		      square = (float)(2 * g.z * factor);

#pragma unroll
	for (int p = 0; p < PER; p++) {
		int i = lane_of() + 32 * p;

		n[p] = i >= g.fwd.logits.shape[1] ? 0 : total ? (float)total[i] : (float)load[i];
		mean += (double)x.p[p] * (double)n[p];
		if (x.p[p] > 0)
			entropy -=
			    (double)x.p[p] * (double)(sigmoid ? logf(x.p[p]) : x.z[p] - x.lse);
	}
	mean = warp_sum(mean);
	sums[BALANCE] += mean * share;
	sums[SQUARE] += (double)x.lse * (double)x.lse;
	sums[ENTROPY] += warp_sum(entropy);
#pragma unroll
	for (int p = 0; p < PER; p++) {
		float s = x.p[p] * x.sum, slope = sigmoid ? s * (1 - s) / x.sum : x.p[p];

		x.dz[p] += balance * slope * (float)((double)n[p] - mean) +
		    square * x.lse * expf(x.z[p] - x.lse);
	}
}

/* The sums of a block's warps, in their order. */
static __device__ inline void
leave_sums(const double (&sums)[SUMS], double *part)
{
	__shared__ double all[WARPS][SUMS];
	double sum = 0;

	if (lane_of() < SUMS)
		all[threadIdx.x / 32][lane_of()] = lane_of() == BALANCE ? sums[BALANCE]
		    : lane_of() == SQUARE                               ? sums[SQUARE]
									: sums[ENTROPY];
	__syncthreads();
	if (threadIdx.x >= SUMS)
		return;
	for (int i = 0; i < WARPS; i++)
		sum += all[i][threadIdx.x];
	part[blockIdx.x * (int64_t)SUMS + threadIdx.x] = sum;
}

/* part [blocks, SUMS] */
template <int PER>
static __global__ void
__launch_bounds__(CU_THREADS) route_grad_kernel(struct route_grad g, double *part)
{
	double sums[SUMS] = { 0, 0, 0 }, share = share_of(g);

	for (int64_t row = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32; row < g.dlogits.shape[0];
	     row += gridDim.x * (int64_t)WARPS) {
		struct grad_row<PER> x;
		float *dz = row_of<float>(g.dlogits, row);

		load_logits(g.fwd, row, x.z);
		load_chosen(g, row, x);
		shares(g.fwd, x);
		weights_grad(g.fwd, x);
		losses_grad(g, row, share, x, sums);
#pragma unroll
		for (int p = 0; p < PER; p++)
			if (lane_of() + 32 * p < g.dlogits.shape[1])
				dz[lane_of() + 32 * p] = x.dz[p];
	}
	leave_sums(sums, part);
}

/* One block: the rows of each expert, the parts in their order, and what has arrived. */
static __global__ void
__launch_bounds__(CU_THREADS)
    route_finish_kernel(struct route_grad g, const double *part, int parts)
{
	int experts = (int)g.dlogits.shape[1];
	int64_t received = warp_received(g.received), rounds = (received + g.round - 1) / g.round;
	double *sums = (double *)g.sums.data;
	float *dbias = (float *)g.dbias.data;

	for (int x = threadIdx.x; x < experts; x += CU_THREADS) {
		int32_t count = ((const int32_t *)g.fwd.counts.data)[cell_of(g.fwd, x, 0)];

		sums[x] += count;
		if (dbias)
			dbias[x] = (g.accumulate ? dbias[x] : 0) + (float)count;
	}
	for (int k = 0; k < SUMS; k++) {
		double sum = 0;

		for (int i = threadIdx.x; i < parts; i += CU_THREADS)
			sum += part[i * SUMS + k];
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			sums[experts + k] += sum;
	}
	if (threadIdx.x == 0) {
		sums[experts + ROUNDS] += (double)(rounds > 1 ? rounds : 1);
		sums[experts + RECEIVED] = fmax(sums[experts + RECEIVED], (double)received);
	}
}

void
cuda_route_grad(struct stream *st, const struct route_grad *g)
{
	int64_t rows = g->fwd.logits.shape[0], experts = g->fwd.logits.shape[1];
	int parts = (int)int64_max(1, int64_min(PARTS, int64_div_up(rows, WARPS)));
	double *part = (double *)cu_workspace(st);

	check(&g->fwd);
	ops_require(tensor_same_shape(&g->dlogits, &g->fwd.logits) &&
	    tensor_same_shape(&g->dweight, &g->fwd.weight));
	ops_require(g->dlogits.dtype == DTYPE_F32 && g->dweight.dtype == DTYPE_F32);
	ops_require(g->sums.dtype == DTYPE_F64 && g->sums.shape[0] == experts + ALL_SUMS);
	ops_require(g->received.dtype == DTYPE_I32 && g->round > 0);
	ops_require(!g->factor.data || g->factor.dtype == DTYPE_F64);
	ops_require(!g->dbias.data || g->dbias.dtype == DTYPE_F32);
	ops_require(!g->total.data ||
	    (g->total.dtype == DTYPE_F64 && g->total.shape[0] == tensor_elements(&g->fwd.load)));
	if (g->total.data)
		add_load_kernel<<<(unsigned)int64_div_up(experts, CU_THREADS), CU_THREADS, 0,
		    cu_handle(st)>>>(*g);
	PICK_PER(experts, route_grad_kernel)<<<(unsigned)parts, CU_THREADS, 0, cu_handle(st)>>>(
	    *g, part);
	route_finish_kernel<<<1, CU_THREADS, 0, cu_handle(st)>>>(*g, part, parts);
	cu_launched(st, "route_grad");
}
