/*
 * place.c - where an export is written, and how it gets its name
 */
#include "export/place.h"
#include "lib/ckpt/hf_files.h"
#include "export/extras.h"
#include "lib/base/cli.h"
#include "lib/base/mem.h"
#include "lib/base/target.h"
#include "lib/base/temp_sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS "[0-9][0-9][0-9][0-9][0-9]"

/* All that an export holds; what has another name is not removed. */
static const char *const names[] = { "config.json", "model.safetensors",
	"model-" DIGITS "-of-" DIGITS ".safetensors", "model.safetensors.index.json", HF_FILES,
	CHAT_TEMPLATES "/*.jinja", NULL };

/* Without slashes at its end; the directory that a link leads to. */
static int
resolve(struct place *p, const char *dst, struct str *notes, struct err *e)
{
	size_t n = strlen(dst);
	struct stat st;
	char *real;

	while (n > 1 && dst[n - 1] == '/')
		n--;
	if (n >= 1000)
		return err_set(e, "path too long: '%.60s...'", dst);
	memcpy(p->dst, dst, n);
	p->dst[n] = '\0';
	if (lstat(p->dst, &st) < 0 || !S_ISLNK(st.st_mode))
		return 0;
	real = realpath(p->dst, NULL);
	if (!real)
		return err_set(e, "'%s' is a symbolic link to nothing", p->dst);
	if (strlen(real) >= 1000) {
		err_set(e, "path too long: '%.60s...'", real);
		free(real);
		return -1;
	}
	str_addf(notes, "'%s' is a symbolic link: '%s' is written\n", p->dst, real);
	strcpy(p->dst, real);
	free(real);
	return 0;
}

/* What is found under the name, and whether it may be written. */
static int
look(struct place *p, struct err *e)
{
	struct stat st;
	int found;

	p->empty = false;
	p->there = lstat(p->dst, &st) == 0;
	if (!p->there)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "look at", p->dst);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, "'%s' exists and is not a directory", p->dst);
	found = target_look_inside(p->dst, names, e);
	p->empty = found == 0;
	if (found > 0 && !p->replace)
		return err_set(e, "'%s' exists; --force replaces a Hugging Face directory", p->dst);
	return found < 0 ? -1 : 0;
}

/* The lock is in the directory or, where there is none, beside its name. */
int
place_open(struct place *p, const char *dst, bool replace, struct str *notes, struct err *e)
{
	const struct lock_terms how = { .say = cli_note };
	struct str path = { 0 };
	bool there;

	*p = (struct place){ .replace = replace };
	if (resolve(p, dst, notes, e) < 0 || look(p, e) < 0)
		return -1;
	there = p->there;
	str_addf(&path, there ? "%s/lock" : "%s.lock", p->dst);
	p->lock = lock_claim(path.buf, &how, e);
	str_release(&path);
	if (!p->lock || look(p, e) < 0)
		return -1;
	if (p->there != there)
		return err_set(e, "'%s' has changed while its lock was waited for", p->dst);
	return 0;
}

/* 1 when the directory cannot be renamed by this process, 0 when it can; -1 with the reason when
 * that is not known: an export that is replaced in its place is gone before the new one is
 * whole. */
static int
is_fixed(const char *dst, struct err *e)
{
	char *parent = io_parent(dst);
	int rc = 1;

	if (access(parent, W_OK) == 0)
		rc = target_is_mounted(dst);
	else if (errno != EACCES && errno != EPERM && errno != EROFS)
		rc = err_sys(e, "look at", parent);
	free(parent);
	return rc;
}

/* An empty directory is filled because it may have an owner and permissions of its own. */
int
place_begin(struct place *p, struct err *e)
{
	struct str path = { 0 };
	struct stat st;
	char *tmp;
	int rc = p->there && !p->empty ? is_fixed(p->dst, e) : p->there;

	if (rc < 0)
		return -1;
	p->inside = rc;
	str_addf(&path, p->inside ? "%s/export" : "%s", p->dst);
	temp_sweep_beside(path.buf);
	tmp = temp_name(path.buf);
	snprintf(p->tmp, sizeof p->tmp, "%s", tmp);
	free(tmp);
	str_release(&path);
	rc = io_mkdir_p(p->tmp, e);
	if (rc == 0 && p->there && stat(p->dst, &st) == 0)
		(void)chmod(p->tmp, st.st_mode & 0777);
	return rc;
}

/* Removes what an earlier export wrote, from the directory that the new one fills: files of many
 * gigabytes, so that the lock is looked at before each. */
static int
clear(const struct place *p, struct err *e)
{
	DIR *d = opendir(p->dst);
	struct dirent *de;
	int rc = d ? 0 : err_sys(e, "open directory", p->dst);

	while (rc == 0 && d && (de = readdir(d))) {
		struct str path = { 0 };

		str_addf(&path, "%s/%s", p->dst, de->d_name);
		if (!strcmp(de->d_name, CHAT_TEMPLATES))
			rc = lock_check(p->lock, e) < 0 ? -1 : io_remove_tree(path.buf, e);
		else if (de->d_name[0] != '.' && strcmp(de->d_name, "lock"))
			rc = lock_unlink(p->lock, path.buf, e);
		str_release(&path);
	}
	if (d)
		closedir(d);
	return rc;
}

