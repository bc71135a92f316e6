/*
 * shim.c - stands between a program and the C library: counts, fails and records the calls about
 * one directory
 *
 * Loaded by LD_PRELOAD. Streams of watched files are built on our own calls, since stdio's writes
 * do not pass through here. One lock over each call and its record, shared with the other ranks,
 * makes the log's order the order in which things happened.
 */
#include "tests/faults/call.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAMS = 64, ABOVE = 16 };

/* The C library's function of the same name. */
#define REAL(type, name, ...) \
	static type (*real)(__VA_ARGS__); \
	if (!real) \
	*(void **)&real = dlsym(RTLD_NEXT, name)

static struct {
	pthread_once_t once;
	pthread_mutex_t lock;
	char root[PATH_MAX];
	size_t root_len; /* 0: nothing is watched */
	int rank, log;
	/* the fault */
	enum call call;
	long nth, argument, count;
	enum { FAIL, FAIL_ON, SIGNAL, SIGNAL_AFTER, LIMIT, ACTIONS } action;
	bool here;
	const char *struck;
	struct {
		FILE *f;
		int fd;
	} stream[STREAMS];
} shim = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .log = -1 };

/* Reads the fault to inject from FAULT. */
static void
read_fault(const char *text)
{
	static const char *const actions[ACTIONS] = { ACTION_FAIL, ACTION_FAIL_ON, ACTION_SIGNAL,
		ACTION_SIGNAL_AFTER, ACTION_LIMIT };
	char call[16], action[16];
	const char *rank = getenv("FAULT_RANK");

	if (sscanf(text, "%15s %ld %15s %ld", call, &shim.nth, action, &shim.argument) != 4)
		return;
	while (shim.action < ACTIONS && strcmp(action, actions[shim.action]))
		shim.action++;
	shim.here = shim.rank == (rank ? atoi(rank) : 0);
	while (shim.call < CALL_COUNT && strcmp(call, call_names[shim.call]))
		shim.call++;
}

