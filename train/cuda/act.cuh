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
		default: v[k] = silu(x[k]); break;
		}
}

/* The kinds that multiply one half of a row by the other. */
static __host__ __device__ inline bool
is_gated(enum act_kind kind)
{
	return kind == ACT_SWIGLU || kind == ACT_GEGLU_TANH;
}

/* y = f(gate), times up where the kind is gated. */
template <int N>
static __device__ inline void
act_forward(enum act_kind kind, float (&y)[N], const float (&gate)[N], const float (&up)[N])
{
	struct value v[N];

	evaluate(kind, v, gate);
#pragma unroll
	for (int k = 0; k < N; k++)
		y[k] = is_gated(kind) ? v[k].f * up[k] : v[k].f;
}

/* The same y, and the gradients of gate and up in their places. */
template <int N>
static __device__ inline void
act_backward(
    enum act_kind kind, float (&y)[N], float (&gate)[N], float (&up)[N], const float (&dy)[N])
{
	bool gated = is_gated(kind);
	struct value v[N];

	evaluate(kind, v, gate);
#pragma unroll
	for (int k = 0; k < N; k++) {
		y[k] = gated ? v[k].f * up[k] : v[k].f;
		gate[k] = (gated ? dy[k] * up[k] : dy[k]) * v[k].slope;
		up[k] = dy[k] * v[k].f;
	}
}

#endif
