/*
 * hooks.c - what a run has done with its checkpoints once they are there
 *
 * posix_spawn does not copy the page tables of the run, which may have most of the host's memory
 * registered. What a launcher left in the environment goes: a command that starts mpirun would be
 * taken for a rank of this run.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/ckpt/ckpt.h"
#include "train/state/hooks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { EXPORT, COMMAND, KINDS, NICE = 10 };

/* What is done of one kind. */
struct hook {
	const char *option;         /* NULL: is not asked for */
	pid_t pid;                  /* 0: none runs */
	int64_t iteration, waiting; /* of the process; of the next one, -1: none waits */
	double since;
};

struct hooks {
	const char *save, *command;
	int64_t interval, last; /* of exports */
	char exporter[IO_PATH];
	struct hook of[KINDS];
};

/* The exporter is beside this program, whatever the paths of the environment. */
static int
find_exporter(struct hooks *h, struct err *e)
{
	static const char name[] = "mexport";
	ssize_t n = readlink("/proc/self/exe", h->exporter, sizeof h->exporter - sizeof name);
	char *slash;

	if (n < 0)
		return err_sys(e, "read the link", "/proc/self/exe");
	h->exporter[n] = '\0';
	slash = strrchr(h->exporter, '/');
	memcpy(slash ? slash + 1 : h->exporter, name, sizeof name);
	if (access(h->exporter, X_OK) < 0)
		return err_set(e, "--save-hf-interval: '%s': %s", h->exporter, strerror(errno));
	return 0;
}

int
hooks_open(const struct train_config *c, struct hooks **out, struct err *e)
{
	const struct train_options *o = &c->o;
	struct hooks *h;

	*out = NULL;
	if (!o->save_hf_interval && !o->save_hook)
		return 0;
	h = mem_zalloc(1, sizeof *h);
	h->save = o->save;
	h->command = o->save_hook;
	h->interval = o->save_hf_interval;
	h->last = c->train_iters;
	h->of[EXPORT].option = o->save_hf_interval ? "--save-hf-interval" : NULL;
	h->of[COMMAND].option = o->save_hook ? "--save-hook" : NULL;
	for (int k = 0; k < KINDS; k++)
		h->of[k].waiting = -1;
	if (o->save_hf_interval && find_exporter(h, e) < 0) {
		free(h);
		return -1;
	}
	*out = h;
	return 0;
}

/* --- processes -------------------------------------------------------------------------------- */

/* Whether a line of the environment is a launcher's. What allows root to start mpirun is set by
 * users. */
static bool
is_launchers(const char *line)
{
	static const char *const prefixes[] = { "OMPI_", "OPAL_", "ORTE_", "PRTE_", "PMIX_", "PMI_",
		"SLURM_STEP", NULL };

	for (int i = 0; prefixes[i]; i++)
		if (!strncmp(line, prefixes[i], strlen(prefixes[i])))
			return strncmp(line, "OMPI_ALLOW_RUN_AS_ROOT", 22) != 0;
	return false;
}

/* The environment without these lines; the caller frees the array. */
static char **
clean_environment(void)
{
	size_t n = 0, kept = 0;
	char **clean;

	while (environ[n])
		n++;
	clean = mem_alloc(n + 1, sizeof *clean);
	for (size_t i = 0; i < n; i++)
		if (!is_launchers(environ[i]))
			clean[kept++] = environ[i];
	clean[kept] = NULL;
	return clean;
}

/* No input, and a file for output. All other descriptors are closed, also those of libraries. */
static void
set_files(posix_spawn_file_actions_t *files, const char *log)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *de;

	posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(
	    files, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0666);
	posix_spawn_file_actions_adddup2(files, STDOUT_FILENO, STDERR_FILENO);
	while (d && (de = readdir(d))) {
		int fd = atoi(de->d_name);

		if (fd > STDERR_FILENO)
			posix_spawn_file_actions_addclose(files, fd);
	}
	if (d)
		closedir(d);
}

/* A session of its own, with all signals as the system has them. */
static void
set_attributes(posix_spawnattr_t *how)
{
	sigset_t all, none;

	sigfillset(&all);
	sigdelset(&all, SIGKILL);
	sigdelset(&all, SIGSTOP);
	sigemptyset(&none);
	posix_spawnattr_setflags(
	    how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(how, &all);
	posix_spawnattr_setsigmask(how, &none);
}

/* 0, or why it could not be started. */
static int
spawn(struct hook *k, char **words, const char *log)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	char **environment = clean_environment();
	int why;

	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	set_files(&files, log);
	set_attributes(&how);
	why = posix_spawn(&k->pid, words[0], &files, &how, words, environment);
	if (why)
		k->pid = 0;
	else
		(void)setpriority(PRIO_PROCESS, (id_t)k->pid, NICE);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	free(environment);
	return why;
}

