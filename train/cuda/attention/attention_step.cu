/*
 * attention_step.cu - attention of one new position of each sample to those that are kept
 *
 * A block has some heads of one group of a sample, and a span of positions. Neighbouring lanes, as
 * many as a key has packs, are a team: it takes every so many-th key of the span, and the value
 * beside it, for all heads of the block. Teams keep running maxima and sums (Milakov & Gimelshein
 * 2018, arXiv:1805.02867), which are joined at the end, in an order of their own. Where there is
 * room for more than one span a second kernel joins those. The position is in the device's memory,
 * and no size of a launch depends on it: blocks of spans after it end at once.
 */
#include "train/cuda/attention/attn.cuh"
#include "train/cuda/early.cuh"

enum {
	SPAN = 256, /* positions of a block, where the workspace holds the sums of so many blocks */
	/* heads of a block, where groups have a multiple of so many, and blocks of one head would
	 * be more than so many for each multiprocessor: fewer end sooner where each has less to do
	 */
	SHARERS = 4,
	CROWD = 4,
	WARPS = CU_THREADS / 32,
	SPANS = 8 /* that are joined at a time */
};

/* Keys that a team asks for before it multiplies, in a block of R heads: as many as there are
 * registers for; and blocks of a multiprocessor at once. */
template <int N, int R> struct at_a_time {
	enum { KEYS = N > 1 && R == 1 ? 8 : 4, BLOCKS = N > 4 ? 2 : 1 };
};

struct step_call {
	struct attn a; /* of the new position alone, which is 0 there */
	struct tensor keys, values;
	struct tensor position;
	int lanes;    /* of a team: a power of 2 */
	int64_t span; /* positions of a block */
	float *
	    parts; /* [b, n, spans, e + 2]: largest score, sum and sums of values; NULL: one span */
};

/* What a lane has of a row of d elements: packs, `lanes` apart. */
template <int N> struct lane_packs {
	enum { COUNT = CU_HEAD_MAX / 32 / N > 0 ? CU_HEAD_MAX / 32 / N : 1 };
};

/* What a team has found for a head; sums: those of values, of the lane's columns. */
template <int N> struct found {
	float max, sum, sums[lane_packs<N>::COUNT][N];
};

/* A pack of zeros, by words. */
template <typename T, int N>
static __device__ inline void
clear(pack<T, N> &p)
{
	const uint4 none = make_uint4(0, 0, 0, 0);

	move<T, N>(&p, &none);
}

/* The lane's packs of a row of a head; zeros beyond its columns. */
template <typename T, int N>
static __device__ inline void
hold_row(pack<T, N> (&to)[lane_packs<N>::COUNT], const T *row, int columns, int lane, int lanes)
{
#pragma unroll
	for (int p = 0; p < lane_packs<N>::COUNT; p++) {
		int at = (lane + p * lanes) * N;

		clear(to[p]);
		if (at < columns)
			move<T, N>(&to[p], row + at);
	}
}

/* The scores of a head's query with K keys; -inf of keys that are not among those left. */
template <typename T, int N, int K>
static __device__ inline void
score_keys(const struct step_call &c, const pack<T, N> (&query)[lane_packs<N>::COUNT],
    const pack<T, N> (&k)[K][lane_packs<N>::COUNT], float (&s)[K], int left)
{
	int teams = CU_THREADS / c.lanes;
	float q[lane_packs<N>::COUNT][N];

#pragma unroll
	for (int p = 0; p < lane_packs<N>::COUNT; p++)
		unpack(q[p], query[p]);
#pragma unroll
	for (int u = 0; u < K; u++) {
		float x = 0;

#pragma unroll
		for (int p = 0; p < lane_packs<N>::COUNT; p++) {
			float key[N];

			unpack(key, k[u][p]);
#pragma unroll
			for (int i = 0; i < N; i++)
				x += q[p][i] * key[i];
		}
		for (int step = c.lanes / 2; step > 0; step /= 2)
			x += __shfl_xor_sync(0xffffffffu, x, step);
		x *= c.a.scale;
		x = c.a.cap > 0 ? c.a.cap * tanhf(x * c.a.per_cap) : x;
		s[u] = u * teams < left ? x : -INFINITY;
	}
}

