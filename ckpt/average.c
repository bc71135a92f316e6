/*
 * average.c - mckpt average
 *
 * The sources are operands, checkpoints of a run by their iterations, or paths with weights; names
 * and rules of the latter two are those of Megatron-LM's tools/checkpoint/weighted_merge.py. The
 * weights are printed, since those of a decay are not what one expects: the first checkpoint has
 * the largest. What is summed is averaged.h's.
 */
#include "ckpt/averaged.h"
#include "ckpt/copy.h"
#include "ckpt/verbs.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct average_config {
	struct opt_list merge_inputs;
	const char *merge_output;
	int64_t last, start, end, window, interval, least, output_iteration;
	int style;    /* of average_styles */
	double decay; /* of ema */
	int dtype;    /* of copy_dtypes */
	bool normalize, preflight, force;
};

static const char *const torch_words[] = { "same", "keep", "bfloat16", "bf16", "float16", "fp16",
	"float32", "fp32", NULL };

/* clang-format off */
#define NOTHING(n, words, h) { .name = n, .type = OPT_NOTE, .max = words, .help = h }
#define WHOLE(n, f, lo, u, ...) \
	{ .name = n, .type = OPT_INT, .off = offsetof(struct average_config, f), .min = lo, \
	  .max = 1e15, .unit = u, .help = __VA_ARGS__ }
/* clang-format on */

static const char builds_none[] = "no model is built";
static const char streams[] = "a few MiB of each tensor are in memory at a time";

static const struct opt average_opts[] = {
	WHOLE("last", last, 1, "N", "the last N checkpoints of SRC, a SAVE directory"),
	CHOICE(struct average_config, "merge-style", style, average_styles, "linear",
	    "weights of checkpoints in rising order: linear, all equal; minus-sqrt, those of a "
	    "learning rate that decays as 1 - sqrt from the first on; __reverse turns them round; "
	    "ema, proportional to powers of --decay"),
	{ .name = "decay",
	    .type = OPT_NUMBER,
	    .off = offsetof(struct average_config, decay),
	    .min = 0,
	    .max = 1,
	    .def = "0.9",
	    .help = "of ema: what a checkpoint weighs beside the next one",
	    .needs = "merge-style=ema" },
	CHOICE(struct average_config, "dtype", dtype, copy_dtypes, "keep",
	    "type of the tensors; rounds to nearest, once; by default the widest of the sources"),
	WHOLE("output-iteration", output_iteration, 0, "N",
	    "iteration of the result; that of the last source by default"),
	FLAG(struct average_config, "force", force,
	    "write into a directory that holds a checkpoint"),
	{ .type = OPT_GROUP, .help = "By the names of Megatron-LM's weighted merge" },
	{ .name = "merge-inputs",
	    .type = OPT_LIST,
	    .off = offsetof(struct average_config, merge_inputs),
	    .unit = "PATH:WEIGHT",
	    .help = "sources with their weights; or one SAVE directory, with --end-checkpoint" },
	TEXT(struct average_config, "merge-output", merge_output, "DST",
	    "the directory to write, in place of the operand"),
	WHOLE("start-checkpoint", start, 0, "N", "first iteration, itself included"),
	WHOLE("end-checkpoint", end, 0, "N", "last iteration, which must be there"),
	WHOLE("merge-window-btoks", window, 1, "N",
	    "in place of --start-checkpoint: billions of tokens before the end, by the sequence "
	    "length and the batch size in its options"),
	WHOLE("min-iteration-interval", interval, 0, "N",
	    "leave out checkpoints that are nearer to the next one, from the end backwards"),
	WHOLE("min-checkpoints", least, 1, "N", "fail with fewer"),
	FLAG(struct average_config, "normalize", normalize,
	    "divide weights given by hand by their sum"),
	{ .name = "merge-save-dtype",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct average_config, dtype),
	    .choices = copy_dtypes,
	    .alias = torch_words,
	    .def = "keep",
	    .help = "the same as --dtype" },
	FLAG(struct average_config, "merge-preflight-only", preflight,
	    "check the sources and print the weights, and write nothing"),
	FLAG(struct average_config, "overwrite-merge-output", force, "the same as --force"),
	NOTHING("coefficient-seed", 1, "weights are never shuffled"),
	NOTHING("merge-execution-mode", 1, streams),
	NOTHING("merge-streaming-chunk-bytes", 1, streams),
	NOTHING("merge-max-projected-cpu-bytes", 1, streams),
	NOTHING("merge-byte-accounting", 1, "bytes are not counted"),
	NOTHING("merge-resource-log", 1, "resources are not logged"),
	NOTHING("merge-template-init-mode", 1, builds_none),
	NOTHING("model-builder", 1, builds_none),
	NOTHING("strict", 1, "tensors must be exactly those of the model"),
	NOTHING("no-atomic-merge-output", 0, "a checkpoint appears whole or not at all"),
	NOTHING("verify-load", 0, "a checkpoint is opened before it gets its name"),
	NOTHING("extra-state-source-index", 1, "the last source's is kept"),
	NOTHING("allow-data-parallel-merge", 0, "one process merges"),
	OPT_END,
};

