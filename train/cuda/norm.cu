/*
 * norm.cu - LayerNorm and RMSNorm, alone or after the residual sum; the sums over rows in two
 * stages. Source: docs/math.md 2.2, 2.3, 2.9
 *
 * Rows whose length is whole packs are spread over few warps, so that work per row, rather than per
 * element, weighs little; each tensor passes through memory once, and the rows that come next are
 * on their way to shared memory while one is worked on. Longer and odd rows are walked by a block,
 * again for each pass (norm_walk.cu). In the backward pass a group of warps keeps its columns' sums
 * over its rows in registers, those of dx too where they are asked for; how many groups there are
 * follows from the shape, so the bits are the same on every GPU.
 */
#include "train/cuda/async.cuh"
#include "train/cuda/early.cuh"
#include "train/cuda/norm.cuh"

/* How a row is spread: `warps` warps hold it, each lane `lane` packs; a block of at most `threads`
 * threads has `rows` such groups, and `stages` times as many rows in shared memory. */
struct spread {
	int packs, lane, warps, rows, stages, threads;
};

enum {
	NARROW = 128,
	WIDE = 256, /* most threads of a block */
	STAGES_MAX = 4,
	SHARED_OWN = 2 << 10, /* bytes of a block's shared memory that are not stages */
};

/* Blocks on an SM at once. */
template <int THREADS> struct resident {
	enum { blocks = THREADS == NARROW ? 3 : 1 };
};

/* --- rows on their way ------------------------------------------------------------------------ */

/* The packs of K tensors that a thread is loading, V of each. It reads only its own, so it waits
 * for no other thread. */
template <typename T, int V, int K, int THREADS> struct ring {
	pack<T, full<T>::width> *mine;
	int stages, now; /* now: the stage of the current row */
};

/* Empty, in the block's shared memory. */
template <typename T, int V, int K, int THREADS>
static __device__ inline ring<T, V, K, THREADS>
ring_in(void *shared, const struct spread &s)
{
	ring<T, V, K, THREADS> r;

	r.mine = (pack<T, full<T>::width> *)shared + threadIdx.y * blockDim.x + threadIdx.x;
	r.stages = s.stages;
	r.now = 0;
	return r;
}

/* Pack i of tensor k, in the stage that lies so far ahead. */
template <typename T, int V, int K, int THREADS>
static __device__ inline pack<T, full<T>::width> *
slot(const ring<T, V, K, THREADS> &r, int k, int i, int ahead)
{
	int stage = r.now + ahead < r.stages ? r.now + ahead : r.now + ahead - r.stages;

	return r.mine + stage * (K * V * THREADS) + (k * V + i) * THREADS;
}

/* The values of pack i of tensor k of the current row. */
template <typename T, int V, int K, int THREADS>
static __device__ inline void
take(float (&x)[full<T>::width], const ring<T, V, K, THREADS> &r, int k, int i)
{
	load(x, slot(r, k, i, 0)->at);
}

/* Starts loading a thread's packs of row `row` of tensor k. */
template <typename T, int V, int K, int THREADS>
static __device__ inline void
ask(const ring<T, V, K, THREADS> &r, int k, const struct tensor &t, int64_t row, int ahead)
{
	const T *from = row_of<T>(t, row);

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = (threadIdx.x + i * blockDim.x) * full<T>::width;

		if (at < t.shape[1])
			copy_16(shared_address(slot(r, k, i, ahead)), from + at, true);
	}
}

/* Waits for the current row: of the groups asked for, all but those of the rows after it. */
template <typename T, int V, int K, int THREADS>
static __device__ inline void
await(const ring<T, V, K, THREADS> &r)
{
	switch (r.stages) {
	case 1: copies_done_but<0>(); break;
	case 2: copies_done_but<1>(); break;
	case 3: copies_done_but<2>(); break;
	default: copies_done_but<STAGES_MAX - 1>(); break;
	}
}

