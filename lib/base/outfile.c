/*
 * outfile.c - whole files out
 *
 * Outputs appear whole or not at all: written under a temporary name in the same directory, synced,
 * renamed, and the directory synced after that. A crash at any point leaves the old file or the new
 * one.
 */
#include "lib/base/outfile.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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
	o->lock = NULL;
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
part_from_others(const char *path, int fd, int64_t keep, struct lock *lock, struct err *e)
{
	char *tmp;
	int copy = temp_create(path, &tmp, e), rc = 0;

	if (copy >= 0 && (io_copy_range(fd, 0, copy, (uint64_t)keep) < 0 || fsync(copy) < 0))
		rc = err_sys(e, "copy", path);
	if (copy >= 0 && rc == 0)
		rc = lock_check(lock, e);
	if (copy >= 0 && rc == 0 && (rename(tmp, path) < 0 || lseek(copy, 0, SEEK_SET) < 0))
		rc = err_sys(e, "copy", path);
	if (rc < 0) {
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
outfile_resume(struct outfile *o, const char *path, int64_t keep, bool shared, struct lock *lock,
    struct err *e)
{
	int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (keep ? 0 : O_CREAT), fd;
	struct stat st;

	o->f = NULL;
	o->direct = NULL;
	o->resumable = true;
	o->lock = lock;
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
		int copy = part_from_others(o->tmp, fd, keep, lock, e);

		close(fd);
		if (copy < 0)
			return -1;
		fd = copy;
	} else if (lock_check(lock, e) < 0) {
		close(fd);
		return -1;
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
outfile_sync_part(FILE **f, const char *tmp, struct lock *lock, struct err *e)
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
	copy = bytes < 0 ? err_sys(e, "write", tmp)
			 : part_from_others(tmp, fileno(*f), bytes, lock, e);
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
	int rc = outfile_sync_part(&o->f, o->tmp, o->lock, e);

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
	int rc;

	if (outfile_finish(o, e) < 0)
		return -1;
	rc = lock_check(o->lock, e);
	if (rc == 0 && rename(o->tmp, o->path) < 0)
		rc = err_sys(e, "rename to", o->path);
	if (rc < 0) {
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
outfile_write(const char *path, const void *bytes, size_t len, struct err *e)
{
	return outfile_write_held(path, bytes, len, NULL, e);
}

int
outfile_write_held(
    const char *path, const void *bytes, size_t len, struct lock *lock, struct err *e)
{
	struct outfile o;

	if (outfile_open(&o, path, e) < 0)
		return -1;
	o.lock = lock;
	fwrite(bytes, 1, len, o.f);
	return outfile_commit(&o, e);
}

/*
 * dst appears only when all of src was read. Permissions are not copied: it is a new file of this
 * user.
 */
int
outfile_copy(const char *src, const char *dst, struct err *e)
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
