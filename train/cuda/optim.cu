/*
 * optim.cu - update rules of the optimizers on flat ranges. Source: docs/math.md 4.2
 *
 * Arithmetic is in F32. A thread reads and writes four elements once, so the update runs at the
 * speed of memory. Constants are computed in double on the host and rounded once, as on the CPU.
 */
#include "train/cuda/rng.cuh"

enum { WIDTH = 4 }; /* elements of a thread */

/* What a rule updates: the moments, v only where the rule has two, and the weight's rounded copy,
 * which may be missing. draws: for moments in BF16. */
struct flat {
	void *master;       /* F32; BF16 with low bits */
	uint16_t *low_bits; /* may be NULL */
	void *m, *v;
	const void *grad;
	bool bf16_grad; /* grad is BF16, not F32 */
	void *weight;
	struct draws draws;
};

/* struct adamw in float, as the kernel takes it. */
struct adamw_rule {
	enum { MOMENTS = 2 };
	float beta1, rest1, beta2, rest2, rate, correction2, eps, decay, l2, grad_scale;
};

/* struct sgd with its numbers in float. */
struct sgd_rule {
	enum { MOMENTS = 1 };
	float lr, factor, decay, grad_scale;
};

/* Decoupled decay is added to the step, L2 to the gradient. L2 is 0 with decoupled decay and the
 * other way round, so one formula does for both. */
static __device__ inline void
step(const struct adamw_rule &a, float &w, float g, float &m, float &v)
{
	g = g * a.grad_scale + a.l2 * w;
	m = a.beta1 * m + a.rest1 * g;
	v = a.beta2 * v + a.rest2 * g * g;
	w -= a.rate * m / (sqrtf(v / a.correction2) + a.eps) + a.decay * w;
}

/* momentum = factor * momentum + g, w -= lr * momentum. */
static __device__ inline void
step(const struct sgd_rule &a, float &w, float g, float &m, float &)
{
	m = a.factor * m + (g * a.grad_scale + a.decay * w);
	w -= a.lr * m;
}

/* The random words of N elements from i on: draws_number, with one division for all of them. */
template <int N>
static __device__ inline void
draw_words(const struct draws &d, int64_t i, uint32_t (&word)[N])
{
	int64_t j = d.first + i, row = j / d.columns, column = j - row * d.columns;
	uint64_t have = UINT64_MAX;
	uint32_t block[4] = {};

#pragma unroll
	for (int k = 0; k < N; k++) {
		uint64_t number = (uint64_t)(d.start + row * d.width + column);

		if (number / 4 != have)
			philox(d.key, number / 4, d.stream, d.step, block);
		have = number / 4;
		word[k] = number % 4 < 2 ? (number % 4 ? block[1] : block[0])
					 : (number % 4 == 3 ? block[3] : block[2]);
		if (++column == d.columns) {
			column = 0;
			row++;
		}
	}
}

/* Moments in their type: F32, or BF16 rounded by 16 bits of each word from `shift` on. */
template <int N>
static __device__ inline void
store_moment(float *p, const float (&x)[N], const uint32_t (&)[N], int)
{
	store(p, x);
}

template <int N>
static __device__ inline void
store_moment(bf16 *p, const float (&x)[N], const uint32_t (&word)[N], int shift)
{
	float y[N];

#pragma unroll
	for (int k = 0; k < N; k++)
		y[k] = __uint_as_float(
		    (__float_as_uint(x[k]) + (word[k] >> shift & 0xffff)) & 0xffff0000u);
	store(p, y);
}

/* The float of a BF16 weight and its low bits, and the low bits of a float, as lib/base/dtype. */
static __device__ inline float
join(float weight, uint16_t low_bits)
{
	uint32_t high = ((__float_as_uint(weight) >> 16) - (low_bits >> 15)) & 0xffff;

	return __uint_as_float(high << 16 | low_bits);
}

static __device__ inline uint16_t
low_bits_of(float x)
{
	uint32_t bits = __float_as_uint(x), low = bits & 0xffff;

	return (uint16_t)(low == 0x8000 && !(bits & 0x10000) ? 0x7fff : low);
}

/* N masters from element i on. */
template <int N>
static __device__ inline void
load_master(float (&w)[N], const struct flat &a, int64_t i)
{
	if (a.low_bits) {
		pack<uint16_t, N> low = fetch<uint16_t, N>(a.low_bits + i);

		load(w, (const bf16 *)a.master + i);
#pragma unroll
		for (int k = 0; k < N; k++)
			w[k] = join(w[k], low.at[k]);
	} else
		load(w, (const float *)a.master + i);
}

template <int N>
static __device__ inline void
store_master(const struct flat &a, int64_t i, const float (&w)[N])
{
	if (a.low_bits) {
		pack<uint16_t, N> low;

#pragma unroll
		for (int k = 0; k < N; k++)
			low.at[k] = low_bits_of(w[k]);
		move<uint16_t, N>(a.low_bits + i, &low);
		store((bf16 *)a.master + i, w);
	} else
		store((float *)a.master + i, w);
}