/* Advances to the next row; the place of this one is free. */
template <typename T, int V, int K, int THREADS>
static __device__ inline void
turn(ring<T, V, K, THREADS> &r)
{
	r.now = r.now + 1 < r.stages ? r.now + 1 : 0;
}

/* A thread's packs of a vector of one row, for as long as the block lives; zeros where there is
 * none. */
template <typename T, int V>
static __device__ inline void
hold(pack<T, full<T>::width> (&v)[V], const void *vector, int packs)
{
#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;
		float none[full<T>::width] = {};

		v[i] = vector && at < packs
		    ? fetch<T, full<T>::width>((const T *)vector + at * full<T>::width)
		    : packed<T, full<T>::width>(none);
	}
}

/* --- sums over the warps that hold a row ------------------------------------------------------ */

/* The sum of two numbers over a group of `warps` warps, in all its threads. Two calls in a row must
 * use different buffers: one is read while the next is written. All threads of the block call. */
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

/* Asks for a row of what the forward pass reads; beyond the last one for nothing, which counts
 * too. */
template <typename T, int V, bool SUM, int THREADS>
static __device__ inline void
ask_inputs(const struct norm_call &n, const ring<T, V, 1 + SUM, THREADS> &r, int64_t row, int ahead)
{
	if (row < n.x.shape[0]) {
		ask(r, 0, n.x, row, ahead);
		if (SUM)
			ask(r, SUM, n.residual, row, ahead);
	}
	copies_asked();
}

/* The values of a row: x, or the rounded sum of the residual connection, which is stored. Lanes
 * beyond the row's end hold zeros. */
template <typename T, int V, bool SUM, int THREADS>
static __device__ inline void
row_values(const struct norm_call &n, int64_t row, const struct spread &s,
    const ring<T, V, 1 + SUM, THREADS> &r, float (&v)[V][full<T>::width])
{
	enum { N = full<T>::width };

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;

#pragma unroll
		for (int k = 0; k < N; k++)
			v[i][k] = 0;
		if (row >= n.x.shape[0] || at >= s.packs)
			continue;
		take(v[i], r, 0, i);
		if (SUM)
			add_residual<T, N>(n, row, at * N, *slot(r, SUM, i, 0), v[i]);
	}
}

/* The norm's own vectors. */
template <typename T, int V> struct vectors {
	pack<T, full<T>::width> weight[V], bias[V];
};

/* y = (v - mean) rstd (weight + shift) + bias, of the packs that a lane holds. */
template <typename T, int V>
static __device__ inline void
put_row(const struct norm_call &n, int64_t row, const vectors<T, V> &vec,
    const float (&v)[V][full<T>::width], float2 stats)
{
	enum { N = full<T>::width };

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;
		float y[N], weight[N], bias[N];

		if (at * N >= n.x.shape[1])
			continue;
		unpack(weight, vec.weight[i]);
		unpack(bias, vec.bias[i]);
#pragma unroll
		for (int k = 0; k < N; k++)
			y[k] = fmaf((v[i][k] - stats.x) * stats.y, weight[k] + n.shift, bias[k]);
		store(row_of<T>(n.y, row) + at * N, y);
	}
}

/* Mean and 1 / deviation of a row, in all its threads. Mean before variance, so that nothing
 * cancels; the mean is of LayerNorm alone. */
template <int V, int N>
static __device__ inline float2
row_stats(
    const struct norm_call &n, const struct spread &s, const float (&v)[V][N], float2 (*buffer)[32])
{
	float h = (float)n.x.shape[1];
	float2 sum = make_float2(0, 0), stats = make_float2(0, 0);

	if (n.mean) {
#pragma unroll
		for (int i = 0; i < V; i++)
#pragma unroll
			for (int k = 0; k < N; k++)
				sum.x += v[i][k];
		stats.x = group_sum(sum, s.warps, &buffer[0]).x / h;
		sum.x = 0;
	}
#pragma unroll
	for (int i = 0; i < V; i++)
#pragma unroll
		for (int k = 0; k < N; k++) {
			float centred =
			    threadIdx.x + i * blockDim.x < s.packs ? v[i][k] - stats.x : 0;

			sum.x += centred * centred;
		}
	stats.y = 1 / sqrtf(group_sum(sum, s.warps, &buffer[1]).x / h + n.eps);
	return stats;
}