/* Makes none of the wrapped calls, which would recurse. */
static void
start(void)
{
	const char *root = getenv("FAULT_ROOT"), *fault = getenv("FAULT"),
		   *rank = getenv("OMPI_COMM_WORLD_RANK");
	const char *log = getenv("FAULT_LOG");

	if (!root || !realpath(root, shim.root))
		return;
	shim.rank = rank ? atoi(rank) : 0;
	shim.struck = getenv("FAULT_STRUCK");
	if (fault)
		read_fault(fault);
	if (log)
		shim.log = openat(AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	shim.root_len = strlen(shim.root);
}

/* --- what is watched ------------------------------------------------------------------------- */

/* The part of an absolute path below the root that is watched, or NULL. */
static const char *
below(const char *path)
{
	if (strncmp(path, shim.root, shim.root_len))
		return NULL;
	path += shim.root_len;
	if (!*path)
		return ".";
	return !strncmp(path, "/C", 2) && (path[2] == '/' || !path[2]) ? path + 1 : NULL;
}

/* By name, as the program writes it: nothing that is watched is reached through a link. */
static bool
watched(const char *path, char out[PATH_MAX])
{
	char whole[2 * PATH_MAX];
	const char *found;
	size_t n;

	pthread_once(&shim.once, start);
	if (!shim.root_len)
		return false;
	if (*path != '/') {
		if (!getcwd(whole, PATH_MAX))
			return false;
		n = strlen(whole);
		if (!strcmp(path, "."))
			path = "";
		snprintf(whole + n, sizeof whole - n, "%s%s", *path ? "/" : "",
		    !strncmp(path, "./", 2) ? path + 2 : path);
		path = whole;
	}
	found = below(path);
	n = found ? strlen(found) : 0;
	if (!found || n >= PATH_MAX)
		return false;
	memcpy(out, found, n + 1);
	return true;
}

/* By the name that the file of a descriptor has now. */
static bool
watched_fd(int fd, char out[PATH_MAX])
{
	char link[64], path[PATH_MAX];
	ssize_t n;

	pthread_once(&shim.once, start);
	if (!shim.root_len)
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return watched(path, out);
}

/* --- a call ---------------------------------------------------------------------------------- */

static void
unlock(void)
{
	if (shim.log >= 0)
		flock(shim.log, LOCK_UN);
	pthread_mutex_unlock(&shim.lock);
}

/* Counts a call that the fault is about and says whether it is the one. */
static bool
due(enum call c, bool changes)
{
	if (!shim.here || !(c == shim.call || (shim.call == CALL_CHANGE && changes)))
		return false;
	shim.count++;
	return shim.count == shim.nth || (shim.action == FAIL_ON && shim.count > shim.nth);
}

static void
leave_mark(void)
{
	int fd =
	    shim.struck ? openat(AT_FDCWD, shim.struck, O_WRONLY | O_CREAT | O_CLOEXEC, 0666) : -1;

	if (fd >= 0)
		close(fd);
}

/* A signal is to be raised when this thread's call was made. */
static _Thread_local bool raise_after;

/* Before a call that is due, without the lock, as a signal's handler may make calls of its own. -1
 * with errno when the call is to fail. */
static int
strike(void)
{
	const struct rlimit limit = { (rlim_t)shim.argument, (rlim_t)shim.argument };

	leave_mark();
	switch (shim.action) {
	case SIGNAL: raise((int)shim.argument); return 0;
	case SIGNAL_AFTER: raise_after = true; return 0;
	case LIMIT:
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		return 0;
	default: errno = (int)shim.argument; return -1;
	}
}

/* Before a call. -1 with errno when it is to fail, and then finish must not be called. */
static int
begin(enum call c, bool changes)
{
	bool strikes;

	pthread_mutex_lock(&shim.lock);
	strikes = due(c, changes);
	pthread_mutex_unlock(&shim.lock);
	if (strikes && strike() < 0)
		return -1;
	pthread_mutex_lock(&shim.lock);
	if (shim.log >= 0)
		flock(shim.log, LOCK_EX);
	return 0;
}

/* A call that was made; what the record says of it. */
struct made {
	enum call call;
	bool done; /* it succeeded */
	const char *path, *path2;
	long long argument;
	const void *bytes;
	size_t len;
};

/* After a call; errno stays. */
static void
finish(const struct made *m)
{
	int saved = errno;

	if (m->done && shim.log >= 0) {
		dprintf(shim.log, "%d %s %lld %zu\n%s\n%s\n", shim.rank, call_names[m->call],
		    m->argument, m->len, m->path, m->path2 ? m->path2 : "");
		for (size_t at = 0; at < m->len;) {
			ssize_t w = write(shim.log, (const char *)m->bytes + at, m->len - at);

			if (w <= 0)
				abort();
			at += (size_t)w;
		}
	}
	unlock();
	if (raise_after) {
		raise_after = false;
		raise((int)shim.argument);
	}
	errno = saved;
}

/* --- descriptors ----------------------------------------------------------------------------- */

int
open(const char *path, int flags, ...)
{
	char name[PATH_MAX];
	mode_t mode = 0;
	va_list ap;
	int fd;
	REAL(int, "open", const char *, int, ...);

	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	if (!watched(path, name))
		return real(path, flags, mode);
	if (begin(CALL_OPEN, (flags & O_ACCMODE) != O_RDONLY) < 0)
		return -1;
	fd = real(path, flags, mode);
	finish(
	    &(struct made){ .call = CALL_OPEN, .done = fd >= 0, .path = name, .argument = flags });
	return fd;
}

ssize_t
write(int fd, const void *bytes, size_t len)
{
	char name[PATH_MAX];
	bool says = fd == STDERR_FILENO;
	off_t at;
	ssize_t n;
	REAL(ssize_t, "write", int, const void *, size_t);

	pthread_once(&shim.once, start);
	if (!shim.root_len || (!says && !watched_fd(fd, name)))
		return real(fd, bytes, len);
	if (begin(says ? CALL_SAY : CALL_WRITE, !says) < 0)
		return -1;
	at = says ? 0 : lseek(fd, 0, SEEK_CUR);
	n = real(fd, bytes, len);
	finish(&(struct made){ says ? CALL_SAY : CALL_WRITE, n > 0, says ? "" : name, NULL, at,
	    bytes, n > 0 ? (size_t)n : 0 });
	return n;
}

ssize_t
pwrite(int fd, const void *bytes, size_t len, off_t at)
{
	char name[PATH_MAX];
	ssize_t n;
	REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);

	if (!watched_fd(fd, name))
		return real(fd, bytes, len, at);
	if (begin(CALL_WRITE, true) < 0)
		return -1;
	n = real(fd, bytes, len, at);
	finish(&(struct made){ CALL_WRITE, n > 0, name, NULL, at, bytes, n > 0 ? (size_t)n : 0 });
	return n;
}

