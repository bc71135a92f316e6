/*
 * ckpt_keep.c - sets checkpoints of a SAVE directory aside, or removes them
 *
 * A run that goes back moves later checkpoints aside; one that retains some checkpoints removes the
 * others. Both use single renames, in an order that keeps the tracker on an existing checkpoint
 * wherever they are cut off.
 */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Renames to the first free name of the form. */
int
ckpt_move_aside(const char *save, int64_t iteration, char to[IO_PATH], struct err *e)
{
	char from[IO_PATH];
	int k = 1, n;

	ckpt_iter_dir(save, iteration, from);
	do
		n = snprintf(to, IO_PATH, "%s.aside-%d", from, k++);
	while (n < IO_PATH && io_exists(to));
	if (!*from || n >= IO_PATH)
		return err_set(e, "path too long: '%.60s...'", save);
	return rename(from, to) < 0 ? err_sys(e, "rename to", to) : 0;
}

int
ckpt_add_tracker(const char *save, int64_t iteration, struct lock *lock, struct err *e)
{
	char dir[IO_PATH];
	int64_t named;
	int found = ckpt_tracker(save, &named, e);

	if (found)
		return found < 0 ? -1 : 0;
	ckpt_iter_dir(save, iteration, dir);
	return io_is_dir(dir) ? ckpt_put_tracker(save, iteration, lock, e) : 0;
}

/* The tracker first: it turns back to the newest checkpoint that stays, or is removed. */
int
ckpt_set_aside(
    const char *save, int64_t iteration, struct lock *lock, char first[IO_PATH], struct err *e)
{
	struct err ignored;
	int64_t *all;
	char to[IO_PATH], tracker[CKPT_PATH_BYTES];
	int n = ckpt_iterations(save, &all, &ignored), stay = 0, rc = 0;

	while (stay < n && all[stay] <= iteration)
		stay++;
	if (stay < n && stay > 0)
		rc = ckpt_put_tracker(save, all[stay - 1], lock, e);
	else if (stay < n && !ckpt_join(tracker, save, CKPT_TRACKER))
		rc = err_set(e, "path too long: '%.60s...'", save);
	else if (stay < n && unlink(tracker) < 0 && errno != ENOENT)
		rc = err_sys(e, "remove", tracker);
	if (rc == 0)
		rc = lock_check(lock, e);
	for (int i = stay; i < n && rc == 0; i++)
		rc = ckpt_move_aside(save, all[i], i == stay ? first : to, e);
	if (stay < n && rc == 0)
		rc = io_fsync_dir(save, e);
	free(all);
	return rc < 0 ? -1 : n > stay ? n - stay : 0;
}

/* Removes a checkpoint; a link to another place stays. */
static int
drop(const char *save, int64_t iteration, struct lock *lock, struct err *e)
{
	char dir[IO_PATH];
	struct stat st;

	ckpt_iter_dir(save, iteration, dir);
	if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	return ckpt_remove(save, dir, lock, e);
}

static bool
is_read(const struct ckpt_retention *r, int64_t iteration)
{
	for (int i = 0; i < r->num_read; i++)
		if (r->read[i] == iteration)
			return true;
	return false;
}

/* All between two multiples go, and of those before, where one had to stay, all but multiples. */
int
ckpt_retain(struct ckpt_retention *r, struct err *e)
{
	int64_t *all, from = (r->iteration - 1) / r->interval * r->interval;
	int n = ckpt_iterations(r->save, &all, e), rc = n < 0 ? -1 : 0;

	from = r->since < from ? r->since : from;
	r->since = INT64_MAX;
	for (int i = 0; i < n && rc == 0; i++) {
		if (all[i] <= from || all[i] >= r->iteration || all[i] % r->interval == 0)
			continue;
		if (!is_read(r, all[i]))
			rc = drop(r->save, all[i], r->lock, e);
		else if (r->since == INT64_MAX)
			r->since = all[i] - 1;
	}
	free(all);
	return rc;
}
