/*
 * gemm_split.cu - GEMMs of a real operand by one of 16 bits: the gradient of a router's logits
 * by its weight, and by the rows that it routes
 *
 * The library multiplies operands of one type. So the real one is split into two numbers of 16
 * bits, whose sum has twice the digits of either: two GEMMs, the second of which is added to the
 * first. The two lie in the scratch after the workspace, as many rows at a time as fit.
 */
#include "train/cuda/kernel.cuh"

/* x = high + low, but for what low loses by rounding. */
template <typename T>
static __global__ void
__launch_bounds__(CU_THREADS)
    split_kernel(struct tensor high, struct tensor low, struct tensor x, struct walk w)
{
	FOR_PACKS(w, row, i)
	{
		float v = row_of<float>(x, row)[i];
		T *h = row_of<T>(high, row) + i;

		put(h, v);
		put(row_of<T>(low, row) + i, v - to_float(*h));
	}
}

template <typename T>
static void
split(struct stream *st, const struct tensor (&part)[2], const struct tensor *x)
{
	struct walk w = walk_of(st, x->shape[0], x->shape[1], 1);

	split_kernel<T><<<w.blocks, CU_THREADS, 0, cu_handle(st)>>>(part[0], part[1], *x, w);
	cu_launched(st, "split");
}

/* The part of a GEMM that rows [first, first + count) of the array of a have: rows of c, or of a
 * transposed operand a part of each sum, so that c is added to after the first. */
static struct gemm
part_of(const struct gemm *g, int64_t first, int64_t count)
{
	struct gemm p = *g;

	p.dbias = (struct tensor){};
	p.a = tensor_rows(&g->a, first, count);
	if (!g->trans_a) {
		p.c = tensor_rows(&g->c, first, count);
		return p;
	}
	p.b = g->trans_b ? tensor_columns(&g->b, first, count) : tensor_rows(&g->b, first, count);
	p.beta = first ? 1 : g->beta;
	return p;
}

void
gemm_split(struct stream *st, const struct gemm *g)
{
	int64_t rows = g->a.shape[0], width = g->a.shape[1], room = CU_SIDE / 4 / width, n;
	enum dtype type = g->b.dtype;
	char *side = (char *)cu_side(st);

	ops_require(g->a.dtype == DTYPE_F32 && dtype_size(type) == 2 && room > 0);
	ops_require(g->act == GEMM_LINEAR && !g->bias.data);
	for (int64_t first = 0; first < rows; first += n) {
		n = int64_min(room, rows - first);
		struct gemm p = part_of(g, first, n);
		const struct tensor part[2] = { tensor_2d(side, type, n, width),
			tensor_2d(side + CU_SIDE / 2, type, n, width) };

		if (type == DTYPE_BF16)
			split<bf16>(st, part, &p.a);
		else
			split<half>(st, part, &p.a);
		p.a = part[0];
		cuda_gemm(st, &p);
		p.a = part[1];
		p.beta = 1;
		cuda_gemm(st, &p);
	}
}
