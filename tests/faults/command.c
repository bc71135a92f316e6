/* command.c - a command that is run, disturbed from outside, and waited for with a time limit */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "tests/faults/command.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 100, CHILDREN = 16, TICK_US = 2000 };

/* In the child: never returns. out: what the command says goes there. */
static void
become(const struct command *c, int out)
{
	char *words = mem_strdup(c->words), *argv[WORDS + 1], *rest = NULL;
	int n = 0;

	for (char *w = strtok_r(words, " ", &rest); w && n < WORDS; w = strtok_r(NULL, " ", &rest))
		argv[n++] = w;
	argv[n] = NULL;
	for (const char *const *e = c->environment; e && *e; e++)
		putenv(mem_strdup(*e));
	setpgid(0, 0);
	if (out < 0 || chdir(c->dir) < 0)
		_exit(126);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execvp(argv[0], argv);
	_exit(127);
}

/* The file is emptied here: a signal may end the child before it does anything, and what an earlier
 * run said there must not be taken for the words of this one. */
pid_t
command_start(const struct command *c)
{
	struct str path = { 0 };
	pid_t pid;
	int out;

	str_addf(&path, "%s/%s", c->dir, c->out);
	out = open(path.buf, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	str_release(&path);
	pid = fork();
	if (pid == 0)
		become(c, out);
	if (out >= 0)
		close(out);
	return pid;
}

/* The children of mpirun are the ranks, in order. */
static int
children(pid_t pid, pid_t child[CHILDREN])
{
	char path[64];
	FILE *f;
	int n = 0;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "r");
	while (f && n < CHILDREN && fscanf(f, "%d", &child[n]) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

/* The letter of /proc/PID/stat, which stands after the name in parentheses; 0 when there is no such
 * process. */
static char
state(pid_t pid)
{
	char path[64], line[256] = "", *end;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return end ? end[2] : 0;
}

/* Lets a stopped process continue. */
static void
wake(pid_t pid)
{
	if (state(pid) == 'T')
		kill(pid, SIGCONT);
}

/* Whether the child runs a program of its own. Between fork and exec it is a copy of mpirun, whose
 * handlers pass the signal on to mpirun itself: the ranks train to their end, and mpirun says 1. */
static bool
is_rank(pid_t mpirun, pid_t child)
{
	char path[64], before[PATH_MAX], after[PATH_MAX];
	ssize_t n, m;

	snprintf(path, sizeof path, "/proc/%d/exe", (int)mpirun);
	n = readlink(path, before, sizeof before);
	snprintf(path, sizeof path, "/proc/%d/exe", (int)child);
	m = readlink(path, after, sizeof after);
	return n > 0 && m > 0 && (n != m || memcmp(before, after, (size_t)n));
}

/* Sends the signal to the rank once it is there. Returns whether it was sent. */
static bool
disturb(const struct command *c, pid_t pid)
{
	pid_t child[CHILDREN];
	int n = children(pid, child);

	if (strncmp(c->words, "mpirun", 6))
		return kill(pid, c->signal) == 0;
	return c->rank < n && is_rank(pid, child[c->rank]) && kill(child[c->rank], c->signal) == 0;
}

/* Ends it, and the ranks that would outlive it. */
static void
end(pid_t pid)
{
	pid_t child[CHILDREN];
	int n = children(pid, child);

	for (int i = 0; i < n; i++)
		kill(child[i], SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int
command_wait(const struct command *c, pid_t pid)
{
	double start = clock_seconds(), next = start + c->after, wakes = start + 0.1;
	int left = c->times, status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		double now = clock_seconds();

		if (left && now >= next && disturb(c, pid)) {
			left--;
			next = now + 0.02;
		}
		if (now >= wakes) {
			pid_t child[CHILDREN];
			int n = children(pid, child);

			wake(pid);
			for (int i = 0; i < n; i++)
				wake(child[i]);
			wakes = now + 0.1;
		}
		if (now > start + COMMAND_SECONDS) {
			end(pid);
			return COMMAND_HUNG;
		}
		usleep(TICK_US);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : COMMAND_KILLED + WTERMSIG(status);
}

void
command_said(const char *dir, const char *out, struct str *said)
{
	struct str path = { 0 };
	char *text;
	size_t len;
	struct err e;

	str_addf(&path, "%s/%s", dir, out);
	if (io_read_file(path.buf, 0, &text, &len, &e) == 0) {
		str_add(said, text, len);
		free(text);
	} else {
		str_adds(said, e.msg);
	}
	str_release(&path);
}

int
command_run(const struct command *c, struct str *said)
{
	int status = command_wait(c, command_start(c));

	str_clear(said);
	command_said(c->dir, c->out, said);
	return status;
}
