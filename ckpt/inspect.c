/*
 * inspect.c - mckpt ls and info
 *
 * A report is collected before it is printed, as lines of key and value or as one JSON object, so
 * that an error in the middle does not leave half an answer on stdout. Keys are the names of
 * options with '_' for '-', in both forms.
 */
#include "ckpt/verbs.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/source.h"
#include "lib/model/family.h"
#include "lib/model/fields.h"
#include "lib/model/lr.h"
#include "lib/model/split.h"

#include <stdlib.h>
#include <string.h>

/* One line of a report as it is collected: key, value pairs. */
struct report {
	struct str text;
	bool json;
	int count;
};

/* Totals over the tensors of a checkpoint. */
struct sums {
	int64_t parameters, bytes;
	const char *dtype; /* of the weights, or "mixed" */
};

/*
 * True for numbers that are valid JSON as they stand; anything else, such as 007, 1. or nan,
 * becomes a string. The values come from option texts, which allow more forms.
 */
static bool
is_number(const char *s)
{
	char *end;

	if (*s == '-')
		s++;
	if (*s < '0' || *s > '9' || (s[0] == '0' && s[1] >= '0' && s[1] <= '9'))
		return false;
	strtod(s, &end);
	return *end == '\0' && strspn(s, "0123456789.eE+-") == strlen(s) && end[-1] != '.';
}

/* Adds one key and its value, in the form of the report. */
static void
add(struct report *r, const char *key, const char *value)
{
	if (!r->json) {
		str_addf(&r->text, "%s\t%s\n", key, value);
		return;
	}
	str_adds(&r->text, r->count++ ? ", " : "{");
	str_add_json(&r->text, key, strlen(key));
	str_adds(&r->text, ": ");
	if (is_number(value) || !strcmp(value, "true") || !strcmp(value, "false"))
		str_adds(&r->text, value);
	else
		str_add_json(&r->text, value, strlen(value));
}

/* The same for a number. */
static void
add_int(struct report *r, const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)value);
	add(r, key, text);
}

/* Prints what was collected and empties it. */
static void
flush(struct report *r, FILE *out)
{
	if (r->json)
		str_adds(&r->text, r->count ? "}\n" : "{}\n");
	str_put(&r->text, out);
	str_release(&r->text);
	r->count = 0;
}

/* Adds each line of an options or state text as key and value; flags are true. Names get '_' and
 * the prefix. */
static void
add_text(struct report *r, const char *prefix, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n"), name = strcspn(text, " \t\n");
		size_t skip = strspn(text + name, " \t");
		char key[200], *value = mem_strndup(text + name + skip, len - name - skip);
		int n = snprintf(
		    key, sizeof key, "%s%.*s", prefix, (int)(name < 150 ? name : 150), text);

		for (int i = 0; i < n && i < (int)sizeof key - 1; i++)
			if (key[i] == '-')
				key[i] = '_';
		for (size_t i = strlen(value); i > 0 && value[i - 1] == ' '; i--)
			value[i - 1] = '\0';
		if (name > 0 && *text != '#')
			add(r, key, *value ? value : "true");
		free(value);
		text += len + (text[len] == '\n');
	}
}

/* Adds up the tensors; optimizer state, and what is of the run, counts as bytes, not as
 * parameters. */
static struct sums
sum_up(const struct source *s)
{
	struct sums x = { .dtype = NULL };
	struct source_tensor *t;
	int count = source_tensors(s, &t);

	for (int i = 0; i < count; i++) {
		int64_t n = param_elements(t[i].part.param);
		const char *dtype = dtype_name(t[i].stored.dtype);

		x.bytes += n * (int64_t)dtype_size(t[i].stored.dtype);
		if (!source_is_weight(s, &t[i].part))
			continue;
		x.parameters += n;
		x.dtype = !x.dtype || !strcmp(x.dtype, dtype) ? dtype : "mixed";
	}
	if (!x.dtype)
		x.dtype = "none";
	free(t);
	return x;
}

/* Options and state of ls. */
struct listing {
	const char *head; /* printed before the first row; NULL afterwards */
	FILE *out;
	struct str *problems;
};

/* No tensor is read, so a large checkpoint is listed as fast as a small one. */
static void
ls_one(struct listing *l, const struct source *s, bool latest)
{
	struct sums x = sum_up(s);
	struct report r = { .json = true };

	if (l->head) {
		fprintf(l->out, "%s%s\t%lld\t%d\t%lld\t%lld\t%s\t%s\t%s\n", l->head, s->path,
		    (long long)s->state.iteration, s->num_tensors, (long long)x.parameters,
		    (long long)x.bytes, x.dtype, s->rule ? "yes" : "no", latest ? "yes" : "no");
		l->head = "";
		return;
	}
	add(&r, "directory", s->path);
	add_int(&r, "iteration", s->state.iteration);
	add_int(&r, "tensors", s->num_tensors);
	add_int(&r, "parameters", x.parameters);
	add_int(&r, "bytes", x.bytes);
	add(&r, "dtype", x.dtype);
	add(&r, "optimizer", s->rule ? "true" : "false");
	add(&r, "latest", latest ? "true" : "false");
	flush(&r, l->out);
}

/* A checkpoint that does not open is reported and does not end the list. */
static void
ls_save(struct listing *l, const char *save)
{
	int64_t *iteration, latest = -1;
	struct err e;
	int n = ckpt_iterations(save, &iteration, &e),
	    tracked = n < 0 ? -1 : ckpt_tracker(save, &latest, &e);

	for (int i = 0; i < n && tracked >= 0; i++) {
		char dir[IO_PATH];
		struct source *s;

		ckpt_iter_dir(save, iteration[i], dir);
		s = source_open(dir, &e);
		if (s)
			ls_one(l, s, tracked && iteration[i] == latest);
		else
			str_addf(l->problems, "%s\n", e.msg);
		source_close(s);
	}
	if (tracked < 0)
		str_addf(l->problems, "%s\n", e.msg);
	free(iteration);
}

