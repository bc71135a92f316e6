/*
 * dropout.cu - masks from counters, and the residual connection. Source: docs/math.md 2.9
 * and 3.1
 *
 * The counters are those of cpu/dropout.c, so a run on either draws the same masks, whatever the
 * layout. A pack is a thread's; a block of the generator serves four of its elements where they
 * begin with one, as many as fill 16 bytes of the narrower type.
 */
#include "train/cuda/norm.cuh"

/* How many elements of a pack of both types fill 16 bytes of the narrower. */
template <typename A, typename B> struct both {
	enum { width = 16 / (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B)) };
};

/* y = residual + mask x; the sum is rounded once, and y may be the residual. */
template <typename S, typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS) residual_kernel(struct norm_call n, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		pack<S, N> residual = fetch<S, N>(row_of<S>(n.residual, r) + i * N);
		float v[N];

		load(v, row_of<T>(n.x, r) + i * N);
		add_residual<S, N>(n, r, i * N, residual, v);
	}
}

/* dx = mask dy; dx may be dy. */
template <typename Y, typename X, int N>
static __global__ void
__launch_bounds__(CU_THREADS)
    dropout_kernel(struct tensor dx, struct tensor dy, struct mask m, struct walk w)
{
	FOR_PACKS(w, r, i)
	{
		float x[N], factor[N];

		load(x, row_of<X>(dy, r) + i * N);
		if (m.on) {
			mask_pack(m, mask_row(m, r) + (uint64_t)(i * N), factor);
#pragma unroll
			for (int k = 0; k < N; k++)
				x[k] *= factor[k];
		}
		store(row_of<Y>(dx, r) + i * N, x);
	}
}

/* Launches for the types of the residual stream and of the branch. */
template <typename S, typename T>
static void
forward(struct stream *st, const struct norm_call *n)
{
	enum { N = both<S, T>::width };
	bool wide = norm_packs(n, N);
	struct walk w = walk_of(st, n->x.shape[0], n->x.shape[1], wide ? (int)N : 1);

	if (wide)
		residual_kernel<S, T, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*n, w);
	else
		residual_kernel<S, T, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(*n, w);
}

/* As forward, from X to Y; no mask is drawn when the probability is 0. */
template <typename Y, typename X>
static void
backward(struct stream *st, const struct dropout_grad *g)
{
	enum { N = both<Y, X>::width };
	bool wide = cu_packs(&g->dx, N) && cu_packs(&g->dy, N);
	struct walk w = walk_of(st, g->dx.shape[0], g->dx.shape[1], wide ? (int)N : 1);

	if (wide)
		dropout_kernel<Y, X, N><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(
		    g->dx, g->dy, mask_of(&g->drop), w);
	else
		dropout_kernel<Y, X, 1><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(
		    g->dx, g->dy, mask_of(&g->drop), w);
}

/* From the residual stream to a branch; the other way is backward itself. */
template <typename S, typename T>
static void
leave(struct stream *st, const struct dropout_grad *g)
{
	backward<T, S>(st, g);
}

/* The sum alone. */
void
residual_rows(struct stream *st, const struct norm_call *n)
{
	PICK_STREAM(n->stored.dtype, n->x.dtype, forward)(st, n);
}

/* The residual and the sum are of one type, the stream's. */
void
cuda_residual_fwd(struct stream *st, const struct residual *r)
{
	struct norm_call n = {};

	ops_require(r->y.ndim == 2 && tensor_same_shape(&r->y, &r->x) &&
	    tensor_same_shape(&r->y, &r->residual));
	ops_require(cu_streams(r->y.dtype, r->x.dtype) && r->residual.dtype == r->y.dtype);
	if (r->norm.weight.data) {
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
cuda_dropout_bwd(struct stream *st, const struct dropout_grad *g)
{
	bool leaves = g->dy.dtype == DTYPE_F32;

	ops_require(g->dx.ndim == 2 && tensor_same_shape(&g->dx, &g->dy));
	ops_require(leaves || cu_streams(g->dx.dtype, g->dy.dtype));
	if (leaves)
		PICK_STREAM(g->dy.dtype, g->dx.dtype, leave)(st, g);
	else
		PICK_STREAM(g->dx.dtype, g->dy.dtype, backward)(st, g);
	cu_launched(st, "dropout_bwd");
}
