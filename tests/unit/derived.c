/*
 * derived.c - tests of checkpoints that are made of others: what must come out bit for bit, and
 * what is refused before anything is written
 */
#include "ckpt/averaged.h"
#include "ckpt/derived.h"
#include "ckpt/layered.h"
#include "ckpt/resized.h"
#include "ckpt/retold.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "tests/made_checkpoint.h"
#include "tests/memory_limit.h"
#include "tests/sized_model.h"
#include "tests/tiny_bpe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

	struct derived *d;

	*e = (struct err){ "" };
	io_remove_tree("out", NULL);
	d = derived_open(&job, e);
	return d ? derived_write(d, &job, e) : -1;
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
			for (int i = 0; i < n && style == AVERAGE_MINUS_SQRT; i++)
				CHECK_NEAR(w[i], sqrt((i + 1.0) / n) - sqrt((double)i / n), 1e-12);
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
	CHECK(derived_write(derived_open(&job, &e), &job, &e) == 0);
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

/* Memory does not grow with the number of sources, nor with the largest tensor: beside the maps of
 * the files there are the buffers of a copy and the stacks of its threads. A tensor in fp64 would
 * take more than the limit leaves. */
static void
test_memory(void)
{
	enum { SOURCES = 5 };
	static const char *const path[] = { "large", "large", "large", "large", "large", NULL };
	static const double weight[] = { 0.2, 0.2, 0.2, 0.2, 0.2 };
	struct model_config c = sized_llama((struct model_sizes){ 1, 256, 4, 2, 256, 32, 40000 });
	struct made_checkpoint m = {
		.save = "large", .config = &c, .iteration = 7, .dtype = DTYPE_F32, .seed = 1
	};
	struct average_rule rule = { weight, DTYPE_BF16, -1 };
	const size_t table = 40000u * 256 * sizeof(float);
	struct rlimit old;
	struct err e = { "" };

	CHECK(made_write(&m, &e) == 0);
	old = memory_limit((SOURCES + 1) * (table + (4 << 20)) + (150 << 20));
	CHECK(run(&derived_averaged, &rule, path, &e) == 0);
	memory_restore(old);
	CHECK_STR(e.msg, "");
	io_remove_tree("large", NULL);
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
	CHECK(derived_open(&job, &e) == NULL);
	CHECK_STR(
	    e.msg, "'a/iter_0000007/x/y' is the source 'a', or inside it; give another directory");
	CHECK(!io_exists("out") && !io_exists("a/iter_0000007/x"));
}

/* A file that is replaced or written to after some of it was read, under the same name and with the
 * same sums of the manifest; and a source that is another checkpoint now. */
static void
test_changed(void)
{
	static const char *const path[] = { "changing", NULL };
	static const char file[] = "changing/iter_0000007/pieces-00000.safetensors";
	static const struct layered_rule all = { .layers = ":" };
	const struct derived_job job = job_of(&derived_layered, &all, path);
	struct model_config c = tiny(2);
	static const char *const want[] = {
		"changing/iter_0000007/pieces-00000.safetensors: was written to while it was open",
		"changing/iter_0000007/pieces-00000.safetensors: was replaced while it was open: "
		"this run reads on in the old file, and another would read the new one",
		"changing/iter_0000007: has changed while it was read"
	};

	for (int how = 0; how < 3; how++) {
		struct source_tensor *t;
		struct derived *d;
		struct err e = { "" };
		char *text;
		size_t len;
		float *x = mem_alloc(131 * 16, sizeof *x);

		make("changing", &c, 1, DTYPE_F32);
		io_remove_tree("out", NULL);
		d = derived_open(&job, &e);
		CHECK(d && source_tensors(&d->s, &t) > 0);
		CHECK(source_read(&d->s, &t[0].part, DTYPE_F32, x, &e) == 0);
		CHECK(io_read_file(file, 0, &text, &len, &e) == 0);
		if (how == 0)
			CHECK(utimensat(AT_FDCWD, file, NULL, 0) == 0);
		else if (how == 1)
			CHECK(outfile_write(file, text, len, &e) == 0);
		else
			make("changing", &c, 2, DTYPE_F32);
		CHECK(derived_write(d, &job, &e) < 0);
		CHECK_STR(e.msg, want[how]);
		CHECK(!io_exists("out/iter_0000007"));
		free(text);
		free(t);
		free(x);
	}
}

