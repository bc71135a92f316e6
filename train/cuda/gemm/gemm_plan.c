/*
 * gemm_plan.c - chooses the algorithm of a GEMM and how much of its epilogue is fused
 *
 * The library names candidates; each is run and timed, with the operations of our own that it needs
 * after it, and the fastest is kept, in memory and in a file. One that is far slower in its first
 * run is not timed further, so that there can be many candidates. All this happens at the first
 * request for a shape, so only in the first step. A GEMM that adds to its output adds numbers that
 * are too small to change it while it is measured. Where results must not depend on a clock
 * (deterministic mode), and where nothing can be measured (a stream under capture, no memory for
 * the sums of columns), the library's first answer is taken.
 */
#include "train/cuda/gemm/gemm.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

enum {
	/* candidates that the library is asked for, for each set of what is fused */
	PER_SET = 24,
	SETS = 3,
	CANDIDATES = SETS * PER_SET,
	FINALISTS = 3, /* measured again */
	ROUNDS = 3,
	RUNS_MAX = 30, /* of one measurement */
};

/* The library's numbers for scales of blocks, which its headers have from 12.8 and 12.9 on. One
 * that does not know them refuses the description. */
enum { A_SCALE_MODE = 31, B_SCALE_MODE = 32 };
static const int32_t scale_modes[] = {
	[SCALE_TENSOR] = 0,
	[SCALE_LINES] = 4,   /* CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F */
	[SCALE_SQUARES] = 5, /* CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F */
};

static const float first_ms = 3, final_ms = 8; /* what a candidate is measured for */
static const float looks_ms =
    600; /* after that long the remaining candidates of a GEMM get no first look */
static const float hopeless =
    1.3f; /* times the fastest run so far; slower candidates are dropped */
static const float jitter_ms = 0.01f; /* of a single run */
static const float margin = 0.99f;    /* a later candidate must be faster by that */

/* A candidate and how long it takes. */
struct candidate {
	struct gemm_plan plan;
	float ms;
};

/* What is measured: the GEMM itself, or one like it that changes nothing. */
struct trial {
	struct gemm g;
	void *vectors; /* a bias of zeros and sums of columns; NULL: those of g, or none */
};

/* F64 is kept out when the device is opened, so another type here is a mistake in the engine. */
static cudaDataType_t
data_type(int32_t t)
{
	switch (t) {
	case DTYPE_F32: return CUDA_R_32F;
	case DTYPE_BF16: return CUDA_R_16BF;
	case DTYPE_F16: return CUDA_R_16F;
	case DTYPE_F8_E4M3: return CUDA_R_8F_E4M3;
	case DTYPE_F8_E5M2: return CUDA_R_8F_E5M2;
	default: BUG("GEMM of %s", dtype_name((enum dtype)t));
	}
}

/* The library's name for what is fused. Its b is our a, hence the gradient of the bias there. */
static cublasLtEpilogue_t
library_epilogue(uint32_t fused)
{
	switch (fused) {
	case EPILOGUE_BIAS: return CUBLASLT_EPILOGUE_BIAS;
	case EPILOGUE_GELU: return CUBLASLT_EPILOGUE_GELU_AUX;
	case EPILOGUE_GELU | EPILOGUE_BIAS: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
	case EPILOGUE_GELU_GRAD: return CUBLASLT_EPILOGUE_DGELU;
	case EPILOGUE_DBIAS: return CUBLASLT_EPILOGUE_BGRADB;
	default: return CUBLASLT_EPILOGUE_DEFAULT;
	}
}

/* One attribute of a GEMM; false when the library refuses. */
static bool
set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const void *value, size_t size)
{
	return cublasLtMatmulDescSetAttribute(d, name, value, size) == CUBLAS_STATUS_SUCCESS;
}