/* A block goes through its rows; those of the next turns are under way meanwhile. */
template <typename T, int V, bool SUM, int THREADS>
static __global__ void
__launch_bounds__(THREADS, resident<THREADS>::blocks)
    norm_fwd_kernel(struct norm_call n, struct spread s)
{
	extern __shared__ uint4 shared[];
	__shared__ float2 buffer[4][32];
	ring<T, V, 1 + SUM, THREADS> r = ring_in<T, V, 1 + SUM, THREADS>(shared, s);
	int64_t row = blockIdx.x * (int64_t)s.rows + threadIdx.y,
		step = gridDim.x * (int64_t)s.rows;
	vectors<T, V> vec;
	int odd = 0;

	let_next_begin();
	await_previous();
	hold<T, V>(vec.weight, n.weight, s.packs);
	hold<T, V>(vec.bias, n.bias, s.packs);
	for (int i = 0; i + 1 < s.stages; i++)
		ask_inputs<T, V, SUM, THREADS>(n, r, row + i * step, i);
	for (; row - threadIdx.y < n.x.shape[0]; row += step, turn(r)) {
		float v[V][full<T>::width];
		float2 stats;

		ask_inputs<T, V, SUM, THREADS>(n, r, row + (s.stages - 1) * step, s.stages - 1);
		await(r);
		row_values<T, V, SUM, THREADS>(n, row, s, r, v);
		stats = row_stats(n, s, v, &buffer[2 * odd]);
		odd ^= 1;
		if (row >= n.x.shape[0])
			continue;
		if (n.y.data)
			put_row<T, V>(n, row, vec, v, stats);
		if (threadIdx.x == 0) {
			n.rstd[row] = stats.y;
			if (n.mean)
				n.mean[row] = stats.x;
		}
	}
}

/* --- backward --------------------------------------------------------------------------------- */

enum { RING_X, RING_DY, RING_DX, BWD_TENSORS };

/* As ask_inputs. */
template <typename T, int V, int THREADS>
static __device__ inline void
ask_gradients(
    const struct norm_grad &n, const ring<T, V, BWD_TENSORS, THREADS> &r, int64_t row, int ahead)
{
	if (row < n.x.shape[0]) {
		ask(r, RING_X, n.x, row, ahead);
		ask(r, RING_DY, n.dy, row, ahead);
		ask(r, RING_DX, n.dx, row, ahead);
	}
	copies_asked();
}

/* What a thread has of its columns: the weight, the sums for dweight and dbias over its rows, and
 * one of two: the sums of dx where they are asked for, else xhat of the current row. Registers have
 * no room for both. */
template <typename T, int V> struct columns {
	pack<T, full<T>::width> held[V];
	float dweight[V][full<T>::width], dbias[V][full<T>::width], dx[V][full<T>::width],
	    xhat[V][full<T>::width];
};

/* Mean and 1 / deviation of a row, as the forward pass has left them. */
static __device__ inline float2
saved_stats(const struct norm_grad &n, int64_t row)
{
	if (row >= n.x.shape[0])
		return make_float2(0, 0);
	return make_float2(
	    n.mean.data ? ((const float *)n.mean.data)[row] : 0, ((const float *)n.rstd.data)[row]);
}

/* Sums of g and of g xhat over the row, g = dy weight; the columns' sums grow by this row, and xhat
 * is kept for put_gradient without SUM. */
