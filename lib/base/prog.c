/* prog.c - the frame of a program */
#include "lib/base/prog.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char prefix[64] = "mikoshi";
static int level;
static bool progress_shown, muted;
static void (*leave_hook)(int);

void
prog_begin(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');

	snprintf(prefix, sizeof prefix, "%s", slash ? slash + 1 : argv0);
	signal(SIGPIPE, SIG_DFL);
}

void
prog_rank(int rank)
{
	char *bracket = strchr(prefix, '[');
	size_t n = bracket ? (size_t)(bracket - prefix) : strlen(prefix);

	snprintf(prefix + n, sizeof prefix - n, "[%d]", rank);
}

void
prog_quiet(int new_level)
{
	level = new_level;
}

int
prog_level(void)
{
	return level;
}

void
prog_mute(bool mute)
{
	muted = mute;
}

void
prog_on_exit(void (*leave)(int status))
{
	leave_hook = leave;
}

/* One line, one write, so that lines of many ranks do not mix. */
static void
say(const char *fmt, va_list ap)
{
	char line[4608];
	int n = snprintf(line, sizeof line, "%s%s: ", progress_shown ? "\r\033[K" : "", prefix);
	int start = n, m;

	if (muted)
		return;
	progress_shown = false;
	m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	n += m < (int)sizeof line - n - 2 ? m : (int)sizeof line - n - 2;
	for (int i = start; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	fflush(stdout);
	for (int done = 0; done < n;) {
		ssize_t w = write(STDERR_FILENO, line + done, (size_t)(n - done));

		if (w <= 0)
			return;
		done += (int)w;
	}
}

static void leave(int status) __attribute__((noreturn));

static void
leave(int status)
{
	if (leave_hook)
		leave_hook(status);
	exit(status);
}

void
note(const char *fmt, ...)
{
	va_list ap;

	if (level < 0)
		return;
	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void
warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	leave(EXIT_FAILED);
}

void
die_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	leave(EXIT_USAGE);
}

void
die_status(enum exit_status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	leave(status);
}

int
prog_end(int status)
{
	bool lost = ferror(stdout) != 0;

	prog_progress_end();
	if (fflush(stdout) != 0 || lost) {
		warn("cannot write standard output");
		return EXIT_FAILED;
	}
	return status;
}

void
prog_version(const char *backends)
{
	char name[sizeof prefix];

	snprintf(name, sizeof name, "%s", prefix);
	name[strcspn(name, "[")] = '\0';
	printf("%s (mikoshi) %s, commit %s; %s\n", name, MIKOSHI_VERSION, MIKOSHI_COMMIT, backends);
}

const char *
prog_release(void)
{
	return "mikoshi " MIKOSHI_VERSION;
}

void
prog_progress(const char *fmt, ...)
{
	static struct timespec last;
	struct timespec now;
	va_list ap;

	if (level < 0 || !isatty(STDERR_FILENO))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (progress_shown &&
	    (now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000 < 200)
		return;
	last = now;
	fprintf(stderr, "\r\033[K%s: ", prefix);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	progress_shown = true;
}

void
prog_progress_end(void)
{
	if (!progress_shown)
		return;
	fputs("\r\033[K", stderr);
	progress_shown = false;
}
