/*
 * inspect.c - mckpt ls and info
 *
 * A report is collected before it is printed, as lines of key and value or as one JSON object, so
 * that an error in the middle does not leave half an answer on stdout. Keys are the names of
 * options with '_' for '-', in both forms.
 */
#include "ckpt/inspect.h"
#include "ckpt/table.h"
#include "lib/base/mem.h"
#include "lib/model/family.h"
#include "lib/model/split.h"
#include "lib/model/fields.h"

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
	bool optimizer;
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

/* Elements of the whole tensor. */
static int64_t
elements_of(const struct ckpt_tensor *t)
{
	struct slice whole = slice_whole(t->ndim, t->shape);

	return slice_elements(&whole);
}

/* Adds up the tensors; optimizer state counts as bytes, not as parameters. */
static struct sums
sum_up(const struct ckpt *c)
{
	struct sums s = { .dtype = NULL };

	for (int i = 0; i < ckpt_count(c); i++) {
		const struct ckpt_tensor *t = ckpt_at(c, i);
		int64_t n = elements_of(t);

		s.bytes += n * (int64_t)dtype_size(t->dtype);
		if (optim_state_of(NULL, t->name)) {
			s.optimizer = true;
			continue;
		}
		s.parameters += n;
		s.dtype = !s.dtype || !strcmp(s.dtype, dtype_name(t->dtype)) ? dtype_name(t->dtype)
									     : "mixed";
	}
	if (!s.dtype)
		s.dtype = "none";
	return s;
}

/* Options and state of ls. */
struct listing {
	const char *head; /* printed before the first row; NULL afterwards */
	FILE *out;
	struct str *problems;
};

/* No tensor is read, so a large checkpoint is listed as fast as a small one. */
static void
ls_one(struct listing *l, const struct ckpt *c, int64_t iteration, bool latest)
{
	struct sums s = sum_up(c);
	struct report r = { .json = true };

	if (l->head) {
		fprintf(l->out, "%s%s\t%lld\t%d\t%lld\t%lld\t%s\t%s\t%s\n", l->head, ckpt_dir(c),
		    (long long)iteration, ckpt_count(c), (long long)s.parameters,
		    (long long)s.bytes, s.dtype, s.optimizer ? "yes" : "no", latest ? "yes" : "no");
		l->head = "";
		return;
	}
	add(&r, "directory", ckpt_dir(c));
	add_int(&r, "iteration", iteration);
	add_int(&r, "tensors", ckpt_count(c));
	add_int(&r, "parameters", s.parameters);
	add_int(&r, "bytes", s.bytes);
	add(&r, "dtype", s.dtype);
	add(&r, "optimizer", s.optimizer ? "true" : "false");
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
		char dir[1024];
		struct ckpt *c;

		ckpt_iter_dir(save, iteration[i], dir);
		c = ckpt_open(dir, &e);
		if (c)
			ls_one(l, c, iteration[i], tracked && iteration[i] == latest);
		else
			str_addf(l->problems, "%s\n", e.msg);
		ckpt_close(c);
	}
	if (tracked < 0)
		str_addf(l->problems, "%s\n", e.msg);
	free(iteration);
}

/* The column names are part of the interface; the manual lists them. */
void
ls_saves(char *const *save, int count, bool json, FILE *out, struct str *problems)
{
	struct listing l = { .out = out, .problems = problems };

	if (!json)
		l.head =
		    "directory\titeration\ttensors\tparameters\tbytes\tdtype\toptimizer\tlatest\n";
	for (int i = 0; i < count; i++)
		ls_save(&l, save[i]);
}

/* State keys get the prefix state_, so that none collides with the name of an option. */
static void
describe(struct report *r, const struct ckpt *c, const struct table *t)
{
	const struct family *f = family_of(&t->config, NULL);
	struct sums s = sum_up(c);
	struct str model = { 0 }, split = { 0 };

	add(r, "directory", ckpt_dir(c));
	add(r, "family", f ? f->model_type : "none");
	add_int(r, "parameters", s.parameters);
	add_int(r, "tensors", ckpt_count(c));
	add_int(r, "bytes", s.bytes);
	add_int(r, "files", ckpt_num_files(c));
	add(r, "dtype", s.dtype);
	add(r, "optimizer", s.optimizer ? "true" : "false");
	add_int(r, "tensor_model_parallel_size", t->layout.tensor_model_parallel_size);
	add_int(r, "pipeline_model_parallel_size", t->layout.pipeline_model_parallel_size);
	split_text(&t->layout, &t->config, &split);
	add(r, "pipeline_model_parallel_layout", split.buf);
	model_dump(&t->config, &model);
	add_text(r, "", model.buf);
	add_text(r, "state_", ckpt_state_text(c));
	str_release(&model);
	str_release(&split);
}

/* The report is complete before any of it is printed. */
int
info_checkpoint(const char *dir, bool json, FILE *out, struct err *e)
{
	struct ckpt *c = ckpt_open(dir, e);
	struct report r = { .json = json };
	struct table t;
	int rc;

	if (!c)
		return -1;
	rc = table_open(&t, c, e);
	if (rc == 0) {
		describe(&r, c, &t);
		flush(&r, out);
	}
	table_release(&t);
	ckpt_close(c);
	return rc;
}

/* One tensor of info --tensors. */
static void
tensor_line(const struct ckpt_tensor *t, bool json, FILE *out)
{
	int64_t n = elements_of(t);
	struct str shape = { 0 };

	for (int i = 0; i < t->ndim; i++)
		str_addf(&shape, "%s%lld", i ? "," : "", (long long)t->shape[i]);
	if (json) {
		struct str name = { 0 };

		str_add_json(&name, t->name, strlen(t->name));
		fprintf(out,
		    "{\"tensor\": %s, \"dtype\": \"%s\", \"shape\": [%s], \"elements\": %lld, "
		    "\"bytes\": %lld, "
		    "\"pieces\": %d}\n",
		    name.buf, dtype_name(t->dtype), shape.buf, (long long)n,
		    (long long)n * (long long)dtype_size(t->dtype), t->num_pieces);
		str_release(&name);
	} else {
		fprintf(out, "%s\t%s\t%s\t%lld\t%lld\t%d\n", t->name, dtype_name(t->dtype),
		    shape.buf, (long long)n, (long long)n * (long long)dtype_size(t->dtype),
		    t->num_pieces);
	}
	str_release(&shape);
}

/* Tensors come in the order of the checkpoint: by name. */
int
info_tensors(const char *dir, bool json, FILE *out, struct err *e)
{
	struct ckpt *c = ckpt_open(dir, e);

	if (!c)
		return -1;
	if (!json)
		fputs("tensor\tdtype\tshape\telements\tbytes\tpieces\n", out);
	for (int i = 0; i < ckpt_count(c); i++)
		tensor_line(ckpt_at(c, i), json, out);
	ckpt_close(c);
	return 0;
}