/* The fused epilogue. The addresses are set again for each call; the search may look at these. */
static bool
describe_epilogue(struct gemm_plan *p, const struct gemm *g)
{
	cublasLtEpilogue_t e = library_epilogue(p->fused);
	cudaDataType_t act = data_type(p->key.out), real = CUDA_R_32F;
	bool aux = p->fused & (EPILOGUE_GELU | EPILOGUE_GELU_GRAD), bias = p->fused & EPILOGUE_BIAS,
	     dbias = p->fused & EPILOGUE_DBIAS;
	int64_t ld = p->key.n;

	return set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof e) &&
	    (!bias ||
		(set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias.data,
		     sizeof g->bias.data) &&
		    set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &act, sizeof act))) &&
	    (!dbias ||
		(set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->dbias.data,
		     sizeof g->dbias.data) &&
		    set(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &real, sizeof real))) &&
	    (!aux ||
		(set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &g->aux.data,
		     sizeof g->aux.data) &&
		    set(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld)));
}

/* The library's a is our b. */
bool
gemm_set_scales(const struct gemm_plan *p, const struct gemm *g)
{
	const void *a = g->scale_a.data, *b = g->scale_b.data;

	return !dtype_is_float8((enum dtype)p->key.in_a) ||
	    (set(p->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &b, sizeof b) &&
		set(p->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &a, sizeof a));
}

/* Of 8-bit operands: their scales, and how their sums are held. */
static bool
describe_float8(struct gemm_plan *p, const struct gemm *g)
{
	const int32_t *a = &scale_modes[p->key.scale_a], *b = &scale_modes[p->key.scale_b];
	int8_t fast = (int8_t)p->key.fast;

	if (!dtype_is_float8((enum dtype)p->key.in_a))
		return true;
	return set(p->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast) &&
	    (!*b || set(p->desc, (cublasLtMatmulDescAttributes_t)A_SCALE_MODE, b, sizeof *b)) &&
	    (!*a || set(p->desc, (cublasLtMatmulDescAttributes_t)B_SCALE_MODE, a, sizeof *a)) &&
	    gemm_set_scales(p, g);
}

/* The GEMM and its operands in the library's terms: its a is our b, its rows are our columns. Row
 * length in memory becomes the library's leading dimension. */
bool
gemm_describe(struct gemm_plan *p, const struct gemm *g)
{
	const struct gemm_key *k = &p->key;
	cublasOperation_t first = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
			  second = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
	cudaDataType_t out = data_type(k->out);
	uint64_t rows_b = (uint64_t)(k->trans_b ? k->k : k->n),
		 rows_a = (uint64_t)(k->trans_a ? k->m : k->k);
	int64_t ldc = k->epilogue & ~p->fused & EPILOGUE_GELU ? k->n : k->ldc;

	return cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
	    CUBLAS_STATUS_SUCCESS &&
	    set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first) &&
	    set(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second) &&
	    cublasLtMatrixLayoutCreate(&p->a, data_type(k->in_b), rows_b,
		(uint64_t)(k->trans_b ? k->n : k->k), k->ldb) == CUBLAS_STATUS_SUCCESS &&
	    cublasLtMatrixLayoutCreate(&p->b, data_type(k->in_a), rows_a,
		(uint64_t)(k->trans_a ? k->k : k->m), k->lda) == CUBLAS_STATUS_SUCCESS &&
	    cublasLtMatrixLayoutCreate(&p->c, out, (uint64_t)k->n, (uint64_t)k->m, ldc) ==
	    CUBLAS_STATUS_SUCCESS &&
	    describe_float8(p, g) && describe_epilogue(p, g);
}

/* The plan is zeroed after, so that a second release does nothing. */
void
gemm_plan_release(struct gemm_plan *p)
{
	if (p->desc)
		(void)cublasLtMatmulDescDestroy(p->desc);
	if (p->a)
		(void)cublasLtMatrixLayoutDestroy(p->a);
	if (p->b)
		(void)cublasLtMatrixLayoutDestroy(p->b);
	if (p->c)
		(void)cublasLtMatrixLayoutDestroy(p->c);
	memset(p, 0, sizeof *p);
}

/* What the search for an algorithm must keep to. Reduction in the compute type keeps split sums
 * in F32. The alignments are promised for this GEMM alone, which is why they are in the key. */
