/* merged.c - models merged of others: what must come out bit for bit, thresholds against a sort,
 * files of mergekit, and vocabularies that differ */
#include "ckpt/kth.h"
#include "ckpt/merge_config.h"
#include "ckpt/merged.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "tests/check.h"
#include "tests/made_checkpoint.h"
#include "tests/sized_model.h"
#include "tests/tiny_bpe.h"

#include <math.h>
#include <unistd.h>

enum { FEW = 340 };

/* The names of a parameter of some size and of the embedding. */
static const char up[] = "decoder.layers.1.mlp.linear_up.weight",
		  table[] = "embedding.word_embeddings.weight", head[] = "output_layer.weight";

/* A parameter of what is merged, in fp64; free() it. */
static double *
merged(const struct merge_rule *r, const char *const *path, const char *name, int64_t *n)
{
	struct derived_job job = {
		.kind = &derived_merged, .rule = r, .path = path, .save = "out", .dtype = DTYPE_NONE
	};
	struct err e = { "" };
	struct derived *d;
	double *x = NULL;

	while (path[job.count])
		job.count++;
	d = derived_open(&job, &e);
	CHECK_STR(e.msg, "");
	for (int i = 0; i < d->s.count; i++) {
		const struct param *p = &d->s.param[i];
		struct source_part part = { .param = p, .slice = slice_whole(p->ndim, p->shape) };

		if (strcmp(p->name, name))
			continue;
		*n = param_elements(p);
		x = mem_alloc((size_t)*n, sizeof *x);
		CHECK(source_read(&d->s, &part, DTYPE_F64, x, &e) == 0);
	}
	derived_close(d);
	CHECK(x != NULL);
	return x;
}

/* The same of a checkpoint. */
static double *
numbers(const char *dir, const char *name, int64_t *n)
{
	static const double one[] = { 1 };
	const struct merge_rule itself = { .method = MERGE_LINEAR,
		.weight = one,
		.density = one,
		.base = -1,
		.own = -1,
		.dtype = DTYPE_NONE };
	const char *const path[] = { dir, NULL };

	return merged(&itself, path, name, n);
}

/* Whether both have the same bits. */
static bool
same(double *a, double *b, int64_t n)
{
	bool equal = !memcmp(a, b, (size_t)n * sizeof *a);

	free(a);
	free(b);
	return equal;
}

static const double weights[] = { 0.5, 0.75, 0 }, all[] = { 1, 1, 1 }, some[] = { 0.4, 0.7, 1 };
static const char *const abc[] = { "a", "b", "c", NULL };

static struct merge_rule
rule_of(enum merge_method method, const double *density)
{
	return (struct merge_rule){ .method = method,
		.weight = weights,
		.density = density,
		.base = method == MERGE_LINEAR || method == MERGE_SLERP ? -1 : 2,
		.own = -1,
		.t = 0.5,
		.lambda = 1,
		.seed = 1234,
		.dtype = DTYPE_NONE };
}

static void
test_identities(void)
{
	static const char *const aaa[] = { "a", "a", "a", NULL }, *const ab[] = { "a", "b", NULL };
	struct merge_rule slerp = rule_of(MERGE_SLERP, all),
			  task = rule_of(MERGE_TASK_ARITHMETIC, all),
			  dare = rule_of(MERGE_DARE_LINEAR, all);
	int64_t n;

	for (int method = 0; merge_methods[method]; method++) {
		struct merge_rule r = rule_of((enum merge_method)method, some);

		CHECK(
		    same(merged(&r, r.base < 0 ? aaa + 1 : aaa, up, &n), numbers("a", up, &n), n));
	}
	for (int semantics = 0; semantics < 2; semantics++) {
		slerp.semantics = (enum merge_semantics)semantics;
		slerp.t = 0;
		CHECK(same(merged(&slerp, ab, up, &n), numbers("a", up, &n), n));
		slerp.t = 1;
		CHECK(same(merged(&slerp, ab, up, &n), numbers("b", up, &n), n));
		dare.semantics = (enum merge_semantics)semantics;
		CHECK(same(merged(&dare, abc, up, &n), merged(&task, abc, up, &n), n));
	}
}

