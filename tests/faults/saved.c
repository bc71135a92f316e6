/* saved.c - what must hold of a --save directory whatever happened to the run that wrote it */
#include "ckpt/diff.h"
#include "ckpt/verify.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt.h"
#include "tests/faults/saved.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

enum { PROMISES = 64, STEPS = 64 };

uint64_t
saved_promised(const char *text, size_t len)
{
	static const char words[] = ": saved iteration ";
	const char *end = text + len;
	uint64_t promised = 0;

	while ((text = memmem(text, (size_t)(end - text), words, sizeof words - 1))) {
		text += sizeof words - 1;
		promised |= UINT64_C(1) << strtol(text, NULL, 10) % PROMISES;
	}
	return promised;
}

/* Checks all of one checkpoint, and that the first line of its state has the iteration of its
 * name. */
static void
check_one(const char *dir, int64_t iteration, struct str *problems)
{
	FILE *nowhere = fopen("/dev/null", "w");
	struct err e;
	struct ckpt *c = ckpt_open(dir, &e);
	long long at = -1;

	if (!c)
		str_addf(problems, "%s\n", e.msg);
	else if (sscanf(ckpt_state_text(c), "iteration %lld", &at) != 1 || at != iteration)
		str_addf(problems, "%s: holds iteration %lld\n", dir, at);
	else
		verify_dir(dir, nowhere, problems);
	ckpt_close(c);
	fclose(nowhere);
}

void
saved_check(const char *save, uint64_t promised, struct str *problems)
{
	char dir[IO_PATH];
	struct err e;
	int64_t latest = 0;
	int rc = ckpt_tracker(save, &latest, &e);

	if (rc < 0)
		str_addf(problems, "%s\n", e.msg);
	if (rc == 0 && ckpt_has_iterations(save) && ckpt_highest(save, dir, &e) <= 0)
		str_addf(
		    problems, "%s: no tracker, and the highest checkpoint does not open\n", save);
	if (rc > 0 && latest > 0 && latest < PROMISES)
		promised |= UINT64_C(1) << latest;
	for (int64_t i = 0; i < PROMISES; i++) {
		if (!(promised >> i & 1))
			continue;
		ckpt_iter_dir(save, i, dir);
		check_one(dir, i, problems);
		if (i > latest)
			str_addf(problems, "%s: iteration %lld is saved, and the latest is %lld\n",
			    save, (long long)i, (long long)latest);
	}
}

/* The same bytes in two files. */
static void
compare_files(const char *want, const char *got, struct str *problems)
{
	char *a = NULL, *b = NULL;
	size_t a_len, b_len;
	struct err e;

	if (io_read_file(want, 0, &a, &a_len, &e) < 0 || io_read_file(got, 0, &b, &b_len, &e) < 0)
		str_addf(problems, "%s\n", e.msg);
	else if (a_len != b_len || memcmp(a, b, a_len))
		str_addf(problems, "%s: not the bytes of the undisturbed run\n", got);
	free(a);
	free(b);
}

/* Calls visit for the names in a directory that are not hidden. */
struct both {
	const char *want, *got;
	struct str *problems;
};
static void
each_name(
    const char *dir, void (*visit)(const struct both *, const char *name), const struct both *b)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	if (!d)
		str_addf(b->problems, "%s: cannot be listed\n", dir);
	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.')
			visit(b, de->d_name);
	if (d)
		closedir(d);
}

static void
visit_wanted(const struct both *b, const char *name)
{
	struct str want = { 0 }, got = { 0 };

	str_addf(&want, "%s/%s", b->want, name);
	str_addf(&got, "%s/%s", b->got, name);
	if (io_is_dir(want.buf))
		each_name(want.buf, visit_wanted, &(struct both){ want.buf, got.buf, b->problems });
	else
		compare_files(want.buf, got.buf, b->problems);
	str_release(&want);
	str_release(&got);
}

/* A stopped run has a checkpoint of its last step too. */
static void
visit_got(const struct both *b, const char *name)
{
	struct str want = { 0 }, got = { 0 };

	str_addf(&want, "%s/%s", b->want, name);
	str_addf(&got, "%s/%s", b->got, name);
	if (!strncmp(name, "iter_", 5) && !io_exists(want.buf))
		check_one(got.buf, strtoll(name + 5, NULL, 10), b->problems);
	str_release(&want);
	str_release(&got);
}