/* The weights of a source, whatever comes of them. */
static void
read_all(struct source *s)
{
	struct source_tensor *t;
	int n = source_tensors(s, &t);
	double *x = mem_alloc(131 * 16, sizeof *x);
	struct err e;

	for (int i = 0; i < n; i++)
		(void)source_read(s, &t[i].part, DTYPE_F64, x, &e);
	free(x);
	free(t);
}

/* A file that is cut after all of its sums were compared, so that only adding its numbers touches a
 * page that is lost: one line, from whichever thread. */
static void
test_cut(void)
{
	static const char *const path[] = { "b", "shortened", NULL };
	static const double weight[] = { 0.5, 0.5 };
	const struct average_rule rule = { weight, DTYPE_NONE, -1 };
	const struct derived_job job = job_of(&derived_averaged, &rule, path);
	struct model_config c = tiny(2);
	struct err e = { "" };
	int status = 0;
	char *said = NULL;
	size_t len;
	pid_t pid;

	make("shortened", &c, 1, DTYPE_F32);
	pid = fork();
	if (pid == 0) {
		struct derived *d = derived_open(&job, &e);

		prog_begin("average");
		read_all(&d->s);
		if (!freopen("said", "w", stderr) ||
		    truncate("shortened/iter_0000007/pieces-00000.safetensors", 0) < 0)
			_exit(2);
		read_all(&d->s);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CHECK(io_read_file("said", 0, &said, &len, &e) == 0);
	CHECK_STR(said,
	    "average: shortened/iter_0000007/pieces-00000.safetensors: cannot be read any more: "
	    "the file "
	    "was cut short while it was in use, or its disk failed\n");
	free(said);
	io_remove_tree("shortened", NULL);
}

/* --- layers ----------------------------------------------------------------------------------- */

/* Writes what a job makes as a checkpoint of this name. */
static void
write_as(const char *save, const struct derived_kind *kind, const void *rule, const char *src)
{
	const char *const path[] = { src, NULL };
	struct derived_job job = job_of(kind, rule, path);
	struct err e = { "" };
	struct derived *d;

	job.save = save;
	d = derived_open(&job, &e);
	CHECK(d && derived_write(d, &job, &e) == 0);
	CHECK_STR(e.msg, "");
}

static bool
makes_of(const struct derived_kind *kind, const void *rule, const char *src, const char *want)
{
	const char *const path[] = { src, NULL };

	return makes(kind, rule, path, want);
}

/* Layers that are added and dropped again, with states and average, and in either order. */
static void
test_layers(void)
{
	const struct layered_rule add = { .layers = "0:2,1,0" },
				  drop = { .layers = "2:4", .drop = true },
				  turn = { .layers = "1,0" }, all = { .layers = ":" };

	write_as("deep", &derived_layered, &add, "a");
	CHECK(makes_of(&derived_layered, &drop, "deep", "a"));
	write_as("turned", &derived_layered, &turn, "a");
	CHECK(makes_of(&derived_layered, &turn, "turned", "a"));
	CHECK(!makes_of(&derived_layered, &all, "turned", "a"));
	CHECK(makes_of(&derived_layered, &all, "a", "a"));
	CHECK(makes_of(&derived_layered, &all, "half", "half"));
}

/* Every element of the tensor is x. */
static bool
is_all(const char *dir, const char *name, double x)
{
	int64_t n;
	double *have = numbers(dir, name, &n);
	bool same = true;

	for (int64_t i = 0; i < n; i++)
		same = same && have[i] == x;
	free(have);
	return same;
}

/* What ends the branches of a new layer is 0, with its states; of norms of branches the weight. */
static void
test_zero_new(void)
{
	const struct layered_rule rule = { .layers = "0,0:2", .zero_new = true };

	write_as("wide", &derived_layered, &rule, "a");
	CHECK(is_all("wide", "decoder.layers.1.mlp.linear_down.weight", 0));
	CHECK(is_all("wide", "decoder.layers.1.mlp.linear_down.weight.exp_avg", 0));
	CHECK(is_all("wide", "decoder.layers.1.mlp.linear_down.weight.ema", 0));
	CHECK(is_all("wide", "decoder.layers.1.self_attention.linear_proj.weight", 0));
	CHECK(!is_all("wide", "decoder.layers.1.mlp.linear_up.weight", 0));
	CHECK(!is_all("wide", "decoder.layers.0.mlp.linear_down.weight", 0));
	CHECK(!is_all("wide", "decoder.layers.2.mlp.linear_down.weight", 0));
	write_as("wide2", &derived_layered, &rule, "post");
	CHECK(is_all("wide2", "decoder.layers.1.post_mlp_layernorm.weight", -1));
	CHECK(is_all("wide2", "decoder.layers.1.post_self_attn_layernorm.weight", -1));
	CHECK(is_all("wide2", "decoder.layers.1.post_mlp_layernorm.weight.exp_avg", 0));
	CHECK(!is_all("wide2", "decoder.layers.1.mlp.linear_down.weight", 0));
}

/* What says which layers differ follows the layers. */
static void
test_patterns(void)
{
	const struct layered_rule rule = { .layers = "2,1:4" };
	const char *const path[] = { "window", NULL };
	const struct derived_job job = job_of(&derived_layered, &rule, path);
	struct err e = { "" };
	struct derived *d = derived_open(&job, &e);

	CHECK_STR(e.msg, "");
	for (int i = 0; i < 4; i++)
		CHECK(layer_window(&d->s.config, i) == (i == 1 ? 0 : 8));
	CHECK(strstr(d->s.options.buf, "window-attn-skip-freq [1,0,1,1]\n") != NULL);
	for (int i = 0; i < 4; i++)
		CHECK(pattern_skips(&d->s.config.no_rope_freq, i) == (i != 1));
	derived_close(d);
}

static void
test_layers_refused(void)
{
	static const char *const wrong[] = { "", "2", "0:3", "1:1", "1:0", "0,", ",0", "0-1", "-1",
		"0:1x", "99999999999999999999", NULL };
	const char *const path[] = { "a", NULL };
	struct err e;
	char want[200];

	for (int i = 0; wrong[i]; i++) {
		struct layered_rule rule = { .layers = wrong[i] };

		snprintf(want, sizeof want,
		    "--layers %s: must be ranges A:B of layers from 0 to 1, such as 0:2; B itself "
		    "is not of the range",
		    wrong[i]);
		CHECK(run(&derived_layered, &rule, path, &e) < 0);
		CHECK_STR(e.msg, want);
	}
	CHECK(run(&derived_layered, &(struct layered_rule){ .layers = "0:2", .drop = true }, path,
		  &e) < 0);
	CHECK_STR(e.msg, "--layers 0:2: leaves no layer");
}

/* The average becomes the weights, and nothing else stays; strip keeps it. */
static void
test_parts(void)
{
	const struct layered_rule ema = { .average = true }, none = { 0 };
	int64_t n, m;
	double *x, *y;
	struct source *s;
	struct err e;

	write_as("ema", &derived_extracted, &ema, "a");
	x = numbers("ema", "decoder.layers.1.mlp.linear_up.weight", &n);
	y = numbers("a", "decoder.layers.1.mlp.linear_up.weight.ema", &m);
	CHECK(n == m && !memcmp(x, y, (size_t)n * sizeof *x));
	free(x);
	free(y);
	write_as("stripped", &derived_stripped, &none, "a");
	x = numbers("stripped", "decoder.layers.1.mlp.linear_up.weight.ema", &n);
	free(x);
	s = source_open("stripped", &e);
	CHECK(s && !s->rule && s->averaged);
	source_close(s);
}

/* --- options and tables ----------------------------------------------------------------------- */

/* Whether the file of tensors is the same, whose order is another one where it is written anew. */
static bool
same_files(const char *a, const char *b)
{
	char path[200], *text[2];
	size_t len[2];
	struct err e;
	bool same;

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/iter_0000007/pieces-00000.safetensors", i ? b : a);
		CHECK(io_read_file(path, 0, &text[i], &len[i], &e) == 0);
	}
	same = len[0] == len[1] && !memcmp(text[0], text[1], len[0]);
	free(text[0]);
	free(text[1]);
	return same;
}

