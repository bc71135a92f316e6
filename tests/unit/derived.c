/*
 * derived.c - tests of checkpoints that are made of others: what must come out bit for bit, and
 * what is refused before anything is written
 */
#include "ckpt/averaged.h"
#include "ckpt/derived.h"
#include "lib/base/io.h"
#include "tests/check.h"
#include "tests/made_checkpoint.h"
#include "tests/sized_model.h"

#include <unistd.h>

static const struct opt no_opts[] = { { .type = OPT_END_TYPE } };

/* A job of a verb without options that reads these sources, NULL after the last, and writes out. */
static struct derived_job
job_of(const struct derived_kind *kind, const void *rule, const char *const *path)
{
	static struct opt_parse p;
	static bool cfg;
	struct derived_job job = { .kind = kind,
		.rule = rule,
		.path = path,
		.save = "out",
		.verb = "test",
		.given = &p,
		.dtype = DTYPE_NONE };

	if (!p.table)
		opt_begin(&p, no_opts, &cfg);
	while (path[job.count])
		job.count++;
	return job;
}

/* Runs it; the reason of a failure in e. */
static int
run(const struct derived_kind *kind, const void *rule, const char *const *path, struct err *e)
{
	const struct derived_job job = job_of(kind, rule, path);

	*e = (struct err){ "" };
	io_remove_tree("out", NULL);
	return derived_run(&job, e);
}

/* Whether two tensors have one name, type and bytes. */
static bool
same_tensor(struct source *a, const struct source_tensor *x, struct source *b,
    const struct source_tensor *y)
{
	size_t bytes = (size_t)slice_elements(&y->part.slice) * dtype_size(y->stored.dtype);
	void *left = mem_alloc(bytes, 1), *right = mem_alloc(bytes, 1);
	struct err e;
	bool same = !strcmp(x->name, y->name) && x->stored.dtype == y->stored.dtype &&
	    source_read(a, &x->part, x->stored.dtype, left, &e) == 0 &&
	    source_read(b, &y->part, y->stored.dtype, right, &e) == 0 &&
	    !memcmp(left, right, bytes);

	free(left);
	free(right);
	return same;
}

/* True when what a job makes, which is not written, is a checkpoint: its weights, and its states
 * where the kind keeps any. */
static bool
makes(const struct derived_kind *kind, const void *rule, const char *const *path, const char *want)
{
	const struct derived_job job = job_of(kind, rule, path);
	struct err e = { "" };
	struct derived *d = derived_open(&job, &e);
	struct source *s = source_open(want, &e);
	struct source_tensor *a, *b;
	int n, m, k = 0;
	bool same = true;

	CHECK_STR(e.msg, "");
	n = source_tensors(&d->s, &a);
	m = source_tensors(s, &b);
	for (int i = 0; i < m && same; i++)
		if (!b[i].part.state || kind->keeps & KEEPS_OPTIM) {
			same = k < n && same_tensor(&d->s, &a[k], s, &b[i]);
			k++;
		}
	free(a);
	free(b);
	source_close(s);
	derived_close(d);
	return same && k == n;
}

static struct model_config
tiny(int64_t layers)
{
	return sized_llama((struct model_sizes){ layers, 16, 4, 2, 24, 32, 131 });
}

/* Makes a checkpoint with a master of each weight, or of weights in bf16 alone. */
static void
make(const char *save, const struct model_config *c, uint64_t seed, enum dtype t)
{
	struct err e = { "" };
	struct made_checkpoint m = { .save = save,
		.config = c,
		.iteration = 7,
		.dtype = t,
		.states = t == DTYPE_F32 ? optim_num_states(optim_rules) + 1 : 0,
		.seed = seed };

	CHECK(made_write(&m, &e) == 0);
	CHECK_STR(e.msg, "");
}

/* --- average ---------------------------------------------------------------------------------- */

/* The mean of equal checkpoints is their bytes, whatever the weights. */
static void
test_equal(const char *save)
{
	static const int counts[] = { 1, 3, 4, 7 };
	const char *path[8];
	double weight[7];
	struct average_rule rule = { weight, DTYPE_NONE, -1 };

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
		for (int style = 0; average_styles[style]; style++) {
			for (int i = 0; i <= counts[k]; i++)
				path[i] = i < counts[k] ? save : NULL;
			average_weights((enum average_style)style, 0.9, counts[k], weight);
			CHECK(makes(&derived_averaged, &rule, path, save));
		}
}