/* A mask depends on the seed and the number of the operand alone, and has the density. */
static void
test_masks(void)
{
	static const double first[] = { 1, 0, 0 }, half[] = { 0.5, 0.5, 1 };
	struct merge_rule r = rule_of(MERGE_DARE_LINEAR, half);
	int64_t n, kept = 0;
	double *base = numbers("c", up, &n), *a = numbers("a", up, &n), *x;

	r.weight = first;
	r.semantics = MERGE_PAPER;
	x = merged(&r, abc, up, &n);
	for (int64_t i = 0; i < n; i++) {
		float want = (float)(base[i] + (a[i] - base[i]) * 2);

		kept += x[i] != base[i];
		CHECK(x[i] == base[i] || x[i] == (double)want);
	}
	CHECK_NEAR((double)kept / (double)n, 0.5, 0.12);
	CHECK(same(merged(&r, abc, up, &n), x, n));
	r.seed = 2;
	x = merged(&r, abc, up, &n);
	CHECK(!same(x, numbers("c", up, &n), n));
	r.density = (const double[]){ 0, 0, 1 };
	CHECK(same(merged(&r, abc, up, &n), base, n));
	free(a);
}

static int
compare_magnitudes(const void *a, const void *b)
{
	uint32_t x = kth_bits(*(const double *)a), y = kth_bits(*(const double *)b);

	return x > y ? -1 : x < y;
}

/* The k-th magnitude and its ties are those of a full sort. */
static void
test_kth(void)
{
	enum { N = 20000, PLANTED = 1000 };
	double *x = mem_alloc(N, sizeof *x), *sorted = mem_alloc(N, sizeof *x);
	struct kth *k = mem_alloc(1, sizeof *k);

	rng_normal(3, 0, N, 1, 0, x);
	for (int i = 0; i < PLANTED; i++)
		x[i * 17] = i % 2 ? 0.5 : -0.5;
	memcpy(sorted, x, N * sizeof *x);
	qsort(sorted, N, sizeof *sorted, compare_magnitudes);
	for (int64_t keep = 1; keep <= N; keep += keep < 10 ? 1 : 331) {
		int64_t above = 0, equal = 0;
		uint32_t bits = kth_bits(sorted[keep - 1]);

		kth_begin(k, keep);
		for (int round = 0; round < 2; round++) {
			kth_add(k, x, 777);
			kth_add(k, x + 777, N - 777);
			kth_end_round(k);
		}
		for (int i = 0; i < N; i++) {
			above += kth_bits(x[i]) > bits;
			equal += kth_bits(x[i]) == bits;
		}
		CHECK(k->bits == bits && k->ties == keep - above && k->equal == equal);
	}
	free(x);
	free(sorted);
	free(k);
}

/* Of elements at the threshold those with lower numbers are kept: a base of zeros and a model of
 * one number. */
static void
test_ties(void)
{
	static const double share[][2] = { { 1.0 / 3, 1 }, { 0.5, 1 } };
	struct merge_rule r = rule_of(MERGE_TIES, share[0]);
	static const char *const path[] = { "ones", "zeros", NULL };
	int64_t n, kept;
	double *x;

	r.base = 1;
	for (int semantics = 0; semantics < 2; semantics++) {
		r.semantics = (enum merge_semantics)semantics;
		r.density = share[semantics];
		x = merged(&r, path, table, &n);
		/* of the paper all tensors count together, and the embedding, the first, is less
		 * than half of them */
		kept = semantics ? n : n / 3;
		for (int64_t i = 0; i < n; i++)
			CHECK(x[i] == (i < kept ? 1 : 0));
		free(x);
	}
	/* a norm of 16 elements, at a density of 0.01: the largest stays */
	r.semantics = MERGE_MERGEKIT;
	r.density = (const double[]){ 0.01, 1, 1 };
	x = merged(&r, path, "decoder.final_layernorm.weight", &n);
	for (int64_t i = 0; i < n; i++)
		CHECK(x[i] == (i == 0 ? 1 : 0));
	free(x);
}