ssize_t
pread(int fd, void *bytes, size_t len, off_t at)
{
	char name[PATH_MAX];
	ssize_t n;
	REAL(ssize_t, "pread", int, void *, size_t, off_t);

	if (!watched_fd(fd, name))
		return real(fd, bytes, len, at);
	if (begin(CALL_READ, false) < 0)
		return -1;
	n = real(fd, bytes, len, at);
	finish(&(struct made){ .call = CALL_READ, .done = n >= 0, .path = name, .argument = at });
	return n;
}

int
ftruncate(int fd, off_t size)
{
	char name[PATH_MAX];
	int rc;
	REAL(int, "ftruncate", int, off_t);

	if (!watched_fd(fd, name))
		return real(fd, size);
	if (begin(CALL_TRUNCATE, true) < 0)
		return -1;
	rc = real(fd, size);
	finish(&(struct made){
	    .call = CALL_TRUNCATE, .done = rc == 0, .path = name, .argument = size });
	return rc;
}

/* fsync and fdatasync are one: what the model of a disk loses is data. */
static int
sync_fd(int (*real)(int), int fd)
{
	char name[PATH_MAX];
	int rc;

	if (!watched_fd(fd, name))
		return real(fd);
	if (begin(CALL_FSYNC, false) < 0)
		return -1;
	rc = real(fd);
	finish(&(struct made){ .call = CALL_FSYNC, .done = rc == 0, .path = name });
	return rc;
}

int
fsync(int fd)
{
	REAL(int, "fsync", int);

	return sync_fd(real, fd);
}

int
fdatasync(int fd)
{
	REAL(int, "fdatasync", int);

	return sync_fd(real, fd);
}

/* Closed in any case, as by Linux. */
int
close(int fd)
{
	char name[PATH_MAX];
	int rc;
	REAL(int, "close", int);

	if (!watched_fd(fd, name))
		return real(fd);
	if (begin(CALL_CLOSE, false) < 0) {
		int saved = errno;

		real(fd);
		errno = saved;
		return -1;
	}
	rc = real(fd);
	finish(&(struct made){ .call = CALL_CLOSE, .done = rc == 0, .path = name });
	return rc;
}

void *
mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	char name[PATH_MAX];
	void *p;
	REAL(void *, "mmap", void *, size_t, int, int, int, off_t);

	if (fd < 0 || !watched_fd(fd, name))
		return real(at, len, prot, flags, fd, offset);
	if (begin(CALL_MMAP, false) < 0)
		return MAP_FAILED;
	p = real(at, len, prot, flags, fd, offset);
	finish(&(struct made){
	    .call = CALL_MMAP, .done = p != MAP_FAILED, .path = name, .argument = offset });
	return p;
}

/* --- names ----------------------------------------------------------------------------------- */

/* The calls about one or two names; real makes the call. */
struct naming {
	enum call call;
	const char *a, *b;
	unsigned flags;
	mode_t mode;
	int (*real)(const struct naming *);
};

static int
make_naming(const struct naming *n)
{
	char a[PATH_MAX], b[PATH_MAX] = "";
	int rc;

	if (!watched(n->a, a) || (n->b && !watched(n->b, b)))
		return n->real(n);
	if (begin(n->call, true) < 0)
		return -1;
	rc = n->real(n);
	finish(&(struct made){
	    .call = n->call, .done = rc == 0, .path = a, .path2 = b, .argument = n->flags });
	return rc;
}

static int
real_rename(const struct naming *n)
{
	REAL(int, "rename", const char *, const char *);

	return real(n->a, n->b);
}

int
rename(const char *a, const char *b)
{
	return make_naming(&(struct naming){ CALL_RENAME, a, b, .real = real_rename });
}

static int
real_renameat2(const struct naming *n)
{
	REAL(int, "renameat2", int, const char *, int, const char *, unsigned);

	return real(AT_FDCWD, n->a, AT_FDCWD, n->b, n->flags);
}