template <typename T, int V, typename R>
static __device__ inline float2
row_sums(
    const struct norm_grad &n, const struct spread &s, const R &r, float2 stats, columns<T, V> &own)
{
	enum { N = full<T>::width };
	float2 total = make_float2(0, 0);
	float shift = (float)n.shift;

#pragma unroll
	for (int i = 0; i < V; i++) {
		float x[N], dy[N], weight[N];

		if (threadIdx.x + i * blockDim.x >= s.packs)
			continue;
		take(x, r, RING_X, i);
		take(dy, r, RING_DY, i);
		unpack(weight, own.held[i]);
#pragma unroll
		for (int k = 0; k < N; k++) {
			float g = dy[k] * (weight[k] + shift);

			own.xhat[i][k] = (x[k] - stats.x) * stats.y;
			total.x += g;
			total.y += g * own.xhat[i][k];
			own.dweight[i][k] += dy[k] * own.xhat[i][k];
			own.dbias[i][k] += dy[k];
		}
	}
	return total;
}

/* dx += rstd (g - mean g - xhat mean(g xhat)); c: the row's mean and rstd, then the means of g and
 * of g xhat. SUM: the columns' sums of what is stored grow by this row, and xhat is computed
 * again. */
template <bool SUM, typename T, int V, typename R>
static __device__ inline void
put_gradient(const struct norm_grad &n, int64_t row, const R &r, columns<T, V> &own, float4 c)
{
	enum { N = full<T>::width };
	float shift = (float)n.shift;

#pragma unroll
	for (int i = 0; i < V; i++) {
		int at = threadIdx.x + i * blockDim.x;
		float x[N], dx[N], dy[N], weight[N];
		pack<T, N> rounded;

		if (at * N >= n.x.shape[1])
			continue;
		if (SUM)
			take(x, r, RING_X, i);
		take(dx, r, RING_DX, i);
		take(dy, r, RING_DY, i);
		unpack(weight, own.held[i]);
#pragma unroll
		for (int k = 0; k < N; k++) {
			float xhat = SUM ? (x[k] - c.x) * c.y : own.xhat[i][k];

			dx[k] += c.y * (dy[k] * (weight[k] + shift) - c.z - xhat * c.w);
		}
		rounded = packed<T, N>(dx);
		move<T, N>(row_of<T>(n.dx, row) + at * N, &rounded);
		if (!SUM)
			continue;
		unpack(dx, rounded);
#pragma unroll
		for (int k = 0; k < N; k++)
			own.dx[i][k] += dx[k];
	}
}

/* part[h] = one of a block's sums: its groups one after another, through shared memory [h]. */
template <int V, int N>
static __device__ inline void
put_sum(const struct spread &s, const float (&own)[V][N], float *shared, float *part)
{
	for (int r = 0; r < s.rows; r++) {
		__syncthreads();
#pragma unroll
		for (int i = 0; i < V; i++) {
			int at = threadIdx.x + i * blockDim.x;
			float sum[N] = {};

			if (threadIdx.y != r || at >= s.packs)
				continue;
			if (r > 0)
				load(sum, shared + at * N);
#pragma unroll
			for (int k = 0; k < N; k++)
				sum[k] += own[i][k];
			store(shared + at * N, sum);
		}
	}
	__syncthreads();
	for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < s.packs * N;
	     i += blockDim.x * blockDim.y)
		part[i] = shared[i];
}

/* As the forward kernel. The rows of dx that are under way are none that is written before they
 * arrive. part[block] = { sums for dweight [h], for dbias [h], and with SUM those of dx [h] }. */