static bool
set_preference(cublasLtMatmulPreference_t f, const struct gemm_key *k)
{
	uint64_t bytes = CU_WORKSPACE;
	uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	const struct {
		cublasLtMatmulPreferenceAttributes_t name;
		const void *value;
		size_t size;
	} to[] = {
		{ CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes },
		{ CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->align_b, sizeof k->align_b },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->align_a, sizeof k->align_a },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->align_c, sizeof k->align_c },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->align_c, sizeof k->align_c },
	};

	for (size_t i = 0; i < sizeof to / sizeof *to; i++)
		if (cublasLtMatmulPreferenceSetAttribute(f, to[i].name, to[i].value, to[i].size) !=
		    CUBLAS_STATUS_SUCCESS)
			return false;
	return true;
}

/* The library's answers for a plan that is described, best first; 0 when it has none. */
static int
ask(const struct gemm_cache *c, const struct gemm_plan *p,
    cublasLtMatmulHeuristicResult_t found[PER_SET], int most)
{
	cublasLtMatmulPreference_t f;
	int count = 0;

	if (cublasLtMatmulPreferenceCreate(&f) != CUBLAS_STATUS_SUCCESS)
		return 0;
	if (!set_preference(f, &p->key) ||
	    cublasLtMatmulAlgoGetHeuristic(c->handle, p->desc, p->a, p->b, p->c, p->c, f, most,
		found, &count) != CUBLAS_STATUS_SUCCESS)
		count = 0;
	(void)cublasLtMatmulPreferenceDestroy(f);
	return count;
}

/* Adds the candidates of one set of what is fused; returns how many there are then. Each has
 * descriptions of its own, since the addresses in them change. */
static int
collect(const struct gemm_cache *c, const struct gemm_plan *like, const struct gemm *g,
    struct candidate *to, int most)
{
	cublasLtMatmulHeuristicResult_t found[PER_SET];
	struct gemm_plan p = { .key = like->key, .fused = like->fused };
	int count = 0, asked = gemm_describe(&p, g) ? ask(c, &p, found, most) : 0;

	gemm_plan_release(&p);
	for (int i = 0; i < asked; i++) {
		struct gemm_plan *next = &to[count].plan;

		*next = (struct gemm_plan){ .key = like->key,
			.fused = like->fused,
			.algo = found[i].algo,
			.workspace = found[i].workspaceSize };
		to[count].ms = 0;
		if (found[i].state == CUBLAS_STATUS_SUCCESS && gemm_describe(next, g))
			count++;
		else
			gemm_plan_release(next);
	}
	return count;
}

/* All candidates: with everything fused that can be, with the bias alone, and, when neither has
 * any, with nothing. `most` of each. */
static int
collect_all(const struct gemm_cache *c, const struct gemm_key *key, const struct gemm *g,
    struct candidate *to, int most)
{
	uint32_t sets[SETS] = { key->fusable, key->fusable & EPILOGUE_BIAS, 0 };
	int count = 0;

	/* A bias gradient is fused alone or not at all. */
	if (sets[0] & EPILOGUE_DBIAS && sets[0] != EPILOGUE_DBIAS)
		sets[0] &= ~(uint32_t)EPILOGUE_DBIAS;
	for (int i = 0; i < SETS; i++) {
		struct gemm_plan p = { .key = *key, .fused = sets[i] };

		if (i > 0 && sets[i] == sets[i - 1])
			continue;
		/* One kernel of our own after the library's is measured; two are not, unless
		 * nothing else runs. */
		if (i == SETS - 1 && count > 0 && sets[1] != 0)
			break;
		count += collect(c, &p, g, to + count, most);
		if (most == 1 && count > 0)
			break;
	}
	return count;
}

