/*
 * grouped.c [ROWS...] - GEMMs of experts on a GPU beside one dense GEMM by cuBLASLt of as many
 * operations
 *
 * The linear layers of two models on one of the ranks that share their experts; rows an expert,
 * equal or falling with its number. The dense GEMM has all rows and one expert's matrix; that of a
 * gradient of weights one expert's rows and all matrices, so that it reads and writes as many
 * gradients. Model, linear layer, kind, rows an expert, split, ms, TFLOP/s, the dense GEMM's, the
 * share of it. Without a GPU it prints a note and succeeds.
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
} kinds[] = {
	{ "forward", GROUPED_FORWARD, 0 },
	{ "input", GROUPED_INPUT, 0 },
	{ "weight", GROUPED_WEIGHT, 0 },
	{ "weight added", GROUPED_WEIGHT, 1 },
};

static void
run_grouped(struct stream *st, const void *args)
{
	st->ops->grouped(st, args);
}

static void
run_gemm(struct stream *st, const void *args)
{
	st->ops->gemm(st, args);
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

/* One line. */
static void
measure(struct rig *r, size_t linear, size_t kind, int64_t rows, bool even)
{
	int experts = linears[linear].experts;
	int64_t m = linears[linear].m, n = linears[linear].n, total = rows * experts;
	bool weight = kinds[kind].kind == GROUPED_WEIGHT,
	     forward = kinds[kind].kind == GROUPED_FORWARD;
	int64_t width = forward ? m : n;
	struct grouped g = { .kind = kinds[kind].kind, .beta = kinds[kind].beta };
	struct gemm d = { .trans_a = weight, .trans_b = forward, .alpha = 1, .beta = g.beta };
	double flops = 2.0 * (double)total * (double)m * (double)n, took, dense;

	r->used = 0;
	g.counts = counts_of(r, experts, total, even);
	g.a = rig_matrix(r, DTYPE_BF16, total, forward ? n : m);
	g.b = rig_matrix(r, DTYPE_BF16, weight ? total : experts * m, n);
	g.c = weight ? rig_matrix(r, DTYPE_F32, experts * m, n)
		     : rig_matrix(r, DTYPE_BF16, total, width);
	d.c = g.c;
	d.a = weight ? tensor_2d(g.a.data, DTYPE_BF16, rows, experts * m) : g.a;
	d.b = tensor_rows(&g.b, 0, weight ? rows : m);
	took = rig_seconds(r, run_grouped, &g);
	dense = rig_seconds(r, run_gemm, &d);
	printf("%s\t%s\t%lld\t%s\t%.3f\t%.0f\t%.0f\t%.2f\n", linears[linear].name, kinds[kind].name,
	    (long long)rows, even ? "even" : "uneven", took * 1e3, flops / took / 1e12,
	    flops / dense / 1e12, dense / took);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static const int64_t rows[] = { 64, 128, 256, 512, 1024 };
	const struct backend *b = gpu_backend();
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct rig r;

	if (!b)
		return 0;
	r = rig_open(b, &config, (size_t)POOL_GIB << 30);
	printf("linear\tkind\trows_an_expert\tsplit\tms\ttflops\tdense_tflops\tshare\n");
	for (size_t linear = 0; linear < sizeof linears / sizeof *linears; linear++)
		for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
			for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
				bool asked = argc == 1;

				for (int k = 1; k < argc; k++)
					asked |= atoll(argv[k]) == rows[i];
				if (!asked)
					continue;
				measure(&r, linear, kind, rows[i], true);
				if (rows[i] == 1024)
					measure(&r, linear, kind, rows[i], false);
			}
	rig_close(&r);
	return 0;
}
