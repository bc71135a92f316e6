/*
 * optim.cu - update rules of the optimizers on flat ranges. Source: spec/training.md 4.2
 *
 * State is F32. An element is a thread's and is read and written once, so the update runs at the
 * speed of the memory. Constants are computed in double on the host and rounded once, as on the
 * CPU.
 */
#include "train/cuda/kernel.cuh"

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
template <typename T>
static __global__ void
adamw_kernel(struct adamw_call a, int64_t count)
{
	FOR_ELEMENTS(r, i, 1, count) {
		float w = a.master[i], g = a.grad[i] * a.grad_scale + a.l2 * w;
		float m = a.beta1 * a.m[i] + a.rest1 * g, v = a.beta2 * a.v[i] + a.rest2 * g * g;

		w -= a.rate * m / (sqrtf(v / a.correction2) + a.eps) + a.decay * w;
		a.m[i] = m;
		a.v[i] = v;
		a.master[i] = w;
		if (a.weight)
			put((T *)a.weight + i, w);
	}
}

/* momentum = factor * momentum + g, w -= lr * momentum. */
template <typename T>
static __global__ void
sgd_kernel(struct sgd_call a, int64_t count)
{
	FOR_ELEMENTS(r, i, 1, count) {
		float w = a.master[i],
		      m = a.factor * a.momentum[i] + (a.grad[i] * a.grad_scale + a.decay * w);

		w -= a.lr * m;
		a.momentum[i] = m;
		a.master[i] = w;
		if (a.weight)
			put((T *)a.weight + i, w);
	}
}

/* T is the weight's type; float stands in when there is none. */
template <typename T>
static void
launch_adamw(struct stream *st, const struct adamw_call *a, int64_t count)
{
	adamw_kernel<T><<<element_grid(1, count), CU_THREADS, 0, cu_handle(st)>>>(*a, count);
}

/* As launch_adamw. */
template <typename T>
static void
launch_sgd(struct stream *st, const struct sgd_call *a, int64_t count)
{
	sgd_kernel<T><<<element_grid(1, count), CU_THREADS, 0, cu_handle(st)>>>(*a, count);
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