/* Milliseconds of one of `runs` runs; below 0 when it does not run. */
static float
measure(struct stream *st, const struct gemm_plan *p, const struct gemm *g, int runs)
{
	struct gemm_cache *c = st->device->gemms;
	float ms = -1;

	if (cudaEventRecord(c->begin, cu_handle(st)) != cudaSuccess)
		return -1;
	for (int i = 0; i < runs; i++)
		if (gemm_run(st, p, g) != CUBLAS_STATUS_SUCCESS)
			return -1;
	if (cudaEventRecord(c->end, cu_handle(st)) != cudaSuccess ||
	    cudaEventSynchronize(c->end) != cudaSuccess ||
	    cudaEventElapsedTime(&ms, c->begin, c->end) != cudaSuccess)
		return -1;
	return ms / (float)runs;
}

/* How many runs of this many milliseconds fill the time given. */
static int
runs_for(float ms, float total)
{
	return ms * RUNS_MAX <= total ? RUNS_MAX : (int)int64_max(1, (int64_t)(total / ms));
}

/* The index of the fastest candidate of those that have run, with a preference for earlier ones;
 * -1: none has. `but` are left out. */
static int
fastest(const struct candidate *list, int count, const bool *but)
{
	int best = -1;

	for (int i = 0; i < count; i++)
		if (list[i].ms > 0 && !but[i] && (best < 0 || list[i].ms < margin * list[best].ms))
			best = i;
	return best;
}

/* How far the first looks at the candidates of a GEMM have come: the fastest single run, 0
 * before there is one, and what all have taken, in milliseconds. */
struct looks {
	float fastest, spent;
};

/* Milliseconds of a candidate on a first look; below 0 when it does not run, or when one run,
 * compared with single runs of others, tells that it is not among the best. */
static float
first_look(struct stream *st, const struct gemm_plan *p, const struct gemm *g, struct looks *l)
{
	float ms;
	int runs;

	/* The first run loads the kernel, which happens once for all GEMMs, so its time does not
	 * count. */
	if (l->spent > looks_ms || measure(st, p, g, 1) <= 0 || (ms = measure(st, p, g, 1)) <= 0)
		return -1;
	l->spent += 2 * ms;
	if (l->fastest > 0 && ms > hopeless * l->fastest + jitter_ms)
		return -1;
	if (l->fastest == 0 || ms < l->fastest)
		l->fastest = ms;
	runs = runs_for(ms, first_ms);
	if (runs == 1)
		return ms;
	l->spent += first_ms;
	return measure(st, p, g, runs);
}

/* Tries all, then measures the best few again in turn, which evens out changes of the GPU's clock.
 * Returns the index of the winner. */
static int
race(struct stream *st, struct candidate *list, int count, const struct gemm *g)
{
	bool out[CANDIDATES] = { false }, none[CANDIDATES] = { false };
	int finalist[FINALISTS];
	struct looks looks = { 0, 0 };

	for (int i = 0; i < count; i++)
		list[i].ms = first_look(st, &list[i].plan, g, &looks);
	for (int k = 0; k < FINALISTS; k++) {
		finalist[k] = fastest(list, count, out);
		if (finalist[k] >= 0)
			out[finalist[k]] = true;
	}
	for (int i = 0; i < count; i++)
		list[i].ms = out[i] ? list[i].ms : -1;
	for (int k = 0; k < FINALISTS * ROUNDS; k++) {
		int i = finalist[k % FINALISTS];
		float ms =
		    i < 0 ? -1 : measure(st, &list[i].plan, g, runs_for(list[i].ms, final_ms));

		/* The first round replaces the times of the first looks, measured under other
		 * conditions. */
		if (ms > 0)
			list[i].ms = k < FINALISTS || ms < list[i].ms ? ms : list[i].ms;
	}
	return fastest(list, count, none);
}

/* The room of a vector, which may be absent, in whole units that what follows can be aligned to. */
static size_t
vector_bytes(const struct tensor *v)
{
	return v->data ? (tensor_bytes(v) + 255) / 256 * 256 : 0;
}

/* The GEMM to measure: the caller's if it overwrites its output, otherwise one that adds its
 * numbers times 2^-149, which rounding takes away. Bias and sums of columns are not scaled: the
 * bias is zeros, the sums have a place of their own. false: it cannot be measured. */
