/*
 * norm.cu - LayerNorm and RMSNorm, alone or behind the residual sum; the sums over rows in two stages.
 * Source: spec/training.md 2.2, 2.3, 2.9
 *
 * Rows whose length is whole packs are held in the registers of a group of warps between the statistics
 * and what is done with them, so each tensor passes the memory once; longer and odd rows are walked by
 * a block, again for each pass (norm_walk.cu). In the backward pass a group keeps its columns' sums over its rows in
 * registers too; how many groups there are follows from the shape, so the bits are the same on every
 * GPU.
 */
#include "train/cuda/norm.cuh"

/* How a row is spread: `warps` warps hold it, each lane V packs; a block has `rows` such groups. */
struct spread {
	int packs, warps, rows;
};

/* Most threads of a block that holds rows: a pack a lane, or two. */
enum { ONE_THREADS = 256, TWO_THREADS = 512 };

/* --- sums over the warps that hold a row ------------------------------------------------------ */

/* The sum of two numbers over a group of `warps` warps, in all its threads. Two calls in a row must use
 * different buffers: one is read while the next is written. All threads of the block call. */
static __device__ inline float2
group_sum(float2 x, int warps, float2 (*buffer)[32])
{
	x.x = warp_sum(x.x);
	x.y = warp_sum(x.y);
	if (warps == 1)
		return x;
	if (threadIdx.x % 32 == 0)
		(*buffer)[threadIdx.y * warps + threadIdx.x / 32] = x;
	__syncthreads();
	x = make_float2(0, 0);
	for (int i = 0; i < warps; i++) {
		float2 part = (*buffer)[threadIdx.y * warps + i];

		x.x += part.x;
		x.y += part.y;
	}
	return x;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* The values of a row: x, or the rounded sum of the residual connection, which is stored. All packs are
 * asked for before the first is used. Lanes beyond the row's end hold zeros. */
template <typename T, int V, bool SUM>
static __device__ inline void
row_values(const struct norm_call &n, int64_t row, const struct spread &s,
    float (&v)[V][full<T>::width])
{
	enum { N = full<T>::width };
	pack<T, N> x[V], residual[V];
	bool live = row < n.x.shape[0];

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;

		if (!live || at >= s.packs)
			continue;
		x[i] = fetch<T, N>(row_of<T>(n.x, row) + at * N);
		if (SUM)
			residual[i] = fetch<T, N>(row_of<T>(n.residual, row) + at * N);
	}
#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;

#pragma unroll
		for (int k = 0; k < N; k++)
			v[i][k] = 0;
		if (!live || at >= s.packs)
			continue;
		unpack(v[i], x[i]);
		if (SUM)
			add_residual<T, N>(n, row, at * N, residual[i], v[i]);
	}
}

/* y = (v - mean) rstd weight + bias, of the packs that a lane holds. */
template <typename T, int V>
static __device__ inline void
put_row(const struct norm_call &n, int64_t row, const struct spread &s,
    const float (&v)[V][full<T>::width], float2 stats)
{
	enum { N = full<T>::width };

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;
		float y[N], weight[N], bias[N];

		if (at >= s.packs)
			continue;
		load(weight, (const T *)n.weight + at * N);
		if (n.bias)
			load(bias, (const T *)n.bias + at * N);
#pragma unroll
		for (int k = 0; k < N; k++) {
			y[k] = (v[i][k] - stats.x) * stats.y * weight[k];
			if (n.bias)
				y[k] += bias[k];
		}
		store(row_of<T>(n.y, row) + at * N, y);
	}
}

