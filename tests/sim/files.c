/* files.c - open files: descriptors, bytes, syncs, maps */
#include "lib/base/mem.h"
#include "tests/sim/faults.h"
#include "tests/sim/names.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

/* --- descriptors ------------------------------------------------------------------------------ */

static struct file *
file_new(enum file_kind kind, const char *path)
{
	struct file *f = mem_zalloc(1, sizeof *f);

	f->kind = kind;
	snprintf(f->path, sizeof f->path, "%s", path);
	return f;
}

void
files_begin(struct process *p)
{
	p->fd[0] = file_new(FILE_NULL, "stdin");
	for (int i = 1; i < 3; i++) {
		p->fd[i] = file_new(FILE_OUTPUT, i == 1 ? "stdout" : "stderr");
		p->fd[i]->out = p->said;
	}
}

static void
file_free(struct file *f)
{
	if (f->socket)
		socket_free(f->socket);
	if (f->node && f->node->flock == f)
		f->node->flock = NULL;
	for (struct thread *t = sim.threads; f->node && t; t = t->next)
		if (t->waits_for == f->node)
			thread_wake(t, 0);
	free(f);
}

void
files_end(struct process *p)
{
	for (int i = 0; i < FDS; i++) {
		if (p->fd[i])
			file_free(p->fd[i]);
		p->fd[i] = NULL;
	}
}

int
file_add(struct file *f)
{
	struct process *p = sim.current->process;

	for (int i = 0; i < FDS; i++)
		if (!p->fd[i]) {
			p->fd[i] = f;
			return i;
		}
	free(f);
	return fail(EMFILE);
}

struct file *
file_of(int fd)
{
	if (fd >= 0 && fd < FDS && sim.current->process->fd[fd])
		return sim.current->process->fd[fd];
	errno = EBADF;
	return NULL;
}

/* The node that an open finds or makes; NULL with errno. */
static struct node *
open_node(const char *path, int flags)
{
	struct place p;
	struct node *n = proc_file(path);

	if (n)
		return n;
	place_find(&p, path);
	errno = 0;
	if (!p.node && !p.dir)
		errno = p.err;
	else if (!p.node && !(flags & O_CREAT))
		errno = ENOENT;
	else if (p.node && flags & O_CREAT && flags & O_EXCL)
		errno = EEXIST;
	else if (p.node && p.node->dir && (flags & O_ACCMODE) != O_RDONLY)
		errno = EISDIR;
	else if (p.node && !p.node->dir && flags & O_DIRECTORY)
		errno = ENOTDIR;
	if (errno)
		return NULL;
	if (!p.node)
		node_name(p.dir, p.name, p.node = node_new(false), disk_call());
	else if (flags & O_TRUNC && p.node->len)
		node_truncate(p.node, 0);
	return p.node;
}

int
sim_open(const char *path, int flags, ...)
{
	int err = call_begin(CALL_OPEN, path, flags);
	struct node *n;
	struct file *f;

	if (err)
		return fail(err);
	if (!strcmp(path, "/dev/null"))
		return file_add(file_new(FILE_NULL, path));
	n = open_node(path, flags);
	if (!n)
		return -1;
	f = file_new(FILE_NODE, path);
	f->flags = flags;
	f->node = n;
	return file_add(f);
}

int
sim_close(int fd)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_CLOSE, f ? f->path : NULL, fd);

	if (!f)
		return -1;
	sim.current->process->fd[fd] = NULL;
	file_free(f);
	return err ? fail(err) : 0;
}

int
sim_fcntl(int fd, int command, ...)
{
	struct file *f = file_of(fd);
	va_list ap;

	if (!f)
		return -1;
	if (command == F_GETFL)
		return f->flags;
	va_start(ap, command);
	if (command == F_SETFL)
		f->flags = va_arg(ap, int);
	va_end(ap);
	return 0;
}

