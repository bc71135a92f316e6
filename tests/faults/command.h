/* command.h - a command that is run, disturbed from outside, and waited for with a time limit */
#ifndef FAULTS_COMMAND_H
#define FAULTS_COMMAND_H

#include "lib/base/str.h"

#include <stdbool.h>
#include <sys/types.h>

/* A run that finds a torn lock watches it for 120 seconds, which does not count as a hang. */
enum { COMMAND_HUNG = -1, COMMAND_KILLED = 128, COMMAND_SECONDS = 180 };

struct command {
	const char *dir, *out;          /* it runs there; what it says goes to that file there */
	const char *words;              /* command and arguments, separated by blanks */
	const char *const *environment; /* "NAME=VALUE", ended by NULL; may be NULL */
	/* A signal from outside, `times` times, to a rank: the command itself, or mpirun's child of
	 * that number. */
	int signal, times, rank;
	double after; /* seconds from the start; 20 ms between */
};

/* Starts it. The file is empty when this returns, or holds what the command has said. */
pid_t command_start(const struct command *c);
/* Disturbs it, lets stopped ranks continue after a while, and waits for its end. Its exit status,
 * COMMAND_KILLED + the signal that ended it, or COMMAND_HUNG: it did not end in COMMAND_SECONDS,
 * and was killed. */
int command_wait(const struct command *c, pid_t pid);
/* Both of these; *said gets the output, for the caller to release. */
int command_run(const struct command *c, struct str *said);
/* What the file of the directory holds, or why it cannot be read. */
void command_said(const char *dir, const char *out, struct str *said);

#endif