template <typename T, int V, bool SUM, int THREADS>
static __global__ void
__launch_bounds__(THREADS, resident<THREADS>::blocks)
    norm_bwd_kernel(struct norm_grad n, struct spread s, float *part)
{
	extern __shared__ uint4 shared[];
	__shared__ float2 buffer[2][32];
	ring<T, V, BWD_TENSORS, THREADS> r = ring_in<T, V, BWD_TENSORS, THREADS>(shared, s);
	columns<T, V> own = {};
	int64_t row = blockIdx.x * (int64_t)s.rows + threadIdx.y,
		step = gridDim.x * (int64_t)s.rows;
	int64_t width = n.x.shape[1];
	float h = (float)width;
	float2 stats, next = saved_stats(n, row);
	int odd = 0;

	hold<T, V>(own.held, n.weight.data, s.packs);
	for (int i = 0; i + 1 < s.stages; i++)
		ask_gradients<T, V, THREADS>(n, r, row + i * step, i);
	for (; row - threadIdx.y < n.x.shape[0]; row += step, turn(r)) {
		bool live = row < n.x.shape[0];
		float2 mean = make_float2(0, 0);

		ask_gradients<T, V, THREADS>(n, r, row + (s.stages - 1) * step, s.stages - 1);
		stats = next;
		next = saved_stats(n, row + step);
		await(r);
		if (live)
			mean = row_sums(n, s, r, stats, own);
		mean = group_sum(mean, s.warps, &buffer[odd]);
		odd ^= 1;
		mean.x = n.mean.data ? mean.x / h : 0;
		mean.y /= h;
		if (live)
			put_gradient<SUM>(
			    n, row, r, own, make_float4(stats.x, stats.y, mean.x, mean.y));
	}
	part += blockIdx.x * (2 + SUM) * width;
	put_sum(s, own.dweight, (float *)shared, part);
	put_sum(s, own.dbias, (float *)shared, part + width);
	if (SUM)
		put_sum(s, own.dx, (float *)shared, part + 2 * width);
}

/* --- launching -------------------------------------------------------------------------------- */

/* How rows of h elements are spread, with as few lanes idle as can be; rows = 0: they are too long
 * or of no whole packs. */
template <typename T>
static struct spread
spread_of(int64_t h)
{
	struct spread s = { (int)int64_min(h / full<T>::width, 1 << 20), 4, 0, 0, 1, NARROW };
	int by_three = (int)int64_div_up(s.packs, 3 * 32),
	    by_four = (int)int64_div_up(s.packs, 4 * 32);

	if (h % full<T>::width || by_four > WIDE / 32)
		return s;
	if (3 * by_three < 4 * by_four && by_three <= NARROW / 32)
		s.lane = 3;
	s.warps = s.lane == 3 ? by_three : by_four;
	s.threads = s.warps <= NARROW / 32 ? NARROW : WIDE;
	s.rows = s.threads / 32 / s.warps;
	return s;
}

/* Bytes of shared memory of a block whose stages are `each` bytes: as many as fit when there are
 * `blocks` blocks on an SM, and no more than it has turns, so that a small block finds room beside
 * another kernel's. */
static size_t
choose_stages(const struct device *d, struct spread *s, size_t each, int64_t blocks, int64_t turns)
{
	int64_t room = int64_min(d->shared_block, d->shared_sm / blocks) - SHARED_OWN;

	s->stages =
	    (int)int64_max(1, int64_min(int64_min(STAGES_MAX, turns), room / (int64_t)each));
	return each * (size_t)s->stages;
}

