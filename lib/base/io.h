/*
 * io.h - whole files in, whole files out
 *
 * An outfile is written under a temporary name in the same directory and appears under its own name
 * only when outfile_commit has synced it; outfile_abort, or the death of the program, leaves
 * nothing under the final name. Those who write for long call temp_sweep_beside first.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "lib/base/err.h"
#include "lib/base/temp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes after a file that was read which may be read too: parsers take many at once. */
enum { IO_PADDING = 64 };

/* Reads a whole file, which may be a pipe; IO_PADDING zeroes follow its bytes and are not counted.
 * *out is freed by the caller, and untouched on failure. max 0 means no limit; len may be NULL. */
int io_read_file(const char *path, size_t max, char **out, size_t *len, struct err *e);
/* The same of what must be a regular file: for names that no user types, where a pipe would keep
 * the program waiting. */
int io_read_regular(const char *path, size_t max, char **out, size_t *len, struct err *e);
/* Writes a small file whole: temporary name, fsync, rename, fsync of the directory. */
int io_write_file(const char *path, const void *bytes, size_t len, struct err *e);
int io_copy_file(const char *src, const char *dst, struct err *e);
bool io_exists(const char *path);
bool io_is_dir(const char *path);
/* Makes the directory and those that it lies in; the name of each new one is on the disk. */
int io_mkdir_p(const char *path, struct err *e);
int io_fsync_dir(const char *path, struct err *e);
/* The directory that path lies in, "." for a bare name; free() it. */
char *io_parent(const char *path);
int io_remove_tree(const char *path, struct err *e);
/* Opens for reading what must be a regular file; -1 with the reason. */
int io_open_regular(const char *path, uint64_t *size, struct err *e);
/* Starts, and does not await, the writing to the disk of the last n bytes before where fd stands: a
 * hint. */
void io_write_behind(int fd, int64_t n);
/* Copies len bytes of `in` from byte `at` on to where `out` stands, inside the kernel where it can.
 * -1 with errno; EIO when `in` ends too early. */
int io_copy_range(int in, int64_t at, int out, uint64_t len);
/* write(2)/pread(2) until all is done. */
int io_write_all(int fd, const void *bytes, size_t len);
int io_pread_all(int fd, void *bytes, size_t len, int64_t offset);

struct outfile {
	FILE *f; /* write here */
	char path[1024], tmp[1024 + TEMP_EXTRA];
};

int outfile_open(struct outfile *o, const char *path, struct err *e);
int outfile_commit(struct outfile *o, struct err *e); /* on failure the temporary file is removed */
void outfile_abort(struct outfile *o);
/* For a program that goes on after a stop: the temporary name is PATH.part whatever the process.
 * The first `keep` bytes of such a file stay; fewer are an error. keep 0 begins afresh. */
int outfile_resume(struct outfile *o, const char *path, int64_t keep, struct err *e);
/* Everything written so far is on the disk; *bytes is how much that is. */
int outfile_sync(struct outfile *o, int64_t *bytes, struct err *e);
void outfile_leave(struct outfile *o); /* closes; the temporary file stays */

#endif
