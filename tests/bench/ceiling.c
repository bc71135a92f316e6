/*
 * ceiling.c MODEL... - an upper bound on a GPU's rate in a training step of a model, from the rates
 * it sustains
 *
 * Measures three parts of a step one after another: its GEMMs alone, as many of each as a step has,
 * on normally distributed numbers; its attention, by the fastest implementation; and the memory
 * traffic of everything else (docs/gpu.md 3: each tensor once, assuming that whatever can be
 * fused is fused) at the rate of a copy. Each part runs for SUSTAIN seconds, until the power limit
 * has settled the clock; its time is the median of the second half. The sum is a lower bound on the
 * step's time. One row per model: TFLOP/s and ms of the GEMMs, TFLOP/s and ms of attention, GB/s
 * and ms of memory traffic, tokens/s. Without a GPU it prints a note and succeeds.
 */
#include "tests/bench/rig.h"

enum { POOL_GIB = 40, SUSTAIN = 8, STEPS_MAX = 4096, GEMMS_MAX = 16, LOGITS = 1 << 29 };

/* A GEMM and how often a step runs it. */
struct gemms {
	struct gemm gemm;
	int64_t count;
};

struct step {
	struct rig *r;
	const struct bench_model *m;
	struct gemms gemms[GEMMS_MAX];
	int num_gemms;
	double flops; /* of all GEMMs of a step */
	struct attention_grad attention;
	struct tensor from, to; /* of the copy */
};

/* The three GEMMs of a linear layer with k inputs and n outputs on `rows` rows, each run `count`
 * times a step. */
static void
add_linear(struct step *s, const int64_t size[3], int64_t count)
{
	int64_t rows = size[0], n = size[1], k = size[2];
	struct tensor x = rig_matrix(s->r, DTYPE_BF16, rows, k),
		      y = rig_matrix(s->r, DTYPE_BF16, rows, n),
		      weight = rig_matrix(s->r, DTYPE_BF16, n, k),
		      dweight = rig_matrix(s->r, DTYPE_F32, n, k);
	const struct gemm of[] = {
		{ .c = rig_matrix(s->r, DTYPE_BF16, rows, n),
		    .a = x,
		    .b = weight,
		    .trans_b = true,
		    .alpha = 1 },
		{ .c = rig_matrix(s->r, DTYPE_BF16, rows, k), .a = y, .b = weight, .alpha = 1 },
		{ .c = dweight, .a = y, .b = x, .trans_a = true, .alpha = 1 },
	};

	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		s->gemms[s->num_gemms++] = (struct gemms){ of[i], count };
	s->flops += 6.0 * (double)rows * (double)n * (double)k * (double)count;
}

/* All GEMMs of the model; the head takes its rows in chunks, as the engine does. */
static void
add_gemms(struct step *s)
{
	const struct bench_model *m = s->m;
	int64_t T = m->b * m->s, q = (int64_t)m->n * m->d, rows = T;

	while (rows * m->v > LOGITS)
		rows /= 2;
	add_linear(s, (const int64_t[]){ T, q + 2 * (int64_t)m->g * m->d, m->h }, m->layers);
	add_linear(s, (const int64_t[]){ T, m->h, q }, m->layers);
	add_linear(s, (const int64_t[]){ T, m->gated ? 2 * m->f : m->f, m->h }, m->layers);
	add_linear(s, (const int64_t[]){ T, m->h, m->f }, m->layers);
	add_linear(s, (const int64_t[]){ rows, m->v, m->h }, T / rows);
}

static void
run_gemms(const struct step *s)
{
	for (int i = 0; i < s->num_gemms; i++)
		for (int64_t k = 0; k < s->gemms[i].count; k++)
			s->r->st->ops->gemm(s->r->st, &s->gemms[i].gemm);
}

/* Every second layer has the model's window, the first of them too. */
static int64_t
round_at(const struct bench_model *m, int layer)
{
	return layer % 2 == 0 ? m->window : 0;
}

/* Of all layers, in both passes. */
static double
causal_flops(const struct bench_model *m)
{
	double sum = 0;

	for (int i = 0; i < m->layers; i++)
		sum += 3.5 * rig_attention_flops(m, round_at(m, i));
	return sum;
}

static void
run_attention(const struct step *s)
{
	struct attention_grad a = s->attention;

	for (int i = 0; i < s->m->layers; i++) {
		a.fwd.window = round_at(s->m, i);
		s->r->st->ops->attention_fwd(s->r->st, &a.fwd);
	}
	for (int i = 0; i < s->m->layers; i++) {
		a.fwd.window = round_at(s->m, i);
		s->r->st->ops->attention_bwd(s->r->st, &a);
	}
}

