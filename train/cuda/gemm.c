/*
 * gemm.c - matrix products by cuBLASLt, sums in F32
 *
 * cuBLASLt stores by columns: a row-major array is its own transpose there, so the product is asked
 * for as c^T = op(b)^T op(a)^T and nothing is copied. A product is planned once for each shape;
 * what the heuristics answer first is kept, so that every run takes the same algorithm. F32 is not
 * rounded to TF32, and no partial sum is rounded to 16 bits.
 */
#include "lib/base/mem.h"
#include "train/cuda/impl.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

/* All that an algorithm may depend on; compared as bytes, so zeroed before it is filled. */
struct key {
	int64_t m, n, k, lda, ldb, ldc;
	int32_t trans_a, trans_b, in, out, accumulate;
	uint32_t align_a, align_b, align_c;
};

/* A product made ready: the library's descriptions of it and the algorithm that was chosen. */
struct plan {
	struct key key;
	cublasLtMatmulDesc_t product;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulAlgo_t algo;
	size_t workspace;
};

/* All plans of a device; they stay until it is closed. */
struct gemm_cache {
	cublasLtHandle_t handle;
	struct plan *plan;
	size_t count, room;
};

/* NULL with a reason when the library does not start; nothing is planned yet. */
struct gemm_cache *
gemm_cache_new(struct err *e)
{
	struct gemm_cache *c = mem_zalloc(1, sizeof *c);
	cublasStatus_t rc = cublasLtCreate(&c->handle);

	if (rc == CUBLAS_STATUS_SUCCESS)
		return c;
	err_set(e, "cannot start cuBLASLt: %s", cublasLtGetStatusString(rc));
	free(c);
	return NULL;
}

/* Gives back the library's objects of a plan, those that were made. */
static void
plan_release(struct plan *p)
{
	if (p->product)
		(void)cublasLtMatmulDescDestroy(p->product);
	if (p->a)
		(void)cublasLtMatrixLayoutDestroy(p->a);
	if (p->b)
		(void)cublasLtMatrixLayoutDestroy(p->b);
	if (p->c)
		(void)cublasLtMatrixLayoutDestroy(p->c);
}

/* NULL is freed already. The device must have finished its products. */
void
gemm_cache_free(struct gemm_cache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++)
		plan_release(&c->plan[i]);
	(void)cublasLtDestroy(c->handle);
	free(c->plan);
	free(c);
}

/* Is rc success? If not, the device has failed. */
static bool
blas_ok(struct device *d, cublasStatus_t rc)
{
	if (rc == CUBLAS_STATUS_SUCCESS)
		return true;
	cu_fail(d, "gemm", cublasLtGetStatusString(rc));
	return false;
}

/* F64 is kept out when the device is opened, so another type here is a mistake in the engine. */
static cudaDataType_t
data_type(enum dtype t)
{
	switch (t) {
	case DTYPE_F32: return CUDA_R_32F;
	case DTYPE_BF16: return CUDA_R_16BF;
	case DTYPE_F16: return CUDA_R_16F;
	default: BUG("product of %s", dtype_name(t));
	}
}

/* The largest power of two up to 256 that an address is a multiple of. 256 is what cudaMalloc
 * gives; more is of no use to any algorithm. */
static uint32_t
alignment(const void *p)
{
	uintptr_t at = (uintptr_t)p | 256;

	return (uint32_t)(at & (~at + 1));
}

/* Alignments belong to the key: a view into a flat buffer may lie where a faster algorithm
 * cannot read. */
static struct key
key_of(const struct gemm *g)
{
	struct key k;

	memset(&k, 0, sizeof k);
	k.m = g->c.shape[0];
	k.n = g->c.shape[1];
	k.k = g->a.shape[g->trans_a ? 0 : 1];
	k.lda = g->a.stride[0];
	k.ldb = g->b.stride[0];
	k.ldc = g->c.stride[0];
	k.trans_a = g->trans_a;
	k.trans_b = g->trans_b;
	k.in = g->a.dtype;
	k.out = g->c.dtype;
	k.accumulate = g->beta != 0;
	k.align_a = alignment(g->a.data);
	k.align_b = alignment(g->b.data);
	k.align_c = alignment(g->c.data);
	return k;
}

/* The product and its operands in the library's words: its a is our b, its rows are our columns.
 * Row length in memory becomes the library's leading dimension. false: the device has failed. */
