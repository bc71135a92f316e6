/*
 * act.cuh - activation functions and their gradients, a pack at a time
 *
 * The exponential is the hardware's: its error of a few units in the last place of a float is far
 * below what storage rounds. Source: docs/math.md 2.6; Hendrycks & Gimpel 2016
 * arXiv:1606.08415, Shazeer 2020 arXiv:2002.05202.
 */
#ifndef TRAIN_CUDA_ACT_CUH
#define TRAIN_CUDA_ACT_CUH

#include "train/cuda/kernel.cuh"

/* A function of x and its derivative. */
struct value {
	float f, slope;
};

/* The exponential overflows to infinity for very negative x, which gives the right 0. */
static __device__ inline float
sigmoid(float x)
{
	return __fdividef(1, 1 + __expf(-x));
}

/* 0.5 (1 + tanh u) is the logistic function p of 2u; the slope is p + x p (1 - p) d(2u)/dx. */
static __device__ inline struct value
gelu_tanh(float x)
{
	float square = x * x, p = sigmoid(1.5957691216057308f * x * (1 + 0.044715f * square));
	struct value v = { x * p,
		p + x * p * (1 - p) * 1.5957691216057308f * (1 + 3 * 0.044715f * square) };

	return v;
}

/* x Phi(x), and Phi(x) + x phi(x); erfc keeps the digits of the left tail. */
static __device__ inline struct value
gelu_erf(float x)
{
	float cdf = 0.5f * erfcf(-x * 0.70710678118654752f);
	struct value v = { x * cdf, cdf + x * 0.39894228040143268f * __expf(-0.5f * x * x) };

	return v;
}

/* max(x, 0)^2 and 2 max(x, 0); a NaN stays one. */
static __device__ inline struct value
relu2(float x)
{
	struct value v = { x < 0 ? 0 : x * x, x < 0 ? 0 : 2 * x };

	return v;
}

/* x times its logistic function p, and p (1 + x (1 - p)). */
static __device__ inline struct value
silu(float x)
{
	float p = sigmoid(x);
	struct value v = { x * p, p * (1 + x * (1 - p)) };

	return v;
}

/* x times p, the logistic function of 1.702 x, and p (1 + 1.702 x (1 - p)). */
static __device__ inline struct value
quick_gelu(float x)
{
	float p = sigmoid(1.702f * x);
	struct value v = { x * p, p * (1 + 1.702f * x * (1 - p)) };

	return v;
}

/* The kind is tested once per pack; an unused slope costs nothing. */
template <int N>
static __device__ inline void
evaluate(enum act_kind kind, struct value (&v)[N], const float (&x)[N])
{
#pragma unroll
	for (int k = 0; k < N; k++)
		switch (kind) {
		case ACT_GELU_TANH:
		case ACT_GEGLU_TANH: v[k] = gelu_tanh(x[k]); break;
		case ACT_GELU_ERF: v[k] = gelu_erf(x[k]); break;
		case ACT_RELU2: v[k] = relu2(x[k]); break;
		case ACT_QUICK_GEGLU: v[k] = quick_gelu(x[k]); break;
		default: v[k] = silu(x[k]); break;
		}
}

/* The kinds that multiply one half of a row by the other. */
static __host__ __device__ inline bool
is_gated(enum act_kind kind)
{
	return kind == ACT_SWIGLU || kind == ACT_GEGLU_TANH || kind == ACT_QUICK_GEGLU;
}

/* Bounds of gate and up, infinite where there are none, and what is added to up. */
struct gate_bounds {
	float clamp, offset;
};

/* An activation, for kernels. */
struct act_curve {
	enum act_kind kind;
	struct gate_bounds bounds;
};

static inline struct act_curve
act_curve_of(enum act_kind kind, const struct act_gate *g)
{
	struct act_curve a = { kind,
		{ g->clamp > 0 ? (float)g->clamp : INFINITY, (float)g->offset } };

	return a;
}

/* Gate and up as the product takes them, if the kind is gated. A NaN stays one. */
template <int N>
static __device__ inline void
bound_gate(const struct act_curve &a, float (&gate)[N], float (&up)[N])
{
	float most = a.bounds.clamp;

	if (!is_gated(a.kind))
		return;
#pragma unroll
	for (int k = 0; k < N; k++) {
		gate[k] = gate[k] > most ? most : gate[k];
		up[k] = up[k] > most ? most : up[k] < -most ? -most : up[k];
	}
}

/* What multiplies f(gate), and its gradient by up: none at a bound. */
static __device__ inline float
factor_of(const struct act_curve &a, float up)
{
	return is_gated(a.kind) ? up + a.bounds.offset : 1;
}

static __device__ inline float
within(const struct act_curve &a, float x)
{
	return x >= a.bounds.clamp || x <= -a.bounds.clamp ? 0 : 1;
}

/* y = f(gate), times up where the kind is gated. */
template <int N>
static __device__ inline void
act_forward(const struct act_curve &a, float (&y)[N], float (&gate)[N], float (&up)[N])
{
	struct value v[N];

	bound_gate(a, gate, up);
	evaluate(a.kind, v, gate);
#pragma unroll
	for (int k = 0; k < N; k++)
		y[k] = v[k].f * factor_of(a, up[k]);
}

/* The same y, and the gradients of gate and up in their places. */
template <int N>
static __device__ inline void
act_backward(const struct act_curve &a, float (&y)[N], float (&gate)[N], float (&up)[N],
    const float (&dy)[N])
{
	struct value v[N];

	bound_gate(a, gate, up);
	evaluate(a.kind, v, gate);
#pragma unroll
	for (int k = 0; k < N; k++) {
		float factor = factor_of(a, up[k]);
		bool bounded = is_gated(a.kind) && gate[k] >= a.bounds.clamp;

		y[k] = v[k].f * factor;
		gate[k] = bounded ? 0 : dy[k] * factor * v[k].slope;
		up[k] = within(a, up[k]) ? dy[k] * v[k].f : 0;
	}
}

#endif
