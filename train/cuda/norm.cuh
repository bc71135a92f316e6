/*
 * norm.cuh - shared by the implementations of norms: the types, the call, and the residual sum
 * before it
 */
#ifndef TRAIN_CUDA_NORM_CUH
#define TRAIN_CUDA_NORM_CUH

#include "train/cuda/rng.cuh"

/* The instance of launcher<S, T> for a residual stream of type `stream` and activations of type
 * `act`: one type, or a stream in F32. */
#define PICK_STREAM(stream, act, launcher) \
	((stream) == (act) \
		? pick(act, launcher<float, float>, launcher<bf16, bf16>, launcher<half, half>) \
		: pick(act, launcher<float, float>, launcher<float, bf16>, launcher<float, half>))

/* Whether a residual stream of a type may go with activations of another. */
static inline bool
cu_streams(enum dtype stream, enum dtype act)
{
	return stream == act || stream == DTYPE_F32;
}

/* struct norm in device pointers, with the residual connection before it: then x is the
 * branch, sum the tensor that gets residual + mask x, and the norm is that of sum. x and y are the
 * columns of the first head, here as in a struct norm_grad; the others follow. */
struct norm_call {
	struct tensor y, x, residual, stored;
	const void *weight, *bias;
	float *mean, *rstd;
	float eps, shift;
	bool sum;
	struct mask mask;
};

/* The residual sum of N neighbours of a row in a stream of type S: v holds the branch, and then the
 * sum as it was rounded, which is stored too. */
template <typename S, int N>
static __device__ inline void
add_residual(const struct norm_call &n, int64_t row, int64_t column, const pack<S, N> &residual,
    float (&v)[N])
{
	float other[N], factor[N];
	pack<S, N> rounded;

	if (n.mask.on) {
		mask_pack(n.mask, mask_row(n.mask, row) + (uint64_t)column, factor);
#pragma unroll
		for (int k = 0; k < N; k++)
			v[k] *= factor[k];
	}
	unpack(other, residual);
#pragma unroll
	for (int k = 0; k < N; k++)
		v[k] += other[k];
	rounded = packed<S, N>(v);
	move<S, N>(row_of<S>(n.stored, row) + column, &rounded);
	unpack(v, rounded);
}

/* Whether all tensors of a call can be moved in packs of n. */
static inline bool
norm_packs(const struct norm_call *c, int n)
{
	size_t bytes = n * dtype_size(c->x.dtype);

	if ((uintptr_t)c->weight % bytes || (uintptr_t)c->bias % bytes)
		return false;
	return cu_packs(&c->y, n) && cu_packs(&c->x, n) && cu_packs(&c->residual, n) &&
	    cu_packs(&c->stored, n);
}

/* The number of sums over rows in a backward pass: for dweight, for dbias, and, if wanted, those of
 * dx. */
static __host__ __device__ inline int
norm_sums(const struct norm_grad *n)
{
	return n->dx_sum.data ? 3 : 2;
}

/* The most partial sums [norm_sums, h] that the workspace holds. */
static inline int64_t
norm_parts_max(const struct norm_grad *n)
{
	return CU_WORKSPACE / (norm_sums(n) * (int64_t)sizeof(float)) / n->x.shape[1];
}

/* Rows held in registers, where all is of one type: false or 0 when they do not fit; the backward
 * pass leaves that many partial sums [norm_sums, h] in the workspace. norm.cu */
template <typename T> bool norm_held_fwd(struct stream *, const struct norm_call *);
template <typename T> int norm_held_bwd(struct stream *, const struct norm_grad *);
/* Norms of short heads, several in a row; no residual sum before them, dx written, and no sums
 * of it. norm_heads.cu */
template <typename T> bool norm_heads_fwd(struct stream *, const struct norm_call *, int64_t heads);
template <typename T> int norm_heads_bwd(struct stream *, const struct norm_grad *, int64_t heads);
/* The residual sum of a call alone, in the types of x and stored. dropout.cu */
void residual_rows(struct stream *, const struct norm_call *);
/* residual_fwd with a norm after it. norm_walk.cu */
void cu_residual_norm(struct stream *, const struct residual *);

#endif
