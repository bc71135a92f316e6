/*
 * report_plan.c - the plan of a run, from the options in its checkpoint
 *
 * options.conf does not hold the number of ranks, since any number may resume a checkpoint. The
 * metrics do: tokens per second are those of all ranks and TFLOP/s those of one, so that their
 * quotient is the number of ranks, whole unless the options belong to another run.
 */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/layout_text.h"
#include "lib/model/work.h"
#include "plan/options.h"
#include "plan/report.h"
#include "plan/time_plan.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* --- the checkpoint --------------------------------------------------------------------------- */

/* Marks of the checkpoints that are in a directory. */
static void
add_saves(struct report_run *r, const char *save)
{
	int64_t *iteration;
	int count = ckpt_iterations(save, &iteration, NULL);
	char text[64];

	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof text, "checkpoint of step %lld", (long long)iteration[i]);
		report_event(r, REPORT_SAVE, (double)iteration[i], text);
	}
	free(iteration);
}

/* The last part of a path. */
static const char *
last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* True when the options name a metrics file of this name, in whatever directory. */
static bool
names_file(const char *options, const char *name)
{
	static const char key[] = "\nmetrics-file ";
	const char *at = strstr(options, key);
	struct str value = { 0 };
	bool same;

	if (!at)
		return false;
	at += sizeof key - 1;
	str_add(&value, at, strcspn(at, "\n"));
	if (value.len && value.buf[value.len - 1] == '"')
		value.buf[--value.len] = '\0';
	same = value.len && !strcmp(last_part(value.buf + (*value.buf == '"')), name);
	str_release(&value);
	return same;
}

/* The options of the last checkpoint in a directory; NULL with the reason. */
static char *
options_in(const char *save, struct str *path, struct err *e)
{
	char dir[IO_PATH], *text;
	int64_t iteration;
	int rc = ckpt_tracker(save, &iteration, e);

	if (rc == 0)
		err_set(e, "%s: holds no checkpoint", save);
	if (rc <= 0)
		return NULL;
	ckpt_iter_dir(save, iteration, dir);
	str_clear(path);
	str_addf(path, "%s/options.conf", dir);
	return io_read_regular(path->buf, 1 << 20, &text, NULL, e) < 0 ? NULL : text;
}

/* Takes the options of a directory if they name the metrics file. */
static bool
take_if_named(struct report_run *r, const char *dir)
{
	struct str path = { 0 };
	struct err ignored;
	char *text = options_in(dir, &path, &ignored);
	bool named = text && names_file(text, last_part(r->path));

	if (named) {
		r->plan.options = text;
		r->plan.path = mem_pool_strndup(&r->pool, path.buf, path.len);
		add_saves(r, dir);
	} else {
		free(text);
	}
	str_release(&path);
	return named;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, sorted, so that what is found does not depend on its order on disk. */
static int
names_in(const char *dir, char ***out)
{
	char **name = NULL;
	int count = 0;
	DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		if (count % 64 == 0)
			name = mem_realloc(name, (size_t)count + 64, sizeof *name);
		name[count++] = mem_strdup(entry->d_name);
	}
	if (d)
		closedir(d);
	if (count)
		qsort(name, (size_t)count, sizeof *name, by_name);
	*out = name;
	return count;
}

/* Looks in the directory of the metrics file, then in those that lie in it. */
static void
find_options(struct report_run *r)
{
	char *parent = io_parent(r->path), **name;
	bool found = take_if_named(r, parent);
	int count = found ? 0 : names_in(parent, &name);

	for (int i = 0; i < count; i++) {
		struct str dir = { 0 };

		str_addf(&dir, "%s/%s", parent, name[i]);
		if (!found && io_is_dir(dir.buf))
			found = take_if_named(r, dir.buf);
		str_release(&dir);
		free(name[i]);
	}
	if (count)
		free(name);
	free(parent);
	if (!found)
		r->plan.why_not = "no checkpoint beside the metrics file names it in its options: "
				  "give --checkpoint";
}

/* --- the plan --------------------------------------------------------------------------------- */

/* Of the last step that computed something. */
static bool
last_speed(const struct report_run *r, double *tokens, double *tflops)
{
	for (size_t i = r->steps.count; i-- > 0;) {
		*tokens = r->steps.column[REPORT_TOKENS][i];
		*tflops = r->steps.column[REPORT_TFLOPS][i];
		if (*tokens > 0 && *tflops > 0)
			return true;
	}
	return false;
}

/* 0 where it is no whole number. */
static int64_t
number_of_ranks(const struct report_run *r, double flops, int64_t seq_length)
{
	double tokens, tflops, ranks;

	if (!last_speed(r, &tokens, &tflops) || seq_length < 1)
		return 0;
	ranks = flops * tokens / (double)seq_length / 1e12 / tflops;
	if (!(ranks > 0.5 && ranks < 1e7) || fabs(ranks - round(ranks)) > 1e-6 * ranks)
		return 0;
	return (int64_t)round(ranks);
}

static double
flops_of(const struct model_config *c, const struct layout *l, int64_t samples, int64_t seq_length)
{
	return model_flops(c, samples, seq_length, layout_vocab(l, c));
}

/* From options that were parsed. */
static const char *
plan_of(struct report_run *r, const struct opt_parse *p, const struct report_device *d)
{
	const struct plan_config *cfg = p->cfg;
	struct report_plan *out = &r->plan;
	struct str notes = { 0 };
	struct model_config model;
	struct layout layout;
	int64_t length = cfg->run.seq_length;
	struct err e;
	int rc;

	if (model_from_text(out->path, out->options, &model, &layout, &e) < 0)
		return mem_pool_strndup(&r->pool, e.msg, strlen(e.msg));
	out->world = number_of_ranks(r, flops_of(&model, &layout, 1, length), length);
	if (!out->world)
		return "the options of the checkpoint do not fit the speed in the metrics file";
	rc = run_resolve(p, &cfg->run, out->world, 0, &out->run, &notes, &e);
	str_release(&notes);
	if (rc < 0)
		return mem_pool_strndup(&r->pool, e.msg, strlen(e.msg));
	out->flops = flops_of(&out->run.model, &out->run.layout, out->run.global_batch_size,
	    out->run.shape.seq_length);
	memtable_fullest(&out->run, out->bytes);
	if (d->given)
		time_plan(&out->run, &d->hw, &out->time);
	return NULL;
}

int
report_plan(struct report_run *r, const char *save, const struct report_device *d, struct err *e)
{
	struct plan_config cfg = { 0 };
	struct opt_parse p;
	struct str path = { 0 };
	struct err why;

	if (save) {
		r->plan.options = options_in(save, &path, e);
		if (!r->plan.options) {
			str_release(&path);
			return -1;
		}
		r->plan.path = mem_pool_strndup(&r->pool, path.buf, path.len);
		str_release(&path);
		add_saves(r, save);
	} else {
		find_options(r);
	}
	if (!r->plan.options)
		return 0;
	opt_begin(&p, plan_check_opts, &cfg);
	p.unknown = layout_unknown;
	if (opt_text(&p, r->plan.path, r->plan.options, false, &why) < 0) {
		r->plan.why_not = mem_pool_strndup(&r->pool, why.msg, strlen(why.msg));
	} else {
		/* The text holds all values of the model, whose file need not exist any more. */
		cfg.run.model.path = NULL;
		r->plan.why_not = plan_of(r, &p, d);
	}
	opt_release(&p);
	return 0;
}