/* One at a time; only exclusive locks are asked for. */
int
sim_flock(int fd, int operation)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_FLOCK, f ? f->path : NULL, fd);
	struct thread *self = sim.current;

	if (err || !f || !f->node)
		return fail(err ? err : EBADF);
	if (operation & LOCK_UN) {
		if (f->node->flock == f)
			f->node->flock = NULL;
		return 0;
	}
	while (f->node->flock && f->node->flock != f) {
		if (operation & LOCK_NB)
			return fail(EWOULDBLOCK);
		self->waits_for = f->node;
		self->ready = sim.now + SECOND;
		schedule();
	}
	self->waits_for = NULL;
	f->node->flock = f;
	return 0;
}

int
sim_isatty(int fd)
{
	(void)fd;
	return 0;
}

/* As ext4's, so that O_DIRECT is used. */
int
sim_fstatfs(int fd, struct statfs *s)
{
	if (!file_of(fd))
		return -1;
	*s = (struct statfs){ .f_type = EXT4_SUPER_MAGIC };
	return 0;
}

/* As large as any. */
int
sim_statvfs(const char *path, struct statvfs *s)
{
	int err = call_begin(CALL_LOOK, path, 0);

	*s = (struct statvfs){ .f_bsize = 4096,
		.f_frsize = 4096,
		.f_blocks = 1 << 30,
		.f_bfree = 1 << 30,
		.f_bavail = 1 << 30 };
	return err ? fail(err) : 0;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static size_t
cut_short(size_t n)
{
	struct faults *f = sim.faults;

	if (f && f->cut) {
		f->cut = false;
		return n > 0;
	}
	if (n < 2 || !f || f->calm || sim.current->process->job == JOB_NONE ||
	    !draw_one_in(f->short_one_in))
		return n;
	sim.count[COUNT_SHORT]++;
	return 1 + draw(n - 1);
}

static ssize_t
get(struct file *f, void *to, size_t n, int64_t at)
{
	if (f->kind == FILE_EVENT || f->kind == FILE_SIGNALS)
		return poll_read(f, to, n);
	if (f->kind != FILE_NODE)
		return 0;
	if (f->node->dir)
		return fail(EISDIR);
	if (at < 0 || (uint64_t)at >= f->node->len)
		return 0;
	if (n > f->node->len - (size_t)at)
		n = f->node->len - (size_t)at;
	n = f->node->proc ? n : cut_short(n);
	memcpy(to, f->node->bytes + at, n);
	return (ssize_t)n;
}

static ssize_t
put(struct file *f, const void *from, size_t n, int64_t at)
{
	if (f->kind == FILE_OUTPUT && f->out)
		str_add(f->out, from, n);
	if (f->kind == FILE_EVENT)
		return poll_write(f, n);
	if (f->kind != FILE_NODE)
		return (ssize_t)n;
	if ((f->flags & O_ACCMODE) == O_RDONLY)
		return fail(EBADF);
	n = cut_short(n);
	node_write(f->node, (size_t)at, from, n);
	return (ssize_t)n;
}

ssize_t
sim_read(int fd, void *to, size_t n)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_READ, f ? f->path : NULL, (int64_t)n);
	ssize_t r = err || !f ? fail(err ? err : EBADF) : get(f, to, n, f->at);

	if (r > 0)
		f->at += r;
	return r;
}

ssize_t
sim_pread(int fd, void *to, size_t n, off_t at)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_READ, f ? f->path : NULL, at);

	return err || !f ? fail(err ? err : EBADF) : get(f, to, n, at);
}

/* What is said is never lost or held up: tests of the messages are elsewhere. */
ssize_t
sim_write(int fd, const void *from, size_t n)
{
	struct file *f = file_of(fd);
	bool file = f && f->kind == FILE_NODE;
	int err = file ? call_begin(CALL_WRITE, f->path, (int64_t)n) : 0;
	ssize_t r;

	if (f)
		log_event("bytes", f->path, (int64_t)n, (int64_t)hash_bytes(0, from, n));
	if (file && f->flags & O_APPEND)
		f->at = (int64_t)f->node->len;
	r = err || !f ? fail(err ? err : EBADF) : put(f, from, n, f->at);
	if (r > 0)
		f->at += r;
	return r;
}

