/*
 * grouped.c [TEXT...] - GEMMs of experts on a GPU beside one dense GEMM by cuBLASLt of as many
 * operations
 *
 * The linear layers of two models on one of the ranks that share their experts; rows an expert,
 * equal or falling with its number. The dense GEMM has all rows and one expert's matrix; that of a
 * gradient of weights one expert's rows and all matrices, so that it reads and writes as many
 * gradients. Model, linear layer, kind, rows an expert, split, ms, TFLOP/s, the dense GEMM's, the
 * share of it: of lines whose first four fields, separated by blanks, contain every TEXT. 8-bit
 * operands are beside an FP8 GEMM; of blocks beside one of E4M3 too, which is what there is.
 * Without a GPU it prints a note and succeeds.
 */
#include "tests/bench/rig.h"

enum { POOL_GIB = 12, EXPERTS_MAX = 32 };

static const struct {
	const char *name;
	int experts;
	int64_t m, n;
} linears[] = {
	{ "qwen3-30b-a3b fc1", 32, 1536, 2048 },
	{ "qwen3-30b-a3b fc2", 32, 2048, 768 },
	{ "mixtral-8x7b fc1", 2, 28672, 4096 },
	{ "mixtral-8x7b fc2", 2, 4096, 14336 },
};

static const struct {
	const char *name;
	enum grouped_kind kind;
	double beta;
	enum dtype rows; /* the type of those of the operands */
	bool blocks;     /* 8-bit operands are scaled by blocks */
} kinds[] = {
	{ "forward", GROUPED_FORWARD, 0, DTYPE_BF16, false },
	{ "input", GROUPED_INPUT, 0, DTYPE_BF16, false },
	{ "weight", GROUPED_WEIGHT, 0, DTYPE_BF16, false },
	{ "weight added", GROUPED_WEIGHT, 1, DTYPE_BF16, false },
	{ "fp8 forward", GROUPED_FORWARD, 0, DTYPE_F8_E4M3, false },
	{ "fp8 input", GROUPED_INPUT, 0, DTYPE_F8_E5M2, false },
	{ "fp8 blocks forward", GROUPED_FORWARD, 0, DTYPE_F8_E4M3, true },
	{ "fp8 blocks input", GROUPED_INPUT, 0, DTYPE_F8_E4M3, true },
};

/* Runs one of the two a number of times; returns its seconds. */
struct both {
	struct grouped grouped;
	struct gemm dense;
};

static double
run(struct rig *r, const struct both *b, bool dense, int times)
{
	double start;

	rig_finish(r);
	start = clock_seconds();
	for (int i = 0; i < times; i++) {
		if (dense)
			r->st->ops->gemm(r->st, &b->dense);
		else
			r->st->ops->grouped(r->st, &b->grouped);
	}
	rig_finish(r);
	return clock_seconds() - start;
}

/* Seconds of one of each, alternating every 20 ms, so that the GPU is equally warm for both. The
 * first rounds are not counted: its clock follows the power of the last tenths of a second. */
static void
time_both(struct rig *r, const struct both *b, double seconds[2])
{
	enum { TURNS = 20, UNCOUNTED = 8 };
	int times[2];

	for (int which = 0; which < 2; which++) {
		(void)run(r, b, which, 2);
		times[which] = 1 + (int)(0.02 / run(r, b, which, 1));
		seconds[which] = 0;
	}
	for (int turn = 0; turn < TURNS; turn++)
		for (int which = 0; which < 2; which++) {
			double t = run(r, b, which, times[which]);

			if (turn >= UNCOUNTED)
				seconds[which] += t / times[which] / (TURNS - UNCOUNTED);
		}
}

/* Rows of each expert, of `total`: equal, or in proportion to 1 / (its number + 1). */
static struct tensor
counts_of(struct rig *r, int experts, int64_t total, bool even)
{
	int32_t host[EXPERTS_MAX];
	double sum = 0, before = 0;
	struct tensor t = rig_matrix(r, DTYPE_I32, 1, experts);

	for (int i = 0; i < experts; i++)
		sum += even ? 1 : 1.0 / (i + 1);
	for (int i = 0; i < experts; i++) {
		double after = before + (even ? 1 : 1.0 / (i + 1));

		host[i] = (int32_t)(after / sum * (double)total) -
		    (int32_t)(before / sum * (double)total);
		before = after;
	}
	r->b->copy_in(r->st, t.data, host, tensor_bytes(&t));
	rig_finish(r);
	return t;
}

/* What a line is about. */
struct line {
	size_t linear, kind;
	int64_t rows;
	bool even;
};

static bool
line_wanted(const struct line *l, int argc, char **argv)
{
	char text[128];

	snprintf(text, sizeof text, "%s %s %lld %s", linears[l->linear].name, kinds[l->kind].name,
	    (long long)l->rows, l->even ? "even" : "uneven");
	for (int i = 1; i < argc; i++)
		if (!strstr(text, argv[i]))
			return false;
	return true;
}

