/*
 * io.c - whole files in, directories, and descriptors
 *
 * Reads and writes that the kernel cuts short are continued here, so that callers need not handle
 * that.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM_MIN = 1 << 16, ROOM_MAX = 1 << 30 }; /* bytes first allocated for a file to be read */

/* A write of 0 bytes is an error, since a full disk could otherwise loop for ever. errno has the
 * reason. */
int
io_write_all(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;

	while (len) {
		ssize_t w = write(fd, p, len);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -1;
		p += w;
		len -= (size_t)w;
	}
	return 0;
}

/*
 * The end of the file inside the range is EIO: callers ask only for what must be there. The file's
 * position is not moved, so threads may share fd.
 */
int
io_pread_all(int fd, void *bytes, size_t len, int64_t offset)
{
	char *p = bytes;

	while (len) {
		ssize_t r = pread(fd, p, len, offset);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			if (r == 0)
				errno = EIO;
			return -1;
		}
		p += r;
		len -= (size_t)r;
		offset += r;
	}
	return 0;
}

/* Directories and pipes are refused: they have no meaningful size. Without O_NONBLOCK, opening a
 * pipe would wait for a writer; for a regular file the flag has no effect. */
int
io_open_regular(const char *path, struct stat *st, struct err *e)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open", path);
	if (fstat(fd, st) < 0)
		err_sys(e, "look at", path);
	else if (!S_ISREG(st->st_mode))
		err_set(e, "cannot open '%s': not a regular file", path);
	else
		return fd;
	close(fd);
	return -1;
}

/* Only a hint: an error shows when the file is synced. */
void
io_start_writing(int fd, int64_t n)
{
	off_t end = lseek(fd, 0, SEEK_CUR);

	if (end >= n)
		sync_file_range(fd, end - n, n, SYNC_FILE_RANGE_WRITE);
}

/* copy_file_range avoids the copy through user memory, and on some file systems all copying. Where
 * it fails, the rest is read and written in large blocks, and any error shows there. Write-back
 * starts after each stride, so that the final sync has little left to wait for. */
int
io_copy_range(int in, int64_t at, int out, uint64_t len)
{
	enum { BLOCK = 1 << 20, STRIDE = 1 << 24 };
	char *buf;
	int rc = 0;

	while (len) {
		ssize_t n = copy_file_range(in, &at, out, NULL, len < STRIDE ? len : STRIDE, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len -= (uint64_t)n;
		io_start_writing(out, n);
	}
	if (len == 0)
		return 0;
	buf = mem_alloc(BLOCK, 1);
	while (len && rc == 0) {
		size_t n = len < BLOCK ? len : BLOCK;

		rc = io_pread_all(in, buf, n, at) < 0 ? -1 : io_write_all(out, buf, n);
		io_start_writing(out, (int64_t)n);
		at += (int64_t)n;
		len -= n;
	}
	free(buf);
	return rc;
}

/* The buffer for the size that a file reports, within bounds: the name may be that of a pipe. */
static size_t
room_for(int fd, size_t max)
{
	size_t bound = max && max < ROOM_MAX ? max : ROOM_MAX, size;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		return ROOM_MIN;
	size = (uint64_t)st.st_size < bound ? (size_t)st.st_size : bound;
	return size + IO_PADDING + 1 > ROOM_MIN ? size + IO_PADDING + 1 : ROOM_MIN;
}

/* Reads to the end of the file rather than to its reported size, so that a growing file is not cut
 * short; the size only sets the first allocation. Closes f. */
static int
read_stream(FILE *f, const char *path, size_t max, char **out, size_t *len, struct err *e)
{
	size_t n = 0, cap = room_for(fileno(f), max), r;
	char *buf = mem_zalloc_whole(cap, 1);
	int rc = 0;

	while (rc == 0 && (r = fread(buf + n, 1, cap - n - IO_PADDING, f)) > 0) {
		n += r;
		if (max && n > max)
			rc = err_set(e, "%s: larger than %zu bytes", path, max);
		else if (cap - n == IO_PADDING)
			buf = mem_realloc(buf, cap *= 2, 1);
	}
	if (rc == 0 && ferror(f))
		rc = err_sys(e, "read", path);
	fclose(f);
	if (rc < 0) {
		free(buf);
		return -1;
	}
	memset(buf + n, 0, IO_PADDING);
	*out = buf;
	if (len)
		*len = n;
	return 0;
}

/* Pipes and /proc work. */
int
io_read_file(const char *path, size_t max, char **out, size_t *len, struct err *e)
{
	FILE *f = fopen(path, "rbe");

	return f ? read_stream(f, path, max, out, len, e) : err_sys(e, "open", path);
}

int
io_read_regular(const char *path, size_t max, char **out, size_t *len, struct err *e)
{
	struct stat st;
	int fd = io_open_regular(path, &st, e);
	FILE *f;

	if (fd < 0)
		return -1;
	f = fdopen(fd, "rb");
	if (f)
		return read_stream(f, path, max, out, len, e);
	err_sys(e, "open", path);
	close(fd);
	return -1;
}

/* Follows links. A name that cannot be examined counts as absent; opening it gives the reason. */
bool
io_exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/* Whatever else stat(2) says, nothing can be under a name whose directory is missing or a file. */
int
io_there(const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "look at", path);
}