/* Moves a file of the temporary directory to its place, which belongs to another run if that has
 * taken the lock meanwhile. */
static int
move(const struct place *p, const char *name, struct err *e)
{
	struct str from = { 0 }, to = { 0 };
	int rc;

	str_addf(&from, "%s/%s", p->tmp, name);
	str_addf(&to, "%s/%s", p->dst, name);
	rc = lock_check(p->lock, e) < 0 ? -1 : target_rename(from.buf, to.buf, e);
	str_release(&from);
	str_release(&to);
	return rc;
}

/* config.json comes last: without it no program takes the directory for a model. */
static int
move_all(const struct place *p, struct err *e)
{
	static const char last[] = "config.json";
	DIR *d = opendir(p->tmp);
	struct dirent *de;
	int rc = 0;

	if (!d)
		return err_sys(e, "open directory", p->tmp);
	while (rc == 0 && (de = readdir(d)))
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, "..") && strcmp(de->d_name, last))
			rc = move(p, de->d_name, e);
	closedir(d);
	return rc == 0 ? move(p, last, e) : rc;
}

/* A directory that was empty is empty after a failure. An earlier export is gone then, and the new
 * files stay where they are. The temporary directory has none of them left, but on the disk it may
 * have, until the names in the other one are synced. */
static int
fill(struct place *p, struct err *e)
{
	struct err why;

	if (!p->empty && clear(p, e) < 0)
		return -1;
	if (move_all(p, &why) == 0) {
		if (io_fsync_dir(p->dst, e) == 0)
			return 0;
		p->tmp[0] = '\0';
		return -1;
	}
	if (p->empty) {
		clear(p, NULL);
		return err_set(e, "%s", why.msg);
	}
	err_set(
	    e, "%s; the files of the export that had no place yet are in '%s'", why.msg, p->tmp);
	p->tmp[0] = '\0';
	return -1;
}

/* Leaves both directories after a failure that e has the reason of: the disk may have either of
 * them under the name, and a loss of power would leave one whose files were removed. A sweep
 * removes the one with the temporary name, after a sync. Returns -1. */
static int
keep(struct place *p, const char *which, const char *path, struct err *e)
{
	const struct err why = *e;

	err_set(e, "%s; the %s '%s' is in '%s'", why.msg, which, p->dst, path);
	p->tmp[0] = '\0';
	return -1;
}

/* Where two directories cannot be exchanged. Two renames are on the disk before the old directory
 * gets the temporary name: a loss of power may keep a rename without those before it, and the old
 * directory would have two names. */
static int
rename_both(struct place *p, struct err *e)
{
	struct str old = { 0 };
	int rc = -1;

	str_addf(&old, "%s.old", p->tmp);
	if (rename(p->dst, old.buf) < 0) {
		err_sys(e, "rename", p->dst);
	} else if (rename(p->tmp, p->dst) < 0) {
		err_sys(e, "rename to", p->dst);
		if (rename(old.buf, p->dst) < 0)
			keep(p, "earlier", old.buf, e);
		else
			(void)io_sync_parent(p->dst, NULL);
	} else if (io_sync_parent(p->dst, e) < 0) {
		keep(p, "earlier", old.buf, e);
	} else {
		(void)rename(old.buf, p->tmp);
		rc = io_sync_parent(p->dst, e);
	}
	str_release(&old);
	return rc;
}

static int
swap(const struct place *p)
{
	return renameat2(AT_FDCWD, p->tmp, AT_FDCWD, p->dst, RENAME_EXCHANGE);
}

/* The old directory has the temporary name afterwards, on the disk too, and may be removed. It is
 * looked at once more there, where nobody finds it to put something into it. */
static int
exchange(struct place *p, struct err *e)
{
	if (swap(p) < 0)
		return rename_both(p, e);
	if (target_look_inside(p->tmp, names, e) < 0) {
		if (swap(p) < 0)
			return keep(p, "earlier", p->tmp, e);
		return io_sync_parent(p->dst, NULL) < 0 ? keep(p, "new", p->tmp, e) : -1;
	}
	return io_sync_parent(p->dst, e) < 0 ? keep(p, "earlier", p->tmp, e) : 0;
}

int
place_commit(struct place *p, struct err *e)
{
	bool there = p->there, empty = p->empty;
	int rc = lock_check(p->lock, e);

	if (rc == 0)
		rc = look(p, e);
	if (rc == 0 && (p->there != there || p->empty != empty))
		rc = err_set(
		    e, "'%s' has appeared or changed meanwhile: it is not replaced", p->dst);
	if (rc == 0)
		rc = io_fsync_dir(p->tmp, e);
	if (rc < 0 || lock_check(p->lock, e) < 0)
		return -1;
	if (p->inside)
		return fill(p, e);
	if (there)
		return exchange(p, e);
	if (target_rename(p->tmp, p->dst, e) < 0)
		return -1;
	p->tmp[0] = '\0';
	return io_sync_parent(p->dst, e);
}

void
place_close(struct place *p)
{
	if (p->tmp[0])
		io_remove_tree(p->tmp, NULL);
	lock_release(p->lock);
	p->lock = NULL;
}