static bool
describe(struct device *d, struct plan *p)
{
	const struct key *k = &p->key;
	cublasOperation_t first = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
			  second = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
	cudaDataType_t in = data_type((enum dtype)k->in), out = data_type((enum dtype)k->out);
	uint64_t rows_b = (uint64_t)(k->trans_b ? k->k : k->n),
		 rows_a = (uint64_t)(k->trans_a ? k->m : k->k);

	return blas_ok(d, cublasLtMatmulDescCreate(&p->product, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
	    blas_ok(d,
		cublasLtMatmulDescSetAttribute(
		    p->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first)) &&
	    blas_ok(d,
		cublasLtMatmulDescSetAttribute(
		    p->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)) &&
	    blas_ok(d,
		cublasLtMatrixLayoutCreate(
		    &p->a, in, rows_b, (uint64_t)(k->trans_b ? k->n : k->k), k->ldb)) &&
	    blas_ok(d,
		cublasLtMatrixLayoutCreate(
		    &p->b, in, rows_a, (uint64_t)(k->trans_a ? k->k : k->m), k->lda)) &&
	    blas_ok(
		d, cublasLtMatrixLayoutCreate(&p->c, out, (uint64_t)k->n, (uint64_t)k->m, k->ldc));
}

/* What the search for an algorithm must keep to. Reduction in the compute type keeps split sums
 * in F32. The alignments are promised for this product alone, which is why they are in the key. */
static bool
set_preference(struct device *d, cublasLtMatmulPreference_t f, const struct key *k)
{
	uint64_t bytes = CU_WORKSPACE;
	uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		const void *value;
		size_t size;
	} set[] = {
		{ CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes },
		{ CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->align_b, sizeof k->align_b },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->align_a, sizeof k->align_a },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->align_c, sizeof k->align_c },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->align_c, sizeof k->align_c },
	};

	for (size_t i = 0; i < sizeof set / sizeof *set; i++)
		if (!blas_ok(d,
			cublasLtMatmulPreferenceSetAttribute(
			    f, set[i].name, set[i].value, set[i].size)))
			return false;
	return true;
}

/* The algorithm that the heuristics put first. No timing: that would choose differently from run
 * to run, and with it the order of sums. */
static bool
choose_algorithm(struct device *d, struct plan *p)
{
	cublasLtMatmulPreference_t f;
	cublasLtMatmulHeuristicResult_t found;
	int count = 0;
	bool ok;

	if (!blas_ok(d, cublasLtMatmulPreferenceCreate(&f)))
		return false;
	ok = set_preference(d, f, &p->key) &&
	    blas_ok(d,
		cublasLtMatmulAlgoGetHeuristic(
		    d->gemms->handle, p->product, p->a, p->b, p->c, p->c, f, 1, &found, &count));
	(void)cublasLtMatmulPreferenceDestroy(f);
	if (ok && count == 0) {
		cu_fail(d, "gemm", "cuBLASLt has no algorithm for this product");
		return false;
	}
	if (ok) {
		p->algo = found.algo;
		p->workspace = found.workspaceSize;
	}
	return ok;
}

/* The plan of a product, made when it is asked for first; NULL when that failed. A few dozen
 * shapes occur in a run, so a linear search is nothing beside a product. */
static const struct plan *
find_plan(struct device *d, const struct gemm *g)
{
	struct gemm_cache *c = d->gemms;
	struct plan p = { .key = key_of(g) };

	for (size_t i = 0; i < c->count; i++)
		if (memcmp(&c->plan[i].key, &p.key, sizeof p.key) == 0)
			return &c->plan[i];
	if (!describe(d, &p) || !choose_algorithm(d, &p)) {
		plan_release(&p);
		return NULL;
	}
	if (c->count == c->room) {
		c->room = 2 * c->room + 32;
		c->plan = mem_realloc(c->plan, c->room, sizeof *c->plan);
	}
	c->plan[c->count] = p;
	return &c->plan[c->count++];
}

/* c = alpha op(a) op(b) + beta c; c is of a's type or F32 (main gradients). k 0 is refused here:
 * no layer asks for it. A failure is reported by sync. */
void
cuda_gemm(struct stream *st, const struct gemm *g)
{
	int64_t m = g->c.shape[0], n = g->c.shape[1], k = g->a.shape[g->trans_a ? 0 : 1];
	float alpha = (float)g->alpha, beta = (float)g->beta;
	struct device *d = st->device;
	const struct plan *p;

	cu_require(g->a.ndim == 2 && g->b.ndim == 2 && g->c.ndim == 2 && k > 0);
	cu_require(g->a.shape[g->trans_a ? 1 : 0] == m && g->a.dtype == g->b.dtype);
	cu_require(g->b.shape[g->trans_b ? 1 : 0] == k && g->b.shape[g->trans_b ? 0 : 1] == n);
	cu_require(g->c.dtype == g->a.dtype || g->c.dtype == DTYPE_F32);
	if (m == 0 || n == 0)
		return;
	p = find_plan(d, g);
	if (!p)
		return;
	d->last = "gemm";
	blas_ok(d,
	    cublasLtMatmul(d->gemms->handle, p->product, &alpha, g->b.data, p->a, g->a.data, p->b,
		&beta, g->c.data, p->c, g->c.data, p->c, &p->algo, cu_workspace(st), p->workspace,
		cu_handle(st)));
}
