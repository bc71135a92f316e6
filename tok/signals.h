/*
 * signals.h - signals through a descriptor, so that a run ends between two reads and cleans up
 *
 * INT, TERM, HUP, USR1 and USR2 (what batch systems send before a limit) are blocked in all threads
 * that are started later; the descriptor becomes readable when one has come. A signal that the
 * program was started to ignore stays ignored.
 */
#ifndef TOK_SIGNALS_H
#define TOK_SIGNALS_H

#include <stdbool.h>

/* Called before any other thread is started. -1: there is no descriptor, and signals end the
 * program as usual. */
int signals_hold(void);
/* Whether one has come. */
bool signals_pending(void);
/* Ends the program by the signal that came, so that a shell knows; returns when none did. */
void signals_raise(int fd);

#endif
