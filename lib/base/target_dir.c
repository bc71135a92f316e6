/*
 * target_dir.c - a directory that a program makes, and what it may replace
 *
 * A directory is recognised by everything in it: one file that its maker does not write, and it
 * belongs to somebody else, or is more than it looks.
 */
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/base/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOUNT_ROOT = 0x2000 }; /* STATX_ATTR_MOUNT_ROOT of Linux 5.8, which older C libraries lack */

/* Whether a path, relative to the directory, fits; a directory's, whether something in it may. */
static bool
fits(const char *path, bool is_dir, const char *const *patterns)
{
	for (; *patterns; patterns++) {
		const char *slash = strchr(*patterns, '/');
		char *first = slash ? mem_strndup(*patterns, (size_t)(slash - *patterns)) : NULL;
		bool yes = is_dir ? first && fnmatch(first, path, FNM_PERIOD) == 0
				  : fnmatch(*patterns, path, FNM_PATHNAME | FNM_PERIOD) == 0;

		free(first);
		if (yes)
			return true;
	}
	return false;
}

static int look(const char *top, const char *inner, const char *const *patterns, struct err *e);

/* An entry: 0 when it does not count, 1 when it fits. inner: its directory below top. */
static int
look_at(const char *top, const char *inner, const char *name, const char *const *patterns,
    struct err *e)
{
	struct str path = { 0 }, below = { 0 };
	const char *what = NULL;
	struct stat st;
	int rc = 1;

	str_addf(&below, "%s%s%s", inner, *inner ? "/" : "", name);
	str_addf(&path, "%s/%s", top, below.buf);
	if (lstat(path.buf, &st) < 0)
		rc = errno == ENOENT ? 0 : err_sys(e, "look at", path.buf);
	else if (S_ISLNK(st.st_mode))
		what = "is a symbolic link";
	else if ((!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) ||
	    !fits(below.buf, S_ISDIR(st.st_mode), patterns))
		what = "is nothing that this program writes";
	else if (S_ISDIR(st.st_mode))
		rc = look(top, below.buf, patterns, e) < 0 ? -1 : 1;
	if (what)
		rc = err_set(e, "'%s' %s: '%s' is not replaced", path.buf, what, top);
	str_release(&path);
	str_release(&below);
	return rc;
}

static int
look(const char *top, const char *inner, const char *const *patterns, struct err *e)
{
	struct str path = { 0 };
	struct dirent *de;
	int rc = 0, found = 0;
	DIR *d;

	str_addf(&path, "%s/%s", top, inner);
	d = opendir(path.buf);
	if (!d)
		rc = err_sys(e, "open directory", path.buf);
	while (rc >= 0 && d && (errno = 0, de = readdir(d))) {
		const char *n = de->d_name;

		if (!strcmp(n, ".") || !strcmp(n, "..") || temp_is_leaving(n, TEMP_OF_ANYBODY) ||
		    (!*inner && !strcmp(n, "lock")))
			continue;
		rc = look_at(top, inner, n, patterns, e);
		found |= rc > 0;
	}
	if (rc >= 0 && d && errno)
		rc = err_sys(e, "read directory", path.buf);
	if (d)
		closedir(d);
	str_release(&path);
	return rc < 0 ? -1 : found;
}

int
target_look_inside(const char *dir, const char *const *patterns, struct err *e)
{
	return look(dir, "", patterns, e);
}

/* Where the kernel does not tell, another file system than that of the parent does. */
bool
target_is_mounted(const char *dir)
{
	struct str parent = { 0 };
	struct stat a, b;
	struct statx x;
	bool yes;

	if (statx(AT_FDCWD, dir, 0, STATX_INO, &x) == 0 && x.stx_attributes_mask & MOUNT_ROOT)
		return x.stx_attributes & MOUNT_ROOT;
	str_addf(&parent, "%s/..", dir);
	yes = stat(dir, &a) == 0 && stat(parent.buf, &b) == 0 && a.st_dev != b.st_dev;
	str_release(&parent);
	return yes;
}