/* --- vocabularies ----------------------------------------------------------------------------- */

/* The own model has all tokens, base and chat model the first ones: rows of these get the delta. */
static void
test_vocabularies(void)
{
	static const double one[] = { 1, 1, 1 };
	static const struct tokenizer_spec few = { .vocab = "few.json", .merges = "few.txt" },
					   own = { .vocab = "all.json", .merges = "all.txt" };
	static const char *const path[] = { "chat", "few_base", "own", NULL };
	struct merge_rule r = rule_of(MERGE_TASK_ARITHMETIC, one);
	const char *const names[] = { table, head };
	int64_t n, m;

	r.weight = one;
	r.base = 1;
	r.own = 2;
	r.own_tokenizer = &own;
	r.other_tokenizer = &few;
	for (int k = 0; k < 2; k++) {
		double *x = merged(&r, path, names[k], &n), *o = numbers("own", names[k], &n),
		       *c = numbers("chat", names[k], &m), *b = numbers("few_base", names[k], &m);

		for (int64_t i = 0; i < n; i++) {
			int64_t row = i / 16,
				other = row < FEW ? row
			    : row == TINY_TOKENS  ? FEW
						  : -1;
			double delta =
			    other < 0 ? 0 : c[other * 16 + i % 16] - b[other * 16 + i % 16];

			CHECK_NEAR(x[i], o[i] + delta, 1e-6);
			CHECK(other >= 0 || x[i] == o[i]);
		}
		free(x);
		free(o);
		free(c);
		free(b);
	}
}

/* --- files of mergekit ------------------------------------------------------------------------ */

static void
test_config(void)
{
	static const char good[] = "# a merge\nmodels:\n  - model: \"dir/a\"   # first\n"
				   "    parameters:\n      weight: 0.3\n      density: 0.5\n"
				   "  - model: b\n    parameters: \n      weight: 1e-1\n"
				   "merge_method: ties\nbase_model: 'c'\nparameters:\n"
				   "  normalize: true\n  lambda: 0.5\ndtype: bfloat16\n";
	static const char *const bad[][2] = {
		{ "models:\n- model: a\n  parameters:\n    weight: [0, 1]\n",
		    "m.yml:4: 'weight': a list, such as one of values over layers, is not read" },
		{ "models:\n- model: a\n  parameters:\n    weight:\n    - 0.5\n",
		    "m.yml:4: 'models.parameters.weight': must have its value in its line; a "
		    "list, such as one of values over layers, is not read" },
		{ "slices:\n  - sources:\n", "m.yml:1: 'slices': is not read of such files" },
		{ "parameters:\n  - t: 1\n",
		    "m.yml:2: 'parameters': a list, such as one of values over layers, is not "
		    "read" },
		{ "parameters: none\n",
		    "m.yml:1: 'parameters': must have its members in the next lines" },
		{ "models:\n  parameters:\n    weight: 1\n",
		    "m.yml:3: 'models.parameters.weight': is of no item of the list" },
		{ "parameters:\n  filter:\n",
		    "m.yml:2: 'parameters.filter': is not read of such files" },
		{ "chat_template:\nmerge_method: ties\n",
		    "m.yml:1: 'chat_template': is not read of such files" },
		{ "tokenizer_source: union\n",
		    "m.yml:1: 'tokenizer_source': is not read of such files" },
		{ "parameters:\n  int8_mask: true\n",
		    "m.yml:2: 'parameters.int8_mask': is not read of such files" },
		{ "parameters:\n  t: half\n", "m.yml:2: 'parameters.t': must be a finite number" },
		{ "models:\n  - parameters:\n      weight: 1\n",
		    "m.yml: item 1 of 'models' has no 'model'" },
		{ "merge_method\n", "m.yml:1: 'merge_method': is no 'key: value'" },
	};
	struct merge_config c;
	struct err e;

	CHECK(outfile_write("m.yml", good, sizeof good - 1, &e) == 0);
	CHECK(merge_config_read(&c, "m.yml", &e) == 0);
	CHECK(c.count == 2 && c.model[0].weight == 0.3 && c.model[0].density == 0.5);
	CHECK(c.model[1].weight == 0.1 && isnan(c.model[1].density) && c.lambda == 0.5);
	CHECK_STR(c.model[0].path, "dir/a");
	CHECK_STR(c.base, "c");
	CHECK_STR(c.method, "ties");
	CHECK_STR(c.normalize, "true");
	CHECK(c.rescale == NULL && isnan(c.t));
	merge_config_release(&c);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(outfile_write("m.yml", bad[i][0], strlen(bad[i][0]), &e) == 0);
		CHECK(merge_config_read(&c, "m.yml", &e) < 0);
		CHECK_STR(e.msg, bad[i][1]);
		merge_config_release(&c);
	}
}

