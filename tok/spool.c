/* spool.c - tokens that wait for their turn to be written */
#include "lib/base/io.h"
#include "lib/data/dataset.h"
#include "tok/spool.h"

#include <string.h>
#include <unistd.h>

/* Bytes held in memory. A batch of short lines has fewer with any tokenizer. */
enum { HELD = 4 << 20 };

/* The file stays open until nothing is kept. */
int
spool_store(struct spool *s, const char *prefix, struct err *e)
{
	int fd;

	if (s->tail.len < HELD)
		return 0;
	if (!s->file && !(s->file = dataset_spill(prefix, e)))
		return -1;
	fd = fileno(s->file);
	if (lseek(fd, (off_t)s->stored, SEEK_SET) < 0 ||
	    io_write_all(fd, s->tail.buf, s->tail.len) < 0)
		return err_sys(e, "write a temporary file beside", prefix);
	s->stored += s->tail.len;
	str_clear(&s->tail);
	return 0;
}

/* All bytes, in memory and in the file. */
uint64_t
spool_bytes(const struct spool *s)
{
	return s->stored + s->tail.len;
}

/* Disk space is freed with the last of the bytes: a document is rarely removed again. */
void
spool_cut(struct spool *s, uint64_t bytes)
{
	s->tail.len = bytes > s->stored ? (size_t)(bytes - s->stored) : 0;
	s->stored = bytes < s->stored ? bytes : s->stored;
	if (bytes == 0 && s->tail.cap > 2 * HELD)
		str_release(&s->tail);
	if (bytes == 0 && s->file) {
		fclose(s->file);
		s->file = NULL;
	}
}

/* A zeroed spool is fine. */
void
spool_release(struct spool *s)
{
	str_release(&s->tail);
	if (s->file)
		fclose(s->file);
	memset(s, 0, sizeof *s);
}