static bool
trial_make(struct stream *st, const struct gemm *g, struct trial *t)
{
	size_t sums = vector_bytes(&g->dbias), bytes = sums + vector_bytes(&g->bias);
	enum cudaStreamCaptureStatus capture;

	*t = (struct trial){ .g = *g };
	if (cudaStreamIsCapturing(cu_handle(st), &capture) != cudaSuccess ||
	    capture != cudaStreamCaptureStatusNone || g->c.data == g->aux.data)
		return false;
	if (g->beta == 0)
		return true;
	t->g.alpha = FLT_TRUE_MIN;
	t->g.beta = 1;
	if (!bytes)
		return true;
	if (cudaMalloc(&t->vectors, bytes) != cudaSuccess) {
		(void)cudaGetLastError();
		return false;
	}
	if (g->dbias.data)
		t->g.dbias.data = t->vectors;
	if (g->bias.data)
		t->g.bias.data = (char *)t->vectors + sums;
	return cu_ok(st->device, cudaMemsetAsync(t->vectors, 0, bytes, cu_handle(st)), "gemm");
}

/* The plan that an earlier run chose, if the library still accepts it. */
static bool
recall(const struct gemm_cache *c, struct gemm_plan *p, const struct gemm *g)
{
	const struct gemm_choice *choice = gemm_choices_find(&c->choices, &p->key);
	cublasLtMatmulHeuristicResult_t r = { .state = CUBLAS_STATUS_NOT_SUPPORTED };
	struct gemm_key key = p->key;

	if (!choice || choice->fused & ~key.fusable)
		return false;
	p->fused = choice->fused;
	p->algo = choice->algo;
	if (gemm_describe(p, g) &&
	    cublasLtMatmulAlgoCheck(c->handle, p->desc, p->a, p->b, p->c, p->c, &p->algo, &r) ==
		CUBLAS_STATUS_SUCCESS &&
	    r.state == CUBLAS_STATUS_SUCCESS && r.workspaceSize <= CU_WORKSPACE) {
		p->workspace = r.workspaceSize;
		return true;
	}
	gemm_plan_release(p);
	p->key = key;
	return false;
}

/* Keeps the fastest plan for later runs. */
static void
remember(struct gemm_cache *c, const struct gemm_plan *p)
{
	struct gemm_choice choice;

	memset(&choice, 0, sizeof choice);
	choice.key = p->key;
	choice.fused = p->fused;
	choice.algo = p->algo;
	gemm_choices_add(&c->choices, &choice);
}

/* The failure that no algorithm serves; false. */
static bool
none_found(struct device *d, const struct gemm_key *k)
{
	char why[160];

	snprintf(why, sizeof why,
	    "cuBLASLt has no algorithm for %s times %s %s %s, %lld x %lld x %lld",
	    dtype_name((enum dtype)k->in_a), dtype_name((enum dtype)k->in_b),
	    k->accumulate ? "added to" : "into", dtype_name((enum dtype)k->out), (long long)k->m,
	    (long long)k->n, (long long)k->k);
	cu_fail(d, "gemm", why);
	return false;
}

/* The file, else a race, else the library's first answer. */
bool
gemm_choose(struct stream *st, struct gemm_plan *p, const struct gemm *g)
{
	struct device *d = st->device;
	struct candidate list[CANDIDATES];
	struct trial t = { .vectors = NULL };
	bool timed = false;
	int count, best = 0;

	if (!d->deterministic && recall(d->gemms, p, g))
		return true;
	timed = !d->deterministic && trial_make(st, g, &t);
	count = collect_all(d->gemms, &p->key, g, list, timed ? PER_SET : 1);
	if (timed && count > 1)
		best = race(st, list, count, &t.g);
	if (t.vectors)
		cu_ok(d, cudaFree(t.vectors), "cudaFree");
	for (int i = 0; i < count; i++)
		if (i != best)
			gemm_plan_release(&list[i].plan);
	if (count == 0 || best < 0)
		return none_found(d, &p->key);
	*p = list[best].plan;
	if (timed)
		remember(d->gemms, p);
	return true;
}
