/*
 * norm_heads.cu - norms of heads side by side in a row, as those of q and of k are. Source:
 * docs/math.md 2.2, 2.3
 *
 * A lane has EACH neighbours of a head, and a head as many lanes of a warp as that takes, or the
 * next power of two: so a warp works on several heads at once, and a lane asks for its elements of
 * more than one before the first arrive. A sum over a head is a lane's elements in order, then
 * lanes in the order of warp_sum. In the backward pass a lane keeps its columns' sums over the
 * heads that it meets in registers; which these are follows from the shape, so the bits are the
 * same on every GPU.
 */
#include "train/cuda/norm.cuh"

enum {
	EACH = 8,
	WARPS = CU_THREADS / 32,
	BLOCKS = 3,          /* on an SM at once */
	WAVES = 4,           /* most blocks of the forward pass, in such fillings of the GPU */
	COUNT_MAX = 1 << 30, /* most heads: places of turns beyond the last are ints too */
	LONGEST = 32 * EACH, /* of heads */
};

/* Heads of `length` elements on `lanes` lanes each: `per_row` in a row, `count` in all. */
struct heads {
	int length, lanes, per_row, count;
};

/* Heads that a lane asks for at once: 64 bytes of one tensor, or of two. */
template <typename T> struct turns {
	enum { forward = 8 / sizeof(T), backward = 4 / sizeof(T) };
};

/* A lane's elements as words, until they are used: those of 16 bits would take a register each. */
template <typename T> struct share {
	uint4 word[EACH * sizeof(T) / sizeof(uint4)];
};

template <typename T>
static __device__ inline void
unpack(float (&x)[EACH], const share<T> &p)
{
	load(x, (const T *)p.word);
}

/* The column of a head where a lane's elements begin. */
static __device__ inline int
column_of(const struct heads &s)
{
	return (threadIdx.x & (s.lanes - 1)) * EACH;
}

/* The heads that a block works on at once. */
static __host__ __device__ inline int
at_once(const struct heads &s)
{
	return CU_THREADS / s.lanes;
}

/* Where a head begins in a tensor of which t is the columns of the first. */
template <typename T>
static __device__ inline T *
head_of(const struct tensor &t, const struct heads &s, int at)
{
	int row = at / s.per_row;

	return row_of<T>(t, row) + (at - row * s.per_row) * s.length;
}

/* A lane's elements of a head, or of a vector of its length; zeros where there are none. */
template <typename T>
static __device__ inline share<T>
share_of(const T *head, const struct heads &s, bool present)
{
	share<T> p = {};

	if (present && column_of(s) < s.length)
		move<T, EACH>(p.word, head + column_of(s));
	return p;
}

/* The sum over the lanes of a head, in all of them. All lanes of the warp call. */
static __device__ inline float
head_sum(float x, const struct heads &s)
{
	for (int lane = s.lanes / 2; lane > 0; lane /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, lane);
	return x;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* Mean and 1 / deviation. Mean before variance, so that nothing cancels; the mean is of LayerNorm
 * alone. */
static __device__ inline float2
head_stats(const struct norm_call &n, const struct heads &s, const float (&x)[EACH])
{
	float length = (float)s.length, mean = 0, square = 0;

	if (n.mean) {
#pragma unroll
		for (int k = 0; k < EACH; k++)
			mean += x[k];
		mean = head_sum(mean, s) / length;
	}
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		float centred = column_of(s) < s.length ? x[k] - mean : 0;

		square += centred * centred;
	}
	return make_float2(mean, 1 / sqrtf(head_sum(square, s) / length + n.eps));
}

/* A lane's share of the norm's own vectors. */
template <typename T> struct vectors {
	share<T> weight, bias;
};

/* y = (x - mean) rstd (weight + shift) + bias of a head, and its statistics. All lanes of the warp
 * call. */
