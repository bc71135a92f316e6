/*
 * place.h - where an export is written, and how it gets its name
 *
 * A new directory is written under a temporary name beside DST and renamed. So is the successor of
 * an earlier export, which is exchanged for it. An empty directory, and one that cannot be renamed
 * (on which a file system is mounted, or whose parent cannot be written), is filled: the files are
 * complete in a directory of its own inside it first, and config.json gets its name last.
 */
#ifndef EXPORT_PLACE_H
#define EXPORT_PLACE_H

#include "lib/base/io.h"
#include "lib/base/lock.h"
#include "lib/base/str.h"
#include "lib/base/temp.h"

enum { PLACE_PATH = 1024 };

struct place {
	char dst[PLACE_PATH];              /* a link is followed */
	char tmp[PLACE_PATH + TEMP_EXTRA]; /* write here; empty: not made */
	struct lock *lock;
	bool replace, there, empty, inside;
};

/* Takes the lock of dst and decides; -1 with the reason when it may not be written: it holds an
 * export and replace is false, or something else. notes gets a line for a link. place_close in
 * every case. */
int place_open(struct place *p, const char *dst, bool replace, struct str *notes, struct err *e);
/* Makes p->tmp. */
int place_begin(struct place *p, struct err *e);
/* Looks at lock and target again, and gives the files their names: all or none. */
int place_commit(struct place *p, struct err *e);
/* Removes what was not committed, and releases the lock. */
void place_close(struct place *p);

#endif
