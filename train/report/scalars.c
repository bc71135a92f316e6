/*
 * scalars.c - hands scalars to TensorBoard's file and to W&B's
 *
 * W&B knows a run by its id. A run's own is made when it starts and kept beside its checkpoints, so
 * that a run that resumes is one run there, although each start has a file.
 */
#include "train/report/scalars.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "train/report/tensorboard.h"
#include "train/report/wandb.h"

#include <stdlib.h>
#include <string.h>

/* In --save. */
static const char id_file[] = "wandb_run_id.txt";
enum { ID_BYTES = 128 };

struct scalars {
	struct tensorboard *board;
	struct wandb *wandb;
};

/* Writes the options as texts, each that has a value, under Megatron-LM's names with '_'. */
static void
write_options(struct scalars *s, const struct train_config *c, int64_t iteration)
{
	struct str options = { 0 };
	char *rest, *name;

	train_dump(c, true, &options);
	name = strtok_r(options.buf, "\n", &rest);
	for (; name; name = strtok_r(NULL, "\n", &rest)) {
		char *value = name + strcspn(name, " ");

		const char *text;

		if (*value)
			*value++ = '\0';
		text = *value ? value : "True";
		for (char *at = name; (at = strchr(at, '-'));)
			*at = '_';
		if (s->board)
			tensorboard_text(s->board, name, iteration, text);
		if (s->wandb)
			wandb_text(s->wandb, name, text);
	}
	str_release(&options);
}

/* The id that this run's first start has left. False without one. */
static bool
kept_id(const char *path, char id[ID_BYTES])
{
	struct err ignored;
	char *text = NULL;
	size_t len = 0;
	bool kept = io_read_regular(path, ID_BYTES - 1, &text, &len, &ignored) == 0;

	if (kept) {
		text[strcspn(text, "\n")] = '\0';
		kept = io_is_file_name(text);
		snprintf(id, ID_BYTES, "%s", text);
	}
	free(text);
	return kept;
}

/* The run's own id. A new one is kept where checkpoints will be. */
static int
own_id(const struct train_config *c, char id[ID_BYTES], struct err *e)
{
	struct str path = { 0 }, line = { 0 };
	const char *save = c->o.save;
	int rc = 0;

	str_addf(&path, "%s/%s", save ? save : ".", id_file);
	if (!save || c->start != START_RESUME || !kept_id(path.buf, id)) {
		wandb_make_id(id);
		str_addf(&line, "%s\n", id);
		if (save && io_is_dir(save))
			rc = outfile_write(path.buf, line.buf, line.len, e);
	}
	str_release(&path);
	str_release(&line);
	return rc;
}

static struct wandb *
open_wandb(const struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	char id[ID_BYTES];
	struct wandb_run run = { .dir = o->wandb_save_dir ? o->wandb_save_dir
		    : o->save                             ? o->save
							  : ".",
		.project = o->wandb_project,
		.id = o->wandb_id ? o->wandb_id : id,
		.entity = o->wandb_entity,
		.name = o->wandb_exp_name,
		.clock = clock_unix };
	struct wandb *w;

	if (!o->wandb_id && own_id(c, id, e) < 0)
		return NULL;
	w = wandb_open(&run, e);
	if (w)
		note("for W&B, as the run %s: wandb sync '%s'", run.id, wandb_dir(w));
	return w;
}

int
scalars_open(struct scalars **out, const struct train_config *c, int64_t iteration, struct err *e)
{
	const struct train_options *o = &c->o;
	bool to_wandb = o->wandb_project && *o->wandb_project;
	struct scalars *s = mem_zalloc(1, sizeof *s);
	struct err ignored;

	*out = NULL;
	if ((o->tensorboard_dir && !(s->board = tensorboard_open(o->tensorboard_dir, e))) ||
	    (to_wandb && !(s->wandb = open_wandb(c, e)))) {
		tensorboard_close(s->board, &ignored);
		free(s);
		return -1;
	}
	if (!s->board && !s->wandb) {
		free(s);
		return 0;
	}
	write_options(s, c, iteration);
	scalars_flush(s);
	*out = s;
	return 0;
}

void
scalars_add(struct scalars *s, const char *tag, int64_t iteration, double value)
{
	if (s->board)
		tensorboard_scalar(s->board, tag, iteration, value);
	if (s->wandb)
		wandb_scalar(s->wandb, tag, iteration, value);
}

void
scalars_add_both(struct scalars *s, const char *tag, struct scalars_at at, double value)
{
	struct str by_samples = { 0 };

	scalars_add(s, tag, at.iteration, value);
	if (!s->board)
		return;
	str_addf(&by_samples, "%s vs samples", tag);
	tensorboard_scalar(s->board, by_samples.buf, at.consumed_samples, value);
	str_release(&by_samples);
}

void
scalars_summary(struct scalars *s)
{
	if (s->wandb)
		wandb_summary(s->wandb);
}

/* What is lost is kept by the files, and reported when they are closed. */
void
scalars_flush(struct scalars *s)
{
	struct err ignored;

	if (s->board)
		tensorboard_flush(s->board, &ignored);
	if (s->wandb)
		wandb_flush(s->wandb, &ignored);
}

int
scalars_close(struct scalars *s, int status, struct err *e)
{
	int rc = 0;

	if (!s)
		return 0;
	if (tensorboard_close(s->board, e) < 0)
		rc = -1;
	if (wandb_close(s->wandb, status, e) < 0)
		rc = -1;
	free(s);
	return rc;
}