/* One element a thread, so that ranges may begin anywhere. */
static __global__ void
__launch_bounds__(CU_THREADS) split_kernel(struct flat a, const float *x, struct walk walk)
{
	FOR_PACKS(walk, row, i)
	{
		const float w[1] = { x[i] };

		store_master(a, i, w);
	}
}

void
cuda_split(struct stream *st, const struct halves *a)
{
	struct flat to = {};
	struct walk w = walk_of(st, 1, tensor_elements(&a->x), 1);

	ops_require(a->master.dtype == DTYPE_BF16 && a->low_bits.dtype == DTYPE_U16 &&
	    a->x.dtype == DTYPE_F32);
	ops_require(tensor_same_shape(&a->master, &a->x) && tensor_same_shape(&a->low_bits, &a->x));
	to.master = a->master.data;
	to.low_bits = (uint16_t *)a->low_bits.data;
	split_kernel<<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(to, (const float *)a->x.data, w);
	cu_launched(st, "split");
}

/* T, M and V are the types of the rounded weight and of the moments. */
template <typename T, typename M, typename V, int N, typename RULE>
static __global__ void
__launch_bounds__(CU_THREADS) update_kernel(struct flat a, RULE rule, struct walk walk)
{
	FOR_PACKS(walk, row, at)
	{
		float w[N], g[N], m[N], v[N];
		uint32_t word[N] = {};

		load_master(w, a, at * N);
		if (a.bf16_grad)
			load(g, (const bf16 *)a.grad + at * N);
		else
			load(g, (const float *)a.grad + at * N);
		load(m, (const M *)a.m + at * N);
		if (RULE::MOMENTS == 2)
			load(v, (const V *)a.v + at * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			step(rule, w[k], g[k], m[k], v[k]);
		if (sizeof(M) == 2 || sizeof(V) == 2)
			draw_words(a.draws, at * N, word);
		store_moment((M *)a.m + at * N, m, word, 0);
		if (RULE::MOMENTS == 2)
			store_moment((V *)a.v + at * N, v, word, 16);
		store_master(a, at * N, w);
		if (a.weight)
			store((T *)a.weight + at * N, w);
	}
}

/* True when all arrays are aligned to packs. */
template <typename T, typename M, typename V>
static bool
packs(const struct flat *a)
{
	size_t grad = a->bf16_grad ? sizeof(bf16) : sizeof(float),
	       master = a->low_bits ? sizeof(bf16) : sizeof(float);

	return (uintptr_t)a->master % (WIDTH * master) == 0 &&
	    (uintptr_t)a->low_bits % (WIDTH * sizeof(uint16_t)) == 0 &&
	    (uintptr_t)a->grad % (WIDTH * grad) == 0 &&
	    (uintptr_t)a->m % (WIDTH * sizeof(M)) == 0 &&
	    (uintptr_t)a->v % (WIDTH * sizeof(V)) == 0 &&
	    (uintptr_t)a->weight % (WIDTH * sizeof(T)) == 0;
}

/* T is the weight's type; float if there is none. Whole packs, then the remainder. */
template <typename T, typename M, typename V, typename RULE>
static void
launch(struct stream *st, struct flat a, const RULE &rule, int64_t count)
{
	int64_t whole = packs<T, M, V>(&a) ? count / WIDTH * WIDTH : 0;
	struct walk w = walk_of(st, 1, whole, WIDTH);

	if (whole > 0)
		update_kernel<T, M, V, WIDTH>
		    <<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, rule, w);
	if (whole == count)
		return;
	a.master = (char *)a.master + whole * (a.low_bits ? sizeof(bf16) : sizeof(float));
	a.low_bits = a.low_bits ? a.low_bits + whole : NULL;
	a.m = (M *)a.m + whole;
	a.v = a.v ? (V *)a.v + whole : NULL;
	a.grad = (const char *)a.grad + whole * (a.bf16_grad ? sizeof(bf16) : sizeof(float));
	a.weight = a.weight ? (T *)a.weight + whole : NULL;
	a.draws.first += whole;
	w = walk_of(st, 1, count - whole, 1);
	update_kernel<T, M, V, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, rule, w);
}

/* All elements of the master. */
template <typename M, typename V, typename RULE>
static void
update(struct stream *st, const struct flat &a, const RULE &rule, const struct tensor *weight,
    int64_t count)
{
	pick(weight->data ? weight->dtype : DTYPE_F32, launch<float, M, V, RULE>,
	    launch<bf16, M, V, RULE>, launch<half, M, V, RULE>)(st, a, rule, count);
}

static bool
is_f32_or_bf16(const struct tensor *t)
{
	return t->dtype == DTYPE_F32 || t->dtype == DTYPE_BF16;
}

