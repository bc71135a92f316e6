/*
 * dropout.cu - masks from counters, and the residual connection. Source: spec/training.md 2.9
 * and 15.6
 *
 * The counters are those of cpu/dropout.c, so a run on either draws the same masks, whatever the
 * layout. A pack is a thread's; a block of the generator serves four of its elements where they
 * begin with one.
 */
#include "train/cuda/norm.cuh"

/* y = residual + mask x; the sum is rounded once, and y may be the residual. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) residual_kernel(struct norm_call n, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		pack<T, N> residual = fetch<T, N>(row_of<T>(n.residual, r) + i * N);
		float v[N];

		load(v, row_of<T>(n.x, r) + i * N);
		add_residual<T, N>(n, r, i * N, residual, v);
	}
}

/* dx = mask dy; dx may be dy. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS)
    dropout_kernel(struct tensor dx, struct tensor dy, struct mask m, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		float x[N], factor[N];

		load(x, row_of<T>(dy, r) + i * N);
		if (m.on) {
			mask_pack(m, mask_row(m, r) + (uint64_t)(i * N), factor);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[k] *= factor[k];
		}
		store(row_of<T>(dx, r) + i * N, x);
	}
}

/* Launches for one storage type; PICK chooses it from the tensor's. */
template <typename T>
static void
forward(struct stream *st, const struct norm_call *n)
{
	bool wide = norm_packs(n, full<T>::width);
	struct walk w = walk_of(st, n->x.shape[0], n->x.shape[1], wide ? (int)full<T>::width : 1);

	if (wide)
		residual_kernel<T, full<T>::width>
		    <<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*n, w);
	else
		residual_kernel<T, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*n, w);
}

/* As forward; no mask is drawn when d->p is 0. */
template <typename T>
static void
backward(
    struct stream *st, const struct tensor *dx, const struct tensor *dy, const struct dropout *d)
{
	bool wide = cu_packs(dx, full<T>::width) && cu_packs(dy, full<T>::width);
	struct walk w = walk_of(st, dx->shape[0], dx->shape[1], wide ? (int)full<T>::width : 1);

	if (wide)
		dropout_kernel<T, full<T>::width>
		    <<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*dx, *dy, mask_of(d), w);
	else
		dropout_kernel<T, 1>
		    <<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*dx, *dy, mask_of(d), w);
}

/* The sum alone. */
void
residual_rows(struct stream *st, const struct norm_call *n)
{
	PICK(n->x.dtype, forward)(st, n);
}

/* All tensors are of one type here: the layers' storage type. */
void
cuda_residual_fwd(struct stream *st, const struct residual *r)
{
	struct norm_call n = {};

	ops_require(r->y.ndim == 2 && tensor_same_shape(&r->y, &r->x) &&
	    tensor_same_shape(&r->y, &r->residual));
	ops_require(r->x.dtype == r->y.dtype && r->residual.dtype == r->y.dtype);
	if (r->norm) {
		cu_residual_norm(st, r);
		return;
	}
	n.x = r->x;
	n.stored = r->y;
	n.residual = r->residual;
	n.mask = mask_of(&r->drop);
	residual_rows(st, &n);
	cu_launched(st, "residual_fwd");
}

/* Also the forward pass of an embedding's dropout. */
void
cuda_dropout_bwd(
    struct stream *st, const struct tensor *dx, const struct tensor *dy, const struct dropout *d)
{
	ops_require(dx->ndim == 2 && tensor_same_shape(dx, dy) && dx->dtype == dy->dtype);
	PICK(dx->dtype, backward)(st, dx, dy, d);
	cu_launched(st, "dropout_bwd");
}