static void
run_copy(const struct step *s)
{
	for (int i = 0; i < 20; i++)
		s->r->st->ops->cast(s->r->st, &(struct pair){ s->to, s->from });
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Seconds of one run under sustained load: the median of the second half. The first run builds
 * plans and is not counted. */
static double
sustained(const struct step *s, void (*run)(const struct step *))
{
	static double t[STEPS_MAX];
	double start;
	int n = 0;

	run(s);
	rig_finish(s->r);
	start = clock_seconds();
	do {
		double before = clock_seconds();

		run(s);
		rig_finish(s->r);
		t[n++] = clock_seconds() - before;
	} while (n < STEPS_MAX && clock_seconds() - start < SUSTAIN);
	qsort(t + n / 2, (size_t)(n - n / 2), sizeof *t, by_size);
	return t[n / 2 + (n - n / 2) / 2];
}

/* Parameters of the model: the linear layers, norms and biases, and the tables. */
static double
parameters(const struct bench_model *m)
{
	double h = (double)m->h, q = (double)m->n * m->d, kv = 2.0 * m->g * m->d, f = (double)m->f;
	double layer = h * (q + kv) + q * h + (m->gated ? 3 : 2) * h * f +
	    (m->layer_norm ? 4 * h + q + kv + h + f + h : 2 * h);

	return m->layers * layer + (m->tied ? 1 : 2) * (double)m->v * h +
	    (m->layer_norm ? (double)m->s * h + 2 * h : h);
}

/*
 * Memory traffic of a step without GEMMs and attention, in tensors [T, h] of 2 bytes. In a layer,
 * twice: residual sum and norm together read two and write two; the norm's backward pass reads
 * three and writes one. Rotary positions read and write q and k, both ways. A gated activation
 * reads 2f and writes f, and backward reads 3f and writes 2f; GELU is part of a GEMM's epilogue.
 * The norm of a branch is taken where the branch is read; backward it reads two and writes one. The
 * norms of heads are taken with their rotary positions.
 * The embedding reads and writes a row, its gradient reads one; logits are read and become
 * gradients; the optimizer moves 30 bytes a parameter, the norm of the gradients reads 4.
 */
static double
other_bytes(const struct bench_model *m)
{
	double T = (double)(m->b * m->s), h = (double)m->h, qk = (double)(m->n + m->g) * m->d,
	       f = (double)m->f;
	double layer = 2 * (4 * h + 4 * h + (m->post_norm ? 3 * h : 0)) +
	    (m->layer_norm ? 0 : 2 * 2 * qk) + (m->gated ? 8 * f : 0);
	double ends = 3 * h + 8 * h + 2 * (double)m->v;

	return 2 * T * (m->layers * layer + ends) + 34 * parameters(m);
}

/* One row. */
static void
measure(const struct backend *b, const struct bench_model *m)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct rig r = rig_open(b, &config, (size_t)POOL_GIB << 30);
	struct step s = { .r = &r, .m = m };
	double gemms, attention, bytes = other_bytes(m), copy, others;

	add_gemms(&s);
	gemms = sustained(&s, run_gemms);
	r.used = 0;
	s.attention = rig_attention(&r, m, false);
	attention = sustained(&s, run_attention);
	r.used = 0;
	s.from = rig_vector(&r, DTYPE_BF16, (int64_t)1 << 30);
	s.to = rig_vector(&r, DTYPE_BF16, (int64_t)1 << 30);
	copy = 20 * 2 * (double)tensor_bytes(&s.from) / sustained(&s, run_copy);
	others = bytes / copy;
	printf("%s\t%.1f\t%.2f\t%.1f\t%.2f\t%.0f\t%.2f\t%.0f\n", m->name, s.flops / gemms / 1e12,
	    gemms * 1e3, causal_flops(m) / attention / 1e12, attention * 1e3, copy / 1e9,
	    others * 1e3, (double)(m->b * m->s) / (gemms + attention + others));
	fflush(stdout);
	rig_close(&r);
}

int
main(int argc, char **argv)
{
	const struct backend *b = gpu_backend();

	if (!b)
		return 0;
	printf("model\tgemms_tflops\tgemms_ms\tattention_tflops\tattention_ms\tcopy_"
	       "gbytes\tothers_ms\t"
	       "tokens_per_second\n");
	for (size_t i = 0; i < BENCH_MODELS; i++) {
		bool asked = argc == 1;

		for (int k = 1; k < argc; k++)
			asked |= !strcmp(argv[k], bench_models[i].name);
		if (asked)
			measure(b, &bench_models[i]);
	}
	return 0;
}
