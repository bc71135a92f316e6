/* scene.c - tiny runs in several layouts, from several beginnings, and what they end with
 * undisturbed */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/faults/scene.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

const struct scene_layout scene_layouts[SCENE_LAYOUTS] = {
	{ "one", 1, "" },
	{ "one-async", 1, "--async-save" },
	{ "data", 2, "" },
	{ "optimizer-async", 2, "--use-distributed-optimizer --async-save" },
	{ "tensor", 2, "--tensor-model-parallel-size 2" },
	{ "pipeline", 2, "--pipeline-model-parallel-size 2" },
};

static const char config[] = "num-layers 2\nhidden-size 16\nnum-attention-heads 2\nvocab-size 60\n"
			     "seq-length 16\nglobal-batch-size 4\nlr 1e-3\neval-iters 0\n"
			     "log-interval 1\nnum-threads 1\nmock-data\nsave C\nload C\n"
			     "metrics-file m\nsave-interval 2\ntrain-iters 6\n";

/* When the beginning that was cut off is cut off: a save makes six renames. */
#define CUT_FAULT "FAULT=rename 9 signal 9"

/* Paths of the base directory. */
static char *
place(const struct scene *s, const char *name)
{
	struct str path = { 0 };

	str_addf(&path, "%s/%s", s->base, name);
	return str_detach(&path);
}

static int
write_text(const char *path, const char *text, struct err *e)
{
	FILE *f = fopen(path, "w");
	int rc = f && fputs(text, f) >= 0 ? 0 : -1;

	if (f && fclose(f) != 0)
		rc = -1;
	return rc < 0 ? err_sys(e, "write", path) : 0;
}

int
scene_copy(const char *from, const char *to, struct err *e)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execlp("cp", "cp", "-a", from, to, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		return err_set(e, "cannot copy '%s' to '%s'", from, to);
	return 0;
}

/* The directory that this program is in. */
static int
own_dir(char out[PATH_MAX], struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (n < 0)
		return err_sys(e, "read", "/proc/self/exe");
	out[n] = '\0';
	*strrchr(out, '/') = '\0';
	return 0;
}

/* In memory where that may be: real syncs would take most of the time. The shim must be allowed to
 * run there. */
static const char *
scratch(void)
{
	static const char memory[] = "/dev/shm";
	const char *tmp = getenv("TMPDIR");
	struct statvfs fs;

	if (tmp)
		return tmp;
	if (access(memory, W_OK) == 0 && statvfs(memory, &fs) == 0 && !(fs.f_flag & ST_NOEXEC))
		return memory;
	return "/tmp";
}

/* The shim's path must hold no blank and no colon, or LD_PRELOAD would cut it: it is copied, and
 * named from where the run is. */
int
scene_open(struct scene *s, struct err *e)
{
	char shim[PATH_MAX], *to;
	int rc;

	if (own_dir(shim, e) < 0)
		return -1;
	snprintf(s->base, sizeof s->base, "%s/mikoshi-faults.XXXXXX", scratch());
	if (!mkdtemp(s->base))
		return err_sys(e, "create directory", s->base);
	strncat(shim, "/shim.so", sizeof shim - strlen(shim) - 1);
	to = place(s, "shim.so");
	rc = scene_copy(shim, to, e);
	free(to);
	to = place(s, "tiny.conf");
	if (rc == 0)
		rc = write_text(to, config, e);
	free(to);
	return rc;
}

void
scene_close(struct scene *s)
{
	io_remove_tree(s->base, NULL);
}

/* Each rank is a program of its own where the ranks' options differ. */
void
scene_words(const struct scene_run *r, struct str *words)
{
	static const char each[] = "%s mtrain --config ../tiny.conf %s %s";
	const char *env = r->with_shim ? "env LD_PRELOAD=../shim.so" : "env";
	bool same = r->layout->ranks == 1 || !strcmp(r->extra[0], r->extra[1]);

	str_clear(words);
	if (r->layout->ranks > 1)
		str_addf(words, "mpirun -np %d ", same ? r->layout->ranks : 1);
	str_addf(words, each, env, r->layout->options, r->extra[0]);
	if (!same) {
		str_adds(words, " : -np 1 ");
		str_addf(words, each, env, r->layout->options, r->extra[1]);
	}
}

/* What an undisturbed run says when it fails is worth reading. */
int
scene_record(const struct scene *s, int layout, const char *dir, const char *fault)
{
	struct scene_run run = { &scene_layouts[layout], true, { "", "" } };
	struct str words = { 0 }, root = { 0 }, log = { 0 }, said = { 0 };
	int status;

	scene_words(&run, &words);
	str_addf(&root, "FAULT_ROOT=%s", dir);
	str_addf(&log, "FAULT_LOG=%s/log", s->base);
	status = command_run(
	    &(struct command){ .dir = dir,
		.out = "out",
		.words = words.buf,
		.environment = (const char *const[]){ root.buf, log.buf, fault, NULL } },
	    &said);
	if (status != 0 && !fault)
		fprintf(stderr, "%s", said.buf ? said.buf : "");
	str_release(&words);
	str_release(&root);
	str_release(&log);
	str_release(&said);
	return status;
}

