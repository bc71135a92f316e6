/* gemm.c - products of matrices */
#include "tests/gpu/rig.h"
#include "tests/op/sides.h"
#include "tests/op/op.h"

#include <dirent.h>

/* --- gemm: 0 a, 1 b, 2 c before, 3 c, 4 bias or aux read, 5 aux kept, 6 gradient through the
 * activation --- */
enum { TRANS_A = 1, TRANS_B = 2, REAL_C = 4, BETA = 8, BIAS = 16, GELU = 32, DBIAS = 64 };

/* The bias gradient accumulates, unless it comes with a GEMM that does not. */
static bool
gemm_dbias_added(const struct op_case *c)
{
	return !(c->flags & DBIAS) || c->flags & BETA;
}

static void
gemm_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	unsigned real = c->flags & REAL_C ? SLOT_REAL : 0;

	slot_add(p, 0, SLOT_INPUT, 0,
	    c->flags & TRANS_A ? SHAPE(c->inner, c->rows) : SHAPE(c->rows, c->inner));
	slot_add(p, 1, SLOT_INPUT, 0,
	    c->flags & TRANS_B ? SHAPE(c->columns, c->inner) : SHAPE(c->inner, c->columns));
	slot_add(p, 2, SLOT_INPUT, real, SHAPE(c->rows, c->columns));
	slot_add(p, 3, SLOT_OUTPUT, real, SHAPE(c->rows, c->columns));
	if (c->flags & BIAS)
		slot_add(p, 4, SLOT_INPUT, gemm_dbias_added(c) ? VECTOR_PARAM : VECTOR_WRITTEN,
		    SHAPE(c->columns, 1));
	if (c->flags & GELU) {
		slot_add(p, 5, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, c->columns));
		slot_add(p, 6, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, c->columns));
	}
}

static void
gemm_forward(struct problem *p)
{
	struct gemm g = { .c = *T(3),
		.a = *T(0),
		.b = *T(1),
		.trans_a = p->c->flags & TRANS_A,
		.trans_b = p->c->flags & TRANS_B,
		.alpha = 0.5,
		.beta = p->c->flags & BETA ? 0.75 : 0,
		.bias = *T(4),
		.aux = *T(5),
		.act = p->c->flags & GELU ? GEMM_GELU : GEMM_LINEAR };

	p->ops->cast(p->st, &(struct pair){ *T(3), *T(2) });
	p->ops->gemm(p->st, &g);
}

/* The gradient of the GEMM's output through the activation after it, by a GEMM with a unit matrix,
 * which leaves only the epilogue to differentiate. */
static const struct tensor *
gemm_outer(struct problem *p)
{
	const struct op_case *c = p->c;
	struct tensor unit;
	struct gemm g;

	if (!(c->flags & GELU))
		return G(3);
	unit = unit_matrix(p, c->columns);
	g = (struct gemm){
		.c = *T(6), .a = *G(3), .b = unit, .alpha = 1, .aux = *T(5), .act = GEMM_GELU_GRAD
	};
	p->ops->gemm(p->st, &g);
	p->backend->release(p->device, unit.data);
	return T(6);
}

/* The gradients of a GEMM are GEMMs; the gradient of c is act, as in the engine. The bias gradient
 * is an epilogue of the one that reads the operand to be summed over rows. */
static void
gemm_backward(struct problem *p)
{
	bool ta = p->c->flags & TRANS_A, tb = p->c->flags & TRANS_B;
	struct tensor dc = *gemm_outer(p);
	struct gemm da = { .c = *G(0),
		.a = ta ? *T(1) : dc,
		.b = ta ? dc : *T(1),
		.trans_a = ta && tb,
		.trans_b = ta || !tb,
		.alpha = 0.5 };
	struct gemm db = { .c = *G(1),
		.a = tb ? dc : *T(0),
		.b = tb ? *T(0) : dc,
		.trans_a = tb || !ta,
		.trans_b = tb && ta,
		.alpha = 0.5 };

	if (p->c->flags & DBIAS) {
		db.dbias = *G(4);
		db.beta = gemm_dbias_added(p->c) ? 1 : 0;
		p->ops->fill(p->st, &(struct fill){ *G(1), 0 });
	} else if (p->c->flags & BIAS)
		add_column_sums(p, G(4), &dc);
	p->ops->gemm(p->st, &da);
	p->ops->gemm(p->st, &db);
	for (int64_t k = 0; k < slot_count(&p->slot[2]); k++)
		p->slot[2].grad[k] = p->c->flags & BETA ? 0.75 * p->slot[3].grad[k] : 0;
	upload(p, G(2), p->slot[2].grad);
}

