/*
 * prog.c - the frame of a program
 *
 * The only global state of a program: its name, its verbosity, and the progress line on the
 * terminal. Messages for people go to stderr, one line per write; stdout carries only the product
 * and is checked at the end.
 */
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/map.h"
#include "lib/base/prog.h"
#include "lib/base/utf8.h"

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char prefix[64] = "mikoshi";
static const char clear_line[] = "\r\033[K";
static int level;
static double begun;     /* by prog_begin */
static bool on_terminal; /* although standard error is a launcher's pipe */
static bool progress_shown, muted;
static void (*leave_hook)(int);

/* A second call replaces the number. */
void
prog_rank(int rank)
{
	char *bracket = strchr(prefix, '[');
	size_t n = bracket ? (size_t)(bracket - prefix) : strlen(prefix);

	snprintf(prefix + n, sizeof prefix - n, "[%d]", rank);
}

/* Errors and warnings are printed at every level. */
void
prog_quiet(int new_level)
{
	level = new_level;
}

/* For callers that would otherwise compute a note that is not printed. */
int
prog_level(void)
{
	return level;
}

/*
 * For all ranks but one, where each would print the same. die() then prints nothing either, but
 * keeps its status.
 */
void
prog_mute(bool mute)
{
	muted = mute;
}

/*
 * The hook runs first in every die(), so that, for example, waiting ranks are not left hanging.
 */
void
prog_on_exit(void (*leave)(int status))
{
	leave_hook = leave;
}

/* One write per line, so that lines of many ranks do not mix. File names may hold any bytes, so the
 * text is escaped. Safe in a handler. */
static void
put_line(const char *begin, const char *text, size_t len)
{
	char line[6144];
	size_t n = strlen(begin), m = strlen(prefix);

	memcpy(line, begin, n);
	memcpy(line + n, prefix, m);
	n += m;
	line[n++] = ':';
	line[n++] = ' ';
	n += utf8_escape(text, len, line + n, sizeof line - n - 1);
	line[n++] = '\n';
	for (size_t done = 0; done < n;) {
		ssize_t w = write(STDERR_FILENO, line + done, n - done);

		if (w <= 0)
			return;
		done += (size_t)w;
	}
}

static void
say(const char *fmt, va_list ap)
{
	char text[sizeof(struct err) + 512];

	if (muted)
		return;
	vsnprintf(text, sizeof text, fmt, ap);
	fflush(stdout);
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, (char[]){ ERR_LINE, '\0' });

		put_line(progress_shown ? clear_line : "", at, len);
		progress_shown = false;
		at += len;
		if (!*at)
			break;
	}
}

/* Reports a mapped file whose page is lost. Any other cause is a fault of the program: the signal
 * comes again when the handler returns, and then ends the program. */
static void
lost_page(int sig, siginfo_t *info, void *context)
{
	static const char reason[] = ": cannot be read any more: the file was cut short while it "
				     "was in use, or its disk failed";
	const char *path = map_file(info->si_addr);
	char text[4096 + sizeof reason];
	size_t n = path ? strlen(path) : 0;

	(void)context;
	if (!path) {
		signal(sig, SIG_DFL);
		return;
	}
	n = n < 4096 ? n : 4096;
	memcpy(text, path, n);
	memcpy(text + n, reason, sizeof reason);
	put_line("", text, strlen(text));
	_exit(EXIT_FAILED);
}

/*
 * The name is what the user typed, without its directory. SIGPIPE is reset to its default: a parent
 * such as Python may have set it to be ignored, and a filter whose reader is gone must end. Without
 * SIGXFSZ a file that reaches the limit of its size is an error of write(2), as on a full disk.
 */
void
prog_begin(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');
	struct sigaction bus = { .sa_sigaction = lost_page, .sa_flags = SA_SIGINFO };

	begun = clock_seconds();
	snprintf(prefix, sizeof prefix, "%s", slash ? slash + 1 : argv0);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_IGN);
	sigaction(SIGBUS, &bus, NULL);
}

double
prog_seconds(void)
{
	return clock_seconds() - begun;
}

static void leave(int status) __attribute__((noreturn));

/* The hook comes first, as it may not return. */
static void
leave(int status)
{
	if (leave_hook)
		leave_hook(status);
	prog_exit(status);
}

/* Exit handlers of libraries are left out: that of OpenBLAS waits for threads, for ever where the
 * system has refused to start them. */
void
prog_exit(int status)
{
	fflush(stdout);
	_exit(status);
}

void
prog_line(const char *text)
{
	put_line("", text, strlen(text));
}

/* -q silences it. */
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

/* The program continues; -q never silences it. */
void
warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

/* The only way to end with status 1; the message is one line. */
void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	leave(EXIT_FAILED);
}

/* For a wrong command line only: scripts tell status 2 from 1. */
void
die_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	leave(EXIT_USAGE);
}

/*
 * Success requires that stdout is flushed: a full disk or a closed pipe makes it a failure here. A
 * failure status is kept unless output was lost.
 */
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

/* The rank, if any, is cut from the name: every rank is the same program. */
void
prog_version(const char *backends)
{
	char name[sizeof prefix];

	snprintf(name, sizeof name, "%s", prefix);
	name[strcspn(name, "[")] = '\0';
	printf("%s (mikoshi) %s%s%s\n", name, prog_build(), *backends ? "; " : "", backends);
}

/* Identifies the build. */
const char *
prog_build(void)
{
	return PROG_BUILD;
}

const char *
prog_release(void)
{
	return "mikoshi " MIKOSHI_VERSION;
}

void
prog_terminal(void)
{
	on_terminal = true;
}

/*
 * Messages erase the line first.
 */
void
prog_progress(const char *fmt, ...)
{
	static double last;
	double now = clock_seconds();
	char text[1024], line[1024];
	va_list ap;

	if (level < 0 || !(on_terminal || isatty(STDERR_FILENO)))
		return;
	if (progress_shown && now - last < 0.2)
		return;
	last = now;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	utf8_escape(text, strlen(text), line, sizeof line);
	fprintf(stderr, "%s%s: %s", clear_line, prefix, line);
	fflush(stderr);
	progress_shown = true;
}

/* Has no effect without a progress line. */
void
prog_progress_end(void)
{
	if (!progress_shown)
		return;
	fputs(clear_line, stderr);
	progress_shown = false;
}