static void
test_set(void)
{
	const struct retold_rule there = { .lines = "rotary-base 500000\n" },
				 back = { .lines = "rotary-base 10000\n" },
				 untie = { "", TIE_UNTIE }, equal = { "", TIE_EQUAL },
				 mean = { "", TIE_MEAN }, output = { "", TIE_OUTPUT };
	const char *const path[] = { "a", NULL };
	struct err e;
	char *was, *now;

	write_as("there", &derived_retold, &there, "a");
	write_as("back", &derived_retold, &back, "there");
	CHECK(io_read_file("a/iter_0000007/options.conf", 0, &was, NULL, &e) == 0 &&
	    io_read_file("back/iter_0000007/options.conf", 0, &now, NULL, &e) == 0);
	CHECK_STR(now, was);
	free(was);
	free(now);
	CHECK(makes_of(&derived_retold, &back, "there", "a"));
	CHECK(same_files("a", "there"));
	write_as("two", &derived_retold, &untie, "a");
	CHECK(!same_files("a", "two"));
	CHECK(is_all("two", "output_layer.weight.exp_avg", 0));
	CHECK(makes_of(&derived_retold, &equal, "two", "a"));
	/* the mean of equal tables, whose states are 0 then */
	write_as("mean", &derived_retold, &mean, "two");
	CHECK(is_all("mean", "embedding.word_embeddings.weight.exp_avg_sq", 0));
	write_as("output", &derived_retold, &output, "two");
	CHECK(makes_of(&derived_retold, &back, "mean", "output"));
	CHECK(run(&derived_retold, &equal, path, &e) < 0);
	CHECK_STR(e.msg, "a/iter_0000007: the tables are tied already");
}

