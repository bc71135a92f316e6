/*
 * apart.c - a preloaded library that puts so many neighbouring ranks on each host, for programs
 * without --pretend-hosts
 *
 * PER of the environment is how many. A rank's machine has the number of its host in place of its
 * boot, and shares memory with the ranks of that host; NCCL reads NCCL_HOSTID. Programs that are no
 * ranks stay as they are.
 */
#include "tests/parity/preload.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int host = -1;

__attribute__((constructor)) static void
find_host(void)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *per = getenv("PER");
	char name[32];

	if (!rank || !per || atoi(per) < 1)
		return;
	host = atoi(rank) / atoi(per);
	snprintf(name, sizeof name, "host%d", host);
	setenv("NCCL_HOSTID", name, 1);
}

/* A file with the number of the host, at its beginning. */
static int
boot_of_host(void)
{
	char text[32];
	int fd = memfd_create("boot_id", MFD_CLOEXEC),
	    n = snprintf(text, sizeof text, "host-%d\n", host);

	if (fd >= 0 && (write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET) < 0))
		return -1;
	return fd;
}

int
open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...);
	/* NCCL opens a path of NULL, too, which the declaration of open rules out. */
	const char *volatile given = path;
	va_list more;
	mode_t mode = 0;

	if (host >= 0 && given && !strcmp(given, "/proc/sys/kernel/random/boot_id"))
		return boot_of_host();
	va_start(more, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(more, mode_t);
	va_end(more);
	*(void **)&real = next("open");
	return real(path, flags, mode);
}

int
MPI_Comm_split_type(MPI_Comm all, int type, int key, MPI_Info info, MPI_Comm *part)
{
	(void)type;
	(void)info;
	return MPI_Comm_split(all, host, key, part);
}
