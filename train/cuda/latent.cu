/*
 * latent.cu - keys and values of heads from what latents are projected up to. Source: docs/math.md
 * 2.10
 *
 * A thread moves packs of N elements; no pack has elements of two heads or of two parts of one.
 */
#include "train/cuda/kernel.cuh"

template <typename T, int N>
static __device__ inline void
move(T *to, const T *from)
{
	float x[N];

	load(x, from);
	store(to, x);
}

/* The packs of a row are those of k and then those of v. */
template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS)
    latent_heads_kernel(struct latent_heads l, struct latent_widths w, struct walk walk)
{
	int keys = (int)l.k.shape[1], plain = (int)w.plain, value = (int)w.value,
	    key = plain + (int)w.rope, both = plain + value;

	FOR_PACKS(walk, row, at)
	{
		int c = (int)at * N;
		const T *kv = row_of<T>(l.kv, row);

		if (c >= keys) {
			int v = c - keys;

			move<T, N>(
			    row_of<T>(l.v, row) + v, kv + v / value * both + plain + v % value);
		} else {
			int i = c % key;

			move<T, N>(row_of<T>(l.k, row) + c,
			    i < plain ? kv + c / key * both + i
				      : row_of<T>(l.rope, row) + i - plain);
		}
	}
}

template <typename T, int N>
static __global__ void
__launch_bounds__(CU_THREADS)
    latent_grad_kernel(struct latent_heads_grad l, struct latent_widths w, struct walk walk)
{
	int plain = (int)w.plain, value = (int)w.value, key = plain + (int)w.rope,
	    both = plain + value;

	FOR_PACKS(walk, row, at)
	{
		int c = (int)at * N, head = c / both, i = c % both;

		move<T, N>(row_of<T>(l.dkv, row) + c,
		    i < plain ? row_of<T>(l.dk, row) + head * key + i
			      : row_of<T>(l.dv, row) + head * value + i - plain);
	}
}

/* An element of drope a thread, the heads in their order. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS)
    latent_sum_kernel(struct latent_heads_grad l, struct latent_widths w, struct walk walk)
{
	FOR_PACKS(walk, row, at)
	{
		const T *from = row_of<T>(l.dk, row) + w.plain + at;
		float sum = 0;

		for (int head = 0; head < l.num_heads; head++)
			sum += to_float(from[head * (w.plain + w.rope)]);
		put(row_of<T>(l.drope, row) + at, sum);
	}
}

static bool
packs(const struct latent_widths *w, int n)
{
	return w->plain % n == 0 && w->rope % n == 0 && w->value % n == 0;
}

template <typename T>
static void
forward(struct stream *st, const struct latent_heads *l)
{
	enum { N = full<T>::width };
	struct latent_widths w = latent_widths(&l->k, &l->v, &l->rope, l->num_heads);
	int64_t columns = l->k.shape[1] + l->v.shape[1];
	struct walk one = walk_of(st, l->kv.shape[0], columns, 1),
		    wide = walk_of(st, l->kv.shape[0], columns, N);

	if (packs(&w, N) && cu_packs(&l->k, N) && cu_packs(&l->v, N) && cu_packs(&l->kv, N) &&
	    cu_packs(&l->rope, N))
		latent_heads_kernel<T, N>
		    <<<wide.blocks, CU_THREADS, 0, cu_handle(st)>>>(*l, w, wide);
	else
		latent_heads_kernel<T, 1><<<one.blocks, CU_THREADS, 0, cu_handle(st)>>>(*l, w, one);
}

template <typename T>
static void
backward(struct stream *st, const struct latent_heads_grad *l)
{
	enum { N = full<T>::width };
	struct latent_widths w = latent_widths(&l->dk, &l->dv, &l->drope, l->num_heads);
	int64_t rows = l->dkv.shape[0];
	struct walk one = walk_of(st, rows, l->dkv.shape[1], 1),
		    wide = walk_of(st, rows, l->dkv.shape[1], N),
		    sums = walk_of(st, rows, w.rope, 1);

	if (packs(&w, N) && cu_packs(&l->dk, N) && cu_packs(&l->dv, N) && cu_packs(&l->dkv, N))
		latent_grad_kernel<T, N>
		    <<<wide.blocks, CU_THREADS, 0, cu_handle(st)>>>(*l, w, wide);
	else
		latent_grad_kernel<T, 1><<<one.blocks, CU_THREADS, 0, cu_handle(st)>>>(*l, w, one);
	latent_sum_kernel<T><<<sums.blocks, CU_THREADS, 0, cu_handle(st)>>>(*l, w, sums);
}

void
cuda_latent_heads(struct stream *st, const struct latent_heads *l)
{
	ops_require(latent_shapes_fit(&l->k, &l->v, &l->kv, &l->rope, l->num_heads));
	ops_require(
	    l->kv.dtype == l->k.dtype && l->kv.dtype == l->v.dtype && l->kv.dtype == l->rope.dtype);
	if (l->kv.shape[0] == 0)
		return;
	PICK(l->kv.dtype, forward)(st, l);
	cu_launched(st, "latent_heads");
}

void
cuda_latent_heads_grad(struct stream *st, const struct latent_heads_grad *l)
{
	ops_require(latent_shapes_fit(&l->dk, &l->dv, &l->dkv, &l->drope, l->num_heads));
	ops_require(l->dkv.dtype == l->dk.dtype && l->dkv.dtype == l->dv.dtype &&
	    l->dkv.dtype == l->drope.dtype);
	if (l->dkv.shape[0] == 0)
		return;
	PICK(l->dkv.dtype, backward)(st, l);
	cu_launched(st, "latent_heads_grad");
}
