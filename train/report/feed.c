/*
 * feed.c - a command that gets a run's metrics on its standard input
 *
 * The pipe does not block, so a long line may go in two parts: what is left of it is kept, and goes
 * before the next line or not at all. The command is in a process group of its own, which a
 * terminal's Ctrl-C does not reach, since a run that is stopped has lines to come.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/str.h"
#include "train/report/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Hundredths of a second that the end of a run waits for the command's. */
enum { PATIENCE = 200 };

struct feed {
	const char *command;
	pid_t pid;
	int fd; /* -1: it has ended too often */
	int restarts;
	long long dropped;
	struct str rest; /* of a line whose beginning was written */
};

/* The write end is another file than the read end, so the command's reads block. */
static int
start(struct feed *f, struct err *e)
{
	char *words[] = { "sh", "-c", (char *)(uintptr_t)f->command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t defaults;
	int ends[2], why;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, "--metrics-command: %s", strerror(errno));
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigdefault(&how, &defaults);
	why = posix_spawnp(&f->pid, words[0], &files, &how, words, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&how);
	close(ends[0]);
	f->fd = ends[1];
	if (!why)
		return 0;
	close(f->fd);
	f->fd = -1;
	return err_set(e, "--metrics-command: %s", strerror(why));
}

struct feed *
feed_open(const char *command, struct err *e)
{
	struct feed *f = mem_zalloc(1, sizeof *f);

	f->command = command;
	if (start(f, e) == 0)
		return f;
	free(f);
	return NULL;
}

/* The command has closed its input, or ended. */
static void
restart(struct feed *f)
{
	struct err why;

	close(f->fd);
	f->fd = -1;
	str_clear(&f->rest);
	waitpid(f->pid, NULL, WNOHANG);
	prog_progress_end();
	if (f->restarts++ == FEED_RESTARTS) {
		note("--metrics-command has ended %d times: it gets no more lines",
		    FEED_RESTARTS + 1);
	} else {
		note("--metrics-command has ended: it is started again");
		if (start(f, &why) < 0)
			note("%s", why.msg);
	}
}

/* How many bytes the pipe took; below 0: nobody reads it. */
static ssize_t
put(const struct feed *f, const char *bytes, size_t len)
{
	ssize_t n;

	do
		n = write(f->fd, bytes, len);
	while (n < 0 && errno == EINTR);
	return n < 0 && errno == EAGAIN ? 0 : n;
}

/* What is left of the line before. True when nothing is. */
static bool
put_rest(struct feed *f)
{
	ssize_t n = f->rest.len ? put(f, f->rest.buf, f->rest.len) : 0;

	if (n < 0) {
		restart(f);
	} else if (n > 0) {
		f->rest.len -= (size_t)n;
		memmove(f->rest.buf, f->rest.buf + n, f->rest.len);
	}
	return f->rest.len == 0 && f->fd >= 0;
}

/* A command that was started again has an empty pipe. */
void
feed_line(struct feed *f, const char *line, size_t len)
{
	ssize_t n = f->fd >= 0 && put_rest(f) ? put(f, line, len) : 0;

	if (n < 0) {
		restart(f);
		n = f->fd >= 0 ? put(f, line, len) : 0;
	}
	if (n <= 0)
		f->dropped++;
	else
		str_add(&f->rest, line + n, len - (size_t)n);
}

void
feed_close(struct feed *f)
{
	const struct timespec hundredth = { 0, 10000000 };
	bool ended = false;

	if (!f)
		return;
	if (f->fd >= 0) {
		put_rest(f);
		close(f->fd);
		for (int i = 0; i < PATIENCE && !ended; i++) {
			ended = waitpid(f->pid, NULL, WNOHANG) != 0;
			if (!ended)
				nanosleep(&hundredth, NULL);
		}
	}
	if (f->dropped)
		note("--metrics-command did not get %lld lines, which it was too slow to read, or "
		     "had ended before",
		    f->dropped);
	str_release(&f->rest);
	free(f);
}
