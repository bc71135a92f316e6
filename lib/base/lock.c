/*
 * lock.c - a file that says which process may write into a directory
 *
 * The file is written and synced under a temporary name and then linked to its own, so that it is
 * complete or not there, whatever ends its writer. A file system without links gets it by O_EXCL,
 * empty for an instant. An incomplete text tells nothing about its holder and is watched like a
 * lock of another host. When several processes find the same dead lock, only one breaks it: it
 * holds flock(2) on that file, renames it to a unique name and reads it there. A lock that has
 * changed hands meanwhile is renamed back.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "lib/base/str.h"
#include "lib/base/temp.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_MAX = 4096, WORD = PROCESS_HOST };

/* A holder as the file describes it; job and attempt are "-" outside a batch system. */
struct holder {
	char host[WORD], boot[WORD], job[WORD], attempt[WORD];
	long long process;
	unsigned long long start, id;
};
static const char holder_text[] =
    "host %79s\nboot %79s\nprocess %lld\nstarted %llu\njob %79s\nattempt %79s\nid %16llx\n";
enum { HOLDER_FIELDS = 7 };

struct lock {
	char *path;
	double renewal;
	int fd;
	struct str text; /* the part of the file that never changes */
	dev_t dev;       /* of the directory that it was created in */
	ino_t directory; /* 0: not known */
	unsigned renewals;
	atomic_bool lost;
	bool left; /* by another holder, which did not remove it */
	bool taken_over;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	bool renewing, end; /* the thread runs; the thread shall end */
};

/* --- who holds it ----------------------------------------------------------------------------- */

/* The value of an environment variable as one word; "-" when it is not set. */
static void
variable(const char *name, char out[WORD])
{
	const char *value = getenv(name);

	snprintf(out, WORD, "%s", value && *value ? value : "-");
	for (char *c = out; *c; c++)
		if (!isgraph((unsigned char)*c))
			*c = '_';
}

/* Describes this process and the batch system's job, with what differs when it restarts one; PBS
 * does not tell. The random number makes its lock unique. */
static void
this_holder(struct holder *h)
{
	static const struct {
		const char *job, *attempt;
	} systems[] = { { "SLURM_JOB_ID", "SLURM_RESTART_COUNT" }, { "LSB_JOBID", "LSB_RESTART" },
		{ "PBS_JOBID", "" } };
	size_t i = 0, n = sizeof systems / sizeof *systems;

	memset(h, 0, sizeof *h);
	process_host(h->host);
	process_boot(h->boot);
	if (!h->boot[0])
		strcpy(h->boot, "-");
	while (i + 1 < n && !getenv(systems[i].job))
		i++;
	variable(systems[i].job, h->job);
	variable(systems[i].attempt, h->attempt);
	h->process = getpid();
	h->start = process_start(getpid());
	if (getrandom(&h->id, sizeof h->id, 0) != (ssize_t)sizeof h->id)
		h->id = h->start << 32 ^ (unsigned long long)h->process;
}

/* False when the text is incomplete. */
static bool
parse(const char *text, struct holder *h)
{
	memset(h, 0, sizeof *h);
	return sscanf(text, holder_text, h->host, h->boot, &h->process, &h->start, h->job,
		   h->attempt, &h->id) == HOLDER_FIELDS &&
	    strstr(text, "\nrenewed ");
}

/* For people. */
static void
describe(const char *text, char out[2 * WORD])
{
	struct holder h;

	if (!parse(text, &h))
		snprintf(out, 2 * WORD, "an unknown process");
	else
		snprintf(out, 2 * WORD, "process %lld of host %s", h.process, h.host);
}

/* --- the file --------------------------------------------------------------------------------- */

/* Reads the file, also where a read brings less than there is; -1 with errno. */
static int
read_text(const char *path, char text[TEXT_MAX])
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), saved;
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = pread(fd, text + len, TEXT_MAX - 1 - len, (off_t)len)) > 0 ||
	    (n < 0 && errno == EINTR))
		len += n > 0 ? (size_t)n : 0;
	saved = errno;
	close(fd);
	errno = saved;
	text[len] = '\0';
	return n < 0 ? -1 : 0;
}