/* Mean before variance, so that nothing cancels; the mean is of LayerNorm alone, which has a bias. */
template <typename T, int V, bool SUM>
static __global__ void __launch_bounds__(V == 1 ? ONE_THREADS : TWO_THREADS)
norm_fwd_kernel(struct norm_call n, struct spread s)
{
	enum { N = full<T>::width };
	__shared__ float2 buffer[2][32];
	float h = (float)n.x.shape[1], v[V][N];
	int turn = 0;

	for (int64_t first = blockIdx.x * (int64_t)s.rows; first < n.x.shape[0];
	     first += gridDim.x * (int64_t)s.rows) {
		int64_t row = first + threadIdx.y;
		float2 sum = make_float2(0, 0), stats = make_float2(0, 0);

		row_values<T, V, SUM>(n, row, s, v);
		if (n.bias) {
#pragma unroll
			for (int i = 0; i < V; i++)
#pragma unroll
				for (int k = 0; k < N; k++)
					sum.x += v[i][k];
			stats.x = group_sum(sum, s.warps, &buffer[turn]).x / h;
			turn ^= 1;
			sum.x = 0;
		}
#pragma unroll
		for (int i = 0; i < V; i++)
#pragma unroll
			for (int k = 0; k < N; k++) {
				float centred = threadIdx.x + i * blockDim.x < s.packs ? v[i][k] - stats.x : 0;

				sum.x += centred * centred;
			}
		stats.y = 1 / sqrtf(group_sum(sum, s.warps, &buffer[turn]).x / h + n.eps);
		turn ^= 1;
		if (row >= n.x.shape[0])
			continue;
		put_row<T, V>(n, row, s, v, stats);
		if (threadIdx.x == 0) {
			n.rstd[row] = stats.y;
			if (n.bias)
				n.mean[row] = stats.x;
		}
	}
}

/* --- backward --------------------------------------------------------------------------------- */

/* What the backward pass reads of a row first. */
template <typename T, int V>
struct row_inputs {
	pack<T, full<T>::width> x[V], dy[V];
	float mean, rstd;
};

/* Asks for a row; beyond the last one, nothing. */
template <typename T, int V>
static __device__ inline void
fetch_row(const struct norm_grad &n, int64_t row, const struct spread &s, row_inputs<T, V> *in)
{
	enum { N = full<T>::width };

	if (row >= n.x.shape[0])
		return;
	in->mean = n.mean.data ? ((const float *)n.mean.data)[row] : 0;
	in->rstd = ((const float *)n.rstd.data)[row];
#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;

		if (at >= s.packs)
			continue;
		in->x[i] = fetch<T, N>(row_of<T>(n.x, row) + at * N);
		in->dy[i] = fetch<T, N>(row_of<T>(n.dy, row) + at * N);
	}
}

/* The sums of one column pack over the rows of a group. */
template <int N>
struct column_sums {
	float weight[N], bias[N];
};

/* Sums of g and of g xhat over the row, g = dy weight; the columns' sums grow by this row. */
template <typename T, int V>
static __device__ inline float2
row_sums(const struct norm_grad &n, const struct spread &s, const row_inputs<T, V> &in,
    column_sums<full<T>::width> (&sums)[V])
{
	enum { N = full<T>::width };
	float2 total = make_float2(0, 0);

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;
		float x[N], dy[N], weight[N];

		if (at >= s.packs)
			continue;
		unpack(x, in.x[i]);
		unpack(dy, in.dy[i]);
		load(weight, (const T *)n.weight.data + at * N);
#pragma unroll
		for (int k = 0; k < N; k++) {
			float g = dy[k] * weight[k], xhat = (x[k] - in.mean) * in.rstd;

			total.x += g;
			total.y += g * xhat;
			sums[i].weight[k] += dy[k] * xhat;
			sums[i].bias[k] += dy[k];
		}
	}
	return total;
}

/* The residual's gradient, which is needed last. */
template <typename T, int V>
static __device__ inline void
fetch_gradient(const struct norm_grad &n, int64_t row, const struct spread &s,
    pack<T, full<T>::width> (&before)[V])
{
#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;

		if (row < n.x.shape[0] && at < s.packs)
			before[i] = fetch<T, full<T>::width>(row_of<T>(n.dx, row) + at * full<T>::width);
	}
}