/* Keys with these scores join what a team has found. One that has seen no key keeps the maximum
 * -inf, which nothing is subtracted from. */
template <typename T, int N, int K>
static __device__ inline void
join_keys(struct found<N> &f, const float (&s)[K], const pack<T, N> (&v)[K][lane_packs<N>::COUNT])
{
	float max = f.max, factor, weight[K];

#pragma unroll
	for (int u = 0; u < K; u++)
		max = fmaxf(max, s[u]);
	if (max == -INFINITY)
		return;
	factor = expf(f.max - max);
	f.max = max;
	f.sum *= factor;
#pragma unroll
	for (int u = 0; u < K; u++) {
		weight[u] = expf(s[u] - max);
		f.sum += weight[u];
	}
#pragma unroll
	for (int p = 0; p < lane_packs<N>::COUNT; p++) {
#pragma unroll
		for (int i = 0; i < N; i++)
			f.sums[p][i] *= factor;
#pragma unroll
		for (int u = 0; u < K; u++) {
			float value[N];

			unpack(value, v[u][p]);
#pragma unroll
			for (int i = 0; i < N; i++)
				f.sums[p][i] += weight[u] * value[i];
		}
	}
}

/* Some of a team's keys, and the values beside them. */
template <typename T, int N, int K> struct kept_keys {
	pack<T, N> k[K][lane_packs<N>::COUNT], v[K][lane_packs<N>::COUNT];
};

/* Asks for a team's keys from `at` on, before `end`; the others are zeros. */
template <typename T, int N, int K>
static __device__ inline void
ask_keys(const struct step_call &c, struct kept_keys<T, N, K> &x, int at, int end, int group)
{
	int lane = threadIdx.x % c.lanes, teams = CU_THREADS / c.lanes;

	at += threadIdx.x / c.lanes;
#pragma unroll
	for (int u = 0; u < K; u++, at += teams) {
		hold_row<T, N>(x.k[u], head_row<T>(c.a, c.keys, at, group),
		    at < end ? (int)c.keys.shape[1] : 0, lane, c.lanes);
		hold_row<T, N>(x.v[u], head_row<T>(c.a, c.values, at, group),
		    at < end ? (int)c.values.shape[1] : 0, lane, c.lanes);
	}
}

/* The new position's are where they were made, if it is one of them. */
template <typename T, int N, int K>
static __device__ inline void
take_own(const struct step_call &c, struct kept_keys<T, N, K> &x, int at, int position, int group)
{
	int lane = threadIdx.x % c.lanes, teams = CU_THREADS / c.lanes;

	at += threadIdx.x / c.lanes;
#pragma unroll
	for (int u = 0; u < K; u++, at += teams) {
		if (at != position)
			continue;
		hold_row<T, N>(
		    x.k[u], head_row<T>(c.a, c.a.k, 0, group), (int)c.keys.shape[1], lane, c.lanes);
		hold_row<T, N>(x.v[u], head_row<T>(c.a, c.a.v, 0, group), (int)c.values.shape[1],
		    lane, c.lanes);
	}
}

/* What R heads of a group find among the keys of [begin, end). Those of earlier passes are there
 * already while the kernels before this one are still running, so the first are asked for then. */
