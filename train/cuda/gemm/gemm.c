/*
 * gemm.c - GEMMs by cuBLASLt, accumulated in F32
 *
 * cuBLASLt stores by columns: a row-major array is its own transpose there, so the GEMM is
 * requested as c^T = op(b)^T op(a)^T and nothing is copied. A GEMM is planned once for each shape
 * (gemm_plan.c); one of few rows has kernels of our own, which are bound by the memory's rate
 * (gemm_rows.cu). F32 is not rounded to TF32, and no partial sum is rounded to 16 bits. The
 * epilogue of a GEMM is fused by the library where that is possible and faster; otherwise our own
 * kernels run after it.
 *
 * Operands of 8 bits are multiplied by GPUs of capability 8.9 and later. Sums into F32 are added to
 * in place there too, of either 8-bit type (cuBLAS 13.1 documentation, cublasLtMatmul, table of FP8
 * kernels).
 */
#include "lib/base/mem.h"
#include "train/cuda/gemm/gemm.h"

#include <stdlib.h>
#include <string.h>

/* NULL with a reason when the library does not start; nothing is planned yet. Earlier choices are
 * not read where every run must choose alike. */
struct gemm_cache *
gemm_cache_new(struct device *d, struct err *e)
{
	struct gemm_cache *c = mem_zalloc(1, sizeof *c);
	cublasStatus_t rc = cublasLtCreate(&c->handle);
	struct cudaDeviceProp p;

	if (rc != CUBLAS_STATUS_SUCCESS) {
		err_set(e, "cannot start cuBLASLt: %s", cublasLtGetStatusString(rc));
		free(c);
		return NULL;
	}
	if (cudaEventCreate(&c->begin) != cudaSuccess || cudaEventCreate(&c->end) != cudaSuccess) {
		err_set(e, "cannot make the events of GPU %d", d->index);
		gemm_cache_free(c);
		return NULL;
	}
	if (!d->deterministic && cudaGetDeviceProperties(&p, d->index) == cudaSuccess)
		gemm_choices_load(&c->choices, p.name);
	return c;
}

/* NULL is ignored. The device must have finished its GEMMs. */
void
gemm_cache_free(struct gemm_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		gemm_plan_release(&c->plan[i]);
	if (c->begin)
		(void)cudaEventDestroy(c->begin);
	if (c->end)
		(void)cudaEventDestroy(c->end);
	(void)cublasLtDestroy(c->handle);
	gemm_choices_release(&c->choices);
	free(c->plan);
	free(c);
}

/* The largest power of two up to 256 that an address is a multiple of. 256 is what cudaMalloc
 * gives; more is of no use to any algorithm. */
static uint32_t
alignment(const void *p)
{
	uintptr_t at = (uintptr_t)p | 256;

	return (uint32_t)(at & -at);
}

/* The epilogue that the caller asks for. */
static uint32_t
epilogue_of(const struct gemm *g)
{
	return (g->bias.data ? EPILOGUE_BIAS : 0) | (g->act == GEMM_GELU ? EPILOGUE_GELU : 0) |
	    (g->act == GEMM_GELU_GRAD ? EPILOGUE_GELU_GRAD : 0) |
	    (g->dbias.data ? EPILOGUE_DBIAS : 0);
}

/* The part of it that the library can fuse when the result has the operands' type, or 16 bits of
 * 8-bit operands, and addresses are multiples of 16 bytes: an activation only after the bias, with
 * rows of the saved value in multiples of 8 elements, and in 16 bits (its accuracy is undocumented,
 * and F32 has to match the CPU); a bias gradient only with an F32 result, and only if the scratch
 * after the workspace holds it. */
static uint32_t
fusable(const struct gemm *g)
{
	bool in_8 = dtype_is_float8(g->a.dtype) && g->c.dtype != DTYPE_F32;
	bool bias = (in_8 || g->c.dtype == g->a.dtype) && alignment(g->bias.data) >= 16;
	bool act = bias && g->a.dtype != DTYPE_F32 && alignment(g->aux.data) >= 16 &&
	    g->c.shape[1] % 8 == 0;
	bool dbias = g->c.dtype == DTYPE_F32 && g->alpha == 1 && alignment(g->dbias.data) >= 16 &&
	    g->c.shape[0] * (int64_t)sizeof(float) <= CU_SIDE;

	return (bias ? EPILOGUE_BIAS : 0) | (act ? EPILOGUE_GELU | EPILOGUE_GELU_GRAD : 0) |
	    (dbias ? EPILOGUE_DBIAS : 0);
}

/* Pointers differ from call to call but their alignments do not, so a model has few kinds of
 * GEMM. */