/* With paths relative to the current directory, as all callers here use it. */
int
renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
	if (from != AT_FDCWD || to != AT_FDCWD)
		abort();
	return make_naming(
	    &(struct naming){ CALL_RENAME, a, b, .flags = flags, .real = real_renameat2 });
}

static int
real_link(const struct naming *n)
{
	REAL(int, "link", const char *, const char *);

	return real(n->a, n->b);
}

int
link(const char *a, const char *b)
{
	return make_naming(&(struct naming){ CALL_LINK, a, b, .real = real_link });
}

static int
real_remove(const struct naming *n)
{
	REAL(int, "remove", const char *);

	return real(n->a);
}

int
remove(const char *path)
{
	return make_naming(&(struct naming){ CALL_UNLINK, path, .real = real_remove });
}

int
unlink(const char *path)
{
	return make_naming(&(struct naming){ CALL_UNLINK, path, .real = real_remove });
}

int
rmdir(const char *path)
{
	return make_naming(&(struct naming){ CALL_UNLINK, path, .real = real_remove });
}

static int
real_mkdir(const struct naming *n)
{
	REAL(int, "mkdir", const char *, mode_t);

	return real(n->a, n->mode);
}

int
mkdir(const char *path, mode_t mode)
{
	return make_naming(&(struct naming){ CALL_MKDIR, path, .mode = mode, .real = real_mkdir });
}

/* --- streams --------------------------------------------------------------------------------- */

/* A stream's cookie is its descriptor. A write that is cut short counts as failed, as fopencookie
 * wants it. */
static ssize_t
stream_read(void *cookie, char *bytes, size_t len)
{
	int fd = (int)(intptr_t)cookie;
	char name[PATH_MAX];
	ssize_t n;

	if (!watched_fd(fd, name) || begin(CALL_READ, false) < 0)
		return -1;
	n = read(fd, bytes, len);
	finish(&(struct made){ .call = CALL_READ, .done = n >= 0, .path = name });
	return n;
}

static ssize_t
stream_write(void *cookie, const char *bytes, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write((int)(intptr_t)cookie, bytes + done, len - done);

		if (n <= 0)
			return (ssize_t)done;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static int
stream_seek(void *cookie, off64_t *at, int whence)
{
	off_t to = lseek((int)(intptr_t)cookie, *at, whence);

	*at = to;
	return to < 0 ? -1 : 0;
}

/* Forgets the stream of a descriptor, or remembers it. */
static void
note_stream(int old, FILE *f, int fd)
{
	pthread_mutex_lock(&shim.lock);
	for (int i = 0; i < STREAMS; i++)
		if ((shim.stream[i].f ? shim.stream[i].fd : -1) == old) {
			shim.stream[i].f = f;
			shim.stream[i].fd = fd;
			break;
		}
	pthread_mutex_unlock(&shim.lock);
}

static int
stream_close(void *cookie)
{
	int fd = (int)(intptr_t)cookie;

	note_stream(fd, NULL, -1);
	return close(fd);
}

FILE *
fdopen(int fd, const char *mode)
{
	static const cookie_io_functions_t calls = { stream_read, stream_write, stream_seek,
		stream_close };
	char name[PATH_MAX];
	FILE *f;
	REAL(FILE *, "fdopen", int, const char *);

	if (!watched_fd(fd, name))
		return real(fd, mode);
	f = fopencookie((void *)(intptr_t)fd, mode, calls);
	if (f)
		note_stream(-1, f, fd);
	return f;
}

FILE *
fopen(const char *path, const char *mode)
{
	char name[PATH_MAX];
	int flags = strchr(mode, '+') ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY, fd;
	REAL(FILE *, "fopen", const char *, const char *);

	if (!watched(path, name))
		return real(path, mode);
	fd = open(path,
	    flags |
		(*mode == 'w'          ? O_CREAT | O_TRUNC
			: *mode == 'a' ? O_CREAT | O_APPEND
				       : 0),
	    0666);
	return fd < 0 ? NULL : fdopen(fd, mode);
}

int
fileno(FILE *f)
{
	int fd = -1;
	REAL(int, "fileno", FILE *);

	pthread_mutex_lock(&shim.lock);
	for (int i = 0; i < STREAMS; i++)
		if (shim.stream[i].f == f)
			fd = shim.stream[i].fd;
	pthread_mutex_unlock(&shim.lock);
	return fd < 0 ? real(f) : fd;
}