/* A row's gradient so far, and the means of its two sums. */
template <typename T, int V>
struct row_outputs {
	pack<T, full<T>::width> before[V];
	float2 mean;
};

/* dx += rstd (g - mean g - xhat mean(g xhat)). */
template <typename T, int V>
static __device__ inline void
put_gradient(const struct norm_grad &n, int64_t row, const struct spread &s,
    const row_inputs<T, V> &in, const row_outputs<T, V> &out)
{
	enum { N = full<T>::width };

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;
		float x[N], dy[N], dx[N], weight[N];

		if (at >= s.packs)
			continue;
		unpack(x, in.x[i]);
		unpack(dy, in.dy[i]);
		unpack(dx, out.before[i]);
		load(weight, (const T *)n.weight.data + at * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			dx[k] += in.rstd *
			    (dy[k] * weight[k] - out.mean.x - (x[k] - in.mean) * in.rstd * out.mean.y);
		store(row_of<T>(n.dx, row) + at * N, dx);
	}
}

/* part[block] = { sums for dweight [h], sums for dbias [h] }: the groups of a block one after another,
 * through shared memory [2 h]. */
template <int N, int V>
static __device__ inline void
put_sums(const struct spread &s, const column_sums<N> (&sums)[V], float *shared, float *part)
{
	int h = s.packs * N;

	for (int r = 0; r < s.rows; r++) {
#pragma unroll
		for (int i = 0; i < V; i++) {
			int at = threadIdx.x + i * blockDim.x;

			if (threadIdx.y != r || at >= s.packs)
				continue;
#pragma unroll
			for (int k = 0; k < N; k++) {
				float *weight = shared + at * N + k, *bias = weight + h;

				*weight = (r ? *weight : 0) + sums[i].weight[k];
				*bias = (r ? *bias : 0) + sums[i].bias[k];
			}
		}
		__syncthreads();
	}
	for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 2 * h; i += blockDim.x * blockDim.y)
		part[blockIdx.x * 2 * (int64_t)h + i] = shared[i];
}

/* The next row is under way while the sums of this one are taken. */
template <typename T, int V>
static __global__ void __launch_bounds__(V == 1 ? ONE_THREADS : TWO_THREADS)
norm_bwd_kernel(struct norm_grad n, struct spread s, float *part)
{
	enum { N = full<T>::width };
	extern __shared__ float shared[];
	__shared__ float2 buffer[2][32];
	column_sums<N> sums[V] = {};
	row_inputs<T, V> next, in;
	row_outputs<T, V> out;
	int64_t rows = n.x.shape[0], step = gridDim.x * (int64_t)s.rows;
	float h = (float)n.x.shape[1];
	int turn = 0;

	fetch_row(n, blockIdx.x * (int64_t)s.rows + threadIdx.y, s, &next);
	for (int64_t first = blockIdx.x * (int64_t)s.rows; first < rows; first += step) {
		int64_t row = first + threadIdx.y;

		in = next;
		fetch_gradient<T, V>(n, row, s, out.before);
		fetch_row(n, row + step, s, &next);
		out.mean = row < rows ? row_sums(n, s, in, sums) : make_float2(0, 0);
		out.mean = group_sum(out.mean, s.warps, &buffer[turn]);
		turn ^= 1;
		out.mean.x = n.mean.data ? out.mean.x / h : 0;
		out.mean.y /= h;
		if (row < rows)
			put_gradient(n, row, s, in, out);
	}
	put_sums(s, sums, shared, part);
}

/* --- launching -------------------------------------------------------------------------------- */

/* Rows of `packs` packs, V a lane, in blocks of at most 256 threads where a row leaves a choice. */
static struct spread
spread_of(int packs, int v)
{
	struct spread s = { packs, (int)cu_div_up(packs, 32 * v), 1 };

	s.rows = (int)cu_max(1, 8 / s.warps);
	return s;
}