/* Opens the file under that name and locks it against other processes that want to remove it. -1
 * with errno; ENOENT: it has lost the name meanwhile. Where flock(2) does not work, checking the
 * renamed file has to suffice. */
static int
open_to_remove(const char *path)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat mine, named;
	int saved;

	if (fd < 0)
		return -1;
	(void)flock(fd, LOCK_EX);
	if (fstat(fd, &mine) == 0 && stat(path, &named) == 0) {
		if (mine.st_ino == named.st_ino)
			return fd;
		errno = ENOENT;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Removes the file if its text begins with the given one. Returns 0 also when another process has
 * removed or replaced it; the caller then tries again. */
static int
take_away(const char *path, const char *text, size_t len, struct err *e)
{
	int fd = open_to_remove(path), rc = 0;
	char *aside, found[TEXT_MAX];

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open", path);
	aside = temp_name(path);
	if (read_text(path, found) == 0 && !strncmp(found, text, len)) {
		if (rename(path, aside) < 0)
			rc = err_sys(e, "remove", path);
		/* another process's new lock gets its name back, unless a third has created one */
		else if (read_text(aside, found) == 0 && strncmp(found, text, len) != 0 &&
		    link(aside, path) < 0)
			rc = err_sys(e, "put back", path);
		unlink(aside);
	}
	close(fd);
	free(aside);
	return rc;
}

/* Writes the text into a new file, which is on disk then, where other hosts see it. On failure the
 * file is removed and closed. */
static int
fill(struct lock *l, const char *name, struct err *e)
{
	struct str text = { 0 };
	int rc = 0;

	str_addf(&text, "%srenewed %010u\n", l->text.buf, 0u);
	if (io_write_all(l->fd, text.buf, text.len) < 0 || fsync(l->fd) < 0) {
		rc = err_sys(e, "write", l->path);
		unlink(name);
		close(l->fd);
	}
	str_release(&text);
	return rc;
}

/* Gives the file that is open its name. As the answer of a server may be lost, the number of links
 * tells. Returns 1 when the name is taken, or the holder of the lock has just swept the directory;
 * -1 when there are no links. */
static int
link_to(const struct lock *l, const char *name)
{
	int failed = link(name, l->path) < 0 ? errno : 0;
	struct stat st;

	if (!failed || (fstat(l->fd, &st) == 0 && st.st_nlink == 2))
		return 0;
	return failed == EEXIST || failed == ENOENT ? 1 : -1;
}

/* Creates the file complete, or not at all, unless the file system has no links. Returns 1 when it
 * exists already. */
static int
create(struct lock *l, struct err *e)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, rc;
	struct stat st;
	char *name;

	if (lstat(l->path, &st) == 0)
		return 1;
	name = temp_name(l->path);
	l->fd = open(name, flags, 0666);
	rc = l->fd < 0 ? err_sys(e, "create", l->path) : fill(l, name, e);
	if (rc == 0) {
		rc = link_to(l, name);
		unlink(name);
		if (rc)
			close(l->fd);
		if (rc < 0) {
			l->fd = open(l->path, flags, 0666);
			rc = l->fd >= 0       ? fill(l, l->path, e)
			    : errno == EEXIST ? 1
					      : err_sys(e, "create", l->path);
		}
	}
	free(name);
	return rc;
}

/* --- renewal ---------------------------------------------------------------------------------- */

/* The directory that the lock lies in now. -1 with errno. */
static int
stat_directory(const struct lock *l, struct stat *st)
{
	char *dir = io_parent(l->path);
	int rc = stat(dir, st);

	free(dir);
	return rc;
}

/* Why a lock is lost: another process has it, or its directory is not there or another one. Returns
 * -1. */
static int
why_lost(const struct lock *l, struct err *e)
{
	struct stat st;

	if (stat_directory(l, &st) < 0)
		return err_set(e, "'%s' is gone: its directory was removed or unmounted", l->path);
	if (l->directory && (st.st_dev != l->dev || st.st_ino != l->directory))
		return err_set(e,
		    "'%s' is gone: its directory was unmounted or replaced by another one",
		    l->path);
	return err_set(e, "'%s' no longer belongs to this run", l->path);
}

