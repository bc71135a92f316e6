/*
 * signals.h - signals as a descriptor, so that a run ends between two reads and cleans up
 *
 * INT, TERM, HUP, USR1 and USR2 (what batch systems send before a limit) are held back from all
 * threads that are started later; the descriptor becomes readable when one came. A signal that the
 * program was started to ignore stays ignored.
 */
#ifndef TOK_SIGNALS_H
#define TOK_SIGNALS_H

/* Before any other thread is started. -1: the system does not give one; signals then end the
 * program as ever. */
int signals_hold(void);
/* Ends the program by the signal that came, so that a shell knows; returns when none did. */
void signals_raise(int fd);

#endif