/* --- vocabulary ------------------------------------------------------------------------------- */

enum { FEW = 340, PADDED = TINY_TOKENS + 4 };

static const struct tokenizer_spec all_pieces = { .vocab = "all.json", .merges = "all.txt" },
				   few_pieces = { .vocab = "few.json", .merges = "few.txt" },
				   permuted_pieces = { .vocab = "permuted.json",
					   .merges = "all.txt" };

/* The number of a token of the permuted vocabulary. */
static int
permuted(int i)
{
	return (i * 17 + 5) % (TINY_TOKENS + 1);
}

/* The tokens of all.json with other numbers, the end of text too. */
static void
write_permuted(const struct tiny_bpe *t)
{
	struct str text = { 0 };
	struct err e;

	for (int i = 0; i < TINY_TOKENS; i++) {
		str_addc(&text, i ? ',' : '{');
		str_add_json(&text, t->name[i], strlen(t->name[i]));
		str_addf(&text, ":%d", permuted(i));
	}
	str_addf(&text, ",\"<|endoftext|>\":%d}", permuted(TINY_TOKENS));
	CHECK(outfile_write("permuted.json", text.buf, text.len, &e) == 0);
	str_release(&text);
}

/* Two vocabularies, the smaller of which has the first tokens of the other, and a third. */
static void
make_vocabularies(struct tiny_bpe *t)
{
	struct mt19937 rng;
	struct err e;

	mt19937_seed(&rng, 3);
	tiny_make(t, &rng);
	CHECK(tiny_write(t, "all.json", "all.txt", &e) == 0);
	t->count = FEW;
	CHECK(tiny_write(t, "few.json", "few.txt", &e) == 0);
	t->count = TINY_TOKENS;
	write_permuted(t);
}

static const char input[] = "embedding.word_embeddings.weight",
		  first_moment[] = "embedding.word_embeddings.weight.exp_avg",
		  average[] = "embedding.word_embeddings.weight.ema",
		  output[] = "output_layer.weight";

