/*
 * merge.c - mckpt merge
 *
 * Operands, or a file of mergekit, become the sources of merged.h: models in their order, the base
 * after them, and last the one whose vocabulary and state the result has.
 */
#include "ckpt/copy.h"
#include "ckpt/merge_config.h"
#include "ckpt/merged.h"
#include "ckpt/verbs.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/token/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct merge_options {
	struct tokenizer_spec tokenizer; /* of --vocab-of; first, for its options */
	struct tokenizer_spec old;
	const char *base, *file, *vocab_of;
	int method, semantics; /* of merge_methods and merge_semantics */
	int normalize, rescale;
	double t, lambda, density;
	int64_t seed;
	int dtype; /* of copy_dtypes */
	bool force;
};

static const char *const choices[] = { "auto", "true", "false", NULL };

/* clang-format off */
#define NUMBER(n, f, lo, hi, d, h) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(struct merge_options, f), .min = lo, \
	  .max = hi, .def = d, .help = h }
/* clang-format on */

static const struct opt merge_opts[] = {
	CHOICE(struct merge_options, "method", method, merge_methods, "linear",
	    "how weights are merged"),
	TEXT(struct merge_options, "base", base, "DIR",
	    "the model that operands are changes of; slerp: the one of the two that t leaves at 0"),
	TEXT(struct merge_options, "mergekit-config", file, "FILE.yml",
	    "read method, models and numbers from a file of mergekit, in its plain form"),
	NUMBER("t", t, 0, 1, "0.5", "slerp: 0 is the first model, 1 the second"),
	NUMBER("lambda", lambda, -1e6, 1e6, "1", "what the sum of the deltas is multiplied by"),
	NUMBER("density", density, 0, 1, "1", "ties, dare_*: the share of each delta that is kept"),
	CHOICE(struct merge_options, "normalize", normalize, choices, "auto",
	    "divide by the weights; auto: linear and ties do"),
	CHOICE(struct merge_options, "rescale", rescale, choices, "auto",
	    "multiply what is kept of a delta; auto: dare_* do"),
	CHOICE(struct merge_options, "semantics", semantics, merge_semantics, "mergekit",
	    "where mergekit and the papers differ, whose rule counts"),
	SIZE(struct merge_options, "seed", seed, "1234", "of the random parts of dare_*"),
	CHOICE(struct merge_options, "dtype", dtype, copy_dtypes, "keep",
	    "type of the tensors; rounds to nearest, once; by default the widest of the sources"),
	TEXT(struct merge_options, "vocab-of", vocab_of, "DIR",
	    "task_arithmetic: the operand whose vocabulary the result has, of --tokenizer-model; "
	    "the others have that of --old-tokenizer-model"),
	TEXT(struct merge_options, "old-tokenizer-model", old.model, "FILE",
	    "tokenizer of the base and the other operands, with --vocab-of"),
	FLAG(
	    struct merge_options, "force", force, "write into a directory that holds a checkpoint"),
	TOKENIZER_OPTS,
	OPT_END,
};

/* The sources. */
struct operands {
	struct mem_pool pool;
	const char **path;
	double *weight, *density; /* [count] */
	int count;
};

static void
add(struct operands *o, const char *path, double weight, double density)
{
	size_t n = (size_t)o->count + 1;

	o->path = mem_realloc(o->path, n, sizeof *o->path);
	o->weight = mem_realloc(o->weight, n, sizeof *o->weight);
	o->density = mem_realloc(o->density, n, sizeof *o->density);
	o->path[o->count] = path;
	o->weight[o->count] = weight;
	o->density[o->count++] = density;
}

static void
release(struct operands *o)
{
	mem_pool_release(&o->pool);
	free(o->path);
	free(o->weight);
	free(o->density);
}

/* --- where they come from --------------------------------------------------------------------- */

/* "PATH:WEIGHT", or a path that is there. */
static int
add_word(struct operands *o, const char *word, double density, struct err *e)
{
	const char *colon = strrchr(word, ':');
	double weight = 1;
	char *end;

	if (!colon || io_exists(word)) {
		add(o, word, 1, density);
		return 0;
	}
	weight = strtod(colon + 1, &end);
	if (!colon[1] || *end || !isfinite(weight))
		return err_set(e, "%s: the weight after ':' is not a finite number", word);
	add(o, mem_pool_strndup(&o->pool, word, (size_t)(colon - word)), weight, density);
	return 0;
}

static double
first_of(double a, double b, double otherwise)
{
	return !isnan(a) ? a : !isnan(b) ? b : otherwise;
}

