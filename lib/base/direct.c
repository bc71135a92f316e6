/*
 * direct.c - a stream that writes past the file cache, by O_DIRECT
 *
 * Such writes begin and end at whole blocks, in the file and in memory. Hence one aligned buffer
 * between; the rest at the end is written through the cache. Where the disk wants larger blocks
 * than ours, all is written through the cache.
 */
#include "lib/base/direct.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Large enough for a disk to be busy while the next bytes are copied. */
enum { BLOCK = 4096, BUFFER = 8 << 20 };

struct direct {
	int fd;
	char *buffer; /* aligned */
	size_t used;
	off_t at; /* of the buffer in the file */
};

/* File systems on a disk of this machine. Those of a network may commit each such write by itself,
 * and some others copy it after all. */
static bool
is_local(int fd)
{
	static const long types[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC };
	struct statfs s;

	for (size_t i = 0; fstatfs(fd, &s) == 0 && i < sizeof types / sizeof *types; i++)
		if ((long)s.f_type == types[i])
			return true;
	return false;
}

static int
set_direct(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

/* Writes n bytes of the buffer. */
static int
put(struct direct *d, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t w = pwrite(d->fd, d->buffer + done, n - done, d->at);

		if (w < 0 && errno == EINVAL && (fcntl(d->fd, F_GETFL) & O_DIRECT)) {
			if (set_direct(d->fd, false) < 0)
				return -1;
			continue;
		}
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -1;
		done += (size_t)w;
		d->at += w;
	}
	d->used = 0;
	return 0;
}

/* 0 tells the stream of a failure. */
static ssize_t
take(void *cookie, const char *bytes, size_t len)
{
	struct direct *d = cookie;

	for (size_t at = 0, n; at < len; at += n) {
		n = len - at < BUFFER - d->used ? len - at : BUFFER - d->used;
		memcpy(d->buffer + d->used, bytes + at, n);
		d->used += n;
		if (d->used == BUFFER && put(d, BUFFER) < 0)
			return 0;
	}
	return (ssize_t)len;
}

struct direct *
direct_open(int fd, FILE **out)
{
	static const cookie_io_functions_t functions = { .write = take };
	struct direct *d;

	if (!is_local(fd) || set_direct(fd, true) < 0)
		return NULL;
	d = mem_zalloc(1, sizeof *d);
	d->fd = fd;
	if (posix_memalign((void **)&d->buffer, BLOCK, BUFFER) == 0) {
		*out = fopencookie(d, "wb", functions);
		if (*out && setvbuf(*out, NULL, _IONBF, 0) == 0)
			return d;
	}
	set_direct(fd, false);
	direct_free(d);
	return NULL;
}

int
direct_finish(struct direct *d)
{
	return set_direct(d->fd, false) < 0 ? -1 : put(d, d->used);
}

void
direct_free(struct direct *d)
{
	if (!d)
		return;
	free(d->buffer);
	free(d);
}