/* A link to a directory counts as one. */
bool
io_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* No hidden name either, and none that is a path on another system. */
bool
io_is_file_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n < 256 && s[0] != '.' && !strchr(s, '/') && !strchr(s, '\\');
}

/* The caller strips blanks and slashes from the end of path. */
char *
io_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return mem_strdup(".");
	return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

int
io_sync_parent(const char *path, struct err *e)
{
	char *dir = io_parent(path);
	int rc = io_fsync_dir(dir, e);

	free(dir);
	return rc;
}

/*
 * Several processes may make the same path at once: EEXIST is not a failure until the end, where
 * the path must be a directory. The name of each new directory is on disk before anything is
 * created in it; so is that of the last one that was there, whose maker may have been killed or
 * have failed before it was. Those above it are on disk, as it was made in them.
 */
int
io_mkdir_p(const char *path, struct err *e)
{
	char *p = mem_strdup(path), *there = NULL;
	int rc = 0;

	for (char *s = p + 1; rc == 0; s++) {
		char c = *s;

		if ((c != '/' && c != '\0') || s[-1] == '/')
			continue;
		*s = '\0';
		if (there && !io_exists(p)) {
			rc = io_sync_parent(there, e);
			free(there);
			there = NULL;
		}
		if (rc == 0 && mkdir(p, 0777) == 0) {
			rc = io_sync_parent(p, e);
		} else if (rc == 0 && errno == EEXIST) {
			free(there);
			there = mem_strdup(p);
		} else if (rc == 0) {
			rc = err_sys(e, "create directory", p);
		}
		*s = c;
		if (c == '\0')
			break;
	}
	if (rc == 0 && !io_is_dir(path))
		rc = err_set(e, "cannot create directory '%s': a file of that name exists", path);
	if (rc == 0 && there)
		rc = io_sync_parent(there, e);
	free(there);
	free(p);
	return rc;
}

/*
 * Without this a crash may undo a rename although the file's data is safe. EINVAL is ignored,
 * because some file systems cannot sync a directory; so is a directory that may be written but not
 * read.
 */
int
io_fsync_dir(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return errno == EACCES ? 0 : err_sys(e, "open directory", path);
	if (fsync(fd) < 0 && errno != EINVAL)
		rc = err_sys(e, "sync directory", path);
	close(fd);
	return rc;
}

/*
 * Links are removed, not followed. A path that does not exist counts as removed, so this can be
 * repeated after an interruption. Stops at the first failure.
 */
int
io_remove_tree(const char *path, struct err *e)
{
	struct stat st;
	int rc = 0;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at", path);
	if (S_ISDIR(st.st_mode)) {
		DIR *d = opendir(path);
		struct dirent *de;

		if (!d)
			return err_sys(e, "open directory", path);
		while (rc == 0 && (de = readdir(d))) {
			size_t n = strlen(path) + strlen(de->d_name) + 2;
			char *sub;

			if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
				continue;
			sub = mem_alloc(n, 1);
			snprintf(sub, n, "%s/%s", path, de->d_name);
			rc = io_remove_tree(sub, e);
			free(sub);
		}
		closedir(d);
	}
	if (rc == 0 && remove(path) < 0)
		rc = err_sys(e, "remove", path);
	return rc;
}
