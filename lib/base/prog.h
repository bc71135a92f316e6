/*
 * prog.h - the frame of a program: its name, its messages, its exit
 *
 * Only bin/ and train/ may include this. Every line goes to standard error as "prog: text\n" in one
 * write, with control characters and malformed UTF-8 escaped; on many ranks the prefix is
 * "prog[rank]:". -q silences notes and progress, never warnings.
 */
#ifndef BASE_PROG_H
#define BASE_PROG_H

#include <stdbool.h>
#include <stdio.h>

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,    /* failed, or the answer is no */
	EXIT_USAGE = 2,     /* wrong usage or configuration; nothing was started */
	EXIT_STOPPED = 3,   /* stopped on request after saving; submit again */
	EXIT_PEER = 4,      /* a peer or a link was lost */
	EXIT_NUMERICAL = 5, /* NaN or Inf; do not submit again */
};

void prog_begin(const char *argv0); /* sets the name, resets SIGPIPE and ignores SIGXFSZ */
double prog_seconds(void);          /* since prog_begin */
void prog_rank(int rank);           /* adds "[rank]" to the prefix */
void prog_quiet(int level);         /* -1 quiet, 0 normal, 1 verbose */
int prog_level(void);
void prog_mute(bool mute); /* prints nothing: another rank prints the same */
void prog_on_exit(
    void (*leave)(int status)); /* called by die() and friends before they exit; for MPI_Abort */
int prog_end(int status);       /* flushes stdout; lost output is an error and gives EXIT_FAILED */
/* Ends the process without the exit handlers of libraries; die() ends so too. */
void prog_exit(int status) __attribute__((noreturn));
void prog_line(const char *text); /* at every level, muted or not; may be called in a handler */
void prog_version(const char *backends);
/* The build, for the files that are compiled with both words. */
#define PROG_BUILD MIKOSHI_VERSION ", commit " MIKOSHI_COMMIT
const char *prog_build(void);   /* "0.1.0, commit 3f2c1a0", as --version prints it */
const char *prog_release(void); /* "mikoshi 0.1.0", for files that record which release wrote
				 * them */

void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2))); /* EXIT_FAILED */
void die_usage(const char *fmt, ...)
    __attribute__((noreturn, format(printf, 1, 2))); /* EXIT_USAGE */

/* One rewritten line on a terminal, at most 5 times a second; nothing in a log. prog_progress_end
 * clears it. */
void prog_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void prog_progress_end(void);
/* What is written to standard error comes to a terminal, though it is none. */
void prog_terminal(void);

#endif