int
lock_check(struct lock *l, struct err *e)
{
	char text[TEXT_MAX];

	if (!l)
		return 0;
	if (read_text(l->path, text) < 0 ? errno == ENOENT
					 : strncmp(text, l->text.buf, l->text.len) != 0)
		atomic_store(&l->lost, true);
	return lock_lost(l) ? why_lost(l, e) : 0;
}

int
lock_unlink(struct lock *l, const char *path, struct err *e)
{
	if (lock_check(l, e) < 0)
		return -1;
	return unlink(path) < 0 && errno != ENOENT ? err_sys(e, "remove", path) : 0;
}

bool
lock_lost(const struct lock *l)
{
	return l && atomic_load(&l->lost);
}

bool
lock_left(const struct lock *l)
{
	return l && l->left;
}

bool
lock_taken_over(const struct lock *l)
{
	return l && l->taken_over;
}

/* The number grows in place, so that other processes see a change. A failed write shows at a later
 * check, or to the processes that wait. */
static void *
renewer(void *arg)
{
	struct lock *l = arg;
	struct timespec at;
	char line[32];

	clock_gettime(CLOCK_MONOTONIC, &at);
	pthread_mutex_lock(&l->mutex);
	while (!l->end && !lock_lost(l)) {
		int64_t ns = at.tv_nsec + (int64_t)(l->renewal * 1e9);
		int n;

		at.tv_sec += ns / 1000000000;
		at.tv_nsec = ns % 1000000000;
		while (!l->end && pthread_cond_timedwait(&l->wake, &l->mutex, &at) != ETIMEDOUT)
			;
		if (l->end)
			break;
		pthread_mutex_unlock(&l->mutex);
		n = snprintf(line, sizeof line, "renewed %010u\n", ++l->renewals);
		if (lock_check(l, NULL) == 0 &&
		    pwrite(l->fd, line, (size_t)n, (off_t)l->text.len) == n)
			(void)fdatasync(l->fd);
		pthread_mutex_lock(&l->mutex);
	}
	pthread_mutex_unlock(&l->mutex);
	return NULL;
}

/* --- taking it -------------------------------------------------------------------------------- */

/* What can be known about a lock without waiting. */
enum holder_state { UNKNOWN, ALIVE, ENDED, RESTARTED };

/* A process is looked up only where its number means the same: in the same boot and the same PID
 * namespace, which is part of the host's name. */
static enum holder_state
holder_state(const char *text)
{
	struct holder h, me;

	this_holder(&me);
	if (!parse(text, &h))
		return UNKNOWN;
	if (!strcmp(h.boot, me.boot) && strcmp(me.boot, "-") && !strcmp(h.host, me.host))
		return process_ended((long)h.process, h.start) ? ENDED : ALIVE;
	if (strcmp(me.job, "-") && !strcmp(h.job, me.job) && strcmp(h.attempt, me.attempt))
		return RESTARTED;
	return UNKNOWN;
}

/* An incomplete lock keeps its holder as long as nothing is added to it. */
static bool
same_holder(const char *a, const char *b)
{
	struct holder x, y;

	return !strcmp(a, b) || (parse(a, &x) && parse(b, &y) && x.id == y.id);
}

/* Sleeps for a hundredth of the wait, at most one second. */
static void
nap(double wait)
{
	double s = wait / 100 < 1 ? wait / 100 : 1;

	nanosleep(&(struct timespec){ (time_t)s, (long)(1e9 * (s - (double)(time_t)s)) }, NULL);
}

/* Watches a lock whose holder is unknown, or whose process runs and may be about to end. 1: it has
 * not changed for long enough; 0: it has changed and must be read again; -1: it is held, or the
 * caller does not want to wait. */
static int
watch(const struct lock_terms *t, const char *text, enum holder_state v, struct err *e)
{
	double since = clock_seconds(), limit = v == ALIVE ? t->ending : t->stale;
	char who[2 * WORD], now[TEXT_MAX], line[TEXT_MAX];
	bool told = false;

	describe(text, who);
	snprintf(line, sizeof line, "'%s' is held by %s: waiting %s %g s", t->path, who,
	    v == ALIVE ? "for its end, up to" : "until it has not been renewed for", limit);
	while (clock_seconds() - since < limit) {
		nap(limit);
		if (read_text(t->path, now) < 0 || !same_holder(text, now) ||
		    holder_state(now) == ENDED)
			return 0;
		if (v == UNKNOWN && strcmp(text, now) != 0)
			return err_set(e, "'%s' is held by %s, which renews it", t->path, who);
		if (!told) /* no message about a lock that is just being created */
			t->say(line);
		told = true;
		if (t->give_up && t->give_up())
			return err_set(e,
			    "'%s' is held by %s: stopped on request while waiting for it", t->path,
			    who);
	}
	return v == UNKNOWN ? 1 : err_set(e, "'%s' is held by %s, which is running", t->path, who);
}

