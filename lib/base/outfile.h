/*
 * outfile.h - whole files out
 *
 * An outfile is written under a temporary name in the same directory and appears under its own name
 * only when outfile_commit has synced it; outfile_abort, or the death of the program, leaves
 * nothing under the final name. Programs that write large files call temp_sweep_beside first.
 */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include "lib/base/direct.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/lock.h"
#include "lib/base/temp.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct outfile {
	FILE *f; /* write here */
	int fd;
	struct direct *direct; /* NULL: f is an ordinary stream */
	bool resumable;        /* opened by outfile_resume: it stays when a commit fails */
	struct lock *lock;     /* an error of the commit if it is lost; NULL: none */
	char path[IO_PATH], tmp[IO_PATH + TEMP_EXTRA];
};

int outfile_open(struct outfile *o, const char *path, struct err *e);
/* The same for a program that copies large files: its bytes pass by the file cache where that is
 * good (direct.h). Only for writing from the start to the end. */
int outfile_open_direct(struct outfile *o, const char *path, struct err *e);
/* On failure the temporary file is removed, unless a later run may continue it. */
int outfile_commit(struct outfile *o, struct err *e);
/* The first part of it: the file is on disk under o->tmp, and the caller renames it. */
int outfile_finish(struct outfile *o, struct err *e);
void outfile_abort(struct outfile *o);
/* The disk begins to write these bytes, which were written to f, so that outfile_commit has less to
 * wait for. */
void outfile_begin_sync(struct outfile *o, uint64_t from, uint64_t bytes);
/* For a program that continues after a stop: the temporary name is PATH.part in every process. The
 * first `keep` bytes of such a file are kept; fewer are an error. keep 0 starts over. shared:
 * another process may still have it open; then, and when one of this host has, a copy replaces the
 * file. lock: of who may write under the name, an error if it is lost before the file changes;
 * NULL: none. */
int outfile_resume(struct outfile *o, const char *path, int64_t keep, bool shared,
    struct lock *lock, struct err *e);
/* Syncs everything written so far; *bytes is its size. A writer that was stopped while it opened
 * this part, and has lost its lock since, may have given the name to a file of its own when it woke
 * up: then a copy takes the name back, and the file's place, unless o->lock is lost. */
int outfile_sync(struct outfile *o, int64_t *bytes, struct err *e);
/* For such a part of which only the stream is kept, which stands at its end. */
int outfile_sync_part(FILE **f, const char *tmp, struct lock *lock, struct err *e);
void outfile_leave(struct outfile *o); /* closes; the temporary file stays */

/* Writes a small file whole: temporary name, fsync, rename, fsync of the directory. */
int outfile_write(const char *path, const void *bytes, size_t len, struct err *e);
/* The same for a name that belongs to who holds the lock: an error, and the name stays as it is,
 * when that is lost by the time that the bytes are on disk. */
int outfile_write_held(
    const char *path, const void *bytes, size_t len, struct lock *lock, struct err *e);
/* dst appears only when all of src was read. */
int outfile_copy(const char *src, const char *dst, struct err *e);

#endif
