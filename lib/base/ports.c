/* ports.c - the InfiniBand and RoCE ports of this host */
#include "lib/base/ports.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH = 1024, TEXT = 64, ACTIVE = 4 };

/* The number that a file of a port begins with; 0 where there is none. */
static double
number_in(const char *port, const char *name)
{
	char path[PATH + TEXT], text[TEXT];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s/%s", port, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strtod(text, NULL);
}

/* "4: ACTIVE", and "400 Gb/sec (4X NDR)". */
static void
add_port(struct ports *p, const char *port)
{
	double rate = number_in(port, "rate");

	if ((int)number_in(port, "state") != ACTIVE || rate < p->gigabits || rate <= 0)
		return;
	if (rate > p->gigabits)
		*p = (struct ports){ 0, rate };
	p->count++;
}

/* Calls `each` with the path of whatever is in a directory. */
static void
walk(struct ports *p, const char *dir, void (*each)(struct ports *, const char *path))
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	char path[PATH];

	while (d && (entry = readdir(d))) {
		int n = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);

		if (entry->d_name[0] != '.' && n < (int)sizeof path)
			each(p, path);
	}
	if (d)
		closedir(d);
}

static void
add_device(struct ports *p, const char *device)
{
	char path[PATH];

	if (snprintf(path, sizeof path, "%s/ports", device) < (int)sizeof path)
		walk(p, path, add_port);
}

void
ports_read(struct ports *p, const char *dir)
{
	*p = (struct ports){ 0 };
	walk(p, dir, add_device);
}
