/* process.c - who this process is, and whether another one has ended */
#include "lib/base/process.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The PID namespace that a kernel starts with has this name everywhere. */
static const char first_namespace[] = "pid:[4026531836]";

/* Of this process; -1: none is pretended. */
static int pretended_host = -1;

/* Host networks give containers the name of their host, so the name alone is not enough. */
void
process_host(char out[PROCESS_HOST])
{
	char name[65] = "", space[40] = "";
	ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);

	gethostname(name, sizeof name - 1);
	if (n <= 0 || !strcmp(space, first_namespace))
		snprintf(out, PROCESS_HOST, "%s", name[0] ? name : "host");
	else
		snprintf(out, PROCESS_HOST, "%s-%.*s", name, (int)strspn(space + 5, "0123456789"),
		    space + 5);
	for (char *c = out; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_')
			*c = '-';
}

/* A small file of /proc as a text, empty when it cannot be read. One read returns all of it. */
static void
read_proc(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

void
process_boot(char out[PROCESS_HOST])
{
	read_proc("/proc/sys/kernel/random/boot_id", out, PROCESS_HOST);
	out[strcspn(out, "\n")] = '\0';
}

/* What NCCL too tells hosts by, and in its order. */
void
process_where(char out[PROCESS_WHERE])
{
	char boot[PROCESS_HOST], name[65] = "";
	int n;

	process_boot(boot);
	gethostname(name, sizeof name - 1);
	n = snprintf(out, PROCESS_WHERE, "%.40s %s", boot, name);
	if (pretended_host >= 0)
		snprintf(out + n, PROCESS_WHERE - (size_t)n, "#%d", pretended_host);
}

void
process_pretend(int k)
{
	pretended_host = k;
}

/* The fields of proc(5)'s stat from the third on. The program's name, field 2, may itself hold
 * blanks and parentheses, so fields are counted from the last parenthesis. NULL without such a
 * process. */
static const char *
read_stat(long pid, char stat[1024])
{
	char path[40];

	snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	read_proc(path, stat, 1024);
	stat = strrchr(stat, ')');
	return stat && stat[1] == ' ' ? stat + 2 : NULL;
}

/* Field 22 of stat. */
uint64_t
process_start(long pid)
{
	char stat[1024];
	const char *at = read_stat(pid, stat);

	for (int field = 3; at && field < 22; field++)
		at = (at = strchr(at, ' ')) ? at + 1 : NULL;
	return at ? strtoull(at, NULL, 10) : 0;
}

/* A zombie has ended and only waits to be reaped. */
static bool
is_zombie(long pid)
{
	char stat[1024];
	const char *state = read_stat(pid, stat);

	return state && (*state == 'Z' || *state == 'X');
}

/* A process that this one may not signal exists. */
bool
process_ended(long pid, uint64_t start)
{
	uint64_t now;

	if ((kill((pid_t)pid, 0) < 0 && errno == ESRCH) || is_zombie(pid))
		return true;
	now = process_start(pid);
	return start && now && now != start;
}