/* Onto the same tokenizer, and onto one whose tokens have other numbers and back: the same bytes,
 * of moments and the average too, while rows of no token stay. */
static void
test_permuted(void)
{
	const struct resized_rule same = { .before = &all_pieces, .after = &all_pieces },
				  there = { .before = &all_pieces, .after = &permuted_pieces },
				  back = { .before = &permuted_pieces, .after = &all_pieces };
	static const double weight[] = { 0.5, 0.5 };
	const struct average_rule mean = { weight, DTYPE_NONE, -1 };
	const char *const path[] = { "permuted", NULL },
			  *const both[] = { "permuted", "again", NULL };
	int64_t n, h = 16;
	double *x, *y;
	struct err e;

	CHECK(makes_of(&derived_resized, &same, "words", "words"));
	write_as("permuted", &derived_resized, &there, "words");
	x = numbers("words", first_moment, &n);
	y = numbers("permuted", first_moment, &n);
	for (int i = 0; i < PADDED; i++) {
		int to = i <= TINY_TOKENS ? permuted(i) : i;

		CHECK(!memcmp(x + i * h, y + to * h, (size_t)h * sizeof *x));
	}
	free(x);
	free(y);
	CHECK(makes_of(&derived_resized, &back, "permuted", "words"));
	CHECK(!makes_of(&derived_resized, &same, "words", "permuted"));
	/* the checkpoint says which tokenizer it is of now */
	CHECK(run(&derived_resized, &there, path, &e) < 0);
	CHECK(strstr(e.msg, "permuted/iter_0000007: the old tokenizer has hash ") == e.msg);
	write_as("again", &derived_resized, &back, "permuted");
	CHECK(run(&derived_averaged, &mean, both, &e) < 0);
	CHECK(
	    strstr(e.msg,
		"'permuted/iter_0000007' and 'again/iter_0000007' are of different tokenizers: ") ==
	    e.msg);
	CHECK(!io_exists("out"));
}

/* The tokens of some bytes by the first `count` ones: of the pairs that have a token the one of the
 * lowest number is joined, the leftmost first. */
static int
merge_slowly(const struct tiny_bpe *t, int count, int token, int ids[32])
{
	int n = (int)t->len[token];

	for (int i = 0; i < n; i++)
		ids[i] = t->bytes[token][i];
	for (;;) {
		int best = count, at = 0;

		for (int i = 0; i + 1 < n; i++)
			for (int k = 256; k < best; k++)
				if (t->left[k] == ids[i] && t->right[k] == ids[i + 1]) {
					best = k;
					at = i;
				}
		if (best == count)
			return n;
		ids[at] = best;
		memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
		n--;
	}
}

/* The mean of rows, rounded as it is stored. */
static float
mean_at(const double *old, const int *ids, int n, int64_t column)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += old[ids[i] * 16 + column];
	return (float)(sum / n);
}

/* Each new row of weights and their average is the mean of the old pieces; of moments 0. */
static void
test_pieces(const struct tiny_bpe *t)
{
	const struct resized_rule rule = { .before = &few_pieces, .after = &all_pieces };
	static const char *const names[] = { input, output, average };
	int64_t n;
	int ids[32];

	write_as("grown", &derived_resized, &rule, "small");
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		double *old = numbers("small", names[k], &n), *x = numbers("grown", names[k], &n);

		CHECK(n == 16 * (TINY_TOKENS + 1));
		CHECK(!memcmp(x, old, FEW * 16 * sizeof *x));
		CHECK(!memcmp(x + TINY_TOKENS * 16, old + FEW * 16, 16 * sizeof *x));
		for (int i = FEW; i < TINY_TOKENS; i++) {
			int count = merge_slowly(t, FEW, i, ids);

			for (int64_t c = 0; c < 16; c++)
				CHECK(x[i * 16 + c] == (double)mean_at(old, ids, count, c));
		}
		free(old);
		free(x);
	}
	{
		double *x = numbers("grown", first_moment, &n);

		for (int i = FEW * 16; i < TINY_TOKENS * 16; i++)
			CHECK(x[i] == 0);
		free(x);
	}
}

