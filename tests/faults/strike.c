/* strike.c - faults of calls, time and disk space, and conflicting runs */
#include "lib/base/io.h"
#include "tests/faults/strike.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DRAWS = 20 };

/* The shim's instructions. */
struct plan {
	int rank, nth, code;
	enum call call;
};

/* Draws a call that the run makes. False when the draws found none. */
static bool
draw_plan(struct trial *t, struct plan *p)
{
	const struct scene_start *start = &t->scene->start[t->layout][t->begin];

	for (int i = 0; i < DRAWS; i++) {
		int count;

		p->call = (enum call)trial_draw_bit(t, t->class->calls);
		p->rank = (int)trial_draw(t, (uint32_t)scene_layouts[t->layout].ranks);
		count = start->calls[p->rank][p->call];
		if (count == 0)
			continue;
		p->nth = 1 + (int)trial_draw(t, (uint32_t)count);
		p->code = trial_draw_code(t);
		return true;
	}
	return false;
}

/* The environment of a run with the shim; strings that are freed together. */
struct shim_environment {
	struct str text[4];
	const char *list[5];
};
static void
shim_environment(const struct trial *t, const struct plan *p, struct shim_environment *v)
{
	*v = (struct shim_environment){ 0 };
	str_addf(&v->text[0], "FAULT_ROOT=%s/work", t->scene->base);
	str_addf(&v->text[1], "FAULT=%s %d %s %d", call_names[p->call], p->nth, t->class->action,
	    p->code);
	str_addf(&v->text[2], "FAULT_RANK=%d", p->rank);
	str_addf(&v->text[3], "FAULT_STRUCK=%s/work/struck", t->scene->base);
	for (int i = 0; i < 4; i++)
		v->list[i] = v->text[i].buf;
}

static void
shim_environment_release(struct shim_environment *v)
{
	for (int i = 0; i < 4; i++)
		str_release(&v->text[i]);
}

static bool
has_struck(const struct trial *t)
{
	char *mark = trial_path(t, "struck");
	bool struck = io_exists(mark);

	free(mark);
	return struck;
}

/* What the code means to the action, in words. */
static const char *
code_text(const char *action, int code, char number[16])
{
	if (!strcmp(action, ACTION_SIGNAL))
		return strsignal(code);
	if (strcmp(action, ACTION_LIMIT))
		return strerror(code);
	snprintf(number, 16, "%d", code);
	return number;
}

static void
describe_plan(struct trial *t, const struct plan *p)
{
	char text[160], number[16];

	snprintf(text, sizeof text, "rank %d, %s number %d: %s %s", p->rank, call_names[p->call],
	    p->nth, t->class->action, code_text(t->class->action, p->code, number));
	trial_describe(t, text);
	trial_says(t, t->class->says ? t->class->says : strerror(p->code));
}

int
strike_call(struct trial *t, struct err *e)
{
	struct scene_run run = { .with_shim = true, .extra = { "", "" } };
	struct shim_environment v;
	struct plan p;

	if (trial_begin(t, e) < 0)
		return -1;
	if (!draw_plan(t, &p))
		return 1;
	describe_plan(t, &p);
	run.layout = &scene_layouts[t->layout];
	shim_environment(t, &p, &v);
	t->status = trial_run(t, &run, (struct command){ .environment = v.list }, &t->said);
	t->struck = has_struck(t);
	shim_environment_release(&v);
	return 0;
}

/* Longer than an undisturbed run takes where the machine is idle. */
int
strike_time(struct trial *t, struct err *e)
{
	struct scene_run run = { .extra = { "", "" } };
	struct command c = { .times = t->class->times };
	char text[80];

	if (trial_begin(t, e) < 0)
		return -1;
	run.layout = &scene_layouts[t->layout];
	c.signal = trial_draw_code(t);
	c.rank = (int)trial_draw(t, (uint32_t)run.layout->ranks);
	c.after = trial_draw(t, 300) * 1e-3 * run.layout->ranks;
	snprintf(
	    text, sizeof text, "rank %d, after %.3f s: %s", c.rank, c.after, strsignal(c.signal));
	trial_describe(t, text);
	trial_says(t, t->class->says ? t->class->says : "");
	t->status = trial_run(t, &run, c, &t->said);
	t->struck = true;
	return 0;
}