/* The place of a word in a list; -1, with the reason, when it is none. */
static int
find_word(const char *const *list, const char *word, const char *file, struct err *e)
{
	struct str all = { 0 };

	for (int i = 0; list[i]; i++) {
		if (!strcmp(list[i], word))
			return i;
		str_addf(&all, "%s%s", i ? ", " : "", list[i]);
	}
	err_at(e, file, 0, "'%s' is not one of %s", word, all.buf);
	str_release(&all);
	return -1;
}

/* What the file says takes the place of the options. */
static int
take_config(
    struct merge_options *m, const struct merge_config *f, struct operands *o, struct err *e)
{
	static const char *const types[] = { "same", "bfloat16", "float16", "float32", NULL };

	if (!f->method || (m->method = find_word(merge_methods, f->method, m->file, e)) < 0)
		return f->method ? -1 : err_at(e, m->file, 0, "'merge_method' is missing");
	if (f->dtype && (m->dtype = find_word(types, f->dtype, m->file, e)) < 0)
		return -1;
	if (f->normalize && (m->normalize = find_word(choices, f->normalize, m->file, e)) < 0)
		return -1;
	if (f->rescale && (m->rescale = find_word(choices, f->rescale, m->file, e)) < 0)
		return -1;
	m->base = f->base ? mem_pool_strndup(&o->pool, f->base, strlen(f->base)) : m->base;
	m->t = first_of(f->t, NAN, m->t);
	m->lambda = first_of(f->lambda, NAN, m->lambda);
	for (int i = 0; i < f->count; i++) {
		const struct merge_model *x = &f->model[i];
		bool base = m->base && !strcmp(x->path, m->base);
		double weight = first_of(x->weight, f->weight, NAN);

		if (isnan(weight) && m->method != MERGE_SLERP && !base)
			return err_at(e, m->file, 0, "'%s' has no 'weight'", x->path);
		add(o, mem_pool_strndup(&o->pool, x->path, strlen(x->path)),
		    isnan(weight) ? 1 : weight, first_of(x->density, f->density, m->density));
	}
	return 0;
}

static int
read_file(struct merge_options *m, struct operands *o, struct err *e)
{
	struct merge_config f;
	int rc = merge_config_read(&f, m->file, e);

	if (rc == 0)
		rc = take_config(m, &f, o, e);
	merge_config_release(&f);
	return rc;
}

/* --- rules ------------------------------------------------------------------------------------ */

static bool
has_deltas(const struct merge_options *m)
{
	return m->method != MERGE_LINEAR && m->method != MERGE_SLERP;
}

/* What the methods need. */
static int
check(const struct merge_options *m, const struct operands *o, struct err *e)
{
	double sum = 0;
	bool equal = true, paper = m->semantics == MERGE_PAPER,
	     vote = m->method == MERGE_TIES || m->method == MERGE_DARE_TIES;

	for (int i = 0; i < o->count; i++) {
		sum += o->weight[i];
		equal = equal && o->weight[i] == o->weight[0];
		if (!(o->density[i] >= 0 && o->density[i] <= 1))
			return err_set(
			    e, "%s: density %g: must be from 0 to 1", o->path[i], o->density[i]);
	}
	if (o->count == 0)
		return err_set(e, "needs A[:WEIGHT] ... DST");
	if (!(m->t >= 0 && m->t <= 1))
		return err_set(e, "t %g: must be from 0 to 1", m->t);
	if (m->method == MERGE_LINEAR && sum == 0)
		return err_set(e, "the weights sum to 0");
	if (m->method == MERGE_SLERP && o->count != 2)
		return err_set(e, "slerp: needs two models, not %d", o->count);
	if (m->method == MERGE_LINEAR && m->base && !m->file)
		return err_set(e, "linear: needs no --base");
	if (has_deltas(m) && !m->base)
		return err_set(e, "%s: needs --base", merge_methods[m->method]);
	if (paper && vote && !equal)
		return err_set(
		    e, "--semantics paper: the vote of ties knows no weights: give equal ones");
	return m->vocab_of && m->method != MERGE_TASK_ARITHMETIC
	    ? err_set(e, "--vocab-of: is for --method task_arithmetic")
	    : 0;
}

/* mergekit lists the base among the models, too. */
static void
drop_base(struct operands *o, const char *base)
{
	int n = 0;

	for (int i = 0; i < o->count; i++)
		if (strcmp(o->path[i], base)) {
			o->path[n] = o->path[i];
			o->weight[n] = o->weight[i];
			o->density[n++] = o->density[i];
		}
	o->count = n;
}

