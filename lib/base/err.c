/*
 * err.c - reasons, and the end of the program on a broken promise
 *
 * A function that fails writes one line into the caller's struct err and returns -1, so that
 * "return err_set(...)" is the whole error path. Nothing here allocates: reasons can be given when
 * memory is short. A caller that does not need the reason passes NULL.
 */
#include "lib/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A reason longer than the buffer is cut, never refused. NULL for e is allowed. Returns -1, always.
 */
int
err_set(struct err *e, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof e->msg, fmt, ap);
	va_end(ap);
	return -1;
}

/*
 * The form of compilers, file:line: reason, which editors can jump to. Line 0 stands for "the whole
 * file" and is left out.
 */
int
err_at(struct err *e, const char *path, long line, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!e)
		return -1;
	if (!path)
		e->msg[0] = '\0';
	else if (line > 0)
		snprintf(e->msg, sizeof e->msg, "%s:%ld: ", path, line);
	else
		snprintf(e->msg, sizeof e->msg, "%s: ", path);
	n = strlen(e->msg);
	va_start(ap, fmt);
	vsnprintf(e->msg + n, sizeof e->msg - n, fmt, ap);
	va_end(ap);
	return -1;
}

/*
 * Reads errno, so nothing that may change it, such as close, may come between the failure and this
 * call. Of a path that would leave no room for the reason the middle is left out.
 */
int
err_sys(struct err *e, const char *what, const char *path)
{
	enum { LONGEST = 300, BEGIN = 80, END = 200 };
	size_t n = strlen(path);

	if (n <= LONGEST)
		return err_set(e, "cannot %s '%s': %s", what, path, strerror(errno));
	return err_set(
	    e, "cannot %s '%.*s...%s': %s", what, BEGIN, path, path + n - END, strerror(errno));
}

/*
 * abort and not exit: a broken promise inside the program deserves a core file, and no clean-up can
 * be trusted any more. Reached through BUG, which adds the source position.
 */
void
bug(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: bug: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}