static int
start_export(struct hooks *h, struct hook *k, char *dir, const char *log)
{
	struct str to = { 0 }, root = { 0 };
	char *words[] = { h->exporter, (char[]){ "-q" }, (char[]){ "--force" }, dir, NULL, NULL };
	int why;

	str_addf(&root, "%s/hf", h->save);
	str_addf(&to, "%s/iter_%07lld", root.buf, (long long)k->iteration);
	words[4] = to.buf;
	why = io_mkdir_p(root.buf, NULL) < 0 ? errno : spawn(k, words, log);
	str_release(&to);
	str_release(&root);
	return why;
}

static int
start_command(struct hooks *h, struct hook *k, char *dir, const char *log)
{
	char number[24];
	char *words[] = { (char[]){ "/bin/sh" }, (char[]){ "-c" }, (char *)(uintptr_t)h->command,
		(char[]){ "mikoshi" }, dir, number, NULL };

	snprintf(number, sizeof number, "%lld", (long long)k->iteration);
	return spawn(k, words, log);
}

/* A process of one kind for a checkpoint. */
static void
start(struct hooks *h, int kind, int64_t iteration)
{
	struct hook *k = &h->of[kind];
	struct str log = { 0 };
	char dir[IO_PATH];
	int why;

	ckpt_iter_dir(h->save, iteration, dir);
	str_addf(&log, "%s/hooks.log", h->save);
	k->iteration = iteration;
	k->since = clock_seconds();
	why = kind == EXPORT ? start_export(h, k, dir, log.buf) : start_command(h, k, dir, log.buf);
	if (why)
		note("%s: iteration %lld: %s", k->option, (long long)iteration, strerror(why));
	str_release(&log);
}

/* --- the run's side --------------------------------------------------------------------------- */

/* One line, whatever came of it. */
static void
say_end(const struct hooks *h, const struct hook *k, int status)
{
	double took = clock_seconds() - k->since;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		note(
		    "%s: iteration %lld: done in %.1f s", k->option, (long long)k->iteration, took);
	else
		note("%s: iteration %lld: %s %d after %.1f s: what it printed is in %s/hooks.log",
		    k->option, (long long)k->iteration,
		    WIFSIGNALED(status) ? "ended by signal" : "failed with status",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), took, h->save);
}

/* Takes the status of a process that has ended. */
static void
reap(const struct hooks *h, struct hook *k)
{
	int status;
	pid_t pid = k->pid ? waitpid(k->pid, &status, WNOHANG) : 0;

	if (pid == 0 || (pid < 0 && errno == EINTR))
		return;
	if (pid > 0)
		say_end(h, k, status);
	k->pid = 0;
}

static bool
is_due(const struct hooks *h, int kind, int64_t iteration)
{
	return h->of[kind].option &&
	    (kind == COMMAND || iteration % h->interval == 0 || iteration == h->last);
}

void
hooks_poll(struct hooks *h)
{
	for (int i = 0; h && i < KINDS; i++) {
		struct hook *k = &h->of[i];

		reap(h, k);
		if (k->pid || k->waiting < 0)
			continue;
		start(h, i, k->waiting);
		k->waiting = -1;
	}
}

void
hooks_saved(struct hooks *h, int64_t iteration)
{
	hooks_poll(h);
	for (int i = 0; h && i < KINDS; i++) {
		struct hook *k = &h->of[i];

		if (!is_due(h, i, iteration))
			continue;
		if (!k->pid) {
			start(h, i, iteration);
			continue;
		}
		if (k->waiting >= 0)
			note("%s: iteration %lld: left out: that of %lld has not ended", k->option,
			    (long long)k->waiting, (long long)k->iteration);
		k->waiting = iteration;
	}
}

int
hooks_read(const struct hooks *h, int64_t iteration[HOOKS_READ])
{
	int n = 0;

	for (int i = 0; h && i < KINDS; i++) {
		if (h->of[i].pid)
			iteration[n++] = h->of[i].iteration;
		if (h->of[i].waiting >= 0)
			iteration[n++] = h->of[i].waiting;
	}
	return n;
}

void
hooks_close(struct hooks *h)
{
	hooks_poll(h);
	for (int i = 0; h && i < KINDS; i++) {
		struct hook *k = &h->of[i];

		if (k->waiting >= 0)
			start(h, i, k->waiting);
		if (k->pid)
			note("%s: iteration %lld: has not ended, and outlives the run", k->option,
			    (long long)k->iteration);
	}
	free(h);
}