/* The formula is the CPU's, term by term: the parity tests compare them. */
void
cuda_adamw(struct stream *st, const struct adamw *a)
{
	static void (*const by_type[2][2])(struct stream *, const struct flat &,
	    const struct adamw_rule &, const struct tensor *, int64_t) = {
		{ update<float, float>, update<float, bf16> },
		{ update<bf16, float>, update<bf16, bf16> },
	};
	struct flat state = { a->master.data, (uint16_t *)a->low_bits.data, a->exp_avg.data,
		a->exp_avg_sq.data, a->grad.data, a->grad.dtype == DTYPE_BF16, a->weight.data,
		a->draws };
	struct adamw_rule c;

	ops_require(a->low_bits.data ? a->master.dtype == DTYPE_BF16 && !a->weight.data
				     : a->master.dtype == DTYPE_F32);
	ops_require(is_f32_or_bf16(&a->grad));
	ops_require(is_f32_or_bf16(&a->exp_avg) && is_f32_or_bf16(&a->exp_avg_sq) &&
	    tensor_same_shape(&a->master, &a->grad));
	c.beta1 = (float)a->beta1;
	c.rest1 = (float)(1 - a->beta1);
	c.beta2 = (float)a->beta2;
	c.rest2 = (float)(1 - a->beta2);
	c.rate = (float)(a->lr / a->correction1);
	c.correction2 = (float)a->correction2;
	c.eps = (float)a->eps;
	c.decay = (float)(a->decoupled ? a->lr * a->weight_decay : 0);
	c.l2 = (float)(a->decoupled ? 0 : a->weight_decay);
	c.grad_scale = (float)a->grad_scale;
	by_type[a->exp_avg.dtype == DTYPE_BF16][a->exp_avg_sq.dtype == DTYPE_BF16](
	    st, state, c, &a->weight, tensor_elements(&a->master));
	cu_launched(st, "adamw");
}

/* No dampening, no Nesterov. */
void
cuda_sgd(struct stream *st, const struct sgd *a)
{
	struct flat state = { a->master.data, NULL, a->momentum.data, NULL, a->grad.data, false,
		a->weight.data, {} };
	struct sgd_rule c;

	ops_require(a->master.dtype == DTYPE_F32 && a->grad.dtype == DTYPE_F32 &&
	    a->momentum.dtype == DTYPE_F32);
	ops_require(tensor_same_shape(&a->master, &a->grad));
	c.lr = (float)a->lr;
	c.factor = (float)a->momentum_factor;
	c.decay = (float)a->weight_decay;
	c.grad_scale = (float)a->grad_scale;
	update<float, float>(st, state, c, &a->weight, tensor_elements(&a->master));
	cu_launched(st, "sgd");
}

/* --- biases of experts ------------------------------------------------------------------------ */

static __global__ void
balance_kernel(struct balance b)
{
	struct flat a = { b.master.data, (uint16_t *)b.low_bits.data };

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < b.master.shape[0];
	     i += gridDim.x * (int64_t)CU_THREADS) {
		float load = (float)load_any(b.load, i), mean = (float)b.mean, x[1];

		load_master(x, a, i);
		x[0] += (float)b.rate * (float)((load < mean) - (load > mean));
		store_master(a, i, x);
		if (b.weight.data)
			store_any(b.weight, i, (double)x[0]);
	}
}

void
cuda_balance(struct stream *st, const struct balance *b)
{
	int64_t n = b->master.shape[0];

	ops_require(b->master.dtype == (b->low_bits.data ? DTYPE_BF16 : DTYPE_F32));
	ops_require(b->load.shape[0] == n);
	if (n)
		balance_kernel<<<(unsigned)int64_div_up(n, CU_THREADS), CU_THREADS, 0,
		    cu_handle(st)>>>(*b);
	cu_launched(st, "balance");
}

/* --- rows that are clipped -------------------------------------------------------------------- */

static __global__ void
shrink_kernel(struct shrink s)
{
	struct flat a = { s.master.data, (uint16_t *)s.low_bits.data };

	for (int64_t i = blockIdx.x * (int64_t)CU_THREADS + threadIdx.x; i < s.master.shape[0];
	     i += gridDim.x * (int64_t)CU_THREADS) {
		float x[1];

		load_master(x, a, i);
		x[0] *= (float)s.factor;
		store_master(a, i, x);
		if (s.weight.data)
			store_any(s.weight, i, (double)x[0]);
	}
}

void
cuda_shrink(struct stream *st, const struct shrink *s)
{
	int64_t n = s->master.shape[0];

	ops_require(s->master.dtype == (s->low_bits.data ? DTYPE_BF16 : DTYPE_F32));
	if (n)
		shrink_kernel<<<(unsigned)int64_div_up(n, CU_THREADS), CU_THREADS, 0,
		    cu_handle(st)>>>(*s);
	cu_launched(st, "shrink");
}
