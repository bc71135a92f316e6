/*
 * optim.cu - update rules of the optimizers on flat ranges. Source: spec/training.md 4.2
 *
 * State is F32. A thread reads and writes four elements once, so the update runs at the speed of
 * memory. Constants are computed in double on the host and rounded once, as on the CPU.
 */
#include "train/cuda/kernel.cuh"

enum { WIDTH = 4 }; /* elements of a thread */

/* What a rule updates: the moments, v only where the rule has two, and the weight's rounded copy,
 * which may be missing. */
struct flat {
	float *master, *m, *v;
	const float *grad;
	void *weight;
};

/* struct adamw in float, as the kernel takes it. */
struct adamw_rule {
	enum { MOMENTS = 2 };
	float beta1, rest1, beta2, rest2, rate, correction2, eps, decay, l2, grad_scale;
};

/* struct sgd in float, likewise. */
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

/* T is the type of the rounded weight. */
template <typename T, int N, typename RULE>
static __global__ void
__launch_bounds__(CU_THREADS) update_kernel(struct flat a, RULE rule, struct walk walk)
{
	FOR_PACKS(walk, row, at)
	{
		float w[N], g[N], m[N], v[N];

		load(w, a.master + at * N);
		load(g, a.grad + at * N);
		load(m, a.m + at * N);
		if (RULE::MOMENTS == 2)
			load(v, a.v + at * N);
#pragma unroll
		for (int k = 0; k < N; k++)
			step(rule, w[k], g[k], m[k], v[k]);
		store(a.m + at * N, m);
		if (RULE::MOMENTS == 2)
			store(a.v + at * N, v);
		store(a.master + at * N, w);
		if (a.weight)
			store((T *)a.weight + at * N, w);
	}
}

/* Whether the arrays can be moved in packs: F32 ones by 16 bytes, the weight by as many
 * elements. */
static bool
packs(const struct flat *a, size_t size)
{
	uintptr_t f32 =
	    (uintptr_t)a->master | (uintptr_t)a->m | (uintptr_t)a->v | (uintptr_t)a->grad;

	return f32 % (WIDTH * sizeof(float)) == 0 && (uintptr_t)a->weight % (WIDTH * size) == 0;
}

/* T is the weight's type; float if there is none. Whole packs, then the remainder. */
template <typename T, typename RULE>
static void
launch(struct stream *st, struct flat a, const RULE &rule, int64_t count)
{
	int64_t whole = packs(&a, sizeof(T)) ? count / WIDTH * WIDTH : 0;
	struct walk w = walk_of(st, 1, whole, WIDTH);

	if (whole > 0)
		update_kernel<T, WIDTH><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, rule, w);
	if (whole == count)
		return;
	a.master += whole;
	a.m += whole;
	a.v = a.v ? a.v + whole : NULL;
	a.grad += whole;
	a.weight = a.weight ? (T *)a.weight + whole : NULL;
	w = walk_of(st, 1, count - whole, 1);
	update_kernel<T, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, rule, w);
}

/* All elements of the master. */
template <typename RULE>
static void
update(struct stream *st, const struct flat &a, const RULE &rule, const struct tensor *weight,
    int64_t count)
{
	pick(weight->data ? weight->dtype : DTYPE_F32, launch<float, RULE>, launch<bf16, RULE>,
	    launch<half, RULE>)(st, a, rule, count);
}

/* The formula is the CPU's, term by term: the parity tests compare them. */
void
cuda_adamw(struct stream *st, const struct adamw *a)
{
	struct flat state = { (float *)a->master.data, (float *)a->exp_avg.data,
		(float *)a->exp_avg_sq.data, (const float *)a->grad.data, a->weight.data };
	struct adamw_rule c;

	ops_require(a->master.dtype == DTYPE_F32 && a->grad.dtype == DTYPE_F32 &&
	    a->exp_avg.dtype == DTYPE_F32);
	ops_require(a->exp_avg_sq.dtype == DTYPE_F32 && tensor_same_shape(&a->master, &a->grad));
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
	update(st, state, c, &a->weight, tensor_elements(&a->master));
	cu_launched(st, "adamw");
}

/* No dampening, no Nesterov. */
void
cuda_sgd(struct stream *st, const struct sgd *a)
{
	struct flat state = { (float *)a->master.data, (float *)a->momentum.data, NULL,
		(const float *)a->grad.data, a->weight.data };
	struct sgd_rule c;

	ops_require(a->master.dtype == DTYPE_F32 && a->grad.dtype == DTYPE_F32 &&
	    a->momentum.dtype == DTYPE_F32);
	ops_require(tensor_same_shape(&a->master, &a->grad));
	c.lr = (float)a->lr;
	c.factor = (float)a->momentum_factor;
	c.decay = (float)a->weight_decay;
	c.grad_scale = (float)a->grad_scale;
	update(st, state, c, &a->weight, tensor_elements(&a->master));
	cu_launched(st, "sgd");
}