static void
exchange(struct operands *o, int a, int b)
{
	const char *path = o->path[a];
	double weight = o->weight[a], density = o->density[a];

	o->path[a] = o->path[b];
	o->weight[a] = o->weight[b];
	o->density[a] = o->density[b];
	o->path[b] = path;
	o->weight[b] = weight;
	o->density[b] = density;
}

/* Puts the sources into their order. */
static int
place(struct merge_options *m, struct operands *o, struct merge_rule *r, struct err *e)
{
	r->base = r->own = -1;
	if (m->method == MERGE_SLERP && m->base) {
		if (strcmp(m->base, o->path[0]) && strcmp(m->base, o->path[1]))
			return err_set(e, "slerp: the base '%s' is none of the models", m->base);
		if (strcmp(m->base, o->path[0]))
			exchange(o, 0, 1);
	}
	if (!has_deltas(m))
		return 0;
	add(o, m->base, 0, 1);
	r->base = o->count - 1;
	for (int i = 0; m->vocab_of && i < o->count - 1; i++)
		if (!strcmp(o->path[i], m->vocab_of))
			r->own = i;
	if (m->vocab_of && r->own < 0)
		return err_set(e, "--vocab-of %s: is none of the operands", m->vocab_of);
	if (r->own < 0)
		return 0;
	if (o->weight[r->own] != 1 || m->lambda != 1)
		return err_set(
		    e, "--vocab-of %s: needs the weight 1, and no --lambda", m->vocab_of);
	exchange(o, r->own, r->base);
	r->base = r->own;
	r->own = o->count - 1;
	return 0;
}

/* ties: tensors of which the share to keep is less than one element. */
static void
note_small(const struct derived *d, const struct merge_rule *r, struct str *notes)
{
	int few = 0;

	for (int i = 0; r->method == MERGE_TIES && r->semantics == MERGE_MERGEKIT && i < d->count;
	     i++)
		for (int k = 0; i != r->base && r->density[i] < 1 && k < d->s.count; k++)
			few += r->density[i] * (double)param_elements(&d->s.param[k]) < 1;
	if (few)
		str_addf(notes,
		    "ties: of %d tensors the share is below one element: the largest is kept\n",
		    few);
}

static int
merge(struct merge_options *m, struct operands *o, const struct derived_job *job, struct err *e)
{
	struct merge_rule *r = (struct merge_rule *)(uintptr_t)job->rule;
	struct derived *d;

	(void)m;
	r->weight = o->weight;
	r->density = o->density;
	d = derived_open(job, e);
	if (!d)
		return -1;
	note_small(d, r, &d->s.notes);
	return derived_write(d, job, e);
}

static int
run_merge(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	struct merge_options m = *(const struct merge_options *)p->cfg;
	struct operands o = { 0 };
	struct merge_rule r = { 0 };
	struct derived_job job = { .kind = &derived_merged,
		.rule = &r,
		.save = argc ? argv[argc - 1] : NULL,
		.verb = "merge",
		.given = p,
		.force = m.force };
	int rc = 0;

	if (argc < 1 || (m.file && argc != 1)) {
		err_set(
		    e, m.file ? "--mergekit-config: needs DST alone" : "needs A[:WEIGHT] ... DST");
		return CLI_USAGE;
	}
	if (m.file)
		rc = read_file(&m, &o, e);
	for (int i = 0; i < argc - 1 && rc == 0; i++)
		rc = add_word(&o, argv[i], m.density, e);
	if (rc == 0 && has_deltas(&m) && m.base)
		drop_base(&o, m.base);
	if (rc < 0 || check(&m, &o, e) < 0 || place(&m, &o, &r, e) < 0) {
		release(&o);
		return CLI_USAGE;
	}
	r.method = (enum merge_method)m.method;
	r.semantics = (enum merge_semantics)m.semantics;
	r.own_tokenizer = &m.tokenizer;
	r.other_tokenizer = &m.old;
	r.t = m.t;
	r.lambda = m.lambda;
	r.normalize = (enum merge_choice)m.normalize;
	r.rescale = (enum merge_choice)m.rescale;
	r.seed = (uint64_t)m.seed;
	r.dtype = job.dtype = copy_types[m.dtype];
	job.path = o.path;
	job.count = o.count;
	rc = merge(&m, &o, &job, e);
	release(&o);
	return rc;
}

const struct verb verb_merge = { .name = "merge",
	.operands = "A[:WEIGHT] ... DST",
	.summary = "merge models by their weights: linear, slerp, task arithmetic, TIES, DARE",
	.opts = merge_opts,
	.cfg_size = sizeof(struct merge_options),
	.run_given = run_merge,
	.common = "method base t density mergekit-config semantics seed dtype" };