static double
expect_gemm(const struct problem *p, int64_t row, int64_t column)
{
	bool ta = p->c->flags & TRANS_A, tb = p->c->flags & TRANS_B;
	double sum = 0;

	for (int64_t k = 0; k < p->c->inner; k++)
		sum += (ta ? value_at(p, 0, k, row) : value_at(p, 0, row, k)) *
		    (tb ? value_at(p, 1, column, k) : value_at(p, 1, k, column));
	sum = 0.5 * sum + (p->c->flags & BETA ? 0.75 * value_at(p, 2, row, column) : 0);
	if (p->c->flags & BIAS)
		sum += p->slot[4].value[column];
	return p->c->flags & GELU ? gelu(sum) : sum;
}

static const struct op_test gemm_test = { "gemm", gemm_declare, gemm_forward, gemm_backward,
	expect_gemm, .slack = 2, .large_slack = 2, .measured = true };

/* A GEMM with the library's first choice of algorithm, twice: the same bits, whatever was measured
 * meanwhile. A measured GEMM adds to c once, however often it was run to be timed. */
static void
test_gemms(const struct backend *b)
{
	enum { M = 256, N = 320, K = 512 };
	static uint32_t out[3][M * N];
	static float sums[3][M];

	for (int mode = 0; mode < 3; mode++) {
		struct device_config config = {
			.num_threads = 1, .dtype = DTYPE_BF16, .deterministic = mode < 2
		};
		struct err e;
		struct rig r = { .b = b, .d = b->open(&config, &e) };
		struct tensor a, w, c, s;

		r.st = b->stream(r.d, STREAM_COMPUTE);
		a = rig_vector(&r, DTYPE_BF16, M * K, NULL);
		w = rig_vector(&r, DTYPE_BF16, K * N, NULL);
		c = rig_vector(&r, DTYPE_F32, M * N, NULL);
		s = rig_vector(&r, DTYPE_F32, M, NULL);
		r.st->ops->normal(r.st, &(struct normal){ .x = a, .key = 1, .std = 1 });
		r.st->ops->normal(r.st, &(struct normal){ .x = w, .key = 2, .std = 1 });
		r.st->ops->fill(r.st, &(struct fill){ c, 1 });
		r.st->ops->fill(r.st, &(struct fill){ s, 1 });
		for (int i = 0; i < 2; i++)
			r.st->ops->gemm(r.st,
			    &(struct gemm){ .c = tensor_2d(c.data, DTYPE_F32, M, N),
				.a = tensor_2d(a.data, DTYPE_BF16, K, M),
				.b = tensor_2d(w.data, DTYPE_BF16, K, N),
				.trans_a = true,
				.alpha = 1,
				.beta = 1,
				.dbias = s });
		rig_read(&r, &c, out[mode]);
		if (mode == 2) {
			double *first = mem_alloc(M * N, sizeof *first),
			       *second = mem_alloc(M * N, sizeof *second);

			dtype_convert(first, DTYPE_F64, out[0], DTYPE_F32, M * N);
			dtype_convert(second, DTYPE_F64, out[2], DTYPE_F32, M * N);
			CHECK(nmse(first, second, M * N) < 1e-9);
			free(first);
			free(second);
		}
		rig_read(&r, &s, sums[mode]);
		for (int i = 0; i < M; i++)
			CHECK(fabsf(sums[mode][i] - sums[0][i]) < 1e-2f && sums[mode][i] != 1);
		b->release(r.d, a.data);
		b->release(r.d, w.data);
		b->release(r.d, c.data);
		b->release(r.d, s.data);
		b->close(r.d);
	}
	CHECK(!memcmp(out[0], out[1], sizeof out[0]));
}