template <typename T, int N, int R>
static __device__ inline void
see_keys(const struct step_call &c, struct found<N> (&f)[R], int begin, int end, int head)
{
	enum { K = at_a_time<N, R>::KEYS };
	int lane = threadIdx.x % c.lanes, teams = CU_THREADS / c.lanes,
	    team = threadIdx.x / c.lanes, group = head * c.a.g / c.a.n,
	    position = position_at(c.position), kept = min(end, position);
	pack<T, N> q[R][lane_packs<N>::COUNT];
	struct kept_keys<T, N, K> x;

	ask_keys<T, N, K>(c, x, begin, kept, group);
	await_previous();
#pragma unroll
	for (int r = 0; r < R; r++) {
		hold_row<T, N>(
		    q[r], head_row<T>(c.a, c.a.q, 0, head + r), (int)c.a.q.shape[1], lane, c.lanes);
		f[r] = {};
		f[r].max = -INFINITY;
	}
	for (int at = begin; at < end; at += K * teams) {
		if (at > begin)
			ask_keys<T, N, K>(c, x, at, kept, group);
		take_own<T, N, K>(c, x, at, position, group);
#pragma unroll
		for (int r = 0; r < R; r++) {
			float s[K];

			score_keys<T, N, K>(c, q[r], x.k, s, end - at - team);
			join_keys<T, N, K>(f[r], s, x.v);
		}
	}
}

/* Shared by the warps of a block of R heads. */
template <int N, int R> struct shared_sums {
	float max[R][WARPS], sum[R][WARPS], sums[R][CU_THREADS * lane_packs<N>::COUNT * N];
};

/* The end of a head whose largest score is max: its output and log-sum-exp, or its part of them. */
static __device__ inline bool
writes_part(const struct step_call &c, int head, float max, float sum, float **part)
{
	int64_t row = ((int64_t)blockIdx.z * c.a.n + head) * gridDim.y + blockIdx.y;

	if (!c.parts)
		return false;
	*part = c.parts + row * (c.values.shape[1] + 2);
	if (threadIdx.x == 0) {
		(*part)[0] = max;
		(*part)[1] = sum;
	}
	return true;
}

/* What the teams of a warp have found for a head, to all of them. */
template <int N>
static __device__ inline void
join_warp(struct found<N> &f, int lanes)
{
	for (int step = lanes; step < 32; step *= 2) {
		float max = fmaxf(f.max, __shfl_xor_sync(0xffffffffu, f.max, step)),
		      factor = f.max == -INFINITY ? 0 : expf(f.max - max);

		f.max = max;
		f.sum *= factor;
		f.sum += __shfl_xor_sync(0xffffffffu, f.sum, step);
#pragma unroll
		for (int p = 0; p < lane_packs<N>::COUNT; p++)
#pragma unroll
			for (int i = 0; i < N; i++) {
				float x = f.sums[p][i] * factor;

				f.sums[p][i] = x + __shfl_xor_sync(0xffffffffu, x, step);
			}
	}
}

/* Puts what a warp has found for head r where the others see it, by the largest score of all. */
template <int N, int R>
static __device__ inline void
share_found(struct shared_sums<N, R> &all, struct found<N> &f, int lanes, int r)
{
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
	    width = lanes * lane_packs<N>::COUNT * N;
	float max = -INFINITY, factor;

#pragma unroll
	for (int i = 0; i < WARPS; i++)
		max = fmaxf(max, all.max[r][i]);
	factor = f.max == -INFINITY ? 0 : expf(f.max - max);
	f.max = max;
	all.sum[r][warp] = f.sum * factor;
#pragma unroll
	for (int p = 0; p < lane_packs<N>::COUNT; p++)
#pragma unroll
		for (int i = 0; i < N; i++)
			if (lane < lanes)
				all.sums[r][warp * width + (lane + p * lanes) * N + i] =
				    f.sums[p][i] * factor;
}

