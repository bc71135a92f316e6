/*
 * file_set.h - many files that appear together, after one sync of their file system
 *
 * Each file is written under a temporary name in its own directory; file_set_commit makes all of
 * them durable and renames them in the order in which they were added. With one sync per file, a
 * blend of thousands of corpora would wait for the disk thousands of times. file_set_abort, or the
 * death of the program before the commit, leaves nothing under the final names. Temporary files of
 * dead processes are removed from each directory that is written into.
 */
#ifndef BASE_FILE_SET_H
#define BASE_FILE_SET_H

#include "lib/base/err.h"

#include <sys/uio.h>

struct file_set;

struct file_set *file_set_new(void);
/* Writes the pieces one after the other; any thread may call it. Temporary names are unique across
 * processes, hosts and threads. */
int file_set_add(
    struct file_set *s, const char *path, const struct iovec *piece, int count, struct err *e);
/* The `count` files that were added last get their names before all others. */
void file_set_last_first(struct file_set *s, int count);
/* Frees s in every case; on failure the files that were not yet renamed are removed. */
int file_set_commit(struct file_set *s, struct err *e);
void file_set_abort(struct file_set *s); /* frees s; NULL is allowed */

#endif
