/*
 * err.h - why something failed, carried to the caller that reports it
 *
 * Functions that read foreign bytes return -1 (or NULL) and fill a struct err with one line: no
 * program name, no newline. Programs print it. A promise broken by our own code is BUG(): position
 * and abort, never a message to the user.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

struct err {
	char msg[8192];
};

/* Separates the lines of a reason that has several. */
#define ERR_LINE '\036'

/* Formats the reason and returns -1, so that a parser can `return err_set(e, ...)`. e may be
 * NULL. */
int err_set(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same after the position: "path:line: reason"; line 0 leaves the line out, and path
 * NULL the position. Returns -1. */
int err_at(struct err *e, const char *path, long line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* "cannot WHAT 'path': strerror(errno)". Returns -1. */
int err_sys(struct err *e, const char *what, const char *path);

void bug(const char *file, int line, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

#define BUG(...) bug(__FILE__, __LINE__, __VA_ARGS__)

#endif
