/*
 * sums_write.c - making PREFIX.sum while a .bin is written
 *
 * Every byte passes the sums on its way to the file, so nothing is read again, and a disk that
 * returns other bytes than it was given is found. The sums of whole blocks are kept in a file, not
 * in memory, as the lengths are.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/sums_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char sums_magic[8] = { 'm', 'k', 's', 'u', 'm', 's', '\r', '\n' };

/* Adds the bytes [from, to) of a file, fewer than a block. */
static int
add_from(struct sums_writer *w, int fd, uint64_t from, uint64_t to, struct err *e)
{
	size_t len = (size_t)(to - from);
	char *room = mem_alloc(len + 1, 1);
	int rc = 0;

	if (io_pread_all(fd, room, len, (int64_t)from) < 0)
		rc = err_set(e, "cannot read back %zu bytes for their checksum: %s", len,
		    errno == EIO ? "the file is too short" : strerror(errno));
	else
		sums_add(w, room, len);
	free(room);
	return rc;
}

int
sums_begin(struct sums_writer *w, FILE *file, int bin, uint64_t bin_bytes, struct err *e)
{
	*w = (struct sums_writer){ file, hash_stream_new(), 0 };
	return add_from(w, bin, bin_bytes / SUMS_BLOCK * SUMS_BLOCK, bin_bytes, e);
}

void
sums_add(struct sums_writer *w, const void *bytes, size_t len)
{
	const char *p = bytes;

	while (len) {
		size_t n = SUMS_BLOCK - w->held < len ? SUMS_BLOCK - w->held : len;

		hash_stream_add(w->open, p, n);
		w->held += n;
		p += n;
		len -= n;
		if (w->held == SUMS_BLOCK) {
			uint64_t sum = hash_stream_next(w->open);

			fwrite(&sum, sizeof sum, 1, w->file);
			w->held = 0;
		}
	}
}

/* Writes bytes that are part of the file's own checksum. */
static void
put(FILE *f, struct hash_stream *h, const void *bytes, size_t len)
{
	fwrite(bytes, 1, len, f);
	hash_stream_add(h, bytes, len);
}

/* The header, and the sums from their file; last: of a block that is not whole. */
static void
write_all(FILE *sums, FILE *out, const uint64_t header[5], const uint64_t *last)
{
	struct hash_stream *h = hash_stream_new();
	char buf[65536];
	uint64_t own;
	size_t n;

	put(out, h, sums_magic, sizeof sums_magic);
	put(out, h, header, 5 * sizeof *header);
	rewind(sums);
	while ((n = fread(buf, 1, sizeof buf, sums)) > 0)
		put(out, h, buf, n);
	if (last)
		put(out, h, last, sizeof *last);
	own = hash_stream_free(h);
	fwrite(&own, sizeof own, 1, out);
}

int
sums_write(
    struct sums_writer *w, struct outfile *out, const char *path, uint64_t index, struct err *e)
{
	size_t tail = w->held;
	uint64_t last = hash_stream_free(w->open), blocks;
	off_t end = -1;

	w->open = NULL;
	if (fflush(w->file) == 0 && fseeko(w->file, 0, SEEK_END) == 0)
		end = ftello(w->file);
	if (end < 0 || ferror(w->file))
		return err_sys(e, "write a temporary file for", path);
	if (outfile_open(out, path, e) < 0)
		return -1;
	blocks = (uint64_t)end / 8;
	write_all(w->file, out->f,
	    (uint64_t[]){
		SUMS_VERSION, SUMS_BLOCK, blocks * SUMS_BLOCK + tail, blocks + (tail > 0), index },
	    tail ? &last : NULL);
	return ferror(w->file) ? err_at(e, path, 0, "its temporary file could not be read back")
			       : 0;
}

void
sums_abort(struct sums_writer *w)
{
	if (w->open)
		hash_stream_free(w->open);
	w->open = NULL;
}