/* What is averaged. */
struct selection {
	struct mem_pool pool; /* owns the paths */
	const char **path;    /* [count] */
	double *weight;       /* [count] */
	int count;
};

static void
reserve(struct selection *s, int n)
{
	s->path = mem_zalloc((size_t)n, sizeof *s->path);
	s->weight = mem_zalloc((size_t)n, sizeof *s->weight);
}

static void
release(struct selection *s)
{
	mem_pool_release(&s->pool);
	free(s->path);
	free(s->weight);
}

/* --- checkpoints of a run --------------------------------------------------------------------- */

struct batch {
	int64_t seq_length, global_batch_size;
};

static const struct opt batch_opts[] = {
	{ .name = "seq-length", .type = OPT_INT, .off = offsetof(struct batch, seq_length) },
	{ .name = "global-batch-size",
	    .type = OPT_INT,
	    .off = offsetof(struct batch, global_batch_size) },
	{ .type = OPT_END_TYPE }
};

static int
skip_option(const char *name, const char *value, struct err *e)
{
	(void)name;
	(void)value;
	(void)e;
	return 0;
}

/* The first iteration of a window of tokens before the checkpoint `end` of a run. */
static int
window_start(const char *save, int64_t end, int64_t billions, int64_t *start, struct err *e)
{
	struct batch b = { 0 };
	struct opt_parse p = { 0 };
	char dir[IO_PATH];
	struct source *s;
	int rc;

	ckpt_iter_dir(save, end, dir);
	s = source_open(dir, e);
	if (!s)
		return -1;
	opt_begin(&p, batch_opts, &b);
	p.unknown = skip_option;
	rc = opt_text(&p, dir, s->options.buf, false, e);
	opt_release(&p);
	if (rc == 0 && (b.seq_length < 1 || b.global_batch_size < 1))
		rc = err_at(e, s->path, 0,
		    "its options say no --seq-length and --global-batch-size: give "
		    "--start-checkpoint in place of --merge-window-btoks");
	else if (rc == 0)
		*start = end -
		    (int64_t)ceil((double)billions * 1e9 / (double)b.seq_length /
			(double)b.global_batch_size);
	source_close(s);
	return rc;
}

/* Of n rising iterations those that are kept, in place: between start and end, no nearer than
 * `interval` to the next one that is kept, and of these the last `last`. Returns how many. */
static int
thin_out(int64_t *iteration, int n, const struct average_config *c, const int64_t range[2])
{
	int kept = 0;

	for (int i = n - 1; i >= 0 && (c->last == 0 || kept < c->last); i--) {
		int64_t x = iteration[i];

		if (x < range[0] || x > range[1] || (kept && iteration[n - kept] - x < c->interval))
			continue;
		iteration[n - ++kept] = x;
	}
	memmove(iteration, iteration + n - kept, (size_t)kept * sizeof *iteration);
	return kept;
}

/* The checkpoints of a run that the options choose. */
static int
select_iterations(struct selection *s, const struct opt_parse *p, const char *save, struct err *e)
{
	const struct average_config *c = p->cfg;
	int64_t *iteration, range[2] = { c->start, c->end };
	char dir[IO_PATH];
	int n = ckpt_iterations(save, &iteration, e), rc = n < 0 ? -1 : 0;

	if (rc == 0 && !opt_given(p, "end-checkpoint"))
		range[1] = iteration[n - 1];
	if (rc == 0 && c->window)
		rc = window_start(save, range[1], c->window, &range[0], e);
	if (rc == 0)
		s->count = thin_out(iteration, n, c, range);
	if (rc == 0 && (s->count == 0 || iteration[s->count - 1] != range[1])) {
		ckpt_iter_dir(save, range[1], dir);
		rc = err_set(e, "no '%s', or it is before --start-checkpoint %lld", dir,
		    (long long)range[0]);
	}
	if (rc == 0)
		reserve(s, s->count);
	for (int i = 0; rc == 0 && i < s->count; i++) {
		ckpt_iter_dir(save, iteration[i], dir);
		s->path[i] = mem_pool_strndup(&s->pool, dir, strlen(dir));
	}
	free(iteration);
	return rc;
}

/* --- paths with weights ----------------------------------------------------------------------- */

static int
read_weight(struct selection *s, int i, const char *word, struct err *e)
{
	const char *colon = strrchr(word, ':');
	char *end;

	if (!colon || colon == word || !colon[1])
		return err_set(e, "--merge-inputs %s: must be PATH:WEIGHT", word);
	s->path[i] = mem_pool_strndup(&s->pool, word, (size_t)(colon - word));
	s->weight[i] = strtod(colon + 1, &end);
	if (*end || !isfinite(s->weight[i]))
		return err_set(e, "--merge-inputs %s: the weight is not a finite number", word);
	return 0;
}

