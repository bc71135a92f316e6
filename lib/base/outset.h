/*
 * outset.h - many files that appear together, after one sync of their file system
 *
 * Each is written under a temporary name beside its own; outset_commit makes all of them durable
 * and renames them in the order in which they were added. A sync a file would make a blend of
 * thousands of corpora wait for the disk thousands of times. outset_abort, or the death of the
 * program before the commit, leaves nothing under the final names. What dead processes left under
 * temporary names goes from each directory that is written into.
 */
#ifndef BASE_OUTSET_H
#define BASE_OUTSET_H

#include "lib/base/err.h"

#include <sys/uio.h>

struct outset;

struct outset *outset_new(void);
/* Writes the pieces one after the other; any thread. The temporary name differs between processes,
 * hosts and threads. */
int outset_add(
    struct outset *s, const char *path, const struct iovec *piece, int count, struct err *e);
/* Frees s in every case; on failure files that were not renamed by then are removed. */
int outset_commit(struct outset *s, struct err *e);
void outset_abort(struct outset *s); /* frees s; NULL is fine */

#endif
