/*
 * io.c - whole files in, whole files out
 *
 * Outputs appear whole or not at all: written under a temporary name in the same directory, synced,
 * renamed, and the directory synced after that. A crash at any point leaves the old file or the new
 * one. Reads and writes that the kernel cuts short are continued here, so that callers need not
 * handle that.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

static int
open_stream(struct outfile *o, const char *path, bool direct, struct err *e)
{
	char *tmp;
	int fd;

	if (strlen(path) >= sizeof o->path)
		return err_set(e, "path too long: '%.60s...'", path);
	fd = temp_create(path, &tmp, e);
	if (fd < 0)
		return -1;
	snprintf(o->path, sizeof o->path, "%s", path);
	snprintf(o->tmp, sizeof o->tmp, "%s", tmp);
	free(tmp);
	o->fd = fd;
	o->resumable = false;
	o->direct = direct ? direct_open(fd, &o->f) : NULL;
	if (o->direct || (o->f = fdopen(fd, "wb+")))
		return 0;
	err_sys(e, "open", o->tmp);
	close(fd);
	unlink(o->tmp);
	return -1;
}

int
outfile_open(struct outfile *o, const char *path, struct err *e)
{
	return open_stream(o, path, false, e);
}

int
outfile_open_direct(struct outfile *o, const char *path, struct err *e)
{
	return open_stream(o, path, true, e);
}

/* Closes the stream and the descriptor; -1 with errno when the last bytes are lost. */
static int
close_stream(struct outfile *o)
{
	int rc = fclose(o->f);

	if (o->direct && close(o->fd) < 0)
		rc = -1;
	direct_free(o->direct);
	o->f = NULL;
	o->direct = NULL;
	return rc;
}

/* Copies the first `keep` bytes of an open file into a new one, which takes its name: who else has
 * the old one open can no longer change what has this name. Returns the new descriptor, or -1. */
static int
part_from_others(const char *path, int fd, int64_t keep, struct err *e)
{
	char *tmp;
	int copy = temp_create(path, &tmp, e);

	if (copy >= 0 &&
	    (io_copy_range(fd, 0, copy, (uint64_t)keep) < 0 || fsync(copy) < 0 ||
		rename(tmp, path) < 0 || lseek(copy, 0, SEEK_SET) < 0)) {
		err_sys(e, "copy", path);
		unlink(tmp);
		close(copy);
		copy = -1;
	}
	free(tmp);
	if (copy >= 0)
		(void)flock(copy, LOCK_EX | LOCK_NB);
	return copy;
}

/* Opens the file for writing after the part that is kept. A file that is too short has lost data
 * that its record says was on disk. The name is predictable, so links are not followed. flock(2)
 * tells of processes of this host that have the file open. */
