/*
 * optim.cu - update rules of the optimizers on flat ranges. Source: spec/training.md 4.2
 *
 * State is F32. Four elements are a thread's and are read and written once, so the update runs at the
 * speed of the memory. Constants are computed in double on the host and rounded once, as on the
 * CPU.
 */
#include "train/cuda/kernel.cuh"

enum { WIDTH = 4 };             /* elements of a thread */

/* struct adamw in float, as the kernel takes it; T is the type of the rounded weight, which may be
 * missing. */
struct adamw_call {
	float *master, *m, *v;
	const float *grad;
	void *weight;
	float beta1, rest1, beta2, rest2, rate, correction2, eps, decay, l2, grad_scale;
};

/* struct sgd in float, likewise. */
struct sgd_call {
	float *master, *momentum;
	const float *grad;
	void *weight;
	float lr, factor, decay, grad_scale;
};

/* Decoupled decay is added to the step, L2 to the gradient. L2 is 0 with decoupled decay and the
 * other way round, so one formula does for both. */
template <typename T, int N>
static __global__ void __launch_bounds__(CU_THREADS)
adamw_kernel(struct adamw_call a, struct walk walk)
{
	FOR_PACKS(walk, row, at) {
		float w[N], g[N], m[N], v[N];

		load(w, a.master + at * N);
		load(g, a.grad + at * N);
		load(m, a.m + at * N);
		load(v, a.v + at * N);
#pragma unroll
		for (int k = 0; k < N; k++) {
			g[k] = g[k] * a.grad_scale + a.l2 * w[k];
			m[k] = a.beta1 * m[k] + a.rest1 * g[k];
			v[k] = a.beta2 * v[k] + a.rest2 * g[k] * g[k];
			w[k] -= a.rate * m[k] / (sqrtf(v[k] / a.correction2) + a.eps) + a.decay * w[k];
		}
		store(a.m + at * N, m);
		store(a.v + at * N, v);
		store(a.master + at * N, w);
		if (a.weight)
			store((T *)a.weight + at * N, w);
	}
}

/* momentum = factor * momentum + g, w -= lr * momentum. */
template <typename T, int N>
static __global__ void __launch_bounds__(CU_THREADS)
sgd_kernel(struct sgd_call a, struct walk walk)
{
	FOR_PACKS(walk, row, at) {
		float w[N], g[N], m[N];

		load(w, a.master + at * N);
		load(g, a.grad + at * N);
		load(m, a.momentum + at * N);
#pragma unroll
		for (int k = 0; k < N; k++) {
			m[k] = a.factor * m[k] + (g[k] * a.grad_scale + a.decay * w[k]);
			w[k] -= a.lr * m[k];
		}
		store(a.momentum + at * N, m);
		store(a.master + at * N, w);
		if (a.weight)
			store((T *)a.weight + at * N, w);
	}
}

/* Whether five arrays can be moved in packs: F32 ones by 16 bytes, the weight by as many elements. */
static bool
packs(const void *const f32[4], const void *weight, size_t size)
{
	for (int i = 0; i < 4; i++)
		if ((uintptr_t)f32[i] % (WIDTH * sizeof(float)))
			return false;
	return (uintptr_t)weight % (WIDTH * size) == 0;
}

/* T is the weight's type; float stands in when there is none. Whole packs, then what is left. */
template <typename T>
static void
launch_adamw(struct stream *st, const struct adamw_call *call, int64_t count)
{
	struct adamw_call a = *call;
	const void *const f32[4] = { a.master, a.m, a.v, a.grad };
	int64_t whole = packs(f32, a.weight, sizeof(T)) ? count / WIDTH * WIDTH : 0;
	struct walk w = walk_of(st, 1, whole, WIDTH);

	if (whole > 0)
		adamw_kernel<T, WIDTH><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, w);
	if (whole == count)
		return;
	a.master += whole;
	a.m += whole;
	a.v += whole;
	a.grad += whole;
	a.weight = a.weight ? (T *)a.weight + whole : NULL;
	w = walk_of(st, 1, count - whole, 1);
	adamw_kernel<T, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, w);
}

/* As launch_adamw. */
template <typename T>
static void
launch_sgd(struct stream *st, const struct sgd_call *call, int64_t count)
{
	struct sgd_call a = *call;
	const void *const f32[4] = { a.master, a.momentum, a.grad, a.grad };
	int64_t whole = packs(f32, a.weight, sizeof(T)) ? count / WIDTH * WIDTH : 0;
	struct walk w = walk_of(st, 1, whole, WIDTH);

	if (whole > 0)
		sgd_kernel<T, WIDTH><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, w);
	if (whole == count)
		return;
	a.master += whole;
	a.momentum += whole;
	a.grad += whole;
	a.weight = a.weight ? (T *)a.weight + whole : NULL;
	w = walk_of(st, 1, count - whole, 1);
	sgd_kernel<T, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(a, w);
}

/* The formula is the CPU's, term by term: the parity tests compare them. */
void
cuda_adamw(struct stream *st, const struct adamw *a)
{
	struct adamw_call c;

	cu_require(a->master.dtype == DTYPE_F32 && a->grad.dtype == DTYPE_F32 &&
	    a->exp_avg.dtype == DTYPE_F32);
	cu_require(a->exp_avg_sq.dtype == DTYPE_F32 && cu_same_shape(&a->master, &a->grad));
	c.master = (float *)a->master.data;
	c.m = (float *)a->exp_avg.data;
	c.v = (float *)a->exp_avg_sq.data;
	c.grad = (const float *)a->grad.data;
	c.weight = a->weight.data;
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
	PICK(c.weight ? a->weight.dtype : DTYPE_F32, launch_adamw)
	(st, &c, tensor_elements(&a->master));
	cu_launched(st, "adamw");
}

/* No dampening, no Nesterov. */
void
cuda_sgd(struct stream *st, const struct sgd *a)
{
	struct sgd_call c;

	cu_require(a->master.dtype == DTYPE_F32 && a->grad.dtype == DTYPE_F32 &&
	    a->momentum.dtype == DTYPE_F32);
	cu_require(cu_same_shape(&a->master, &a->grad));
	c.master = (float *)a->master.data;
	c.momentum = (float *)a->momentum.data;
	c.grad = (const float *)a->grad.data;
	c.weight = a->weight.data;
	c.lr = (float)a->lr;
	c.factor = (float)a->momentum_factor;
	c.decay = (float)a->weight_decay;
	c.grad_scale = (float)a->grad_scale;
	PICK(c.weight ? a->weight.dtype : DTYPE_F32, launch_sgd)
	(st, &c, tensor_elements(&a->master));
	cu_launched(st, "sgd");
}