/* The logits of a router: real sums with a bias of 16 bits, and the gradient of that bias, in
 * numbers that are exact. */
static void
test_router(const struct backend *b)
{
	enum { ROWS = 37, EXPERTS = 5, K = 64 };
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct err e;
	struct rig r = { .b = b, .d = b->open(&config, &e) };
	uint16_t bits[EXPERTS];
	float bias[EXPERTS] = { -1.5F, 0, 0.25F, 3, 8 }, out[ROWS * EXPERTS], sums[EXPERTS];
	struct tensor x, w, c, s, t;

	r.st = b->stream(r.d, STREAM_COMPUTE);
	dtype_convert(bits, DTYPE_BF16, bias, DTYPE_F32, EXPERTS);
	x = rig_vector(&r, DTYPE_BF16, ROWS * K, NULL);
	w = rig_vector(&r, DTYPE_BF16, EXPERTS * K, NULL);
	c = rig_vector(&r, DTYPE_F32, ROWS * EXPERTS, NULL);
	s = rig_vector(&r, DTYPE_F32, EXPERTS, NULL);
	t = rig_vector(&r, DTYPE_BF16, EXPERTS, bits);
	r.st->ops->fill(r.st, &(struct fill){ x, 0.5 });
	r.st->ops->fill(r.st, &(struct fill){ w, 0.25 });
	r.st->ops->fill(r.st, &(struct fill){ s, 1 });
	r.st->ops->gemm(r.st,
	    &(struct gemm){ .c = tensor_2d(c.data, DTYPE_F32, ROWS, EXPERTS),
		.a = tensor_2d(x.data, DTYPE_BF16, ROWS, K),
		.b = tensor_2d(w.data, DTYPE_BF16, EXPERTS, K),
		.trans_b = true,
		.alpha = 1,
		.bias = t });
	rig_read(&r, &c, out);
	for (int i = 0; i < ROWS * EXPERTS; i++)
		CHECK(out[i] == 8 + bias[i % EXPERTS]);
	r.st->ops->fill(r.st, &(struct fill){ c, 0.5 });
	r.st->ops->gemm(r.st,
	    &(struct gemm){ .c = tensor_2d(w.data, DTYPE_BF16, EXPERTS, K),
		.a = tensor_2d(c.data, DTYPE_F32, ROWS, EXPERTS),
		.b = tensor_2d(x.data, DTYPE_BF16, ROWS, K),
		.trans_a = true,
		.alpha = 1,
		.dbias = s });
	rig_read(&r, &s, sums);
	for (int i = 0; i < EXPERTS; i++)
		CHECK(sums[i] == 0.5F * ROWS);
	for (size_t i = 0; i < 5; i++)
		b->release(r.d, (struct tensor[]){ x, w, c, s, t }[i].data);
	b->close(r.d);
}

/* The file of choices under dir; if bytes are given, they replace its first ones. Returns its
 * length; -1: there is none. */
static long
choices_file(const char *dir, const char *bytes)
{
	char path[600];
	struct dirent *entry;
	long length = -1;
	DIR *d;

	snprintf(path, sizeof path, "%s/mikoshi", dir);
	d = opendir(path);
	while (d && (entry = readdir(d))) {
		char file[1200];
		FILE *f;

		snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
		f = strncmp(entry->d_name, "gemm-", 5) ? NULL : fopen(file, bytes ? "wb" : "rb");
		if (!f)
			continue;
		if (bytes)
			fputs(bytes, f);
		fseek(f, 0, SEEK_END);
		length = ftell(f);
		fclose(f);
	}
	if (d)
		closedir(d);
	return length;
}