int
outfile_resume(struct outfile *o, const char *path, int64_t keep, bool shared, struct err *e)
{
	int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (keep ? 0 : O_CREAT), fd;
	struct stat st;

	o->f = NULL;
	o->direct = NULL;
	o->resumable = true;
	if (strlen(path) >= sizeof o->path)
		return err_set(e, "path too long: '%.60s...'", path);
	snprintf(o->path, sizeof o->path, "%s", path);
	snprintf(o->tmp, sizeof o->tmp, "%s.part", path);
	fd = open(o->tmp, flags, 0666);
	if (fd < 0)
		return err_sys(e, keep ? "open" : "create", o->tmp);
	if (fstat(fd, &st) < 0 || st.st_size < keep) {
		close(fd);
		return err_set(e, "%s: shorter than the %lld bytes that were written", o->tmp,
		    (long long)keep);
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		shared = true;
	if (shared) {
		int copy = part_from_others(o->tmp, fd, keep, e);

		close(fd);
		if (copy < 0)
			return -1;
		fd = copy;
	}
	o->fd = fd;
	o->f = fdopen(fd, "rb+");
	if (o->f && ftruncate(fd, keep) == 0 && fseeko(o->f, keep, SEEK_SET) == 0)
		return 0;
	err_sys(e, "cut", o->tmp);
	if (o->f)
		outfile_leave(o);
	else
		close(fd);
	return -1;
}

/* Whether the name is that of the open file; -1: not known. */
static int
has_name(int fd, const char *name, struct err *e)
{
	struct stat mine, named;

	if (lstat(name, &named) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at", name);
	if (fstat(fd, &mine) < 0)
		return err_sys(e, "look at", name);
	return mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
}

int
outfile_sync_part(FILE **f, const char *tmp, struct err *e)
{
	int named, copy;
	int64_t bytes;
	FILE *again;

	if (ferror(*f) || fflush(*f) != 0 || fdatasync(fileno(*f)) < 0)
		return err_sys(e, "write", tmp);
	named = has_name(fileno(*f), tmp, e);
	if (named)
		return named < 0 ? -1 : 0;
	bytes = ftello(*f);
	copy = bytes < 0 ? err_sys(e, "write", tmp) : part_from_others(tmp, fileno(*f), bytes, e);
	if (copy < 0)
		return -1;
	again = fdopen(copy, "rb+");
	if (again && fseeko(again, bytes, SEEK_SET) == 0) {
		fclose(*f);
		*f = again;
		return io_sync_parent(tmp, e);
	}
	err_sys(e, "open", tmp);
	if (again)
		fclose(again);
	else
		close(copy);
	return -1;
}

int
outfile_sync(struct outfile *o, int64_t *bytes, struct err *e)
{
	int rc = outfile_sync_part(&o->f, o->tmp, e);

	o->fd = fileno(o->f);
	*bytes = ftello(o->f);
	return rc == 0 && *bytes < 0 ? err_sys(e, "write", o->tmp) : rc;
}

/* Like outfile_abort, but keeps the file for outfile_resume. */
void
outfile_leave(struct outfile *o)
{
	if (o->f)
		close_stream(o);
}

/*
 * Sync before rename: otherwise a crash could leave the new name with no bytes. An error of any
 * earlier write shows here, so callers need not check each one. The struct is closed afterwards,
 * and outfile_abort does nothing.
 */
int
outfile_finish(struct outfile *o, struct err *e)
{
	int64_t bytes;
	int bad, saved;

	if (o->resumable) {
		int rc = outfile_sync(o, &bytes, e);

		return close_stream(o) != 0 && rc == 0 ? err_sys(e, "write", o->path) : rc;
	}
	bad = ferror(o->f) || fflush(o->f) != 0 || (o->direct && direct_finish(o->direct) < 0) ||
	    fsync(o->fd) < 0;
	saved = errno;
	if (close_stream(o) != 0 && !bad) {
		bad = 1;
		saved = errno;
	}
	if (!bad)
		return 0;
	unlink(o->tmp);
	errno = saved ? saved : EIO;
	return err_sys(e, "write", o->path);
}

int
outfile_commit(struct outfile *o, struct err *e)
{
	if (outfile_finish(o, e) < 0)
		return -1;
	if (rename(o->tmp, o->path) < 0) {
		err_sys(e, "rename to", o->path);
		if (!o->resumable)
			unlink(o->tmp);
		return -1;
	}
	return io_sync_parent(o->path, e);
}

/* Only asks: a failure to write is found by the sync at the end. */
void
outfile_begin_sync(struct outfile *o, uint64_t from, uint64_t bytes)
{
	if (!o->direct && fflush(o->f) == 0)
		(void)sync_file_range(o->fd, (off_t)from, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

/*
 * For every exit without a commit. A struct of zeroes, or one that is already closed, is allowed.
 */
void
outfile_abort(struct outfile *o)
{
	if (!o->f)
		return;
	close_stream(o);
	unlink(o->tmp);
}

/* A short fwrite is found by the commit, which looks at the stream's error flag. */
int
io_write_file(const char *path, const void *bytes, size_t len, struct err *e)
{
	struct outfile o;

	if (outfile_open(&o, path, e) < 0)
		return -1;
	fwrite(bytes, 1, len, o.f);
	return outfile_commit(&o, e);
}

/*
 * dst appears only when all of src was read. Permissions are not copied: it is a new file of this
 * user.
 */
int
io_copy_file(const char *src, const char *dst, struct err *e)
{
	struct outfile o;
	struct stat st;
	int in = io_open_regular(src, &st, e), rc;

	if (in < 0)
		return -1;
	if (outfile_open(&o, dst, e) < 0) {
		close(in);
		return -1;
	}
	if (io_copy_range(in, 0, fileno(o.f), (uint64_t)st.st_size) < 0) {
		rc = err_set(e, "cannot copy '%s' to '%s': %s", src, dst, strerror(errno));
		outfile_abort(&o);
	} else {
		rc = outfile_commit(&o, e);
	}
	close(in);
	return rc;
}