/* Normal numbers in 8 bits. */
static struct tensor
narrow_matrix(struct rig *r, enum dtype type, int64_t rows, int64_t columns)
{
	struct quantise q = { .q = rig_matrix(r, type, rows, columns),
		.scale = rig_vector(r, DTYPE_F32, SCALE_ROW),
		.kind = QUANTISE_CURRENT };
	size_t used = r->used;

	q.x = rig_matrix(r, DTYPE_BF16, rows, columns);
	r->st->ops->quantise(r->st, &q);
	rig_finish(r);
	r->used = used;
	return q.q;
}

/* Scales of a line's 8-bit operands, which are 1: of wholes, or lines of rows and squares of
 * matrices. */
static void
take_scales(struct rig *r, struct grouped *g, bool blocks)
{
	int64_t down = (g->b.shape[0] + SCALE_BLOCK - 1) / SCALE_BLOCK,
		across = (g->b.shape[1] + 4 * SCALE_BLOCK - 1) / (4 * SCALE_BLOCK) * 4,
		lines = (g->a.shape[1] + SCALE_BLOCK - 1) / SCALE_BLOCK;

	g->scale_a = rig_matrix(r, DTYPE_F32, blocks ? lines : 1, blocks ? g->a.shape[0] : 1);
	g->scale_b = rig_matrix(r, DTYPE_F32, blocks ? down : 1, blocks ? across : 1);
	r->st->ops->fill(r->st, &(struct fill){ g->scale_a, 1 });
	r->st->ops->fill(r->st, &(struct fill){ g->scale_b, 1 });
	if (!blocks) {
		g->scale_a = tensor_flat(&g->scale_a);
		g->scale_b = tensor_flat(&g->scale_b);
	}
}

/* 8-bit operands, both dense along the sum, and the dense GEMM's, of one scale each. */
static void
take_narrow(struct rig *r, const struct line *l, struct both *both)
{
	struct grouped *g = &both->grouped;
	struct gemm *d = &both->dense;
	bool forward = g->kind == GROUPED_FORWARD;
	int64_t stack = linears[l->linear].experts * linears[l->linear].m, m = linears[l->linear].m,
		n = linears[l->linear].n;

	g->a = narrow_matrix(r, kinds[l->kind].rows, g->a.shape[0], g->a.shape[1]);
	g->b = narrow_matrix(r, DTYPE_F8_E4M3, forward ? stack : n, forward ? n : stack);
	take_scales(r, g, kinds[l->kind].blocks);
	d->trans_b = true;
	d->a = g->a;
	d->b = forward ? tensor_rows(&g->b, 0, m) : tensor_columns(&g->b, 0, m);
	d->exact = !forward;
}

static void
measure(struct rig *r, const struct line *l)
{
	int experts = linears[l->linear].experts;
	int64_t m = linears[l->linear].m, n = linears[l->linear].n, total = l->rows * experts;
	bool weight = kinds[l->kind].kind == GROUPED_WEIGHT,
	     forward = kinds[l->kind].kind == GROUPED_FORWARD;
	int64_t width = forward ? m : n;
	struct both both;
	struct grouped g = { .kind = kinds[l->kind].kind, .beta = kinds[l->kind].beta };
	struct gemm d = { .trans_a = weight, .trans_b = forward, .alpha = 1, .beta = g.beta };
	double flops = 2.0 * (double)total * (double)m * (double)n, took[2];

	r->used = 0;
	g.counts = counts_of(r, experts, total, l->even);
	g.a = rig_matrix(r, DTYPE_BF16, total, forward ? n : m);
	g.b = rig_matrix(r, DTYPE_BF16, weight ? total : experts * m, n);
	g.c = weight ? rig_matrix(r, DTYPE_F32, experts * m, n)
		     : rig_matrix(r, DTYPE_BF16, total, width);
	d.c = g.c;
	d.a = weight ? tensor_2d(g.a.data, DTYPE_BF16, l->rows, experts * m) : g.a;
	d.b = tensor_rows(&g.b, 0, weight ? l->rows : m);
	both = (struct both){ g, d };
	if (kinds[l->kind].rows != DTYPE_BF16)
		take_narrow(r, l, &both);
	time_both(r, &both, took);
	printf("%s\t%s\t%lld\t%s\t%.3f\t%.0f\t%.0f\t%.2f\n", linears[l->linear].name,
	    kinds[l->kind].name, (long long)l->rows, l->even ? "even" : "uneven", took[0] * 1e3,
	    flops / took[0] / 1e12, flops / took[1] / 1e12, took[1] / took[0]);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static const int64_t rows[] = { 64, 128, 256, 512, 1024, 1024 };
	const size_t num_rows = sizeof rows / sizeof *rows,
		     num_kinds = sizeof kinds / sizeof *kinds;
	const struct backend *b = gpu_backend();
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct rig r;

	if (!b)
		return 0;
	r = rig_open(b, &config, (size_t)POOL_GIB << 30);
	printf("linear\tkind\trows_an_expert\tsplit\tms\ttflops\tdense_tflops\tshare\n");
	for (size_t i = 0; i < sizeof linears / sizeof *linears * num_kinds * num_rows; i++) {
		struct line l = { i / num_rows / num_kinds, i / num_rows % num_kinds,
			rows[i % num_rows], i % num_rows < num_rows - 1 };

		if (line_wanted(&l, argc, argv))
			measure(&r, &l);
	}
	rig_close(&r);
	return 0;
}
