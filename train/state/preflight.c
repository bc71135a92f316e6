/*
 * preflight.c - whether this run can save, before its first step
 *
 * A checkpoint is one directory that all ranks write into. Where hosts have a disk of their own
 * under the same path, the first save would fail, after hours. So the ranks do in small what a save
 * does: rank 0 makes a directory, each rank writes, syncs and renames its file there, and reads
 * that of the next rank and that of rank 0. Each waits for a name to appear, since a client of NFS
 * may remember for seconds what a directory held.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "lib/base/str.h"
#include "lib/base/temp.h"
#include "train/state/preflight.h"
#include "train/state/save.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Seconds that a new name may take to be seen on another host. */
enum { SEEN_WITHIN = 5 };
/* Files of a checkpoint beside those of the ranks, and the two directories. */
enum { OTHER_FILES = 6 };

/* What the ranks do it with. The name of the directory is random, and each file's text holds it. */
struct probe {
	const char *save;
	struct comm *world;
	char name[NAME_MAX + 1], host[256];
	struct str dir;
};

/* --- what a checkpoint needs ------------------------------------------------------------------ */

static int
visit_bytes(void *ctx, const struct save_piece *p, struct err *err)
{
	int64_t *bytes = ctx;

	(void)err;
	*bytes += (int64_t)save_piece_bytes(p);
	return 0;
}

/* The header comes on top, so a limit below this is certainly too low. */
static int
check_limit(const struct train_config *c, int rank, int64_t bytes, struct err *err)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
	    (uint64_t)bytes <= (uint64_t)limit.rlim_cur)
		return 0;
	return err_set(err,
	    "--save %s: the file of rank %d in a checkpoint has at least %lld bytes, and the limit "
	    "of the size of files (ulimit -f) is %llu: File too large",
	    c->o.save, rank, (long long)bytes, (unsigned long long)limit.rlim_cur);
}

/* Zeroes mean that the file system does not tell. */
static void
warn_of_room(const char *save, int64_t bytes, int files)
{
	struct statvfs v;
	uint64_t room;

	if (statvfs(save, &v) < 0)
		return;
	room = (uint64_t)v.f_bavail * v.f_frsize;
	if (v.f_blocks > 0 && room < (uint64_t)bytes)
		warn("--save %s: a checkpoint has %lld bytes, and its file system has room for "
		     "%llu: saves will fail unless there is more by then",
		    save, (long long)bytes, (unsigned long long)room);
	if (v.f_files > 0 && v.f_favail < (fsfilcnt_t)files)
		warn("--save %s: a checkpoint has %d files, and its file system has room for %llu: "
		     "saves will fail unless there is more by then",
		    save, files, (unsigned long long)v.f_favail);
}

/* Collective. */
static int
check_sizes(struct engine *e, const struct train_config *c, struct err *err)
{
	struct comm *w = e->groups.world;
	int64_t own = 0, total;
	struct save_walk walk = { e, visit_bytes, &own };
	struct tensor t = tensor_1d(&total, DTYPE_I64, 1);

	save_pieces(&walk, c->o.save_optim, NULL);
	total = own;
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_SUM });
	if (w->rank == 0)
		warn_of_room(c->o.save, total, w->size + OTHER_FILES);
	return comm_agree(COMM_HERE(w), check_limit(c, w->rank, own, err), err) ? -1 : 0;
}

/* --- one directory of all ranks --------------------------------------------------------------- */

/* Makes the directory, on rank 0. */
static int
make_directory(struct probe *p, struct err *err)
{
	struct str path = { 0 };
	char *dir;
	int rc;

	str_addf(&path, "%s/preflight", p->save);
	dir = temp_name(path.buf);
	snprintf(p->name, sizeof p->name, "%s", strrchr(dir, '/') + 1);
	rc = io_mkdir_p(dir, err);
	free(dir);
	str_release(&path);
	return rc;
}

/* False when there is no such name within SEEN_WITHIN seconds. */
static bool
appears(const char *path)
{
	double since = clock_seconds();

	while (!io_exists(path)) {
		if (clock_seconds() - since > SEEN_WITHIN)
			return false;
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	}
	return true;
}

static void
file_of(const struct probe *p, int rank, struct str *path, struct str *text)
{
	str_clear(path);
	str_clear(text);
	str_addf(path, "%s/%d", p->dir.buf, rank);
	str_addf(text, "%s %d\n", p->name, rank);
}

/* This rank's file, in the directory that rank 0 has made. */
static int
write_own(const struct probe *p, struct err *err)
{
	struct str path = { 0 }, text = { 0 };
	int rank = p->world->rank, rc;

	file_of(p, rank, &path, &text);
	if (appears(p->dir.buf))
		rc = outfile_write(path.buf, text.buf, text.len, err);
	else
		rc = err_set(err,
		    "--save %s: rank %d (host %s) does not see the directory that rank 0 has made "
		    "there: it must be the same directory for all ranks",
		    p->save, rank, p->host);
	str_release(&path);
	str_release(&text);
	return rc;
}

/* Compares another rank's file with what that rank has written. */
static int
read_other(const struct probe *p, int rank, struct err *err)
{
	struct str path = { 0 }, text = { 0 };
	char *found = NULL;
	size_t len;
	int rc = 0;

	file_of(p, rank, &path, &text);
	if (!appears(path.buf))
		rc = err_set(err,
		    "--save %s: rank %d (host %s) does not see the file that rank %d has written "
		    "there: it must be the same directory for all ranks",
		    p->save, p->world->rank, p->host, rank);
	else if (io_read_regular(path.buf, text.len, &found, &len, err) < 0)
		rc = -1;
	else if (len != text.len || memcmp(found, text.buf, len))
		rc = err_set(err,
		    "--save %s: rank %d (host %s) reads other bytes than rank %d has written there",
		    p->save, p->world->rank, p->host, rank);
	free(found);
	str_release(&path);
	str_release(&text);
	return rc;
}

/* Collective. The directory is removed on rank 0 whatever comes of it. */
static int
check_directory(struct probe *p, struct err *err)
{
	struct comm *w = p->world;
	struct tensor name = tensor_1d(p->name, DTYPE_U8, sizeof p->name);
	int rc = w->rank == 0 ? make_directory(p, err) : 0;

	rc = comm_agree(COMM_HERE(w), rc, err) ? -1 : 0;
	w->ops->broadcast(COMM_HERE(w), NULL, &(struct comm_broadcast){ name, 0 });
	str_addf(&p->dir, "%s/%s", p->save, p->name);
	if (rc == 0)
		rc = comm_agree(COMM_HERE(w), write_own(p, err), err) ? -1 : 0;
	if (rc == 0) {
		rc = read_other(p, (w->rank + 1) % w->size, err);
		if (rc == 0)
			rc = read_other(p, 0, err);
		rc = comm_agree(COMM_HERE(w), rc, err) ? -1 : 0;
	}
	if (w->rank == 0)
		io_remove_tree(p->dir.buf, NULL);
	str_release(&p->dir);
	return rc;
}

int
preflight(struct engine *e, const struct train_config *c, struct err *err)
{
	struct probe p = { .save = c->o.save, .world = e->groups.world };

	gethostname(p.host, sizeof p.host - 1);
	return check_sizes(e, c, err) < 0 ? -1 : check_directory(&p, err);
}
