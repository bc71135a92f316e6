/*
 * rails.c - a preloaded library that shows a program the ports and cores that a test has made up,
 * and slows a rank
 *
 * What lies below PORTS_DIR is looked up below the directory RAILS_PORTS of the environment. The
 * machine has RAILS_CORES cores. The rank RAILS_SLOW waits a while before it sends LONG bytes or
 * more.
 */
#include "lib/base/ports.h"
#include "tests/parity/preload.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LONG = 1 << 20, WAIT_MS = 300 };

/* Where a path leads, which room may hold. */
static const char *
redirect(const char *path, char *room, size_t size)
{
	const char *to = getenv("RAILS_PORTS");
	size_t n = strlen(PORTS_DIR);

	if (!to || strncmp(path, PORTS_DIR, n) != 0)
		return path;
	snprintf(room, size, "%s%s", to, path + n);
	return room;
}

DIR *
opendir(const char *path)
{
	DIR *(*real)(const char *);
	char room[4096];

	*(void **)&real = next("opendir");
	return real(redirect(path, room, sizeof room));
}

/* Files that are made have a mode, others none. */
int
open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...), mode = 0;
	char room[4096];
	va_list ap;

	*(void **)&real = next("open");
	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, int);
	va_end(ap);
	return real(redirect(path, room, sizeof room), flags, mode);
}

long
sysconf(int what)
{
	long (*real)(int);
	const char *cores = getenv("RAILS_CORES");

	*(void **)&real = next("sysconf");
	return cores && what == _SC_NPROCESSORS_ONLN ? atol(cores) : real(what);
}

int
MPI_Isend(
    const void *bytes, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *request)
{
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	const struct timespec wait = { 0, WAIT_MS * 1000000L };
	const char *slow = getenv("RAILS_SLOW");
	int rank, size;

	*(void **)&send = next("MPI_Isend");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Type_size(t, &size);
	if (slow && atoi(slow) == rank && (long)n * size >= LONG)
		nanosleep(&wait, NULL);
	return send(bytes, n, t, to, tag, c, request);
}