/* The weights sum to 1, and are those that Megatron-LM's tests and papers name. */
static void
test_weights(void)
{
	static const double four[] = { 0.5, 0.2071, 0.1589, 0.1340 },
			    five[] = { 0.4472, 0.1852, 0.1421, 0.1198, 0.1056 };
	double w[64], sum;

	average_weights(AVERAGE_MINUS_SQRT, 0, 4, w);
	for (int i = 0; i < 4; i++)
		CHECK_NEAR(w[i], four[i], 5e-5);
	average_weights(AVERAGE_MINUS_SQRT_REVERSE, 0, 5, w);
	for (int i = 0; i < 5; i++)
		CHECK_NEAR(w[4 - i], five[i], 5e-5);
	average_weights(AVERAGE_EMA, 0.5, 3, w);
	CHECK_NEAR(w[0] * 4, w[2], 1e-15);
	for (int n = 1; n <= 64; n++)
		for (int style = 0; average_styles[style]; style++) {
			average_weights((enum average_style)style, 0.9, n, w);
			sum = 0;
			for (int i = 0; i < n; i++)
				sum += w[i];
			CHECK_NEAR(sum, 1, 1e-12);
			CHECK(style != AVERAGE_LINEAR || fabs(w[n / 2] - 1.0 / n) < 1e-12);
		}
}

/* The numbers of a tensor, in fp64; the caller frees them. */
static double *
numbers(const char *dir, const char *name, int64_t *count)
{
	struct err e = { "" };
	struct source *s = source_open(dir, &e);
	struct source_tensor *t;
	int n = source_tensors(s, &t), i = 0;
	double *x;

	while (i < n && strcmp(t[i].name, name))
		i++;
	CHECK(i < n);
	*count = param_elements(t[i].part.param);
	x = mem_alloc((size_t)*count, sizeof *x);
	CHECK(source_read(s, &t[i].part, DTYPE_F64, x, &e) == 0);
	free(t);
	source_close(s);
	return x;
}

/* The sum of three is the one that is computed in fp64 and rounded once, to bf16 too. */
static void
test_sum(void)
{
	static const char *const path[] = { "a", "b", "a", NULL };
	static const char name[] = "decoder.layers.1.mlp.linear_up.weight";
	static const double weight[] = { 0.25, -0.5, 1.25 };
	struct average_rule rule = { weight, DTYPE_BF16, 12 };
	struct derived_job job = job_of(&derived_averaged, &rule, path);
	int64_t n;
	double *a = numbers("a", name, &n), *b = numbers("b", name, &n), *x;
	struct err e = { "" };

	job.dtype = DTYPE_BF16;
	io_remove_tree("out", NULL);
	CHECK(derived_run(&job, &e) == 0);
	CHECK_STR(e.msg, "");
	x = numbers("out/iter_0000012", name, &n);
	for (int64_t i = 0; i < n; i++) {
		double want = 0.25 * a[i] + -0.5 * b[i] + 1.25 * a[i];
		uint16_t rounded;

		dtype_convert(&rounded, DTYPE_BF16, &want, DTYPE_F64, 1);
		CHECK(x[i] == (double)dtype_f32_from_bf16(rounded));
	}
	free(a);
	free(b);
	free(x);
}

static void
test_refused(void)
{
	static const double weight[] = { 0.5, 0.5 };
	static const char *const other[] = { "a", "other", NULL },
				 *const same[] = { "a", "b", NULL };
	struct average_rule rule = { weight, DTYPE_NONE, 200 };
	struct derived_job job = job_of(&derived_averaged, &rule, same);
	struct err e;

	CHECK(run(&derived_averaged, &rule, other, &e) < 0);
	CHECK_STR(e.msg,
	    "'a/iter_0000007' and 'other/iter_0000007' are different models: 'num-layers 2' and "
	    "'num-layers 3', 'linear-biases none' and 'linear-biases proj'");
	CHECK(run(&derived_averaged, &rule, same, &e) < 0);
	CHECK_STR(e.msg,
	    "--output-iteration 200: b/iter_0000007: consumed_train_samples 112 cannot be those of "
	    "iteration 200");
	rule.output_iteration = -1;
	job.save = "a/iter_0000007/x/y";
	CHECK(derived_run(&job, &e) < 0);
	CHECK_STR(
	    e.msg, "'a/iter_0000007/x/y' is the source 'a', or inside it; give another directory");
	CHECK(!io_exists("out") && !io_exists("a/iter_0000007/x"));
}

/* --- all -------------------------------------------------------------------------------------- */

int
main(void)
{
	char dir[] = "/tmp/mikoshi-derived-XXXXXX";
	struct model_config two = tiny(2), three = tiny(3);
	struct err e;

	three.proj_bias = true;
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	make("a", &two, 1, DTYPE_F32);
	make("b", &two, 2, DTYPE_F32);
	make("half", &two, 1, DTYPE_BF16);
	make("other", &three, 1, DTYPE_F32);
	test_weights();
	test_equal("a");
	test_equal("half");
	test_sum();
	test_refused();
	CHECK(chdir("/") == 0);
	io_remove_tree(dir, &e);
	return check_done();
}