/* --- a small disk ----------------------------------------------------------------------------- */

static int
enlarge(struct trial *t, struct err *e)
{
	char *save = trial_path(t, "C");
	int rc = mount("none", save, "tmpfs", MS_REMOUNT, "size=64m");

	if (rc < 0)
		err_sys(e, "enlarge", save);
	free(save);
	return rc;
}

static void
unmount(struct trial *t)
{
	char *save = trial_path(t, "C");

	umount2(save, MNT_DETACH);
	free(save);
}

/* Room for two checkpoints at most. */
int
strike_small_disk(struct trial *t, struct err *e)
{
	struct scene_run run = { .extra = { "", "" } };
	char *save, text[80];
	int rc = 1;

	if (trial_begin(t, e) < 0)
		return -1;
	run.layout = &scene_layouts[t->layout];
	snprintf(text, sizeof text, "size=%uk", 8 + 4 * trial_draw(t, 50));
	trial_describe(t, text);
	trial_says(t, t->class->says);
	save = trial_path(t, "C");
	if (io_mkdir_p(save, e) < 0) {
		rc = -1;
	} else if (mount("none", save, "tmpfs", 0, text) == 0) {
		t->mend = enlarge;
		t->leave = unmount;
		t->status = trial_run(t, &run, (struct command){ 0 }, &t->said);
		t->struck = true;
		rc = 0;
	}
	free(save);
	return rc;
}

/* --- runs that are not one -------------------------------------------------------------------- */

int
strike_disagreement(struct trial *t, struct err *e)
{
	static const char *const option[] = { "--lr 2e-3", "--seed 5", "--train-iters 8",
		"--save-interval 3", "--bf16", "--hidden-size 32", "--num-layers 4",
		"--global-batch-size 8", "--weight-decay 0.1", "--no-save-optim", "--optimizer sgd",
		"--seq-length 8", "--clip-grad 0.5", "--hidden-dropout 0" };
	struct scene_run run = { .extra = { "", "" } };
	uint32_t rank = trial_draw(t, SCENE_RANKS);

	if (trial_begin(t, e) < 0)
		return -1;
	run.layout = &scene_layouts[t->layout];
	run.extra[rank] = option[trial_draw(t, sizeof option / sizeof *option)];
	trial_describe(t, run.extra[rank]);
	trial_says(t, t->class->says);
	t->status = trial_run(t, &run, (struct command){ 0 }, &t->said);
	t->struck = true;
	return 0;
}

/* Waits until the fault has struck, or the run is over. */
static bool
stands_still(const struct trial *t, pid_t pid)
{
	for (int i = 0; i < 5000 && !has_struck(t); i++) {
		siginfo_t ended = { 0 };

		if (waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		    ended.si_pid)
			break;
		usleep(1000);
	}
	return has_struck(t);
}

/* The first run is stopped while it holds the directory. The second run's message is checked, and
 * the first must then end as if it had been alone. */
static void
run_both(struct trial *t, const struct plan *p)
{
	struct scene_run first = { &scene_layouts[t->layout], true, { "", "" } }, second = first;
	struct command c = { .out = "first" };
	char *dir = trial_path(t, "");
	struct shim_environment v;
	struct str words = { 0 };
	pid_t pid;
	int status;

	second.with_shim = false;
	shim_environment(t, p, &v);
	scene_words(&first, &words);
	c.dir = dir;
	c.words = words.buf;
	c.environment = v.list;
	pid = command_start(&c);
	t->struck = stands_still(t, pid);
	t->status = trial_run(t, &second, (struct command){ .out = "second" }, &t->said);
	status = command_wait(&c, pid);
	if (status != 0)
		trial_problem(t, status == COMMAND_HUNG ? VERDICT_HUNG : VERDICT_UNSTATED,
		    "the first run ends with %d", status);
	shim_environment_release(&v);
	str_release(&words);
	free(dir);
}

int
strike_second_run(struct trial *t, struct err *e)
{
	struct plan p;

	if (trial_begin(t, e) < 0)
		return -1;
	if (!draw_plan(t, &p))
		return 1;
	describe_plan(t, &p);
	run_both(t, &p);
	return 0;
}
