/*
 * spool.h - tokens that wait for their turn to be written: in memory, and when there are many the
 * first in a file
 *
 * A document may have more bytes of tokens than its line has of text, and a batch that is done
 * waits for those before it.
 */
#ifndef TOK_SPOOL_H
#define TOK_SPOOL_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdint.h>
#include <stdio.h>

/* Zero-initialise, spool_release. */
struct spool {
	struct str tail; /* the last bytes; after appending, call spool_store now and then */
	uint64_t stored; /* bytes before them, in the file */
	FILE *file;      /* without a name; NULL: not needed yet */
};

/* Moves a tail of some megabytes to the file, which is made beside a dataset's prefix. */
int spool_store(struct spool *s, const char *prefix, struct err *e);
uint64_t spool_bytes(const struct spool *s);
/* Keeps the first `bytes` bytes; excess memory is freed. */
void spool_cut(struct spool *s, uint64_t bytes);
void spool_release(struct spool *s);

#endif
