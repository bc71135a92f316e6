/*
 * watchdog.h - no rank waits for ever for another
 *
 * A thread of each rank watches what the communicating thread waits for, and tells ranks 0 and 1.
 * It does not use MPI: the thread that may call it is the one that hangs.
 */
#ifndef TRAIN_WATCH_WATCHDOG_H
#define TRAIN_WATCH_WATCHDOG_H

#include "train/comm.h"

/* Seconds that a rank may wait for others in one call, until the first step is done and from then
 * on; both more than 0. name: the option and its value, for the message. */
struct watchdog_limit {
	char name[72];
	double seconds;
};
struct watchdog_config {
	struct watchdog_limit start, steady;
};

struct watchdog;

/*
 * Collective over world, whose calls it logs from here on. When a rank has waited too long, rank 0
 * says so in one line, and every rank that runs ends with EXIT_PEER. Rank 1 does it some seconds
 * later if rank 0 has not, and then each rank for itself; all ranks have ended 10 seconds after the
 * limit. NULL, and nothing is watched, in a world of one.
 */
struct watchdog *watchdog_start(struct comm *world, const struct watchdog_config *c);
/* The first step is done. NULL is fine. */
void watchdog_steady(struct watchdog *w);
/* Frees w when nothing is waited for any more; NULL is fine. */
void watchdog_stop(struct watchdog *w);

#endif