ssize_t
sim_pwrite(int fd, const void *from, size_t n, off_t at)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_WRITE, f ? f->path : NULL, at);

	log_event("bytes", NULL, (int64_t)n, (int64_t)hash_bytes(0, from, n));
	return err || !f ? fail(err ? err : EBADF) : put(f, from, n, at);
}

off_t
sim_lseek(int fd, off_t at, int whence)
{
	struct file *f = file_of(fd);

	if (!f)
		return -1;
	if (f->kind != FILE_NODE)
		return fail(ESPIPE);
	at += whence == SEEK_CUR ? f->at : whence == SEEK_END ? (int64_t)f->node->len : 0;
	if (at < 0)
		return fail(EINVAL);
	return f->at = at;
}

int
sim_ftruncate(int fd, off_t size)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_TRUNCATE, f ? f->path : NULL, size);

	if (err || !f || !f->node)
		return fail(err ? err : EBADF);
	node_truncate(f->node, (size_t)size);
	return 0;
}

ssize_t
sim_copy_file_range(int in, off_t *in_at, int out, off_t *out_at, size_t n, unsigned flags)
{
	struct file *from = file_of(in), *to = file_of(out);
	int err = call_begin(CALL_WRITE, to ? to->path : NULL, (int64_t)n);
	char *bytes;
	ssize_t r;

	(void)out_at;
	(void)flags;
	if (err || !from || !to || !in_at)
		return fail(err ? err : EBADF);
	if (draw_one_in(2))
		return fail(EXDEV);
	bytes = mem_alloc(n + 1, 1);
	r = get(from, bytes, n, *in_at);
	if (r > 0)
		r = put(to, bytes, (size_t)r, to->at);
	free(bytes);
	if (r > 0) {
		*in_at += r;
		to->at += r;
	}
	return r;
}

/* --- syncs ------------------------------------------------------------------------------------ */

/* After a sync that fails the pages are clean: the next one succeeds, and nothing is on the disk.
 */
int
sim_fsync(int fd)
{
	struct file *f = file_of(fd);
	int err = call_begin(CALL_FSYNC, f ? f->path : NULL, 0);

	if (!f)
		return -1;
	if (f->node)
		node_sync(f->node, !err);
	return err ? fail(err) : f->node ? 0 : fail(EINVAL);
}

int
sim_fdatasync(int fd)
{
	return sim_fsync(fd);
}

/* Nothing is promised. */
int
sim_sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
	(void)at;
	(void)n;
	(void)flags;
	return file_of(fd) ? 0 : -1;
}

int
sim_syncfs(int fd)
{
	return sim_fsync(fd);
}

int
sim_posix_fadvise(int fd, off_t at, off_t n, int advice)
{
	(void)fd;
	(void)at;
	(void)n;
	(void)advice;
	return 0;
}

/* --- maps ------------------------------------------------------------------------------------- */

/* A map of a file is a copy: no file is changed while it is mapped. */
void *
sim_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
	struct file *f = flags & MAP_ANONYMOUS ? NULL : file_of(fd);
	int err = call_begin(CALL_MMAP, f ? f->path : NULL, (int64_t)n);
	void *p;

	(void)at;
	(void)protection;
	if (err || (!f && !(flags & MAP_ANONYMOUS))) {
		errno = err ? err : EBADF;
		return MAP_FAILED;
	}
	p = block_new(n);
	if (!p) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (f && (uint64_t)offset < f->node->len) {
		size_t there = f->node->len - (size_t)offset;

		memcpy(p, f->node->bytes + offset, there < n ? there : n);
	}
	return p;
}

int
sim_munmap(void *p, size_t n)
{
	(void)n;
	return block_end(p) ? 0 : fail(EINVAL);
}

/* Advice that is taken would empty the copies. */
int
sim_madvise(void *p, size_t n, int advice)
{
	(void)p;
	(void)n;
	(void)advice;
	return 0;
}