static struct gemm_key
key_of(const struct gemm *g)
{
	struct gemm_key k;

	memset(&k, 0, sizeof k);
	k.m = g->c.shape[0];
	k.n = g->c.shape[1];
	k.k = g->a.shape[g->trans_a ? 0 : 1];
	k.lda = g->a.stride[0];
	k.ldb = g->b.stride[0];
	k.ldc = g->c.stride[0];
	k.trans_a = g->trans_a;
	k.trans_b = g->trans_b;
	k.in_a = g->a.dtype;
	k.in_b = g->b.dtype;
	k.out = g->c.dtype;
	k.accumulate = g->beta != 0;
	if (dtype_is_float8(g->a.dtype)) {
		k.scale_a = (int32_t)scale_kind(&g->scale_a, &g->a);
		k.scale_b = (int32_t)scale_kind(&g->scale_b, &g->b);
		/* Of blocks, sums are promoted anyway, since the scales come in then. */
		k.fast = !g->exact && k.scale_a == SCALE_TENSOR;
	}
	k.epilogue = epilogue_of(g);
	k.fusable = fusable(g) & k.epilogue;
	k.align_a = alignment(g->a.data);
	k.align_b = alignment(g->b.data);
	k.align_c = alignment(g->c.data);
	return k;
}

/* The index of the plan of a GEMM, made on first use; -1 when that failed. A run has a few dozen
 * shapes, so a linear search costs nothing next to the GEMM. */
static int
find_plan(struct stream *st, const struct gemm *g)
{
	struct gemm_cache *c = st->device->gemms;
	struct gemm_plan p = { .key = key_of(g) };
	int at = (int)c->count;

	for (int i = 0; i < at; i++)
		if (memcmp(&c->plan[i].key, &p.key, sizeof p.key) == 0)
			return i;
	if (!gemm_choose(st, &p, g))
		return -1;
	if (c->count == c->room) {
		c->room = 2 * c->room + 32;
		c->plan = mem_realloc(c->plan, c->room, sizeof *c->plan);
	}
	c->plan[c->count++] = p;
	return at;
}

/* dbias = beta dbias + sums of a over k */
static void
sum_dbias(struct stream *st, const struct gemm *g)
{
	if (g->beta == 0)
		cuda_fill(st, &(struct fill){ .x = g->dbias });
	if (g->trans_a)
		cu_column_sum(st, &g->dbias, &g->a);
	else
		cu_row_sum(st, &g->dbias, &g->a);
}

/* The same, where the sums are in the scratch already if the library has made them. */
static void
finish_dbias(struct stream *st, const struct gemm_plan *p, const struct gemm *g)
{
	struct column_parts side = { { g->dbias.data }, cu_side(st), p->key.m, p->key.m, 1,
		(float)g->beta };

	if (!(p->fused & EPILOGUE_DBIAS))
		sum_dbias(st, g);
	else if (g->beta != 0)
		cu_finish_columns(st, &side);
}

/* The part of the epilogue that the library has not fused. An activation left to us finds its input
 * in aux, or in c for the gradient. */
static void
finish(struct stream *st, const struct gemm_plan *p, const struct gemm *g)
{
	uint32_t left = p->key.epilogue & ~p->fused;

	if (left & EPILOGUE_BIAS)
		cu_bias_add(st, left & EPILOGUE_GELU ? &g->aux : &g->c, &g->bias);
	if (left & EPILOGUE_GELU)
		cuda_act_fwd(st, &(struct act){ .kind = ACT_GELU_TANH, .y = g->c, .x = g->aux });
	if (left & EPILOGUE_GELU_GRAD)
		cuda_act_bwd(st,
		    &(struct act_grad){
			.kind = ACT_GELU_TANH, .dx = g->c, .dy = g->c, .x = g->aux });
	if (p->key.epilogue & EPILOGUE_DBIAS)
		finish_dbias(st, p, g);
}

