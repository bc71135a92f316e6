/*
 * file_set.c - many files that appear together
 *
 * A few files are synced one by one; more than that are made durable by syncfs, once for their
 * bytes and once for their names, on each file system that they lie on.
 */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/file_set.h"
#include "lib/base/process.h"
#include "lib/base/temp.h"
#include "lib/base/temp_sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to FEW files are synced by an fsync each, which does not wait for other programs' dirty pages.
 * From LARGE bytes on, write-back starts at once; smaller files are allocated faster together. */
enum { FEW = 8, SMALL = 16 << 10, LARGE = 1 << 20 };

struct file_set {
	char host[PROCESS_HOST]; /* for temporary names */
	pthread_mutex_t lock;
	struct item {
		char *path, *tmp;
	} * item;
	int count, cap;
	int renamed; /* the number of files, from the first, that have their own names */
	char *swept; /* the directory that was swept last */
};

struct file_set *
file_set_new(void)
{
	struct file_set *s = mem_zalloc(1, sizeof *s);

	process_host(s->host);
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

/* Removes what dead processes left in a directory. Files of one directory usually follow each
 * other, so remembering the last one suffices. */
static void
sweep(struct file_set *s, const char *path)
{
	char *dir = io_parent(path);
	bool known;

	pthread_mutex_lock(&s->lock);
	known = s->swept && !strcmp(s->swept, dir);
	if (!known) {
		free(s->swept);
		s->swept = mem_strdup(dir);
	}
	pthread_mutex_unlock(&s->lock);
	if (!known)
		temp_sweep(dir);
	free(dir);
}

/* Writes all pieces, those of at most SMALL bytes together by one call; -1 with errno. */
static int
write_pieces(int fd, const struct iovec *piece, int count)
{
	char small[SMALL];
	size_t bytes = 0;

	for (int i = 0; i < count; i++) {
		if (piece[i].iov_len && bytes + piece[i].iov_len <= SMALL)
			memcpy(small + bytes, piece[i].iov_base, piece[i].iov_len);
		bytes += piece[i].iov_len;
	}
	if (bytes <= SMALL)
		return io_write_all(fd, small, bytes);
	for (int i = 0; i < count; i++)
		if (io_write_all(fd, piece[i].iov_base, piece[i].iov_len) < 0)
			return -1;
	if (bytes >= LARGE) /* a hint, whose failure does not matter */
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	return 0;
}

/* The file is complete, though not yet durable, when this returns 0. */
int
file_set_add(
    struct file_set *s, const char *path, const struct iovec *piece, int count, struct err *e)
{
	char *tmp;
	int fd, bad;

	sweep(s, path);
	fd = temp_create_on(s->host, path, &tmp, e);
	if (fd < 0)
		return -1;
	bad = write_pieces(fd, piece, count) < 0;
	if (bad)
		err_sys(e, "write", path);
	if (close(fd) < 0 && !bad) {
		err_sys(e, "write", path);
		bad = 1;
	}
	if (bad) {
		unlink(tmp);
		free(tmp);
		return -1;
	}
	pthread_mutex_lock(&s->lock);
	if (s->count == s->cap)
		s->item = mem_realloc(s->item, (size_t)(s->cap = 2 * s->cap + 16), sizeof *s->item);
	s->item[s->count++] = (struct item){ mem_strdup(path), tmp };
	pthread_mutex_unlock(&s->lock);
	return 0;
}

void
file_set_last_first(struct file_set *s, int count)
{
	size_t n = (size_t)count, others = (size_t)(s->count - count);
	struct item *last;

	if (n == 0)
		return;
	last = mem_alloc(n, sizeof *last);
	memcpy(last, s->item + others, n * sizeof *last);
	memmove(s->item + n, s->item, others * sizeof *last);
	memcpy(s->item, last, n * sizeof *last);
	free(last);
}

/* Syncs a file by fsync, or its file system by syncfs. */
static int
sync_by(int (*sync)(int fd), const char *what, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return err_sys(e, "open", path);
	if (sync(fd) < 0)
		rc = err_sys(e, what, path);
	close(fd);
	return rc;
}

/* Syncs every file system of the set once. Files of one directory usually follow each other, and so
 * do directories of one file system. */
static int
sync_systems(const struct file_set *s, bool renamed, struct err *e)
{
	size_t same = 0; /* length of the last directory */
	dev_t last = 0;

	for (int i = 0; i < s->count; i++) {
		const char *path = renamed ? s->item[i].path : s->item[i].tmp,
			   *slash = strrchr(path, '/');
		size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
		struct stat st;

		if (i > 0 && dir == same && !memcmp(path, s->item[i - 1].path, dir))
			continue;
		if (stat(path, &st) < 0)
			return err_sys(e, "look at", path);
		if ((i == 0 || st.st_dev != last) &&
		    sync_by(syncfs, "sync the file system of", path, e) < 0)
			return -1;
		last = st.st_dev;
		same = dir;
	}
	return 0;
}

/* Syncs the directories of a few files, each once when its files follow each other. */
static int
sync_directories(const struct file_set *s, struct err *e)
{
	char *last = NULL;
	int rc = 0;

	for (int i = 0; i < s->count && rc == 0; i++) {
		char *dir = io_parent(s->item[i].path);

		if (!last || strcmp(dir, last))
			rc = io_fsync_dir(dir, e);
		free(last);
		last = dir;
	}
	free(last);
	return rc;
}

/* Bytes first, then names, then the directories that hold the names. */
static int
commit(struct file_set *s, struct err *e)
{
	bool few = s->count <= FEW;

	for (int i = 0; few && i < s->count; i++)
		if (sync_by(fsync, "sync", s->item[i].tmp, e) < 0)
			return -1;
	if (!few && sync_systems(s, false, e) < 0)
		return -1;
	for (; s->renamed < s->count; s->renamed++)
		if (rename(s->item[s->renamed].tmp, s->item[s->renamed].path) < 0)
			return err_sys(e, "rename to", s->item[s->renamed].path);
	return few ? sync_directories(s, e) : sync_systems(s, true, e);
}

/* A set of no files commits without a sync. */
int
file_set_commit(struct file_set *s, struct err *e)
{
	int rc = commit(s, e);

	file_set_abort(s);
	return rc;
}

/* Files that already have their own names keep them. */
void
file_set_abort(struct file_set *s)
{
	if (!s)
		return;
	for (int i = 0; i < s->count; i++) {
		if (i >= s->renamed)
			unlink(s->item[i].tmp);
		free(s->item[i].path);
		free(s->item[i].tmp);
	}
	free(s->item);
	free(s->swept);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
