/*
 * trial.c - one injection and the checks of its outcome
 *
 * The disturbed run must end in time, with a status and a line that its class states. What it or an
 * earlier run said to be saved must be whole. The same command line, undisturbed, must then end
 * with the bytes of a run that nothing happened to.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/faults/saved.h"
#include "tests/faults/trial.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>

uint32_t
trial_draw(struct trial *t, uint32_t n)
{
	const uint32_t counter[4] = { (uint32_t)t->index, t->drawn++, 0, 0 };
	uint32_t word[4];

	rng_philox(t->seed, counter, word);
	return (uint32_t)((uint64_t)word[0] * n >> 32);
}

int
trial_draw_bit(struct trial *t, unsigned mask)
{
	uint32_t skip = trial_draw(t, (uint32_t)__builtin_popcount(mask));

	while (skip--)
		mask &= mask - 1;
	return __builtin_ctz(mask);
}

int
trial_draw_code(struct trial *t)
{
	uint32_t n = 0;

	while (t->class->codes[n])
		n++;
	return t->class->codes[trial_draw(t, n)];
}

char *
trial_path(const struct trial *t, const char *name)
{
	struct str path = { 0 };

	str_addf(&path, "%s/work/%s", t->scene->base, name);
	return str_detach(&path);
}

/* The class's layouts of one rank in three of four cases, where it has them: mpirun takes most of
 * the time. */
static unsigned
draw_size(struct trial *t)
{
	unsigned one = t->class->layouts & SCENE_ONE_RANK;

	return one && trial_draw(t, 4) ? one : t->class->layouts;
}

int
trial_begin(struct trial *t, struct err *e)
{
	static const uint64_t saved[BEGIN_COUNT] = { 0, 1 << 2 | 1 << 4, 1 << 2 };

	t->layout = trial_draw_bit(t, draw_size(t));
	t->begin = (enum beginning)trial_draw_bit(t, t->class->begins);
	t->promised = saved[t->begin];
	if (!scene_start(t->scene, t->layout, BEGIN_EMPTY, e) ||
	    !scene_start(t->scene, t->layout, t->begin, e))
		return -1;
	return scene_set(t->scene, t->layout, t->begin, e);
}

int
trial_run(struct trial *t, const struct scene_run *r, struct command c, struct str *said)
{
	struct str words = { 0 };
	char *dir = trial_path(t, "");
	int status;

	scene_words(r, &words);
	c.dir = dir;
	c.words = words.buf;
	c.out = c.out ? c.out : "out";
	status = command_run(&c, said);
	str_release(&words);
	free(dir);
	return status;
}

void
trial_describe(struct trial *t, const char *what)
{
	static const char *const begins[BEGIN_COUNT] = { "from nothing", "from two checkpoints",
		"from a save that was cut off" };

	snprintf(t->what, sizeof t->what, "%s, %s%s%s", scene_layouts[t->layout].name,
	    begins[t->begin], *what ? ", " : "", what);
}

void
trial_says(struct trial *t, const char *line)
{
	snprintf(t->says, sizeof t->says, "%s", line);
}

void
trial_problem(struct trial *t, enum verdict v, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	t->verdict[v] = true;
	str_addf(&t->problems, "%s\n", text);
}

/* Adds the problems that another check has found. */
static void
take_problems(struct trial *t, enum verdict v, struct str *problems)
{
	if (problems->len) {
		t->verdict[v] = true;
		str_add(&t->problems, problems->buf, problems->len);
	}
	str_release(problems);
}

/* How many lines of mtrain's hold the words. */
static int
lines_that_say(const char *text, const char *words)
{
	int count = 0;

	for (const char *line = text; line && *line;
	     line = strchr(line, '\n'), line += line != NULL) {
		const char *end = line + strcspn(line, "\n"), *found = strstr(line, words);

		count += !strncmp(line, "mtrain", 6) && found && found < end;
	}
	return count;
}

/* Status and message must be as the class states. */
static void
check_end(struct trial *t)
{
	unsigned allowed = t->struck ? t->class->statuses : STATUS(0);
	const char *said = t->said.buf ? t->said.buf : "";

	if (t->status == COMMAND_HUNG) {
		trial_problem(t, VERDICT_HUNG, "it did not end in %d seconds", COMMAND_SECONDS);
		return;
	}
	if (!(allowed & (t->status < 8 ? STATUS(t->status) : STATUS_KILLED)))
		trial_problem(t, VERDICT_UNSTATED, "exit status %d is not as stated", t->status);
	else if (t->status >= 1 && t->status <= 3 && *t->says && lines_that_say(said, t->says) != 1)
		trial_problem(t, VERDICT_UNSTATED, "exit status %d and %d lines that say '%s'",
		    t->status, lines_that_say(said, t->says), t->says);
}

/* Everything saved must still be there. */
static void
check_saved(struct trial *t)
{
	char *save = trial_path(t, "C");
	struct str problems = { 0 };

	saved_check(save, t->promised | saved_promised(t->said.buf ? t->said.buf : "", t->said.len),
	    &problems);
	take_problems(t, VERDICT_LOST, &problems);
	free(save);
}

/* A failed save must remove its files: on a full disk the next one needs the room. */
static void
check_tidy(struct trial *t)
{
	char *save = trial_path(t, "C");
	DIR *d = opendir(save);
	struct dirent *de;

	while (t->class->tidy && t->status == 1 && t->begin != BEGIN_CUT && d && (de = readdir(d)))
		if (!strncmp(de->d_name, ".iter_", 6))
			trial_problem(t, VERDICT_UNSTATED, "%s is left", de->d_name);
	if (d)
		closedir(d);
	free(save);
}

/* mtrain's last line, in place; mpirun adds lines of its own. */
static const char *
last_line(struct str *text)
{
	char *rest = NULL, *last = "nothing";

	for (char *line = text->buf ? strtok_r(text->buf, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		if (!strncmp(line, "mtrain", 6))
			last = line;
	return last;
}

/* The same command, undisturbed, must end as if nothing had happened. */
static void
check_rerun(struct trial *t)
{
	const struct scene_run run = { &scene_layouts[t->layout], false, { "", "" } };
	struct str problems = { 0 }, want = { 0 };
	char *save = trial_path(t, "C"), *metrics = trial_path(t, "m");
	int status = trial_run(t, &run, (struct command){ .out = "again" }, &t->again);

	if (status == COMMAND_HUNG)
		trial_problem(t, VERDICT_HUNG, "the same command does not end");
	else if (status != 0)
		trial_problem(t, VERDICT_LOST, "the same command ends with %d: %s", status,
		    last_line(&t->again));
	scene_reference(t->scene, t->layout, "C", &want);
	saved_same(want.buf, save, &problems);
	scene_reference(t->scene, t->layout, "m", &want);
	saved_same_steps(want.buf, metrics, &problems);
	take_problems(t, VERDICT_DIFFERS, &problems);
	str_release(&want);
	free(save);
	free(metrics);
}

int
trial_make(struct trial *t, struct err *e)
{
	int rc = t->class->strike(t, e);

	if (rc == 0) {
		check_end(t);
		check_tidy(t);
		if (t->mend)
			rc = t->mend(t, e);
		check_saved(t);
		check_rerun(t);
	}
	if (t->leave)
		t->leave(t);
	return rc;
}

void
trial_release(struct trial *t)
{
	str_release(&t->said);
	str_release(&t->again);
	str_release(&t->problems);
}