/* One instance of the forward kernel. */
template <typename T, int V, bool SUM>
static void
launch_forward(struct stream *st, const struct norm_call *n)
{
	struct spread s = spread_of((int)(n->x.shape[1] / full<T>::width), V);
	dim3 block((unsigned)(32 * s.warps), (unsigned)s.rows);
	int64_t blocks = cu_min(cu_div_up(n->x.shape[0], s.rows), 64 * (int64_t)st->device->num_sms);

	norm_fwd_kernel<T, V, SUM><<<(unsigned)blocks, block, 0, cu_handle(st)>>>(*n, s);
}

/* How many packs a lane holds: few enough warps for a block, few enough registers for occupancy. 0:
 * the row does not fit. */
template <typename T>
static int
lane_packs(int64_t h)
{
	int64_t packs = h / full<T>::width;

	return h % full<T>::width ? 0
	    : packs <= ONE_THREADS ? 1
	    : packs <= 2 * TWO_THREADS ? 2
				       : 0;
}

/* The forward pass in registers, or false. */
template <typename T>
bool
norm_held_fwd(struct stream *st, const struct norm_call *n)
{
	int v = lane_packs<T>(n->x.shape[1]);

	if (v == 0 || !norm_packs(n, full<T>::width))
		return false;
	if (n->sum)
		(v == 1 ? launch_forward<T, 1, true> : launch_forward<T, 2, true>)(st, n);
	else
		(v == 1 ? launch_forward<T, 1, false> : launch_forward<T, 2, false>)(st, n);
	return true;
}

/* One instance of the backward kernel; its blocks are as many as stay on 132 SMs at once, whatever the
 * GPU. Returns the number of partial sums. */
template <typename T, int V>
static int
launch_backward(struct stream *st, const struct norm_grad *n)
{
	struct spread s = spread_of((int)(n->x.shape[1] / full<T>::width), V);
	dim3 block((unsigned)(32 * s.warps), (unsigned)s.rows);
	int64_t h = n->x.shape[1], each = cu_max(1, (V == 1 ? 768 : 512) / (32 * s.warps * s.rows));
	int parts = (int)cu_min(cu_min(cu_div_up(n->x.shape[0], s.rows), 132 * each), CU_WORKSPACE / 8 / h);
	size_t shared = 2 * (size_t)h * sizeof(float);

	if (shared > 48 << 10 && !cu_ok(st->device, cudaFuncSetAttribute(norm_bwd_kernel<T, V>,
	    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared), "norm_bwd"))
		return 0;
	norm_bwd_kernel<T, V>
	    <<<(unsigned)parts, block, shared, cu_handle(st)>>>(*n, s, (float *)cu_workspace(st));
	return parts;
}

/* The backward pass in registers: returns the number of partial sums that it left, or 0. */
template <typename T>
int
norm_held_bwd(struct stream *st, const struct norm_grad *n)
{
	int v = lane_packs<T>(n->x.shape[1]), w = full<T>::width;

	if (v == 0 || !cu_packs(&n->x, w) || !cu_packs(&n->dy, w) || !cu_packs(&n->dx, w) ||
	    !cu_packs(&n->weight, w))
		return 0;
	return v == 1 ? launch_backward<T, 1>(st, n) : launch_backward<T, 2>(st, n);
}

template bool norm_held_fwd<float>(struct stream *, const struct norm_call *);
template bool norm_held_fwd<bf16>(struct stream *, const struct norm_call *);
template bool norm_held_fwd<half>(struct stream *, const struct norm_call *);
template int norm_held_bwd<float>(struct stream *, const struct norm_grad *);
template int norm_held_bwd<bf16>(struct stream *, const struct norm_grad *);
template int norm_held_bwd<half>(struct stream *, const struct norm_grad *);