/* Choices are written to a file and read back; a damaged file is ignored. */
static void
test_choices(const struct backend *b)
{
	const char *dir = getenv("XDG_CACHE_HOME");
	long before = choices_file(dir, NULL);

	CHECK(before > 64);
	test_gemms(b);
	CHECK(choices_file(dir, NULL) == before);
	CHECK(choices_file(dir, "mikoshi gemm 1") == 14);
	test_gemms(b);
	CHECK(choices_file(dir, NULL) > 64);
}

/* --- GEMMs of the gradient of logits ---------------------------------------------------------- */

/* c [m,n] (+)= a [m,k] b [k,n], of a real a; transposed, as the gradient of the router's weight. */
struct split_case {
	int64_t m, n, k;
	bool trans, real, add;
};

static const struct split_case gemms[] = {
	{ 300, 64, 8, false, false, true },
	{ 8, 64, 300, true, true, false },
	{ 9000, 96, 130, false, false, true },
	{ 130, 96, 9000, true, true, true },
	{ 33, 7, 5, true, true, true },
};

static double *
gemm_by(const struct backend *b, enum dtype act, const struct split_case *c)
{
	struct side s = side_open(b, act);
	double *x = numbers(1, c->m * c->k), *y = numbers(2, c->k * c->n),
	       *z = numbers(3, c->m * c->n), *out;

	for (int64_t i = 0; i < c->m * c->k; i++)
		x[i] /= 3;
	struct gemm g = { .a = put(&s,
			      c->trans ? tensor_2d(NULL, s.real, c->k, c->m)
				       : tensor_2d(NULL, s.real, c->m, c->k),
			      x),
		.b = put(&s, tensor_2d(NULL, act, c->k, c->n), y),
		.c = put(&s, tensor_2d(NULL, c->real ? s.real : act, c->m, c->n), z),
		.trans_a = c->trans,
		.alpha = 1,
		.beta = c->add };

	s.r.st->ops->gemm(s.r.st, &g);
	out = take(&s, g.c);
	rig_take(&s.r, g.a, NULL);
	rig_take(&s.r, g.b, NULL);
	b->close(s.r.d);
	free(x);
	free(y);
	free(z);
	return out;
}

/* What a real a has beyond 16 bits counts: where c is real, nothing else is rounded. */
static void
test_split(const struct backend *b)
{
	static const enum dtype type[] = { DTYPE_BF16, DTYPE_F16 };

	for (int i = 0; i < 2 * (int)(sizeof gemms / sizeof *gemms); i++) {
		const struct split_case *c = &gemms[i / 2];
		double *have = gemm_by(b, type[i % 2], c),
		       *want = gemm_by(&backend_cpu, DTYPE_F64, c);

		side_compare("gemm", i / 2, (const double *[]){ have, want }, c->m * c->n,
		    c->real                         ? 2e-5
			: type[i % 2] == DTYPE_BF16 ? 4e-2
						    : 5e-3);
		free(have);
		free(want);
	}
}

