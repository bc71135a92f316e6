/* io.h - whole files in, directories, and descriptors; outfile.h writes files */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

#endif