/* --- all -------------------------------------------------------------------------------------- */

static void
make(const char *save, int64_t rows, uint64_t seed)
{
	struct model_config c = sized_llama((struct model_sizes){ 2, 16, 4, 2, 24, 32, rows });
	struct made_checkpoint m = {
		.save = save, .config = &c, .iteration = 7, .dtype = DTYPE_F32, .seed = seed
	};
	struct err e;

	c.untie_embeddings_and_output_weights = true;
	CHECK(made_write(&m, &e) == 0);
}

/* A model all of whose numbers are 0 or 1: a linear merge of one model with weights of 0, and the
 * file edited. */
static void
make_constant(const char *save, float value)
{
	struct model_config c = sized_llama((struct model_sizes){ 2, 16, 4, 2, 24, 32, 131 });
	struct str options = { 0 }, manifest = { 0 };
	static const char state[] = "iteration 7\nconsumed_train_samples 112\noptimizer_steps 7\n"
				    "skipped_iterations 0\ndtype F32\n";
	struct ckpt_commit commit = { .save = save, .iteration = 7, .state = state };
	struct ckpt_writer *w;
	struct param *p;
	char tmp[IO_PATH];
	struct err e;
	int n = model_params(&c, &p);
	float *x = mem_alloc(131 * 16, sizeof *x);

	for (int i = 0; i < 131 * 16; i++)
		x[i] = value;
	CHECK(ckpt_begin(save, 7, tmp, &e) == 0 && (w = ckpt_writer_new(tmp, 0, &e)));
	for (int i = 0; i < n; i++) {
		struct slice whole = slice_whole(p[i].ndim, p[i].shape);

		ckpt_declare(w, p[i].name, DTYPE_F32, p[i].ndim, p[i].shape, &whole);
	}
	for (int i = 0; i < n; i++)
		CHECK(ckpt_write(w, x, &e) == 0);
	CHECK(ckpt_writer_finish(w, &manifest, &e) == 0);
	model_dump(&c, &options);
	commit.tmp = tmp;
	commit.manifest = manifest.buf;
	commit.options = options.buf;
	CHECK(ckpt_commit(&commit, &e) == 0);
	free(x);
	free(p);
	str_release(&options);
	str_release(&manifest);
}

int
main(void)
{
	char dir[] = "/tmp/mikoshi-merged-XXXXXX";
	struct tiny_bpe t;
	struct mt19937 rng;
	struct err e;

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	mt19937_seed(&rng, 3);
	tiny_make(&t, &rng);
	CHECK(tiny_write(&t, "all.json", "all.txt", &e) == 0);
	t.count = FEW;
	CHECK(tiny_write(&t, "few.json", "few.txt", &e) == 0);
	make("a", 131, 1);
	make("b", 131, 2);
	make("c", 131, 3);
	make("chat", FEW + 1, 4);
	make("few_base", FEW + 1, 5);
	make("own", TINY_TOKENS + 1, 6);
	make_constant("zeros", 0);
	make_constant("ones", 1);
	test_kth();
	test_identities();
	test_masks();
	test_ties();
	test_vocabularies();
	test_config();
	CHECK(chdir("/") == 0);
	io_remove_tree(dir, &e);
	return check_done();
}