void
saved_same(const char *want, const char *got, struct str *problems)
{
	const struct both b = { want, got, problems };

	each_name(want, visit_wanted, &b);
	each_name(got, visit_got, &b);
}

/* The lines of a file of metrics, by step; what tells the time is cut off. The text is the caller's
 * to free. */
struct steps {
	char *text;
	const char *line[STEPS];
};
static void
read_steps(struct steps *s, const char *path, bool exact, struct str *problems)
{
	struct err e;
	char *rest = NULL;

	*s = (struct steps){ 0 };
	if (io_read_file(path, 0, &s->text, NULL, &e) < 0) {
		str_addf(problems, "%s\n", e.msg);
		return;
	}
	for (char *line = strtok_r(s->text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *time = strstr(line, ", \"tokens_per_second\""), *next = strchr(line, ',');
		int step;

		/* a line without its end is what a killed run has left */
		if (line[strlen(line) - 1] != '}')
			continue;
		if (strchr(line + 1, '{')) {
			str_addf(problems, "%s: lines are joined: %.80s\n", path, line);
			continue;
		}
		/* lines on corpora, experts and evaluations tell other things first */
		if (next && strncmp(next, ", \"consumed_samples\"", 20))
			continue;
		if (!time || sscanf(line, "{\"iteration\": %d,", &step) != 1 || step < 0 ||
		    step >= STEPS) {
			str_addf(problems, "%s: not a line of metrics: %.80s\n", path, line);
			continue;
		}
		*time = '\0';
		if (exact && s->line[step] && strcmp(s->line[step], line))
			str_addf(problems, "%s: step %d differs from itself\n", path, step);
		s->line[step] = line;
	}
}

void
saved_same_steps(const char *want, const char *got, struct str *problems)
{
	struct steps a, b;

	read_steps(&a, want, true, problems);
	read_steps(&b, got, true, problems);
	for (int i = 0; i < STEPS; i++)
		if (!a.line[i] != !b.line[i] || (a.line[i] && strcmp(a.line[i], b.line[i])))
			str_addf(problems, "%s: step %d is not the undisturbed run's\n", got, i);
	free(a.text);
	free(b.text);
}

/* One checkpoint. The state is text, and the first difference of two tensors is enough. */
static void
compare_values(const char *want, const char *got, struct str *problems)
{
	const struct diff_options o = { .a = want, .b = got, .tolerance = -1 };
	FILE *nowhere = fopen("/dev/null", "w");
	struct err e;
	struct ckpt *a = ckpt_open(want, &e), *b = a ? ckpt_open(got, &e) : NULL;
	int differ = b ? diff_sources(&o, nowhere, problems, &e) : -1;

	if (differ < 0)
		str_addf(problems, "%s\n", e.msg);
	else if (differ || strcmp(ckpt_state_text(a), ckpt_state_text(b)) != 0)
		str_addf(problems, "%s: %s not that of the undisturbed run\n", got,
		    differ ? "values are" : "its state is");
	ckpt_close(a);
	ckpt_close(b);
	fclose(nowhere);
}

static void
visit_checkpoint(const struct both *b, const char *name)
{
	struct str want = { 0 }, got = { 0 };

	str_addf(&want, "%s/%s", b->want, name);
	str_addf(&got, "%s/%s", b->got, name);
	if (!strncmp(name, "iter_", 5))
		compare_values(want.buf, got.buf, b->problems);
	str_release(&want);
	str_release(&got);
}

void
saved_same_bits(const char *want, const char *got, struct str *problems)
{
	const struct both b = { want, got, problems };

	each_name(want, visit_checkpoint, &b);
}

/* NaN, which is near to nothing, where there is no such line. */
static double
loss_of(const char *line)
{
	static const char name[] = "\"lm_loss\": ";
	const char *at = line ? strstr(line, name) : NULL;

	return at ? strtod(at + sizeof name - 1, NULL) : NAN;
}

void
saved_near_losses(const char *want, const char *got, double tolerance, struct str *problems)
{
	struct steps a, b;

	read_steps(&a, want, false, problems);
	read_steps(&b, got, false, problems);
	for (int i = 0; i < STEPS; i++) {
		double x = loss_of(a.line[i]), y = loss_of(b.line[i]);

		if ((a.line[i] || b.line[i]) && !(fabs(x - y) <= tolerance * fabs(x)))
			str_addf(problems, "%s: step %d has loss %.9g, the undisturbed run %.9g\n",
			    got, i, y, x);
	}
	free(a.text);
	free(b.text);
}
