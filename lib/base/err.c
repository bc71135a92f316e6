/* err.c - reasons, and the end of the program on a broken promise */
#include "lib/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int
err_at(struct err *e, const char *path, long line, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!e)
		return -1;
	if (line > 0)
		snprintf(e->msg, sizeof e->msg, "%s:%ld: ", path, line);
	else
		snprintf(e->msg, sizeof e->msg, "%s: ", path);
	n = strlen(e->msg);
	va_start(ap, fmt);
	vsnprintf(e->msg + n, sizeof e->msg - n, fmt, ap);
	va_end(ap);
	return -1;
}

int
err_sys(struct err *e, const char *what, const char *path)
{
	return err_set(e, "cannot %s '%s': %s", what, path, strerror(errno));
}

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
