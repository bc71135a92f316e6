/*
 * attn.cuh - what all attention kernels share: arguments, addresses, the mask
 */
#ifndef TRAIN_CUDA_ATTENTION_ATTN_CUH
#define TRAIN_CUDA_ATTENTION_ATTN_CUH

#include "train/cuda/attention/kept.cuh"

/* A kernel's arguments, in any pass. blockIdx.z is the sample. Queries and keys are addressed by
 * position: tensors with a row per query begin at position `begin`, and their data pointers are
 * shifted to position 0. The columns of a tensor are those of one of its heads: d, or fewer of
 * queries and keys or of what is of values. */
struct attn {
	struct tensor out, lse, q, k, v, dout, dq, dk, dv, delta;
	const int32_t *first; /* of each query, or NULL: a sample is one document */
	const float *sink;    /* of each head, or NULL */
	int b, n, g, d;
	int64_t s, begin, window; /* queries at positions [begin, s), keys at [0, s) */
	float scale;
	float cap, per_cap; /* softcap and 1 / softcap, or 0 */
	struct mask drop;
};

/* A tensor of queries, `before` elements before its first. */
static inline struct tensor
tensor_before(const struct tensor *t, int64_t before)
{
	struct tensor r = *t;

	r.data = (char *)t->data - before * (int64_t)dtype_size(t->dtype);
	return r;
}

/* Rows of queries, addressed as if there were rows for all positions. */
static inline struct tensor
by_position(const struct attn *a, const struct tensor *t)
{
	return tensor_before(t, a->begin * a->b * t->stride[0]);
}

/* The same with columns of one head. */
static inline struct tensor
by_head(struct tensor t, int columns)
{
	t.shape[1] = columns;
	return t;
}

/* The arguments of the forward pass, without gradients. The shapes have been checked. */
static inline struct attn
attn_of(const struct attention *t)
{
	struct attn a = {};
	int e = attention_value_dim(t);

	a.begin = attention_first_query(t);
	a.b = t->micro_batch;
	a.out = by_head(by_position(&a, &t->out), e);
	a.lse = tensor_before(&t->lse, a.begin);
	a.q = by_head(by_position(&a, &t->q), t->head_dim);
	a.k = by_head(t->k, t->head_dim);
	a.v = by_head(t->v, e);
	if (t->first.data)
		a.first = (const int32_t *)t->first.data - a.begin * a.b;
	a.sink = (const float *)t->sink.data;
	a.n = t->num_heads;
	a.g = t->num_groups;
	a.d = t->head_dim > e ? t->head_dim : e;
	a.s = attention_keys(t);
	a.window = t->window;
	a.scale = (float)t->scale;
	if (t->softcap > 0) {
		a.cap = (float)t->softcap;
		a.per_cap = (float)(1 / t->softcap);
	}
	a.drop = mask_of(&t->drop);
	return a;
}

/* The same with gradients. */
static inline struct attn
attn_grad_of(const struct attention_grad *t)
{
	struct attn a = attn_of(&t->fwd);

	a.dout = by_head(by_position(&a, &t->dout), (int)a.out.shape[1]);
	a.dq = by_head(by_position(&a, &t->dq), (int)a.q.shape[1]);
	a.dk = by_head(t->dk, (int)a.k.shape[1]);
	a.dv = by_head(t->dv, (int)a.v.shape[1]);
	a.delta = tensor_before(&t->delta, a.begin);
	return a;
}

/* The first element of one head at a position, in a tensor of heads side by side. */
template <typename T>
static __device__ inline T *
head_row(const struct attn &a, const struct tensor &t, int64_t position, int head)
{
	return row_of<T>(t, position * a.b + blockIdx.z) + head * t.shape[1];
}

/* Element of lse and delta. */
static __device__ inline float *
statistic(const struct attn &a, const struct tensor &t, int64_t position, int head)
{
	return row_of<float>(t, (int64_t)blockIdx.z * a.n + head) + position;
}

/* The beginning of a position's document; it never decreases from one position to the next. */
static __device__ inline int
document_start(const struct attn &a, int64_t position)
{
	return a.first ? a.first[position * a.b + blockIdx.z] : 0;
}

/* First key that a query sees; the last is its own. */
static __device__ inline int64_t
first_key(const struct attn &a, int64_t query)
{
	int64_t first = document_start(a, query), edge = query - a.window + 1;

	return a.window > 0 && edge > first ? edge : first;
}

/* Ends a row whose weights are relative to its largest score, max times scale, and have a sum: its
 * sink joins them. Returns its log-sum-exp, and by what its sums of values are to be multiplied. */
static __device__ inline float
finish_row(const struct attn &a, int head, float max, float scale, float sum, float &factor)
{
	float lse = max * scale + logf(sum);

	factor = 1 / sum;
	if (a.sink) {
		float most = fmaxf(max * scale, a.sink[head]), shrink = expf(max * scale - most);

		sum = sum * shrink + expf(a.sink[head] - most);
		factor = shrink / sum;
		lse = most + logf(sum);
	}
	return lse;
}

/* The slope of a capped score, by its weight: d(c tanh(x / c)) / dx = 1 - tanh^2. A weight of 0 has
 * no part in any gradient. */
static __device__ inline float
slope_of_weight(const struct attn &a, float weight, float lse)
{
	float y = (__logf(weight) + lse) * a.per_cap;

	return weight > 0 ? 1 - y * y : 0;
}

/* The dropout factor of one probability. */
static __device__ inline float
drop_factor(const struct attn &a, int head, int64_t query, int64_t key)
{
	int64_t row = drop_row(a.drop, blockIdx.z, head);

	return a.drop.on ? mask_factor(a.drop, drop_index(a.drop, row, query, key)) : 1;
}

#endif
