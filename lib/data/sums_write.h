/*
 * sums_write.h - making PREFIX.sum (sums.h) while a .bin is written from its start to its end
 */
#ifndef DATA_SUMS_WRITE_H
#define DATA_SUMS_WRITE_H

#include "lib/base/outfile.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of a block; the last one may have fewer. Fixed, so that the sums of two files of the same
 * bytes are the same. */
enum { SUMS_BLOCK = 1 << 20, SUMS_VERSION = 1, SUMS_HEADER = 48 };
extern const char sums_magic[8];

struct sums_writer {
	FILE *file;               /* u64 of each whole block; the caller's */
	struct hash_stream *open; /* of the last block */
	size_t held;              /* its bytes so far, fewer than a block */
};
/* file: empty, or the sums of the whole blocks before `bin_bytes`; the rest is read from bin. */
int sums_begin(struct sums_writer *w, FILE *file, int bin, uint64_t bin_bytes, struct err *e);
/* The next bytes. Errors of the file show when it is flushed. */
void sums_add(struct sums_writer *w, const void *bytes, size_t len);
/* Opens the file of this path and writes PREFIX.sum to it; the caller commits or finishes it.
 * index: XXH3-64 of the .idx. Once; sums_abort frees w. */
int sums_write(
    struct sums_writer *w, struct outfile *out, const char *path, uint64_t index, struct err *e);
void sums_abort(struct sums_writer *w);

#endif