template <typename T>
static __device__ inline void
put_head(const struct norm_call &n, const struct heads &s, const vectors<T> &v,
    const share<T> &from, int at)
{
	float x[EACH], weight[EACH], bias[EACH], y[EACH];
	float2 stats;

	unpack(x, from);
	unpack(weight, v.weight);
	unpack(bias, v.bias);
	stats = head_stats(n, s, x);
#pragma unroll
	for (int k = 0; k < EACH; k++)
		y[k] = fmaf((x[k] - stats.x) * stats.y, weight[k] + n.shift, bias[k]);
	if (at >= s.count || column_of(s) >= s.length)
		return;
	store(head_of<T>(n.y, s, at) + column_of(s), y);
	if (column_of(s) > 0)
		return;
	n.rstd[at] = stats.y;
	if (n.mean)
		n.mean[at] = stats.x;
}

/* A block goes through the heads by turns. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS, BLOCKS) heads_fwd_kernel(struct norm_call n, struct heads s)
{
	enum { TURNS = turns<T>::forward };
	int step = gridDim.x * at_once(s), mine = threadIdx.x / s.lanes;
	vectors<T> v = { share_of((const T *)n.weight, s, true),
		share_of((const T *)n.bias, s, n.bias) };

	for (int first = blockIdx.x * at_once(s); first < s.count; first += TURNS * step) {
		share<T> x[TURNS];

#pragma unroll
		for (int i = 0; i < TURNS; i++) {
			int at = first + mine + i * step;

			x[i] = share_of(head_of<const T>(n.x, s, at), s, at < s.count);
		}
#pragma unroll
		for (int i = 0; i < TURNS; i++)
			put_head(n, s, v, x[i], first + mine + i * step);
	}
}

/* --- backward --------------------------------------------------------------------------------- */

/* What a lane reads of head `at`, and the head's mean and 1 / deviation. */
template <typename T> struct gradients {
	int at;
	share<T> x, dy;
	float2 stats;
};

template <typename T>
static __device__ inline gradients<T>
gradients_of(const struct norm_grad &n, const struct heads &s, int at)
{
	bool present = at < s.count;
	gradients<T> g;

	g.at = at;
	g.x = share_of(head_of<const T>(n.x, s, at), s, present);
	g.dy = share_of(head_of<const T>(n.dy, s, at), s, present);
	g.stats.x = present && n.mean.data ? ((const float *)n.mean.data)[at] : 0;
	g.stats.y = present ? ((const float *)n.rstd.data)[at] : 0;
	return g;
}

/* Sums over the heads that a lane meets of dy xhat and of dy. */
struct sums {
	float dweight[EACH], dbias[EACH];
};

/* dx = rstd (g - mean g - xhat mean(g xhat)) with g = dy (weight + shift), mean g only in
 * LayerNorm; the columns' sums grow. All lanes of the warp call. */
template <typename T>
static __device__ inline void
put_gradient(const struct norm_grad &n, const struct heads &s, const gradients<T> &from,
    const share<T> &held, struct sums &own)
{
	float x[EACH], dy[EACH], weight[EACH], dx[EACH],
	    shift = (float)n.shift, length = (float)s.length, mean = 0, other = 0;

	unpack(x, from.x);
	unpack(dy, from.dy);
	unpack(weight, held);
#pragma unroll
	for (int k = 0; k < EACH; k++) {
		float g = dy[k] * (weight[k] + shift), xhat = (x[k] - from.stats.x) * from.stats.y;

		mean += g;
		other += g * xhat;
		own.dweight[k] += dy[k] * xhat;
		own.dbias[k] += dy[k];
	}
	mean = n.mean.data ? head_sum(mean, s) / length : 0;
	other = head_sum(other, s) / length;
#pragma unroll
	for (int k = 0; k < EACH; k++)
		dx[k] = from.stats.y *
		    (dy[k] * (weight[k] + shift) - mean -
			(x[k] - from.stats.x) * from.stats.y * other);
	if (from.at < s.count && column_of(s) < s.length)
		store(head_of<T>(n.dx, s, from.at) + column_of(s), dx);
}

/* part[length] = one of a block's sums: over the heads that a warp holds at once, then warp after
 * warp, through shared memory. */
static __device__ inline void
put_sum(const struct heads &s, float (&own)[EACH], float *shared, float *part)
{
	__syncthreads();
#pragma unroll
	for (int k = 0; k < EACH; k++)
		for (int lane = s.lanes; lane < 32; lane *= 2)
			own[k] += __shfl_xor_sync(0xffffffffu, own[k], lane);
	if ((int)threadIdx.x % 32 < s.lanes && column_of(s) < s.length)
		store(shared + threadIdx.x / 32 * s.length + column_of(s), own);
	__syncthreads();
	for (int c = threadIdx.x; c < s.length; c += CU_THREADS) {
		float sum = 0;

		for (int i = 0; i < WARPS; i++)
			sum += shared[i * s.length + c];
		part[c] = sum;
	}
}

