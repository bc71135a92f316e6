/* damage.c - files of a checkpoint that are not what was saved */
#include "ckpt/verify.h"
#include "lib/base/io.h"
#include "tests/faults/strike.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096 };

/* Changes the bytes, which may become fewer, and says where in text. */
typedef void damage(struct trial *t, char *bytes, size_t *len, char text[80]);

static void
flip(struct trial *t, char *bytes, size_t *len, char text[80])
{
	uint32_t at = trial_draw(t, (uint32_t)*len), bit = trial_draw(t, 8);

	bytes[at] ^= (char)(1 << bit);
	snprintf(text, 80, "bit %u of byte %u", bit, at);
}

static void
cut(struct trial *t, char *bytes, size_t *len, char text[80])
{
	(void)bytes;
	*len = trial_draw(t, (uint32_t)*len);
	snprintf(text, 80, "to %zu bytes", *len);
}

static void
zeroes(struct trial *t, char *bytes, size_t *len, char text[80])
{
	size_t at = trial_draw(t, (uint32_t)*len) / BLOCK * BLOCK;

	memset(bytes + at, 0, *len - at < BLOCK ? *len - at : BLOCK);
	snprintf(text, 80, "from byte %zu on", at);
}

/* A file among those of the latest checkpoint, one before it, and the tracker; its name below
 * `work`. */
static const char *
draw_file(struct trial *t)
{
	static const char *const name[] = { "manifest.tsv", "options.conf", "state.conf",
		"pieces-00000.safetensors", "pieces-00001.safetensors" };
	int files = 3 + scene_layouts[t->layout].ranks;
	uint32_t kind = trial_draw(t, 8);

	if (kind == 0) {
		snprintf(t->file, sizeof t->file, "C/latest_checkpointed_iteration.txt");
		snprintf(t->says, sizeof t->says, "latest_checkpointed_iteration.txt");
	} else {
		snprintf(t->says, sizeof t->says, "%s", name[trial_draw(t, (uint32_t)files)]);
		snprintf(t->file, sizeof t->file, "C/iter_%07d/%s",
		    kind == 1 ? SCENE_HALF - 2 : SCENE_HALF, t->says);
	}
	return t->says;
}

/* Restores the file; a tracker that a complete run has written is right. */
static int
mend_file(struct trial *t, struct err *e)
{
	char *to = trial_path(t, t->file);
	struct str from = { 0 };
	int rc;

	str_addf(
	    &from, "%s/%s.%d/%s", t->scene->base, scene_layouts[t->layout].name, t->begin, t->file);
	rc = t->status == 0 && strstr(t->file, "latest") ? 0 : scene_copy(from.buf, to, e);
	str_release(&from);
	free(to);
	return rc;
}

/* mckpt verify must find it, unless it lies where no sum is: in the tracker, or in a header in a
 * way that changes nothing that the header says. */
static void
verify_finds(struct trial *t)
{
	struct str problems = { 0 };
	char *dir = trial_path(t, t->file);
	FILE *nowhere = fopen("/dev/null", "w");

	*strrchr(dir, '/') = '\0';
	if (!strstr(t->file, "latest") && !strstr(t->file, "pieces") &&
	    verify_dir(dir, nowhere, &problems) == 0)
		trial_problem(
		    t, VERDICT_DIFFERS, "mckpt verify finds nothing wrong with %s", t->file);
	fclose(nowhere);
	str_release(&problems);
	free(dir);
}

/* Damages the file; NULL removes it. Sets struck: the latest checkpoint is not what it was. */
static int
do_damage(struct trial *t, const char *path, damage *how, char text[80], struct err *e)
{
	char *bytes, *before;
	size_t len, was;
	FILE *f;

	if (!how) {
		t->struck = true;
		return unlink(path) < 0 ? err_sys(e, "remove", path) : 0;
	}
	if (io_read_file(path, 0, &bytes, &len, e) < 0 ||
	    io_read_file(path, 0, &before, &was, e) < 0)
		return -1;
	how(t, bytes, &len, text);
	t->struck = len != was || memcmp(bytes, before, len);
	f = fopen(path, "w");
	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
		err_sys(e, "write", path);
	free(bytes);
	free(before);
	return 0;
}

/* A run from the damaged state. With damage to an older checkpoint it must end as if nothing had
 * happened. */
static int
strike_damage(struct trial *t, damage *how, struct err *e)
{
	struct scene_run run = { .extra = { "", "" } };
	char *path, where[80] = "", text[200];
	int rc;

	if (trial_begin(t, e) < 0)
		return -1;
	run.layout = &scene_layouts[t->layout];
	draw_file(t);
	path = trial_path(t, t->file);
	rc = do_damage(t, path, how, where, e);
	free(path);
	if (rc < 0)
		return -1;
	snprintf(text, sizeof text, "%.100s %s", t->file, where);
	trial_describe(t, text);
	t->mend = mend_file;
	if (t->struck)
		verify_finds(t);
	t->struck = t->struck && !strstr(t->file, "iter_0000002");
	t->status = trial_run(t, &run, (struct command){ 0 }, &t->said);
	return 0;
}

int
strike_flip(struct trial *t, struct err *e)
{
	return strike_damage(t, flip, e);
}

int
strike_cut(struct trial *t, struct err *e)
{
	return strike_damage(t, cut, e);
}

int
strike_zeroes(struct trial *t, struct err *e)
{
	return strike_damage(t, zeroes, e);
}

int
strike_removal(struct trial *t, struct err *e)
{
	return strike_damage(t, NULL, e);
}