/* The addresses of scales and of the fused epilogue, which differ from call to call. */
static cublasStatus_t
set_addresses(struct stream *st, const struct gemm_plan *p, const struct gemm *g)
{
	void *vector = p->fused & EPILOGUE_BIAS ? g->bias.data
	    : g->beta == 0                      ? g->dbias.data
						: cu_side(st);
	cublasStatus_t rc =
	    gemm_set_scales(p, g) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;

	if (rc == CUBLAS_STATUS_SUCCESS && p->fused & (EPILOGUE_BIAS | EPILOGUE_DBIAS))
		rc = cublasLtMatmulDescSetAttribute(
		    p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
	if (rc == CUBLAS_STATUS_SUCCESS && p->fused & (EPILOGUE_GELU | EPILOGUE_GELU_GRAD))
		rc = cublasLtMatmulDescSetAttribute(p->desc,
		    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &g->aux.data, sizeof g->aux.data);
	return rc;
}

/* Also called to measure. The result goes to aux where an activation of our own makes c of it. */
cublasStatus_t
gemm_run(struct stream *st, const struct gemm_plan *p, const struct gemm *g)
{
	float alpha = (float)g->alpha, beta = (float)g->beta;
	void *c = p->key.epilogue & ~p->fused & EPILOGUE_GELU ? g->aux.data : g->c.data;
	cublasStatus_t rc = set_addresses(st, p, g);

	if (rc == CUBLAS_STATUS_SUCCESS)
		rc = cublasLtMatmul(st->device->gemms->handle, p->desc, &alpha, g->b.data, p->a,
		    g->a.data, p->b, &beta, c, p->c, c, p->c, &p->algo, cu_workspace(st),
		    p->workspace, cu_handle(st));
	if (rc == CUBLAS_STATUS_SUCCESS)
		finish(st, p, g);
	return rc;
}

/* The shapes and types of the epilogue's operands. */
static void
check_epilogue(const struct gemm *g, int64_t m, int64_t n)
{
	ops_require(!g->bias.data ||
	    (g->bias.shape[0] == n && (g->bias.dtype == g->c.dtype || g->c.dtype == DTYPE_F32)));
	ops_require(!g->dbias.data || (g->dbias.shape[0] == m && g->dbias.dtype == DTYPE_F32));
	ops_require(!g->dbias.data || g->beta == 0 || g->beta == 1);
	ops_require(g->act == GEMM_LINEAR ||
	    (g->beta == 0 && g->aux.data && g->aux.ndim == 2 && g->aux.shape[0] == m &&
		g->aux.shape[1] == n && g->aux.stride[0] == n && g->aux.dtype == g->a.dtype &&
		g->c.dtype == g->a.dtype));
}

/* What the tensor cores and the library take of 8 bits: both operands dense along k, rows and
 * addresses of whole 16 bytes, never E5M2 nor squares twice. */
static void
check_float8(const struct gemm *g)
{
	enum scale_kind a = scale_kind(&g->scale_a, &g->a), b = scale_kind(&g->scale_b, &g->b);

	ops_require(dtype_is_float8(g->b.dtype) && !g->trans_a && g->trans_b);
	ops_require(g->a.dtype != DTYPE_F8_E5M2 || g->b.dtype != DTYPE_F8_E5M2);
	ops_require(g->c.shape[1] % 16 == 0 && g->a.shape[1] % 16 == 0);
	ops_require(g->a.stride[0] % 16 == 0 && g->b.stride[0] % 16 == 0);
	ops_require(alignment(g->a.data) >= 16 && alignment(g->b.data) >= 16);
	ops_require((a == SCALE_TENSOR) == (b == SCALE_TENSOR));
	ops_require(a == SCALE_TENSOR ||
	    (alignment(g->scale_a.data) >= 16 && alignment(g->scale_b.data) >= 16));
	ops_require(a != SCALE_SQUARES || b != SCALE_SQUARES);
	ops_require(g->act == GEMM_LINEAR && !g->dbias.data);
	ops_require(g->beta == 0 || (g->beta == 1 && g->c.dtype == DTYPE_F32));
}

/* Beside a real a, c is of the type of b or real. */
static void
check_types(const struct gemm *g)
{
	if (dtype_is_float8(g->a.dtype))
		check_float8(g);
	else
		ops_require((g->b.dtype == g->a.dtype || g->a.dtype == DTYPE_F32) &&
		    (g->c.dtype == g->b.dtype || g->c.dtype == DTYPE_F32));
}

/* c = alpha op(a) op(b) + beta c, and the rest of struct gemm; c is of b's type or F32 (main
 * gradients), of 8-bit operands any. k 0 is refused here: no layer asks for it. A failure is
 * reported by sync. */
void
cuda_gemm(struct stream *st, const struct gemm *g)
{
	int64_t m = g->c.shape[0], n = g->c.shape[1], k = g->a.shape[g->trans_a ? 0 : 1];
	cublasStatus_t rc;
	int at;

	ops_require(g->a.ndim == 2 && g->b.ndim == 2 && g->c.ndim == 2 && k > 0);
	ops_require(g->a.shape[g->trans_a ? 1 : 0] == m);
	ops_require(g->b.shape[g->trans_b ? 1 : 0] == k && g->b.shape[g->trans_b ? 0 : 1] == n);
	check_types(g);
	check_epilogue(g, m, n);
	if (m == 0 || n == 0)
		return;
	if (g->a.dtype == DTYPE_F32 && g->b.dtype != DTYPE_F32) {
		gemm_split(st, g);
		if (g->dbias.data)
			sum_dbias(st, g);
		return;
	}
	if (gemm_rows(st, g))
		return;
	at = find_plan(st, g);
	if (at < 0)
		return;
	rc = gemm_run(st, &st->device->gemms->plan[at], g);
	st->device->last = "gemm";
	if (rc != CUBLAS_STATUS_SUCCESS)
		cu_fail(st->device, "gemm", cublasLtGetStatusString(rc));
}