/* The first lines of a text, in place. */
static void
keep_lines(char *text, int lines)
{
	for (; *text && lines; text++)
		lines -= *text == '\n';
	*text = '\0';
}

/* The state at SCENE_HALF out of the one at the end. */
static int
halve(const char *dir, struct err *e)
{
	struct str path = { 0 };
	char *metrics;
	int rc;

	str_addf(&path, "%s/C/iter_%07d", dir, SCENE_STEPS);
	rc = io_remove_tree(path.buf, e);
	str_clear(&path);
	str_addf(&path, "%s/C/latest_checkpointed_iteration.txt", dir);
	if (rc == 0)
		rc = write_text(path.buf, "4", e);
	str_clear(&path);
	str_addf(&path, "%s/m", dir);
	if (rc == 0 && (rc = io_read_file(path.buf, 0, &metrics, NULL, e)) == 0) {
		keep_lines(metrics, SCENE_HALF);
		rc = write_text(path.buf, metrics, e);
		free(metrics);
	}
	str_release(&path);
	return rc;
}

_Static_assert(SCENE_HALF == 4, "halve writes the tracker");

/* Makes the state that a run begins with, in dir. */
static int
make_beginning(struct scene *s, int layout, enum beginning b, const char *dir, struct err *e)
{
	struct str reference = { 0 };
	int rc;

	if (b == BEGIN_HALF) {
		scene_reference(s, layout, "", &reference);
		rc =
		    scene_start(s, layout, BEGIN_EMPTY, e) ? scene_copy(reference.buf, dir, e) : -1;
		str_release(&reference);
		return rc < 0 ? -1 : halve(dir, e);
	}
	if (io_mkdir_p(dir, e) < 0)
		return -1;
	if (b == BEGIN_CUT && scene_record(s, layout, dir, CUT_FAULT) < COMMAND_KILLED)
		return err_set(e, "%s: the run was not killed in its second save", dir);
	return 0;
}

/* Counts what the log holds, and removes it. A read-only file system would refuse all changes. */
static int
count_calls(const struct scene *s, struct scene_start *start, struct err *e)
{
	char *log = place(s, "log");
	struct oplog l;
	int rc = oplog_read(&l, log, e);

	for (int i = 0; rc == 0 && i < l.count; i++) {
		const struct oplog_record *r = &l.record[i];
		int *n = start->calls[r->rank < SCENE_RANKS ? r->rank : 0];

		n[r->call]++;
		n[CALL_CHANGE] +=
		    r->call == CALL_WRITE || r->call == CALL_RENAME || r->call == CALL_MKDIR;
	}
	if (rc == 0)
		oplog_release(&l);
	unlink(log);
	free(log);
	return rc;
}

/* LAYOUT.BEGINNING with an ending. */
static char *
state_dir(const struct scene *s, int layout, enum beginning b, const char *ending)
{
	struct str path = { 0 };

	str_addf(&path, "%s/%s.%d%s", s->base, scene_layouts[layout].name, b, ending);
	return str_detach(&path);
}

void
scene_reference(const struct scene *s, int layout, const char *name, struct str *path)
{
	char *dir = state_dir(s, layout, BEGIN_EMPTY, ".end");

	str_clear(path);
	str_addf(path, "%s/%s", dir, name);
	free(dir);
}

/* The log of what made the beginning is not the run's. */
const struct scene_start *
scene_start(struct scene *s, int layout, enum beginning b, struct err *e)
{
	struct scene_start *start = &s->start[layout][b];
	char *before = state_dir(s, layout, b, ""), *after = state_dir(s, layout, b, ".end"),
	     *log = place(s, "log");
	int rc = 0;

	if (!start->known) {
		rc = make_beginning(s, layout, b, before, e);
		unlink(log);
		if (rc == 0 && (rc = scene_copy(before, after, e)) == 0 &&
		    scene_record(s, layout, after, NULL) != 0)
			rc = err_set(e, "%s: the undisturbed run fails", after);
		if (rc == 0)
			rc = count_calls(s, start, e);
		start->known = rc == 0;
	}
	free(before);
	free(after);
	free(log);
	return rc == 0 ? start : NULL;
}

int
scene_set(const struct scene *s, int layout, enum beginning b, struct err *e)
{
	char *before = state_dir(s, layout, b, ""), *work = place(s, "work");
	int rc = io_remove_tree(work, e);

	if (rc == 0)
		rc = scene_copy(before, work, e);
	free(before);
	free(work);
	return rc;
}
