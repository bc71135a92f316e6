/*
 * dropout.cu - masks from counters, and the residual connection. Source: spec/training.md 2.9
 * and 15.6
 *
 * The counters are those of cpu/dropout.c, so a run on either draws the same masks. An element
 * is a thread's; each draws its own Philox block, which costs less than sharing one.
 */
#include "train/cuda/rng.cuh"

/* y = residual + mask (x + bias); the sum is rounded once, and y may be the residual. */
template <typename T>
static __global__ void
residual_kernel(struct residual a, struct mask m)
{
	FOR_ELEMENTS(r, c, a.y.shape[0], a.y.shape[1]) {
		float x = to_float(row_of<T>(a.x, r)[c]);

		if (a.bias.data)
			x += to_float(((const T *)a.bias.data)[c]);
		if (m.on)
			x *= mask_factor(m, mask_row(m, r) + (uint64_t)c);
		put(&row_of<T>(a.y, r)[c], x + to_float(row_of<T>(a.residual, r)[c]));
	}
}

/* dx = mask dy; dx may be dy. */
template <typename T>
static __global__ void
dropout_kernel(struct tensor dx, struct tensor dy, struct mask m)
{
	FOR_ELEMENTS(r, c, dx.shape[0], dx.shape[1]) {
		float x = to_float(row_of<T>(dy, r)[c]);

		put(&row_of<T>(dx, r)[c],
		    m.on ? x * mask_factor(m, mask_row(m, r) + (uint64_t)c) : x);
	}
}

/* Launches for one storage type; PICK chooses it from the tensor's. */
template <typename T>
static void
forward(struct stream *st, const struct residual *r)
{
	residual_kernel<T>
	    <<<element_grid(r->y.shape[0], r->y.shape[1]), CU_THREADS, 0, cu_handle(st)>>>(
		*r, mask_of(&r->drop));
}

/* As forward; no mask is drawn when d->p is 0. */
template <typename T>
static void
backward(
    struct stream *st, const struct tensor *dx, const struct tensor *dy, const struct dropout *d)
{
	dropout_kernel<T>
	    <<<element_grid(dx->shape[0], dx->shape[1]), CU_THREADS, 0, cu_handle(st)>>>(
		*dx, *dy, mask_of(d));
}

/* All tensors are of one type here: the layers' storage type. */
void
cuda_residual_fwd(struct stream *st, const struct residual *r)
{
	cu_require(
	    r->y.ndim == 2 && cu_same_shape(&r->y, &r->x) && cu_same_shape(&r->y, &r->residual));
	cu_require(
	    !r->bias.data || (r->bias.shape[0] == r->y.shape[1] && r->bias.dtype == r->y.dtype));
	cu_require(r->x.dtype == r->y.dtype && r->residual.dtype == r->y.dtype);
	PICK(r->y.dtype, forward)(st, r);
	cu_launched(st, "residual_fwd");
}

/* Also the forward pass of an embedding's dropout. */
void
cuda_dropout_bwd(
    struct stream *st, const struct tensor *dx, const struct tensor *dy, const struct dropout *d)
{
	cu_require(dx->ndim == 2 && cu_same_shape(dx, dy) && dx->dtype == dy->dtype);
	PICK(dx->dtype, backward)(st, dx, dy, d);
	cu_launched(st, "dropout_bwd");
}