/* As the forward kernel. part[block] = { sums for dweight [length], for dbias [length] }. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS, BLOCKS)
    heads_bwd_kernel(struct norm_grad n, struct heads s, float *part)
{
	enum { TURNS = turns<T>::backward };
	__shared__ alignas(uint4) float shared[WARPS * LONGEST];
	int step = gridDim.x * at_once(s), mine = threadIdx.x / s.lanes;
	share<T> weight = share_of((const T *)n.weight.data, s, true);
	struct sums own = {};

	for (int first = blockIdx.x * at_once(s); first < s.count; first += TURNS * step) {
		gradients<T> g[TURNS];

#pragma unroll
		for (int i = 0; i < TURNS; i++)
			g[i] = gradients_of<T>(n, s, first + mine + i * step);
#pragma unroll
		for (int i = 0; i < TURNS; i++)
			put_gradient(n, s, g[i], weight, own);
	}
	part += blockIdx.x * (int64_t)(2 * s.length);
	put_sum(s, own.dweight, shared, part);
	put_sum(s, own.dbias, shared, part + s.length);
}

/* --- launching -------------------------------------------------------------------------------- */

/* How heads are spread; lanes = 0: they are too long, too many or of no whole shares. */
static struct heads
heads_of(const struct tensor *x, int64_t per_row)
{
	int64_t length = x->shape[1], count = x->shape[0] * per_row;
	struct heads s = {};

	if (length % EACH || length > LONGEST || count > COUNT_MAX)
		return s;
	s.length = (int)length;
	s.per_row = (int)per_row;
	s.count = (int)count;
	for (s.lanes = 1; s.lanes * EACH < s.length;)
		s.lanes *= 2;
	return s;
}

/* No more blocks than fill the GPU a few times: each then keeps its share of the weight for some
 * turns. */
template <typename T>
bool
norm_heads_fwd(struct stream *st, const struct norm_call *n, int64_t heads)
{
	struct heads s = heads_of(&n->x, heads);
	int64_t most = WAVES * BLOCKS * (int64_t)st->device->num_sms, blocks;

	if (s.lanes == 0 || !norm_packs(n, EACH))
		return false;
	blocks = int64_min(int64_div_up(s.count, turns<T>::forward * at_once(s)), most);
	heads_fwd_kernel<T><<<(unsigned)blocks, CU_THREADS, 0, cu_handle(st)>>>(*n, s);
	return true;
}

/* As many blocks as stay on 132 SMs at once, whatever the GPU. */
template <typename T>
int
norm_heads_bwd(struct stream *st, const struct norm_grad *n, int64_t heads)
{
	struct heads s = heads_of(&n->x, heads);
	int64_t most = int64_min(132 * BLOCKS, norm_parts_max(n)), parts;

	if (s.lanes == 0 || !n->writes_dx || !cu_packs(&n->x, EACH) || !cu_packs(&n->dy, EACH) ||
	    !cu_packs(&n->dx, EACH) || !cu_packs(&n->weight, EACH))
		return 0;
	parts = int64_min(int64_div_up(s.count, turns<T>::backward * at_once(s)), most);
	heads_bwd_kernel<T>
	    <<<(unsigned)parts, CU_THREADS, 0, cu_handle(st)>>>(*n, s, (float *)cu_workspace(st));
	return (int)parts;
}

template bool norm_heads_fwd<float>(struct stream *, const struct norm_call *, int64_t);
template bool norm_heads_fwd<bf16>(struct stream *, const struct norm_call *, int64_t);
template bool norm_heads_fwd<half>(struct stream *, const struct norm_call *, int64_t);
template int norm_heads_bwd<float>(struct stream *, const struct norm_grad *, int64_t);
template int norm_heads_bwd<bf16>(struct stream *, const struct norm_grad *, int64_t);
template int norm_heads_bwd<half>(struct stream *, const struct norm_grad *, int64_t);