/* Weights by hand may be negative, and need not sum to 1. */
static int
select_by_hand(
    struct selection *s, const struct average_config *c, struct str *notes, struct err *e)
{
	double sum = 0;

	s->count = c->merge_inputs.count;
	reserve(s, s->count);
	for (int i = 0; i < s->count; i++) {
		if (read_weight(s, i, c->merge_inputs.item[i], e) < 0)
			return CLI_USAGE;
		sum += s->weight[i];
	}
	if (c->normalize && !(sum > 0)) {
		err_set(e, "--normalize: the weights sum to %g; their sum must be above 0", sum);
		return CLI_USAGE;
	}
	if (fabs(sum) < 1e-12) {
		err_set(e, "--merge-inputs: the weights sum to 0");
		return CLI_USAGE;
	}
	for (int i = 0; c->normalize && i < s->count; i++)
		s->weight[i] /= sum;
	if (!c->normalize && fabs(sum - 1) > 1e-9)
		str_addf(notes, "the weights sum to %.12g: so much is in every tensor\n", sum);
	return 0;
}

/* --- the verb --------------------------------------------------------------------------------- */

/* The sources of the operands but the last, whose weights follow the style. */
static void
select_operands(struct selection *s, int argc, char **argv)
{
	s->count = argc;
	reserve(s, argc);
	for (int i = 0; i < argc; i++)
		s->path[i] = argv[i];
}

/* Which options say that the sources are checkpoints of one run; NULL: none. */
static const char *
run_option(const struct opt_parse *p)
{
	static const char *const names[] = { "last", "start-checkpoint", "end-checkpoint",
		"merge-window-btoks", NULL };

	for (int i = 0; names[i]; i++)
		if (opt_given(p, names[i]))
			return names[i];
	return NULL;
}

/* Fills the selection from options and the operands that are sources. */
static int
select_sources(struct selection *s, const struct opt_parse *p, int argc, char **argv,
    struct str *notes, struct err *e)
{
	const struct average_config *c = p->cfg;
	const char *of_run = run_option(p),
		   *save = c->merge_inputs.count ? c->merge_inputs.item[0] : argv[0];
	int given = c->merge_inputs.count + argc, rc;

	if (given == 0 || (argc && c->merge_inputs.count) || (of_run && given != 1)) {
		err_set(e,
		    of_run ? "--%s: needs one SRC, the SAVE directory of a run"
			   : "needs SRC ... DST",
		    of_run);
		return CLI_USAGE;
	}
	if (!of_run && c->merge_inputs.count)
		return select_by_hand(s, c, notes, e);
	if (c->merge_inputs.count && !opt_given(p, "end-checkpoint") && !c->last) {
		err_set(e, "--%s: needs --end-checkpoint", of_run);
		return CLI_USAGE;
	}
	rc = 0;
	if (of_run)
		rc = select_iterations(s, p, save, e);
	else
		select_operands(s, argc, argv);
	if (rc == 0)
		average_weights((enum average_style)c->style, c->decay, s->count, s->weight);
	return rc;
}

/* Prints the weights, then writes. */
static int
average(struct selection *s, const struct opt_parse *p, const char *save, struct err *e)
{
	const struct average_config *c = p->cfg;
	const struct average_rule rule = { s->weight, copy_types[c->dtype],
		opt_given(p, "output-iteration") ? c->output_iteration : -1 };
	const struct derived_job job = { .kind = &derived_averaged,
		.rule = &rule,
		.path = s->path,
		.count = s->count,
		.save = save,
		.verb = "average",
		.given = p,
		.dtype = rule.dtype,
		.force = c->force };
	struct derived *d;

	if (s->count < c->least)
		return err_set(
		    e, "--min-checkpoints %lld: there are %d", (long long)c->least, s->count);
	d = derived_open(&job, e);
	if (!d)
		return -1;
	printf("source\titeration\tweight\n");
	for (int i = 0; i < d->count; i++)
		printf("%s\t%lld\t%.15g\n", d->from[i]->path,
		    (long long)d->from[i]->state.iteration, s->weight[i]);
	if (!c->preflight)
		return derived_write(d, &job, e);
	derived_close(d);
	return 0;
}

static int
run_average(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct average_config *c = p->cfg;
	const char *save = c->merge_output;
	struct selection s = { 0 };
	struct str notes = { 0 };
	int rc;

	if (!save && argc > 0)
		save = argv[--argc];
	if (!save) {
		err_set(e, "needs SRC ... DST");
		return CLI_USAGE;
	}
	rc = select_sources(&s, p, argc, argv, &notes, e);
	cli_notes(&notes);
	if (rc == 0)
		rc = average(&s, p, save, e);
	release(&s);
	return rc;
}

const struct verb verb_average = { .name = "average",
	.operands = "SRC ... DST",
	.summary = "make a checkpoint of the weighted mean of others",
	.opts = average_opts,
	.cfg_size = sizeof(struct average_config),
	.run_given = run_average,
	.common = "last merge-style dtype output-iteration force" };