const struct op_case cases[] = {
	{ &gemm_test, CASE_BOTH, .rows = 1, .columns = 1, .inner = 1 },
	{ &gemm_test, CASE_BOTH, .rows = 1, .columns = 5, .inner = 7, .flags = BETA },
	{ &gemm_test, CASE_BOTH, .rows = 13, .columns = 9, .inner = 11, .flags = TRANS_A },
	{ &gemm_test, CASE_BOTH, .rows = 13, .columns = 1, .inner = 11, .flags = TRANS_B | BETA },
	{ &gemm_test, CASE_BOTH, .rows = 8, .columns = 9, .inner = 3, .flags = TRANS_A | TRANS_B },
	{ &gemm_test, CASE_BOTH, .rows = 150, .columns = 131, .inner = 300, .flags = TRANS_B },
	{ &gemm_test, CASE_BOTH, .rows = 131, .columns = 310, .inner = 150,
	    .flags = TRANS_A | REAL_C | BETA },
	{ &gemm_test, CASE_BOTH, .rows = 70, .columns = 600, .inner = 65 },
	{ &gemm_test, CASE_BOTH, .rows = 7, .columns = 13, .inner = 5, .flags = TRANS_B | BIAS },
	{ &gemm_test, CASE_BOTH, .rows = 6, .columns = 37, .inner = 83, .flags = TRANS_B },
	{ &gemm_test, CASE_BOTH, .rows = 7, .columns = 13, .inner = 5,
	    .flags = TRANS_B | BIAS | GELU | DBIAS },
	/* few rows by a matrix that is stored along the sum */
	{ &gemm_test, CASE_BOTH, .rows = 1, .columns = 37, .inner = 40, .flags = TRANS_B },
	{ &gemm_test, CASE_BOTH, .rows = 2, .columns = 16, .inner = 264, .flags = TRANS_B | BIAS },
	{ &gemm_test, CASE_BOTH, .rows = 3, .columns = 19, .inner = 8, .flags = TRANS_B | BIAS },
	{ &gemm_test, CASE_BOTH, .rows = 4, .columns = 33, .inner = 136, .flags = TRANS_B },
	{ &gemm_test, CASE_BOTH, .rows = 1, .columns = 16, .inner = 64, .flags = TRANS_B | BETA },
	{ &gemm_test, CASE_BOTH, .rows = 64, .columns = 96, .inner = 40,
	    .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ &gemm_test, CASE_BOTH, .rows = 70, .columns = 600, .inner = 65, .flags = BIAS | GELU },
	{ &gemm_test, CASE_BOTH, .rows = 33, .columns = 16, .inner = 24,
	    .flags = TRANS_A | TRANS_B | BIAS | BETA | DBIAS },
	{ &gemm_test, CASE_LARGE, .rows = 512, .columns = 768, .inner = 1024, .flags = TRANS_B },
	{ &gemm_test, CASE_LARGE, .rows = 768, .columns = 256, .inner = 512 },
	{ &gemm_test, CASE_LARGE, .rows = 256, .columns = 384, .inner = 2048,
	    .flags = TRANS_A | REAL_C | BETA },
	{ &gemm_test, CASE_LARGE, .rows = 512, .columns = 1024, .inner = 256,
	    .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ &gemm_test, CASE_LARGE, .rows = 512, .columns = 1020, .inner = 264,
	    .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ &gemm_test, CASE_LARGE, .rows = 1024, .columns = 256, .inner = 512,
	    .flags = TRANS_B | BIAS | DBIAS | BETA },
	{ &gemm_test, CASE_LARGE, .rows = 333, .columns = 256, .inner = 512,
	    .flags = TRANS_B | GELU },
	{ &gemm_test, CASE_LARGE, .rows = 1, .columns = 1000, .inner = 8192, .flags = TRANS_B },
	{ &gemm_test, CASE_LARGE, .rows = 4, .columns = 600, .inner = 4104,
	    .flags = TRANS_B | BIAS },
	CHECKED(CASE_CUDA, test_gemms),
	CHECKED(CASE_BOTH, test_router),
	CHECKED(CASE_CUDA, test_choices),
	CHECKED(CASE_BOTH, test_split),
	{ &gemm_test, CASE_TIME, .rows = 8192, .columns = 6144, .inner = 4096, .flags = TRANS_B },
	{ &gemm_test, CASE_TIME, .rows = 8192, .columns = 4096, .inner = 14336, .flags = TRANS_B },
	{ &gemm_test, CASE_TIME, .rows = 1, .columns = 16384, .inner = 2048, .flags = TRANS_B },
	{ &gemm_test, CASE_TIME, .rows = 1, .columns = 2048, .inner = 8192, .flags = TRANS_B },
	{ &gemm_test, CASE_TIME, .rows = 8192, .columns = 3072, .inner = 768,
	    .flags = TRANS_B | BIAS | GELU | DBIAS },
	{ 0 },
};
