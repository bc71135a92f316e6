/*
 * act.cu - activation functions, and those that gate one half of a row by the other
 *
 * Source: spec/training.md 2.6; Hendrycks & Gimpel 2016 arXiv:1606.08415, Shazeer 2020
 * arXiv:2002.05202.
 */
#include "train/cuda/kernel.cuh"

/* One call's arguments, passed to the kernels by value; the ones that a pass does not use
 * repeat others. */
struct act_call {
	enum act_kind kind;
	bool gated;
	struct tensor y, dx, dy, x;
};

/* expf overflows to infinity for very negative x, which gives the right 0. */
static __device__ inline float
sigmoid(float x)
{
	return 1 / (1 + expf(-x));
}

/* 2u of GELU's tanh form: 0.5 (1 + tanh u) is the logistic function of 2u. */
static __device__ inline float
gelu_inner(float x)
{
	return 1.5957691216057308f * (x + 0.044715f * x * x * x);
}

/* f(x). */
static __device__ inline float
value(enum act_kind kind, float x)
{
	switch (kind) {
	case ACT_GELU_TANH:
	case ACT_GEGLU_TANH: return x * sigmoid(gelu_inner(x));
	case ACT_GELU_ERF: return x * 0.5f * erfcf(-x * 0.70710678118654752f);
	case ACT_RELU2: return x < 0 ? 0 : x * x;
	default: return x * sigmoid(x);
	}
}

/* f'(x). */
static __device__ inline float
slope(enum act_kind kind, float x)
{
	float p;

	switch (kind) {
	case ACT_GELU_TANH:
	case ACT_GEGLU_TANH:
		p = sigmoid(gelu_inner(x));
		return p + x * p * (1 - p) * 1.5957691216057308f * (1 + 3 * 0.044715f * x * x);
	case ACT_GELU_ERF:
		return 0.5f * erfcf(-x * 0.70710678118654752f) +
		    x * 0.39894228040143268f * expf(-0.5f * x * x);
	case ACT_RELU2:
		return x < 0 ? 0 : 2 * x;
	default:
		p = sigmoid(x);
		return p * (1 + x * (1 - p));
	}
}

/* y = f(x), or f(gate) up. */
template <typename T>
static __global__ void
act_fwd_kernel(struct act_call a, int64_t rows, int64_t columns)
{
	FOR_ELEMENTS(r, c, rows, columns) {
		const T *x = row_of<T>(a.x, r);
		float y = value(a.kind, to_float(x[c]));

		put(&row_of<T>(a.y, r)[c], a.gated ? y * to_float(x[columns + c]) : y);
	}
}

/* dx = dy f'(x), or dgate = dy up f'(gate) and dup = dy f(gate). Everything is read before it is
 * written, element by element. */
template <typename T>
static __global__ void
act_bwd_kernel(struct act_call a, int64_t rows, int64_t columns)
{
	FOR_ELEMENTS(r, c, rows, columns) {
		const T *x = row_of<T>(a.x, r);
		T *dx = row_of<T>(a.dx, r);
		float g = to_float(x[c]), dy = to_float(row_of<T>(a.dy, r)[c]);

		if (a.gated) {
			float up = to_float(x[columns + c]);

			put(&dx[columns + c], dy * value(a.kind, g));
			dy *= up;
		}
		put(&dx[c], dy * slope(a.kind, g));
	}
}

/* A thread an element of y, also for gated kinds: it reads gate and up itself. */
template <typename T>
static void
forward(struct stream *st, const struct act_call *a)
{
	int64_t rows = cu_rows(&a->y), columns = cu_columns(&a->y);

	act_fwd_kernel<T>
	    <<<element_grid(rows, columns), CU_THREADS, 0, cu_handle(st)>>>(*a, rows, columns);
}

/* A thread an element of dy writes both halves of dx, so no element is written twice. */
template <typename T>
static void
backward(struct stream *st, const struct act_call *a)
{
	int64_t rows = cu_rows(&a->dy), columns = cu_columns(&a->dy);

	act_bwd_kernel<T>
	    <<<element_grid(rows, columns), CU_THREADS, 0, cu_handle(st)>>>(*a, rows, columns);
}

/* A gated kind has two columns of x for one of y. */
static bool
check(enum act_kind kind, const struct tensor *y, const struct tensor *x)
{
	bool gated = kind == ACT_SWIGLU || kind == ACT_GEGLU_TANH;

	cu_require(cu_rows(x) == cu_rows(y) && cu_columns(x) == cu_columns(y) * (gated ? 2 : 1) &&
	    x->dtype == y->dtype);
	return gated;
}

/* Shapes as in cpu/act.c. One type for all: the layers' storage type. */
void
cuda_act_fwd(struct stream *st, enum act_kind kind, const struct tensor *y, const struct tensor *x)
{
	struct act_call a = { kind, check(kind, y, x), *y, *x, *y, *x };

	PICK(x->dtype, forward)(st, &a);
	cu_launched(st, "act_fwd");
}

/* dx is written, not added to. */
void
cuda_act_bwd(struct stream *st, enum act_kind kind, const struct tensor *dx,
    const struct tensor *dy, const struct tensor *x)
{
	struct act_call a = { kind, check(kind, dy, x), *dy, *dx, *dy, *x };

	cu_require(cu_same_shape(dx, x) && dx->dtype == x->dtype);
	PICK(x->dtype, backward)(st, &a);
	cu_launched(st, "act_bwd");
}