/* The report is complete before any of it is printed. State keys get the prefix state_, so that
 * none collides with the name of an option. */
static int
info_model(const char *dir, bool json, FILE *out, struct err *e)
{
	struct source *s = source_open(dir, e);
	struct report r = { .json = json };
	struct str model = { 0 }, split = { 0 }, schedule = { 0 };
	const struct family *f;
	struct lr_schedule l;
	struct sums x;

	if (!s)
		return -1;
	f = family_of(&s->config, NULL);
	x = sum_up(s);
	add(&r, "directory", s->path);
	add(&r, "format", s->kind->name);
	add(&r, "family", f ? f->model_type : "none");
	add_int(&r, "parameters", x.parameters);
	add_int(&r, "tensors", s->num_tensors);
	add_int(&r, "bytes", x.bytes);
	add_int(&r, "files", s->num_files);
	add(&r, "dtype", x.dtype);
	add(&r, "optimizer", s->rule ? "true" : "false");
	add_int(&r, "tensor_model_parallel_size", s->layout.tensor_model_parallel_size);
	add_int(&r, "pipeline_model_parallel_size", s->layout.pipeline_model_parallel_size);
	split_text(&s->layout, &s->config, &split);
	add(&r, "pipeline_model_parallel_layout", split.buf);
	model_dump(&s->config, &model);
	add_text(&r, "", model.buf);
	add_text(&r, "state_", s->state_text.buf);
	if (s->state.schedule && lr_parse(s->state.schedule, &l, NULL) == 0) {
		lr_describe(&l, &schedule);
		add_text(&r, "schedule_", schedule.buf);
	}
	flush(&r, out);
	str_release(&model);
	str_release(&split);
	str_release(&schedule);
	source_close(s);
	return 0;
}

/* By name, as in a manifest. */
static int
info_tensors(const char *dir, bool json, FILE *out, struct err *e)
{
	struct source *s = source_open(dir, e);
	struct str shape = { 0 }, name = { 0 };
	struct source_tensor *t;
	int count;

	if (!s)
		return -1;
	count = source_tensors(s, &t);
	if (!json)
		fputs("tensor\tdtype\tshape\telements\tbytes\tpieces\n", out);
	for (int i = 0; i < count; i++) {
		const struct param *p = t[i].part.param;
		const char *dtype = dtype_name(t[i].stored.dtype);
		long long n = (long long)param_elements(p),
			  bytes = n * (long long)dtype_size(t[i].stored.dtype);

		str_clear(&shape);
		for (int d = 0; d < p->ndim; d++)
			str_addf(&shape, "%s%lld", d ? "," : "", (long long)p->shape[d]);
		str_clear(&name);
		str_add_json(&name, t[i].name, strlen(t[i].name));
		if (json)
			fprintf(out,
			    "{\"tensor\": %s, \"dtype\": \"%s\", \"shape\": [%s], \"elements\": "
			    "%lld, \"bytes\": %lld, \"pieces\": %d}\n",
			    name.buf, dtype, shape.buf, n, bytes, t[i].stored.pieces);
		else
			fprintf(out, "%s\t%s\t%s\t%lld\t%lld\t%d\n", t[i].name, dtype, shape.buf, n,
			    bytes, t[i].stored.pieces);
	}
	str_release(&name);
	str_release(&shape);
	free(t);
	source_close(s);
	return 0;
}

struct look_config {
	bool json, tensors;
};

static const struct opt ls_opts[] = {
	FLAG(struct look_config, "json", json, "one JSON object per line instead of TSV"),
	OPT_END,
};

static const struct opt info_opts[] = {
	FLAG(struct look_config, "json", json, "JSON instead of TSV"),
	FLAG(struct look_config, "tensors", tensors, "one line per tensor instead"),
	OPT_END,
};

/* Lists every directory, whatever is wrong with one of them. The column names are part of the
 * interface; the manual lists them. */
static int
run_ls(const void *cfg, int argc, char **argv, struct err *e)
{
	static const char head[] =
	    "directory\titeration\ttensors\tparameters\tbytes\tdtype\toptimizer\tlatest\n";
	const struct look_config *c = cfg;
	struct str problems = { 0 };
	struct listing l = { c->json ? NULL : head, stdout, &problems };

	(void)e;
	for (int i = 0; i < argc; i++)
		ls_save(&l, argv[i]);
	if (argc == 0)
		ls_save(&l, ".");
	return cli_warnings(&problems) ? CLI_NO : CLI_DONE;
}

/* One checkpoint: its description, or its tensors. */
static int
run_info(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct look_config *c = cfg;
	int rc = cli_operands(argc, 1, "DIR", e);

	if (rc)
		return rc;
	return c->tensors ? info_tensors(argv[0], c->json, stdout, e)
			  : info_model(argv[0], c->json, stdout, e);
}

const struct verb verb_ls = { .name = "ls",
	.operands = "DIR ...",
	.summary = "list the checkpoints of SAVE directories",
	.opts = ls_opts,
	.cfg_size = sizeof(struct look_config),
	.run = run_ls };

const struct verb verb_info = { .name = "info",
	.operands = "DIR",
	.summary = "print what a checkpoint holds",
	.opts = info_opts,
	.cfg_size = sizeof(struct look_config),
	.run = run_info };