/* The line of a token in the report. */
static void
test_report(const struct tiny_bpe *t)
{
	const struct resized_rule rule = { .before = &few_pieces, .after = &all_pieces };
	const char *const path[] = { "small", NULL };
	const struct derived_job job = job_of(&derived_resized, &rule, path);
	struct err e = { "" };
	struct derived *d = derived_open(&job, &e);
	int ids[32], n = merge_slowly(t, FEW, FEW, ids);
	struct str want = { 0 };
	char *text, *line;

	CHECK_STR(e.msg, "");
	CHECK(resized_report(d, "report.tsv", &e) == 0);
	CHECK(io_read_file("report.tsv", 0, &text, NULL, &e) == 0);
	CHECK(strstr(text, "id\tpiece\tfrom\told_ids\told_pieces\tequal_to\n") == text);
	CHECK(strstr(text, "\n97\ta\tsame\t97\ta\t\n") != NULL);
	CHECK(strstr(text, "\n456\t<|endoftext|>\tmoved\t340\t<|endoftext|>\t\n") != NULL);
	str_addf(&want, "\tmean-of\t%d", ids[0]);
	for (int i = 1; i < n; i++)
		str_addf(&want, " %d", ids[i]);
	line = strstr(text, "\n340\t");
	CHECK(line && strstr(line, want.buf) && strstr(line, want.buf) < strchr(line + 1, '\n'));
	CHECK(strstr(d->s.notes.buf,
		  "457 rows: 340 same, 1 moved, 0 role, 0 map, 116 mean-of, 0 mean, 0 kept\n") !=
	    NULL);
	free(text);
	str_release(&want);
	derived_close(d);
}

/* What else a new row begins with; noise is small, and the same for the same seed. */
static void
test_inits(void)
{
	struct resized_rule rule = { .before = &few_pieces, .after = &all_pieces, .seed = 1 };
	int64_t n;
	double *old = numbers("small", input, &n), *x, *mean;
	int all[FEW + 1];

	for (int i = 0; i <= FEW; i++)
		all[i] = i;
	rule.init = INIT_MEAN;
	write_as("mean_rows", &derived_resized, &rule, "small");
	mean = numbers("mean_rows", input, &n);
	for (int64_t c = 0; c < 16; c++)
		CHECK(mean[FEW * 16 + c] == (double)mean_at(old, all, FEW + 1, c));
	rule.init = INIT_ZERO;
	write_as("zero_rows", &derived_resized, &rule, "small");
	x = numbers("zero_rows", input, &n);
	for (int i = FEW * 16; i < TINY_TOKENS * 16; i++)
		CHECK(x[i] == 0);
	free(x);
	rule.init = INIT_LAST;
	write_as("last_rows", &derived_resized, &rule, "small");
	x = numbers("last_rows", input, &n);
	CHECK(!memcmp(x + FEW * 16, old + FEW * 16, 16 * sizeof *x));
	free(x);
	rule.init = INIT_NORMAL;
	write_as("noise_rows", &derived_resized, &rule, "small");
	CHECK(makes_of(&derived_resized, &rule, "small", "noise_rows"));
	rule.seed = 2;
	CHECK(!makes_of(&derived_resized, &rule, "small", "noise_rows"));
	x = numbers("noise_rows", input, &n);
	{
		/* rows are of N(0, 1): so is what is left of the noise */
		double sum = 0;

		for (int i = FEW * 16; i < TINY_TOKENS * 16; i++)
			sum += (x[i] - mean[i]) * (x[i] - mean[i]) / 1e-9;
		CHECK_NEAR(sum / ((TINY_TOKENS - FEW) * 16), 1, 0.15);
	}
	free(x);
	free(mean);
	free(old);
}

