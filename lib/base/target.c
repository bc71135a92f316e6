/*
 * target.c - the file that a program makes, and what it may replace
 */
#include "lib/base/target.h"
#include "lib/base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int
target_look(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "look at", path);
	if (S_ISREG(st.st_mode))
		return 1;
	return err_set(e, "'%s' is %s: it is not replaced", path,
	    S_ISLNK(st.st_mode)       ? "a symbolic link"
		: S_ISDIR(st.st_mode) ? "a directory"
				      : "not a regular file");
}

int
target_check(const char *path, bool replace, struct err *e)
{
	int there = target_look(path, e);

	return there == 1 && !replace ? err_set(e, "'%s' exists; --force replaces it", path)
	    : there < 0               ? -1
				      : 0;
}

bool
target_begins(const char *path, const void *head, size_t bytes)
{
	char found[TARGET_HEAD];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	bool yes;

	if (fd < 0 || bytes > sizeof found) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	yes = io_pread_all(fd, found, bytes, 0) == 0 && !memcmp(found, head, bytes);
	close(fd);
	return yes;
}

int
target_check_kind(const char *path, const struct target_kind *kind, bool replace, struct err *e)
{
	int there = target_look(path, e);

	if (there == 1 && !target_begins(path, kind->head, kind->bytes))
		return err_set(e, "'%s' is not %s: it is not replaced", path, kind->what);
	return there < 0 ? -1 : target_check(path, replace, e);
}

bool
target_is(const char *path, const char *other)
{
	struct stat a, b;

	return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino;
}

/* Goes up until the root, which is its own parent. */
bool
target_inside(const char *path, const char *dir)
{
	char at[2 * IO_PATH];
	struct stat here, above;
	size_t n = (size_t)snprintf(at, IO_PATH, "%s", path);

	while (n < IO_PATH && n > 0 && stat(at, &here) < 0) {
		while (n > 0 && at[n - 1] == '/')
			n--;
		while (n > 0 && at[n - 1] != '/')
			n--;
		at[n] = '\0';
	}
	if (n == 0)
		n = (size_t)snprintf(at, sizeof at, ".");
	for (; n + 4 < sizeof at && stat(at, &here) == 0; n += 3) {
		if (target_is(at, dir))
			return true;
		memcpy(at + n, "/..", 4);
		if (stat(at, &above) < 0 ||
		    (above.st_dev == here.st_dev && above.st_ino == here.st_ino))
			return false;
	}
	return false;
}

/* Where the file system has no such rename, a link does the same; where it has no links either, a
 * look has to suffice. */
int
target_rename(const char *from, const char *to, struct err *e)
{
	struct stat st;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return err_sys(e, "rename to", to);
	if (link(from, to) == 0) {
		unlink(from);
		return 0;
	}
	if (errno == EEXIST || lstat(to, &st) == 0) {
		errno = EEXIST;
		return err_sys(e, "rename to", to);
	}
	return rename(from, to) < 0 ? err_sys(e, "rename to", to) : 0;
}

int
target_commit(struct outfile *o, bool replace, struct err *e)
{
	if (target_check(o->path, replace, e) < 0) {
		outfile_abort(o);
		return -1;
	}
	if (replace)
		return outfile_commit(o, e);
	if (outfile_finish(o, e) < 0)
		return -1;
	if (lock_check(o->lock, e) < 0 || target_rename(o->tmp, o->path, e) < 0) {
		if (!o->resumable)
			unlink(o->tmp);
		return -1;
	}
	return io_sync_parent(o->path, e);
}

int
target_write(const char *path, bool replace, const void *bytes, size_t len, struct err *e)
{
	struct outfile o;

	if (outfile_open(&o, path, e) < 0)
		return -1;
	fwrite(bytes, 1, len, o.f);
	return target_commit(&o, replace, e);
}