/* Breaks the existing lock if the rules allow it. Returns 0 when the caller shall try again. A
 * former holder finds its lock gone at its next renewal and may write until then. */
static int
break_lock(struct lock *l, const struct lock_terms *t, const char *text, struct err *e)
{
	static const char *const why[] = { "was not renewed", "", "has ended",
		"was of this batch job before it was restarted" };
	enum holder_state v = holder_state(text);
	char who[2 * WORD], line[TEXT_MAX];
	int broken = 1;
	double since;

	if (!t->by_force && (v == ALIVE || v == UNKNOWN))
		broken = watch(t, text, v, e);
	if (broken <= 0)
		return broken;
	describe(text, who);
	snprintf(line, sizeof line, "'%s' is broken: it was held by %s, which %s", t->path, who,
	    t->by_force ? "was overruled" : why[v]);
	t->say(line);
	if (take_away(t->path, text, strlen(text) + 1, e) < 0)
		return -1;
	l->left = true;
	l->taken_over |= holder_state(text) != ENDED;
	since = clock_seconds();
	while (t->by_force && holder_state(text) != ENDED && clock_seconds() - since < t->renewal &&
	    !(t->give_up && t->give_up()))
		nap(t->renewal);
	return 0;
}

/* Tries until the lock is created or is known to be held. */
static int
take(struct lock *l, const struct lock_terms *t, struct err *e)
{
	char text[TEXT_MAX];
	int rc;

	while ((rc = create(l, e)) > 0) {
		if (read_text(t->path, text) < 0) {
			if (errno != ENOENT)
				return err_sys(e, "read", t->path);
		} else if (break_lock(l, t, text, e) < 0) {
			return -1;
		}
	}
	return rc;
}

static void
lock_free(struct lock *l)
{
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->mutex);
	str_release(&l->text);
	free(l->path);
	free(l);
}

/* The thread that renews it begins when the process has the lock. */
struct lock *
lock_take(const struct lock_terms *t, struct err *e)
{
	struct lock *l = mem_zalloc(1, sizeof *l);
	pthread_condattr_t monotonic;
	struct holder h;
	struct stat st;

	this_holder(&h);
	l->path = mem_strdup(t->path);
	l->renewal = t->renewal;
	str_addf(&l->text,
	    "host %s\nboot %s\nprocess %lld\nstarted %llu\njob %s\nattempt %s\nid %016llx\n",
	    h.host, h.boot, h.process, h.start, h.job, h.attempt, h.id);
	pthread_mutex_init(&l->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (take(l, t, e) < 0) {
		lock_free(l);
		return NULL;
	}
	if (stat_directory(l, &st) == 0) {
		l->dev = st.st_dev;
		l->directory = st.st_ino;
	}
	l->renewing = pthread_create(&l->thread, NULL, renewer, l) == 0;
	if (l->renewing)
		return l;
	err_set(e, "cannot start the thread that renews '%s'", l->path);
	lock_release(l);
	return NULL;
}

struct lock *
lock_claim(const char *path, const struct lock_terms *how, struct err *e)
{
	struct lock_terms terms = *how;

	terms.path = path;
	terms.renewal = LOCK_RENEWAL;
	terms.stale = LOCK_STALE;
	terms.ending = LOCK_ENDING;
	return lock_take(&terms, e);
}

void
lock_release(struct lock *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->mutex);
	l->end = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->mutex);
	if (l->renewing)
		pthread_join(l->thread, NULL);
	if (lock_check(l, NULL) == 0)
		take_away(l->path, l->text.buf, l->text.len, NULL);
	close(l->fd);
	lock_free(l);
}
