/* stop.h - requests to stop: signals and the file SAVE/stop; and requests to save */
#ifndef TRAIN_WATCH_STOP_H
#define TRAIN_WATCH_STOP_H

#include "train/comm.h"

#include <stdbool.h>

/* TERM, INT, USR1, USR2, HUP and XCPU ask for a stop after the step, or where stop_agree is called
 * before the first one; a second TERM or INT, a second or more after the first one, exits at once.
 * Of those that end the process there is a line. */
void stop_catch_signals(void);
/* The signals of --exit-signal, ended by NULL; the first six are those above. */
enum { STOP_NAMES = 9 };
extern const char *const stop_signal_names[STOP_NAMES];
/* This one of them asks for a stop too. */
void stop_catch_signal(int name);
/* For runs with nothing to save: signals end the program with a line, also one that has already
 * come. */
void stop_default_signals(void);
/* Collective, before the first step: when a signal has asked any rank to stop, -1 on all ranks,
 * with the reason on rank 0, now and from then on. */
int stop_agree(struct comm *world, struct err *e);
/* Name of the first signal that asked, or NULL. */
const char *stop_signal(void);
/* The name of one of stop_signal_names by its number. */
const char *stop_signal_name(int sig);
/* How many seconds a stop takes, for the answer to a request that comes; nothing is said below
 * two. */
void stop_expect(double seconds);
/* True once for each time that mpirun has announced the end of its ranks: it sends CONT a second
 * before TERM. */
bool stop_announced(void);
/* True when there is a file `stop` in save. stop_file_remove removes it, so that the next run does
 * not stop at once. save may be NULL. */
bool stop_file(const char *save);
void stop_file_remove(const char *save);

#endif