/* A kernel has to declare shared memory beyond what every GPU has. */
static bool
allow(const struct stream *st, const void *kernel, size_t shared, const char *name)
{
	return shared + SHARED_OWN <= 48 << 10 ||
	    cu_ok(st->device,
		cudaFuncSetAttribute(
		    kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
		name);
}

/* One instance of the forward kernel; as many blocks as are on the GPU at once. */
template <typename T, int V, bool SUM, int THREADS>
static void
launch_forward(struct stream *st, const struct norm_call *n, struct spread s)
{
	const int64_t each = resident<THREADS>::blocks;
	dim3 block((unsigned)(32 * s.warps), (unsigned)s.rows);
	int64_t groups = int64_div_up(n->x.shape[0], s.rows), most = each * st->device->num_sms,
		blocks = int64_min(groups, most);
	size_t shared = choose_stages(
	    st->device, &s, 16 * V * (1 + SUM) * THREADS, each, int64_div_up(groups, most));

	if (allow(st, (const void *)norm_fwd_kernel<T, V, SUM, THREADS>, shared, "norm_fwd"))
		cu_launch_small_early(st, norm_fwd_kernel<T, V, SUM, THREADS>,
		    { (unsigned)blocks, block, shared }, *n, s);
}

/* The instance for a spread. */
template <typename T, bool SUM>
static void
forward_by(struct stream *st, const struct norm_call *n, const struct spread &s)
{
	if (s.threads == WIDE)
		launch_forward<T, 4, SUM, WIDE>(st, n, s);
	else if (s.lane == 4)
		launch_forward<T, 4, SUM, NARROW>(st, n, s);
	else
		launch_forward<T, 3, SUM, NARROW>(st, n, s);
}

/* The forward pass in registers, or false. */
template <typename T>
bool
norm_held_fwd(struct stream *st, const struct norm_call *n)
{
	struct spread s = spread_of<T>(n->x.shape[1]);

	if (s.rows == 0 || !norm_packs(n, full<T>::width))
		return false;
	if (n->sum)
		forward_by<T, true>(st, n, s);
	else
		forward_by<T, false>(st, n, s);
	return true;
}

/* One instance of the backward kernel; its blocks are as many as stay on 132 SMs at once, whatever
 * the GPU. Returns the number of partial sums. */
template <typename T, int V, bool SUM, int THREADS>
static int
launch_backward(struct stream *st, const struct norm_grad *n, struct spread s)
{
	const int64_t each = resident<THREADS>::blocks;
	dim3 block((unsigned)(32 * s.warps), (unsigned)s.rows);
	int parts = (int)int64_min(
	    int64_min(int64_div_up(n->x.shape[0], s.rows), 132 * each), norm_parts_max(n));
	size_t shared =
	    choose_stages(st->device, &s, 16 * V * BWD_TENSORS * THREADS, each, STAGES_MAX);

	static_assert(
	    16 * BWD_TENSORS >= full<T>::width * sizeof(float), "a stage has room for a sum");
	if (!allow(st, (const void *)norm_bwd_kernel<T, V, SUM, THREADS>, shared, "norm_bwd"))
		return 0;
	norm_bwd_kernel<T, V, SUM, THREADS>
	    <<<(unsigned)parts, block, shared, cu_handle(st)>>>(*n, s, (float *)cu_workspace(st));
	return parts;
}

/* As forward_by. */
template <typename T, bool SUM>
static int
backward_by(struct stream *st, const struct norm_grad *n, const struct spread &s)
{
	if (s.threads == WIDE)
		return launch_backward<T, 4, SUM, WIDE>(st, n, s);
	return s.lane == 4 ? launch_backward<T, 4, SUM, NARROW>(st, n, s)
			   : launch_backward<T, 3, SUM, NARROW>(st, n, s);
}

/* The backward pass in registers: returns the number of partial sums that it left, or 0. */
template <typename T>
int
norm_held_bwd(struct stream *st, const struct norm_grad *n)
{
	struct spread s = spread_of<T>(n->x.shape[1]);
	int w = full<T>::width;

	if (s.rows == 0 || !cu_packs(&n->x, w) || !cu_packs(&n->dy, w) || !cu_packs(&n->dx, w) ||
	    !cu_packs(&n->weight, w))
		return 0;
	return n->dx_sum.data ? backward_by<T, true>(st, n, s) : backward_by<T, false>(st, n, s);
}

template bool norm_held_fwd<float>(struct stream *, const struct norm_call *);
template bool norm_held_fwd<bf16>(struct stream *, const struct norm_call *);
template bool norm_held_fwd<half>(struct stream *, const struct norm_call *);
template int norm_held_bwd<float>(struct stream *, const struct norm_grad *);
template int norm_held_bwd<bf16>(struct stream *, const struct norm_grad *);
template int norm_held_bwd<half>(struct stream *, const struct norm_grad *);
