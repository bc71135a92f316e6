/*
 * io.h - whole files in, whole files out
 *
 * An outfile is written under a temporary name in the same directory and appears under its own name
 * only when outfile_commit has synced it; outfile_abort, or the death of the program, leaves
 * nothing under the final name. Programs that write large files call temp_sweep_beside first.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "lib/base/direct.h"
#include "lib/base/err.h"
#include "lib/base/temp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

/* Readable bytes after the end of a file in memory: parsers load many bytes at once. */
enum { IO_PADDING = 64 };

/* Bytes of the longest path that the system takes, its NUL included: PATH_MAX. */
enum { IO_PATH = 4096 };

/* Reads a whole file, which may be a pipe; IO_PADDING zeroes follow its bytes and are not counted.
 * *out is freed by the caller, and untouched on failure. max 0 means no limit; len may be NULL. */
int io_read_file(const char *path, size_t max, char **out, size_t *len, struct err *e);
/* The same, but the file must be a regular one: for names that no user types, where a pipe would
 * block the program. */
int io_read_regular(const char *path, size_t max, char **out, size_t *len, struct err *e);
/* Writes a small file whole: temporary name, fsync, rename, fsync of the directory. */
int io_write_file(const char *path, const void *bytes, size_t len, struct err *e);
int io_copy_file(const char *src, const char *dst, struct err *e);
bool io_exists(const char *path);
/* 1: there is something of that name, which a link may lead to; 0: nothing; -1 with the reason when
 * it cannot be looked at. For names that may be missing: io_exists is for those that are opened. */
int io_there(const char *path, struct err *e);
bool io_is_dir(const char *path);
/* A plain name, for names that files give: nothing that leads out of the directory. */
bool io_is_file_name(const char *s);
/* Makes the directory and its missing parents; the name of each new one is on disk on return. */
int io_mkdir_p(const char *path, struct err *e);
int io_fsync_dir(const char *path, struct err *e);
int io_sync_parent(const char *path, struct err *e); /* the directory that path lies in */
/* The directory that path lies in, "." for a bare name; free() it. */
char *io_parent(const char *path);
int io_remove_tree(const char *path, struct err *e);
/* Opens a regular file for reading and returns its stat(2); -1 with the reason when it is not
 * one. */
int io_open_regular(const char *path, struct stat *st, struct err *e);
/* Starts writing the last n bytes before the position of fd to disk, and does not wait: a hint. */
void io_start_writing(int fd, int64_t n);
/* Copies len bytes of `in`, from byte `at` on, to the position of `out`, inside the kernel where
 * possible. -1 with errno; EIO when `in` ends too early. */
int io_copy_range(int in, int64_t at, int out, uint64_t len);
/* write(2)/pread(2) until all is done. */
int io_write_all(int fd, const void *bytes, size_t len);
int io_pread_all(int fd, void *bytes, size_t len, int64_t offset);

struct outfile {
	FILE *f; /* write here */
	int fd;
	struct direct *direct; /* NULL: f is an ordinary stream */
	bool resumable;        /* opened by outfile_resume: it stays when a commit fails */
	char path[IO_PATH], tmp[IO_PATH + TEMP_EXTRA];
};

int outfile_open(struct outfile *o, const char *path, struct err *e);
/* The same for a program that copies large files: its bytes pass by the file cache where that is
 * good (direct.h). Only for writing from the start to the end. */
int outfile_open_direct(struct outfile *o, const char *path, struct err *e);
int outfile_commit(struct outfile *o, struct err *e); /* on failure the temporary file is removed */
/* The first part of it: the file is on disk under o->tmp, and the caller renames it. */
int outfile_finish(struct outfile *o, struct err *e);
void outfile_abort(struct outfile *o);
/* The disk begins to write these bytes, which were written to f, so that outfile_commit has less to
 * wait for. */
void outfile_begin_sync(struct outfile *o, uint64_t from, uint64_t bytes);
/* For a program that continues after a stop: the temporary name is PATH.part in every process. The
 * first `keep` bytes of such a file are kept; fewer are an error. keep 0 starts over. shared:
 * another process may still have it open; then, and when one of this host has, a copy replaces the
 * file. */
int outfile_resume(struct outfile *o, const char *path, int64_t keep, bool shared, struct err *e);
/* Syncs everything written so far; *bytes is its size. A writer that was stopped while it opened
 * this part, and has lost its lock since, may have given the name to a file of its own when it woke
 * up: then a copy takes the name back, and the file's place. */
int outfile_sync(struct outfile *o, int64_t *bytes, struct err *e);
/* For such a part of which only the stream is kept, which stands at its end. */
int outfile_sync_part(FILE **f, const char *tmp, struct err *e);
void outfile_leave(struct outfile *o); /* closes; the temporary file stays */

#endif
