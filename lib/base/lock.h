/*
 * lock.h - a file that says which process may write into a directory
 *
 * It holds host, boot, process, start time and batch job of its holder, which renews it for as long
 * as it lives. No clock of another host is trusted: a process that cannot tell whether a lock is
 * alive watches it by its own clock. A lock is broken automatically when
 *   - its process ran on this host in this boot and has ended, or ends within LOCK_ENDING,
 *   - its batch job is this one, restarted by the batch system,
 *   - it has not changed for LOCK_STALE.
 * The lock is advisory: nothing stops a program that does not ask for it.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "lib/base/err.h"

#include <stdbool.h>

/* Seconds. A file system may be unreachable for three renewals; a killed process takes a while to
 * disappear. */
enum { LOCK_RENEWAL = 30, LOCK_STALE = 120, LOCK_ENDING = 5 };

struct lock;

struct lock_terms {
	const char *path;              /* of the lock file; copied */
	double renewal, stale, ending; /* seconds */
	/* an existing lock is broken even if its holder runs, which has one renewal's time to
	 * notice */
	bool by_force;
	/* reports each wait and each broken lock in a line without newline */
	void (*say)(const char *line);
	bool (*give_up)(void); /* polled while it waits; NULL: never */
};

/* Takes the lock, and starts the thread that renews it. NULL with the reason when the lock is
 * held. */
struct lock *lock_take(const struct lock_terms *t, struct err *e);
/* The same with the times above and another path: of the terms only by_force, say and give_up
 * count. */
struct lock *lock_claim(const char *path, const struct lock_terms *how, struct err *e);
/* Reads the file: -1 with the reason when it no longer belongs to this holder. A file that cannot
 * be read now counts as unchanged. Any thread may call it; NULL gives 0. */
int lock_check(struct lock *l, struct err *e);
/* Removes a file that belongs to this holder, and may be missing: where large ones are removed, or
 * many, each may take long, so that the lock is looked at before each. -1 with the reason, also
 * when the lock is lost; l NULL: none is looked at. */
int lock_unlink(struct lock *l, const char *path, struct err *e);
/* The result of the last check, without another one; false for NULL. */
bool lock_lost(const struct lock *l);
/* Whether another holder had left the lock; false for NULL. */
bool lock_left(const struct lock *l);
/* Whether it was taken from a holder that is not known to have ended, and may have files open. */
bool lock_taken_over(const struct lock *l);
/* Removes the file if it still belongs to this holder, and frees l; NULL is allowed. */
void lock_release(struct lock *l);

#endif
