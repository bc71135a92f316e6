/*
 * replay.c - replay [--seeds N]: the calls of saves, cut after each one, on a disk that forgets
 *
 * Runs are recorded by the shim: undisturbed, or killed at a rename and resumed. After each call
 * that changes the disk the power fails, with several losses of what was not synced. What a run had
 * said to be saved by then must be whole in what is left, and the latest checkpoint with it.
 */
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/prog.h"
#include "tests/faults/disk.h"
#include "tests/faults/saved.h"
#include "tests/faults/scene.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

struct replay_config {
	int64_t seed, seeds;
};

static const struct opt replay_opts[] = {
	{ .name = "seed",
	    .type = OPT_INT,
	    .off = offsetof(struct replay_config, seed),
	    .max = 1e15,
	    .def = "1",
	    .help = "of the first of the losses that are drawn" },
	{ .name = "seeds",
	    .type = OPT_INT,
	    .off = offsetof(struct replay_config, seeds),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .help = "so many at each call" },
	OPT_END,
};

/* The runs. A save makes six renames on rank 0: its file, three texts, the directory, the
 * tracker. */
static const struct {
	/* the rename of rank 0 at which it is killed first; 0: it is not */
	int layout, killed_at;
} runs[] = { { 0, 0 }, { 1, 0 }, { 2, 0 }, { 0, 6 }, { 0, 9 }, { 1, 11 }, { 0, 12 }, { 3, 11 } };

/* What is being replayed. */
struct replay {
	const struct replay_config *c;
	const char *dir; /* a crash's leavings go there */
	const char *name;
	uint64_t promised;
	int calls, crashes, failures;
};

/* One crash: the state is written out, and looked at as a run would. */
static int
crash(struct replay *r, const struct disk *d, int keep, uint64_t seed, struct err *e)
{
	struct str save = { 0 }, problems = { 0 };
	int rc = io_remove_tree(r->dir, e);

	str_addf(&save, "%s/C", r->dir);
	if (rc == 0)
		rc = io_mkdir_p(r->dir, e);
	if (rc == 0)
		rc = disk_crash(d, keep, seed, r->dir, e);
	if (rc == 0)
		saved_check(save.buf, r->promised, &problems);
	r->crashes++;
	if (problems.len) {
		r->failures++;
		warn("%s, after call %d, keeping %d of %d, seed %llu: %.*s", r->name, r->calls,
		    keep, DISK_LOSSES - 1, (unsigned long long)seed,
		    (int)strcspn(problems.buf, "\n"), problems.buf);
	}
	str_release(&save);
	str_release(&problems);
	return rc;
}

/* The losses after one call: all of it, nothing, and what the seeds draw between. */
static int
crash_all(struct replay *r, const struct disk *d, struct err *e)
{
	int rc = crash(r, d, 0, 0, e);

	if (rc == 0)
		rc = crash(r, d, DISK_LOSSES - 1, 0, e);
	for (int64_t s = 0; s < r->c->seeds && rc == 0; s++) {
		uint64_t seed = (uint64_t)(r->c->seed + s) << 32 | (uint64_t)r->calls;

		rc = crash(r, d, 1 + (int)(seed % (DISK_LOSSES - 2)), seed, e);
	}
	return rc;
}

static int
replay_log(struct replay *r, const struct oplog *l, struct err *e)
{
	struct disk *d = disk_new();
	int rc = 0;

	for (r->calls = 0; r->calls < l->count && rc >= 0; r->calls++) {
		const struct oplog_record *record = &l->record[r->calls];

		if (record->call == CALL_SAY)
			r->promised |= saved_promised(record->bytes, record->len);
		rc = disk_take(d, record, e);
		if (rc > 0)
			rc = crash_all(r, d, e);
	}
	disk_free(d);
	return rc < 0 ? -1 : 0;
}

/* Records a run in BASE/work, and replays it. Its checkpoints must all have been promised, or
 * nothing was looked at. */
static int
replay_run(const struct scene *s, int i, struct replay *r, struct err *e)
{
	struct str work = { 0 }, log = { 0 }, fault = { 0 };
	struct oplog l = { 0 };
	int rc = 0;

	str_addf(&work, "%s/work", s->base);
	str_addf(&log, "%s/log", s->base);
	str_addf(&fault, "FAULT=rename %d signal %d", runs[i].killed_at, SIGKILL);
	r->name = scene_layouts[runs[i].layout].name;
	r->promised = 0;
	if (io_remove_tree(work.buf, e) < 0 || io_remove_tree(log.buf, e) < 0 ||
	    io_mkdir_p(work.buf, e) < 0)
		rc = -1;
	else if (runs[i].killed_at &&
	    scene_record(s, runs[i].layout, work.buf, fault.buf) < COMMAND_KILLED)
		rc = err_set(e, "%s: not killed at rename %d", r->name, runs[i].killed_at);
	else if (scene_record(s, runs[i].layout, work.buf, NULL) != 0)
		rc = err_set(e, "%s: the recorded run fails", r->name);
	if (rc == 0 && (rc = oplog_read(&l, log.buf, e)) == 0) {
		rc = replay_log(r, &l, e);
		oplog_release(&l);
	}
	if (rc == 0 && (r->promised & (1 << 4 | 1 << 6)) != (1 << 4 | 1 << 6))
		rc = err_set(e, "%s: the log does not say what was saved", r->name);
	str_release(&work);
	str_release(&log);
	str_release(&fault);
	return rc;
}

static int
run_replay(const void *cfg, int argc, char **argv, struct err *e)
{
	struct scene scene = { 0 };
	struct replay r = { .c = cfg };
	struct str dir = { 0 };
	int rc = cli_operands(argc, 0, "none", e);

	(void)argv;
	if (rc == 0)
		rc = scene_open(&scene, e);
	str_addf(&dir, "%s/crash", scene.base);
	r.dir = dir.buf;
	for (size_t i = 0; i < sizeof runs / sizeof *runs && rc == 0; i++)
		rc = replay_run(&scene, (int)i, &r, e);
	str_release(&dir);
	scene_close(&scene);
	if (rc < 0)
		return rc;
	printf("%d crashes: %d leave a checkpoint that does not open\n", r.crashes, r.failures);
	return r.failures ? EXIT_FAILED : EXIT_DONE;
}

static const struct verb *const verbs[] = {
	&(const struct verb){ "", "", "let the power fail after each call of a save", replay_opts,
	    sizeof(struct replay_config), run_replay },
	NULL,
};

static const struct tool tool = {
	.name = "replay",
	.summary = "let the power fail after each call of a save",
	.built_in = "CPU",
	.verbs = verbs,
};

int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
