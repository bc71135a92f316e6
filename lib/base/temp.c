/* temp.c - names of temporary files and directories */
#include "lib/base/mem.h"
#include "lib/base/process.h"
#include "lib/base/str.h"
#include "lib/base/temp.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const char suffix[] = ".tmp";
enum { RANDOM_DIGITS = 16 };

/* The name of this process's host is given. A name near the file system's limit leaves no room for
 * the rest and is cut between two UTF-8 characters. */
static char *
name_on(const char *host, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	char tail[TEMP_EXTRA];
	struct str out = { 0 };
	uint64_t r = 0;
	size_t len = strlen(name), room;

	if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r)
		r = (uint64_t)(uintptr_t)&r;
	room = NAME_MAX - 1 -
	    (size_t)snprintf(tail, sizeof tail, ".%s.%ld.%016llx%s", host, (long)getpid(),
		(unsigned long long)r, suffix);
	if (len > room)
		for (len = room; len && ((unsigned char)name[len] & 0xc0) == 0x80;)
			len--;
	str_add(&out, path, (size_t)(name - path));
	str_addc(&out, '.');
	str_add(&out, name, len);
	str_adds(&out, tail);
	return str_detach(&out);
}

char *
temp_name(const char *path)
{
	char host[PROCESS_HOST];

	process_host(host);
	return name_on(host, path);
}

int
temp_create_on(const char *host, const char *path, char **name, struct err *e)
{
	int fd;

	*name = name_on(host, path);
	fd = open(*name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd >= 0)
		return fd;
	err_sys(e, "create", path);
	free(*name);
	*name = NULL;
	return -1;
}

int
temp_create(const char *path, char **name, struct err *e)
{
	char host[PROCESS_HOST];

	process_host(host);
	return temp_create_on(host, path, name, e);
}

/* Moves *end back over the characters of one kind; returns their number. */
static size_t
back_over(const char *name, size_t *end, int (*kind)(int))
{
	size_t at = *end;

	while (*end && kind((unsigned char)name[*end - 1]))
		--*end;
	return at - *end;
}

/* Parsed from the end, because NAME may hold any characters. */
bool
temp_is_leaving(const char *name, enum temp_owner whose)
{
	size_t end = strlen(name), n = sizeof suffix - 1, h;
	char host[PROCESS_HOST];

	if (name[0] != '.' || end < n || strcmp(name + end - n, suffix))
		return false;
	end -= n;
	if (back_over(name, &end, isxdigit) != RANDOM_DIGITS || end == 0 || name[--end] != '.')
		return false;
	if (back_over(name, &end, isdigit) == 0 || end == 0 || name[end - 1] != '.')
		return false;
	if (whose == TEMP_OF_ANYBODY)
		return true;
	process_host(host);
	h = strlen(host);
	return end >= h + 3 && name[end - h - 2] == '.' && !strncmp(name + end - h - 1, host, h) &&
	    process_ended(strtol(name + end, NULL, 10), 0);
}