/* Rows of tokens that are gone stay unless they are cut; a file says what else meets. */
static void
test_shrink(void)
{
	struct resized_rule keep = { .before = &all_pieces, .after = &few_pieces },
			    cut = { .before = &all_pieces, .after = &few_pieces, .shrink = true };
	const char *const path[] = { "words", NULL };
	int64_t n, m;
	double *x, *y;
	struct err e;

	y = numbers("words", input, &m);
	write_as("kept", &derived_resized, &keep, "words");
	x = numbers("kept", input, &n);
	CHECK(n == m && !memcmp(x + (FEW + 1) * 16, y + (FEW + 1) * 16, 99 * 16 * sizeof *x));
	free(x);
	CHECK(outfile_write("map", "300\t97\n", 7, &e) == 0);
	cut.map = "map";
	write_as("cut", &derived_resized, &cut, "words");
	x = numbers("cut", input, &n);
	CHECK(n == (FEW + 1) * 16 && !memcmp(x + 97 * 16, y + 300 * 16, 16 * sizeof *x));
	CHECK(!memcmp(x + FEW * 16, y + TINY_TOKENS * 16, 16 * sizeof *x));
	free(x);
	free(y);
	CHECK(outfile_write("map", "a\tb\n\n12\tnone", 13, &e) == 0);
	CHECK(run(&derived_resized, &cut, path, &e) < 0);
	CHECK_STR(e.msg, "map:3: 'none' is no token of the new tokenizer");
}

static void
test_vocabulary_refused(void)
{
	static const struct tokenizer_spec numbers_only = { .type = "NullTokenizer",
		.vocab_size = 9 },
					   none;
	struct resized_rule rule = { .before = &all_pieces, .after = &numbers_only };
	const char *const path[] = { "words", NULL }, *const small[] = { "small", NULL };
	struct err e;

	CHECK(run(&derived_resized, &rule, path, &e) < 0);
	CHECK_STR(e.msg, "tokens of a NullTokenizer have no text: rows cannot be matched");
	rule.after = &all_pieces;
	CHECK(run(&derived_resized, &rule, small, &e) < 0);
	CHECK_STR(e.msg,
	    "small/iter_0000007: 341 rows of the vocabulary are fewer than the 457 tokens of the "
	    "old tokenizer");
	rule.before = &none;
	CHECK(run(&derived_resized, &rule, path, &e) < 0);
	CHECK_STR(e.msg,
	    "words/iter_0000007: --old-tokenizer-model: needed: no tokenizer lies beside the "
	    "weights");
	CHECK(!io_exists("out"));
}

static void
test_vocabulary(void)
{
	struct model_config words = tiny(2), small = tiny(2);
	struct tiny_bpe t;

	words.vocab_size = PADDED;
	small.vocab_size = FEW + 1;
	small.untie_embeddings_and_output_weights = words.untie_embeddings_and_output_weights =
	    true;
	make_vocabularies(&t);
	make("words", &words, 1, DTYPE_F32);
	make("small", &small, 1, DTYPE_F32);
	test_permuted();
	test_pieces(&t);
	test_report(&t);
	test_inits();
	test_shrink();
	test_vocabulary_refused();
}

/* --- all -------------------------------------------------------------------------------------- */

int
main(void)
{
	char dir[] = "/tmp/mikoshi-derived-XXXXXX";
	struct model_config two = tiny(2), three = tiny(3), post = tiny(2), window = tiny(4);
	struct err e;

	three.proj_bias = true;
	post.norm_placement = NORM_PLACEMENT_BOTH;
	post.apply_layernorm_1p = true;
	window.window_size = 8;
	window.window_attn_skip_freq = pattern_of((const bool[]){ false, true, false, false }, 4);
	window.no_rope_freq = pattern_of((const bool[]){ true, false, true, true }, 4);
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	make("a", &two, 1, DTYPE_F32);
	make("b", &two, 2, DTYPE_F32);
	make("half", &two, 1, DTYPE_BF16);
	make("other", &three, 1, DTYPE_F32);
	make("post", &post, 1, DTYPE_F32);
	make("window", &window, 1, DTYPE_BF16);
	test_weights();
	test_equal("a");
	test_equal("half");
	test_sum();
	test_memory();
	test_refused();
	test_changed();
	test_cut();
	test_layers();
	test_zero_new();
	test_patterns();
	test_layers_refused();
	test_parts();
	test_set();
	test_vocabulary();
	CHECK(chdir("/") == 0);
	io_remove_tree(dir, &e);
	return check_done();
}
