/*
 * start.c - where a run starts from (design: one script both starts and requeues)
 *
 * No weights are read here: only whether there is a checkpoint and what its options say. All ranks
 * look at the same files and get the same answer, without communication. A directory that is
 * neither empty nor a checkpoint is refused, since starting fresh over a mistyped name would cost a
 * run.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "train/config/start.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* True when the directory is missing or has no entry. One that exists but cannot be read is not
 * empty. */
static bool
is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	bool empty = true;

	if (!d)
		return !io_exists(dir);
	while (empty && (de = readdir(d)))
		empty = !strcmp(de->d_name, ".") || !strcmp(de->d_name, "..");
	closedir(d);
	return empty;
}

/* True when both are one directory, as typed or as resolved. realpath fails for a directory that
 * does not exist yet: then only the spelling counts. */
static bool
same_dir(const char *a, const char *b)
{
	char *x, *y;
	bool same;

	if (!a || !b)
		return false;
	if (!strcmp(a, b))
		return true;
	x = realpath(a, NULL);
	y = realpath(b, NULL);
	same = x && y && !strcmp(x, y);
	free(x);
	free(y);
	return same;
}

/* The tracker, and each checkpoint with the file that its last save has renamed or written. */
static void
add_seen(struct str *out, const char *option, const char *dir)
{
	int64_t iteration = 0, *all;
	struct err why = { "" }, ignored;
	struct str path = { 0 };
	int found = ckpt_tracker(dir, &iteration, &why), n = ckpt_iterations(dir, &all, &ignored);
	struct stat st;

	str_addf(out, "%s tracker %d %" PRId64 " %s\n", option, found, iteration, why.msg);
	for (int i = 0; i < n; i++) {
		str_clear(&path);
		str_addf(&path, "%s/iter_%07" PRId64 "/manifest.tsv", dir, all[i]);
		if (stat(path.buf, &st) == 0)
			str_addf(out, "%" PRId64 " %ju %jd.%09ld\n", all[i], (uintmax_t)st.st_ino,
			    (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		else
			str_addf(out, "%" PRId64 "\n", all[i]);
	}
	free(all);
	str_release(&path);
}

void
train_seen(const struct train_config *c, struct str *out)
{
	if (c->o.load)
		add_seen(out, "load", c->o.load);
	if (c->o.save)
		add_seen(out, "save", c->o.save);
}

/* The checkpoint that --load names: that of --ckpt-step, whatever the tracker says; else its
 * tracker's, or that of a first save that ended before writing one. 1, 0 when there is none, -1
 * with a reason, which is not wrong usage where something cannot be read. */
static int
find_checkpoint(struct train_config *c, struct err *e)
{
	int64_t iteration, step = c->o.ckpt_step;
	char dir[IO_PATH];
	int found;

	if (step >= 0) {
		ckpt_iter_dir(c->o.load, step, dir);
		found = io_there(dir, e);
		c->unreadable = found < 0;
		if (found < 0)
			return -1;
		if (!io_is_dir(dir))
			return err_set(
			    e, "--ckpt-step %lld: there is no '%s'", (long long)step, dir);
		c->goes_back = true;
	} else {
		found = ckpt_tracker(c->o.load, &iteration, e);
		c->unreadable = found < 0;
		c->weights_from = c->o.load;
		if (found)
			return found;
		found = ckpt_highest(c->o.load, dir, e);
		c->unreadable = found < 0;
		if (found <= 0)
			return found;
		str_addf(&c->parse.notes,
		    "--load %s: holds no latest_checkpointed_iteration.txt yet; continuing from "
		    "%s\n",
		    c->o.load, dir);
	}
	c->weights_from = mem_pool_strndup(&c->parse.pool, dir, strlen(dir));
	return 1;
}

/* Resume, weights alone, or fresh. iter_* directories that are not checkpoints mean damage and are
 * never ignored silently. A plan for another machine may name a directory that exists only
 * there. */
static int
start_from_load(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	int found;

	if (o->dry_run && o->world_size && !io_exists(o->load)) {
		str_addf(&c->parse.notes, "--load %s: does not exist here; the run will need it\n",
		    o->load);
		return 0;
	}
	found = find_checkpoint(c, e);
	if (found < 0)
		return -1;
	if (found) {
		if (o->finetune && same_dir(o->load, o->save))
			return err_set(e,
			    "--finetune: --load and --save are both '%s', which holds a checkpoint "
			    "already; give --save "
			    "another directory, or leave out --finetune to resume",
			    o->load);
		c->start = o->finetune ? START_WEIGHTS : START_RESUME;
		return 0;
	}
	c->weights_from = NULL;
	if (o->exit_on_missing_checkpoint && !o->pretrained_checkpoint) {
		c->unreadable = true;
		return err_set(
		    e, "--exit-on-missing-checkpoint: --load %s holds no checkpoint", o->load);
	}
	if (ckpt_has_iterations(o->load))
		return err_set(e,
		    "--load %s: holds iter_* but no latest_checkpointed_iteration.txt; write the "
		    "iteration to continue from into that file",
		    o->load);
	if (!same_dir(o->load, o->save) && !o->pretrained_checkpoint)
		return err_set(e,
		    "--load %s: holds no checkpoint, and a fresh start needs --load to equal "
		    "--save",
		    o->load);
	if (!is_empty(o->load) && !same_dir(o->load, o->save))
		return err_set(e, "--load %s: is not empty and holds no checkpoint", o->load);
	if (!o->pretrained_checkpoint)
		str_addf(&c->parse.notes,
		    "--load %s: holds no checkpoint yet; starting from the beginning\n", o->load);
	return 0;
}

/* Sets c->start and c->weights_from, which points into the options. A checkpoint in --load has
 * precedence over --pretrained-checkpoint, so that one script starts and continues a run; a --save
 * with a checkpoint that is not loaded is refused, since the run would write over it. */
int
train_start(struct train_config *c, struct err *e)
{
	const struct train_options *o = &c->o;
	int64_t iteration;

	c->start = START_FRESH;
	if (o->use_checkpoint_args && !o->load && !o->pretrained_checkpoint)
		return err_set(e, "--use-checkpoint-args: needs --load or --pretrained-checkpoint");
	if (o->ckpt_step >= 0 && !o->load)
		return err_set(e, "--ckpt-step %lld: needs --load", (long long)o->ckpt_step);
	if (o->load && start_from_load(c, e) < 0)
		return -1;
	if (c->start == START_FRESH && o->pretrained_checkpoint) {
		if (!io_is_dir(o->pretrained_checkpoint))
			return err_set(e, "--pretrained-checkpoint %s: no such directory",
			    o->pretrained_checkpoint);
		c->start = START_WEIGHTS;
		c->weights_from = o->pretrained_checkpoint;
	}
	if (o->save && !o->load && ckpt_tracker(o->save, &iteration, e) == 1)
		return err_set(e,
		    "--save %s: holds the checkpoint of iteration %lld already; add --load %s to "
		    "continue from it, or give another directory",
		    o->save, (long long)iteration, o->save);
	if (o->save && !o->load && ckpt_has_iterations(o->save))
		return err_set(e,
		    "--save %s: holds iter_* already; add --load %s to continue from there, or "
		    "give another directory",
		    o->save, o->save);
	return 0;
}

/* Without an older one the reason is left as it is, also when a long path leaves no room for the
 * command. */
void
train_name_older(const char *dir, struct err *e)
{
	char older[IO_PATH];
	struct err why = *e;

	if (ckpt_older(dir, older) && strlen(why.msg) + 2 * strlen(older) + 100 < sizeof e->msg)
		err_set(e,
		    "%s; the newest older checkpoint that opens is %s: 'mckpt verify %s' reads all "
		    "of it",
		    why.msg, older, older);
}

struct source *
train_open_source(const char *dir, struct err *e)
{
	struct source *s = source_open(dir, e);

	if (!s)
		train_name_older(dir, e);
	return s;
}

/* False: it cannot be opened, which is what is compared then. */
static bool
add_checkpoint(struct str *out, const char *dir)
{
	struct err why;
	struct source *s = source_open(dir, &why);
	char sum[17];

	str_adds(out, "checkpoint\t");
	if (s)
		str_addf(out, "iteration %lld, %d tensors, contents %s\n",
		    (long long)s->state.iteration, s->num_tensors,
		    hash_text(s->kind->hash(s), sum));
	else
		str_addf(out, "cannot be opened (%s)\n", why.msg);
	source_close(s);
	return s != NULL;
}

/* Adds a text file. Anything else, such as a pipe, is left to its one reader. */
static void
add_file(struct str *out, const char *option, const char *path)
{
	struct stat st;
	struct err why;
	int fd = path ? io_open_regular(path, &st, &why) : -1;
	char *text, sum[17];
	size_t len;

	if (fd < 0)
		return;
	close(fd);
	if (io_read_file(path, 0, &text, &len, &why) < 0)
		return;
	str_addf(out, "--%s\t%zu bytes, contents %s\n", option, len,
	    hash_text(hash_xxh3(text, len), sum));
	free(text);
}

void
train_start_text(struct train_config *c, struct str *out)
{
	static const char *const starts[] = { [START_FRESH] = "from the beginning",
		[START_RESUME] = "resumes",
		[START_WEIGHTS] = "from weights" };
	struct str model = { 0 };
	char *line, *rest;

	str_addf(out, "start\t%s\n", starts[c->start]);
	if (c->start != START_FRESH && !add_checkpoint(out, c->weights_from))
		c->unreadable = true;
	if (c->tokenizer)
		str_addf(out, "tokenizer\t%s\n", tokenizer_hash(c->tokenizer));
	add_file(out, "tokens-file", c->o.tokens_file);
	model_dump(&c->plan.model, &model);
	line = strtok_r(model.buf, "\n", &rest);
	for (; line; line = strtok_r(NULL, "\n", &rest)) {
		int name = (int)strcspn(line, " ");

		str_addf(out, "model: %.*s\t%s\n", name, line, line + name + (line[name] == ' '));
	}
	str_release(&model);
}

/* True when the same command line would continue from here. Used only for the final message. */
bool
train_continues(const struct train_config *c)
{
	return same_dir(c->o.load, c->o.save) && !c->o.finetune;
}

bool
train_repeats(const struct train_config *c)
{
	return c->o.save && train_continues(c) && c->o.ckpt_step < 0;
}

const char *
train_way_on(const struct train_config *c)
{
	if (!c->o.save)
		return "nothing is saved without --save";
	if (!train_continues(c))
		return "a command that loads this --save continues the run";
	return c->goes_back ? "the same command without --ckpt-step continues the run"
			    : "the same command continues the run";
}

int
train_progress(struct train_config *c, int64_t *iteration, int64_t *consumed, struct err *e)
{
	struct source *s;

	*iteration = *consumed = 0;
	if (c->start != START_RESUME)
		return 0;
	s = train_open_source(c->weights_from, e);
	c->unreadable = !s;
	if (!s)
		return -1;
	*iteration = s->state.iteration;
	*consumed = s->state.consumed_train_samples;
	source_close(s);
	return 0;
}

/* Takes the checkpoint's sequence length, as Megatron-LM does. Without one in its options it is the
 * default, here as there. */
static int
take_seq_length(struct train_config *c, const char *name, const char *text, struct err *e)
{
	static const char option[] = "seq-length ";
	struct str line = { 0 };
	int rc;

	while (*text && strncmp(text, option, sizeof option - 1))
		text += strcspn(text, "\n") + (text[strcspn(text, "\n")] == '\n');
	str_addf(&line, "%.*s", (int)strcspn(text, "\n"), text);
	rc = opt_text(&c->parse, name, line.buf, true, e);
	str_release(&line);
	return rc;
}

/* 1 when *m has been set from the checkpoint, without tokens that it has not recorded, 0 when the
 * command line says what the model is, -1 on failure. */
int
train_checkpoint_model(struct train_config *c, struct model_config *m, struct err *e)
{
	struct source *s;
	bool typed = c->o.run.model.path || opt_given(&c->parse, "num-layers");
	int rc = 0;

	if (!c->weights_from || (typed && !c->o.use_checkpoint_args))
		return 0;
	s = train_open_source(c->weights_from, e);
	c->unreadable = !s;
	if (!s)
		return -1;
	*m = s->config;
	if (s->padded_vocab)
		m->vocab_size = 0;
	if (c->o.use_checkpoint_args)
		rc = take_seq_length(c, s->path, s->options.buf, e);
	source_close(s);
	return rc < 0 ? -1 : 1;
}

void
train_note_changes(const struct train_config *c, const char *name,
    const struct model_config *theirs, struct str *notes)
{
	struct str differences = { 0 };

	model_weight_differences(theirs, &c->plan.model, &differences);
	for (const char *at = differences.buf; at && *at; at += strcspn(at, "\n") + 1) {
		const char *old = strchr(at, '\t') + 1, *new = strchr(old, '\t') + 1;

		str_addf(notes, "%s: %.*s -> %.*s\n", name, (int)(new - old - 1), old,
		    (int)strcspn(new, "\n"), new);
	}
	str_release(&differences);
}

/* 0 when the checkpoint's weights mean the same in this run. */
int
train_same_model(const struct train_config *c, const char *name, const struct model_config *theirs,
    struct err *e)
{
	struct str differences = { 0 };
	char *line, *mine;

	/* Learned positions are a tensor, so the number of positions counts. */
	if (theirs->position == POSITION_LEARNED &&
	    theirs->max_position_embeddings != c->plan.model.max_position_embeddings)
		return err_set(e,
		    "%s: the checkpoint has max-position-embeddings %lld, the run %lld", name,
		    (long long)theirs->max_position_embeddings,
		    (long long)c->plan.model.max_position_embeddings);
	if (c->start == START_WEIGHTS)
		model_start_differences(theirs, &c->plan.model, &differences);
	else
		model_weight_differences(theirs, &c->plan.model, &differences);
	line = differences.buf;
	if (line) {
		line[strcspn(line, "\n")] = '\0';
		line = strchr(line, '\t') + 1;
		mine = strchr(line, '\t');
		*mine++ = '\0';
		err_set(e,
		    "%s: the checkpoint has %s, the run %s; --use-checkpoint-args takes the "
		    "checkpoint's where the command line says nothing",
		    name, line, mine);
	}
	str_release(&differences);
	return line ? -1 : 0;
}
