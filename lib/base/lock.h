/*
 * lock.h - a file that says which process may write into a directory
 *
 * It holds host, boot, process, start time and batch job of its holder, which renews it for as long
 * as it lives. No clock of another host is trusted: who finds a lock that it cannot judge watches
 * it by its own. A lock is broken by itself when
 *   - its process was of this boot and this host and has ended, or ends within LOCK_ENDING,
 *   - its batch job is this one, started again by the batch system,
 *   - it has not changed for as long as LOCK_STALE says.
 * Advice for programs that ask; nothing stops those that do not.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "lib/base/err.h"

#include <stdbool.h>

/* Seconds. A file system may be away for three renewals; a process that was killed takes a while to
 * be gone. */
enum { LOCK_RENEWAL = 30, LOCK_STALE = 120, LOCK_ENDING = 5 };

struct lock;

struct lock_terms {
	const char *path;              /* of the lock; copied */
	double renewal, stale, ending; /* seconds */
	/* a lock that is there is broken whoever holds it, who has a renewal's time to notice */
	bool by_force;
	/* what is waited for and what was broken: a line each, without newline */
	void (*say)(const char *line);
	bool (*give_up)(void); /* asked while it waits; NULL: never */
};

/* Takes the lock, and starts the thread that renews it. NULL with the reason when somebody holds
 * it. */
struct lock *lock_take(const struct lock_terms *t, struct err *e);
/* Looks at the file: -1 with the reason when it is not this holder's any more. A file that cannot
 * be read now is taken for what it was. Any thread. NULL is fine, and 0. */
int lock_check(struct lock *l, struct err *e);
/* What the last look found, without another one; of NULL false. */
bool lock_lost(const struct lock *l);
/* Removes the file if it is still this holder's, and frees l; NULL is fine. */
void lock_release(struct lock *l);

#endif