/* The output of head r of a block, whose largest score is max, or its part of it. */
template <typename T, int N, int R>
static __device__ inline void
put_head(const struct step_call &c, const struct shared_sums<N, R> &all, float max, int head, int r)
{
	int width = c.lanes * lane_packs<N>::COUNT * N;
	float sum = 0, factor, *part;

#pragma unroll
	for (int i = 0; i < WARPS; i++)
		sum += all.sum[r][i];
	if (!writes_part(c, head, max, sum, &part)) {
		float lse = finish_row(c.a, head, max, 1, sum, factor);

		if (threadIdx.x == 0)
			*statistic(c.a, c.a.lse, 0, head) = lse;
	}
	for (int i = threadIdx.x; i < c.values.shape[1]; i += CU_THREADS) {
		float x = 0;

#pragma unroll
		for (int w = 0; w < WARPS; w++)
			x += all.sums[r][w * width + i];
		if (c.parts)
			part[2 + i] = x;
		else
			put(head_row<T>(c.a, c.a.out, 0, head) + i, x * factor);
	}
}

/* What all warps have found for the heads of a block. */
template <typename T, int N, int R>
static __device__ inline void
join_warps(
    const struct step_call &c, struct shared_sums<N, R> &all, struct found<N> (&f)[R], int head)
{
#pragma unroll
	for (int r = 0; r < R; r++) {
		join_warp(f[r], c.lanes);
		all.max[r][threadIdx.x / 32] = f[r].max;
	}
	__syncthreads();
#pragma unroll
	for (int r = 0; r < R; r++)
		share_found<N, R>(all, f[r], c.lanes, r);
	__syncthreads();
#pragma unroll
	for (int r = 0; r < R; r++)
		put_head<T, N, R>(c, all, f[r].max, head + r, r);
}

/* The new key and value are put beside the others, by the block of the group's first heads. */
template <typename T>
static __device__ inline void
keep_own(const struct step_call &c, int head)
{
	int group = head * c.a.g / c.a.n;
	int64_t position = position_at(c.position);

	if (head % (c.a.n / c.a.g) || blockIdx.y != position / c.span)
		return;
	for (int i = threadIdx.x; i < c.keys.shape[1]; i += CU_THREADS)
		head_row<T>(c.a, c.keys, position, group)[i] = head_row<T>(c.a, c.a.k, 0, group)[i];
	for (int i = threadIdx.x; i < c.values.shape[1]; i += CU_THREADS)
		head_row<T>(c.a, c.values, position, group)[i] =
		    head_row<T>(c.a, c.a.v, 0, group)[i];
}

/* R heads of a group. Positions and beginnings of documents are not made by kernels. */
template <typename T, int N, int R>
static __global__ void
__launch_bounds__(CU_THREADS, at_a_time<N, R>::BLOCKS) step_kernel(const struct step_call c)
{
	__shared__ struct shared_sums<N, R> all;
	int64_t position = position_at(c.position), first = document_start(c.a, 0),
		from = blockIdx.y * c.span;
	struct found<N> f[R];
	int head = blockIdx.x * R;

	let_next_begin();
	if (from > position)
		return;
	if (c.a.window > 0)
		first = max(first, position - c.a.window + 1);
	see_keys<T, N, R>(c, f, (int)max(first, from), (int)min(position + 1, from + c.span), head);
	join_warps<T, N, R>(c, all, f, head);
	keep_own<T>(c, head);
}

/* Of a head, whose columns each have a thread, what the spans that are used have found; SPANS of
 * them are asked for at once. blockIdx.z is the sample. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS) join_kernel(const struct step_call c, int spans)
{
	int head = blockIdx.x, k = threadIdx.x, width = (int)c.values.shape[1],
	    used = position_at(c.position) / (int)c.span + 1;
	const float *part = c.parts + ((int64_t)blockIdx.z * c.a.n + head) * spans * (width + 2);
	float max = -INFINITY, sum = 0, x = 0, factor, lse;

	let_next_begin();
	await_previous();
	for (int i = 0; i < used; i += SPANS, part += SPANS * (width + 2)) {
		float most[SPANS], sums[SPANS], value[SPANS], before = max;

#pragma unroll
		for (int u = 0; u < SPANS; u++) {
			const float *of = part + (i + u < used ? u : 0) * (width + 2);

			most[u] = i + u < used ? of[0] : -INFINITY;
			sums[u] = of[1];
			value[u] = k < width ? of[2 + k] : 0;
		}
#pragma unroll
		for (int u = 0; u < SPANS; u++)
			max = fmaxf(max, most[u]);
		if (max == -INFINITY)
			continue;
		sum *= expf(before - max);
		x *= expf(before - max);
#pragma unroll
		for (int u = 0; u < SPANS; u++) {
			sum += sums[u] * expf(most[u] - max);
			x += value[u] * expf(most[u] - max);
		}
	}
	lse = finish_row(c.a, head, max, 1, sum, factor);
	if (k == 0)
		*statistic(c.a, c.a.lse, 0, head) = lse;
	if (k < width)
		put(head_row<T>(c.a, c.a.out, 0, head) + k, x * factor);
}

/* Whether rows and heads begin at whole packs. */
static bool
packs(const struct step_call *c, int n)
{
	return c->keys.shape[1] % n == 0 && c->values.shape[1] % n == 0 && cu_packs(&c->a.q, n) &&
	    cu_packs(&c->a.k, n) && cu_packs(&c->a.v, n) && cu_packs(&c->keys, n) &&
	    cu_packs(&c->values, n);
}

/* Lanes for packs of N elements, at most a warp. */
static int
lanes_for(const struct step_call *c, int n)
{
	int lanes = 1;

	while (lanes < 32 && lanes * n < c->a.d)
		lanes *= 2;
	return lanes;
}

template <typename T>
static void
launch(struct stream *st, struct step_call *c, unsigned spans)
{
	enum { N = full<T>::width };
	int64_t single = (int64_t)c->a.n * c->a.b * spans;
	bool wide = packs(c, N),
	     shared =
		 wide && c->a.n / c->a.g % SHARERS == 0 && single > CROWD * st->device->num_sms;
	dim3 grid((unsigned)(c->a.n / (shared ? (int)SHARERS : 1)), spans, (unsigned)c->a.b);

	c->lanes = lanes_for(c, wide ? (int)N : 1);
	cu_launch_early(st,
	    shared     ? step_kernel<T, N, SHARERS>
		: wide ? step_kernel<T, N, 1>
		       : step_kernel<T, 1, 1>,
	    { grid, CU_THREADS, 0 }, *c);
	if (c->parts)
		cu_launch_early(st, join_kernel<T>,
		    { dim3((unsigned)c->a.n, 1, (unsigned)c->a.b), CU_THREADS, 0 }, *c, (int)spans);
}

/* How many spans there is room for, and blocks of use, which sets the span. */
static int64_t
take_spans(struct stream *st, struct step_call *c, int64_t positions)
{
	int64_t part = c->a.b * c->a.n * (c->values.shape[1] + 2) * (int64_t)sizeof(float), spans;

	c->span = SPAN;
	while ((spans = int64_div_up(positions, c->span)) > 1 &&
	    (spans * part > CU_WORKSPACE || spans * c->a.b * c->a.n > CROWD * st->device->num_sms))
		c->span *= 2;
	if (spans > 1)
		c->parts = (float *)cu_workspace(st);
	return spans;
}

void
cuda_attention_step(struct stream *st, const struct attention_step *s)
{
	struct step_call c = {};
	int64_t spans;

	ops_require(attention_step_fits(s) && s->fwd.lse.dtype == DTYPE_F32);
	ops_require(s->fwd.head_dim <= CU_HEAD_MAX && attention_value_dim(&s->fwd) <= CU_HEAD_MAX);
	c.a = attn_of(&s->fwd);
	c.keys = by_head(s->keys, s->fwd.head_dim);
	c.values = by_head(s->values, attention_value_dim(&s->fwd));
	c.position = s->position;
	spans = take_spans(st, &c, s->keys.shape[0] / s->fwd.micro_batch);
	PICK(s->fwd.q.dtype, launch)(st, &c, (unsigned)spans);
	cu_launched(st, "attention_step");
}
