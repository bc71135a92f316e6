/*
 * sums.h - PREFIX.sum: the checksums of a .bin, block by block, and the fingerprint of a dataset
 *
 * A .bin is a row of integers without any redundancy: one that was damaged, or replaced by another
 * of its length, is as valid as before. The sums tell, and tell where; all of them can be compared
 * while a run trains, and a few of them at once. They belong to one index, whose checksum they
 * hold. Datasets of other programs have none until mshard verify --seal makes them.
 */
#ifndef DATA_SUMS_H
#define DATA_SUMS_H

#include "lib/data/dataset.h"
#include "lib/data/sums_write.h"

#include <stdbool.h>

enum { SUMS_FINGERPRINT = 64 };

struct sums;

/* Reads PREFIX.sum of an open dataset whose index has this XXH3-64: 1 with *s, 0 when there is no
 * such file, -1 when it is damaged or belongs to another index or another size of the .bin. */
int sums_open(struct sums **s, const struct dataset *d, uint64_t index, struct err *e);
void sums_close(struct sums *s); /* NULL is allowed */
/* The same from bytes, which the sums borrow; path is for messages. NULL: damaged. */
struct sums *sums_parse(const char *path, const void *bytes, uint64_t size, struct err *e);
int64_t sums_count(uint64_t bin_bytes); /* blocks of a .bin */
/* 0 when the checksum of a block is the recorded one; -1 with a line that names file and block when
 * it is not, or when the block cannot be read. room: SUMS_BLOCK bytes. */
int sums_compare(const struct sums *s, int64_t block, uint64_t sum, struct err *e);
int sums_check(
    const struct sums *s, const struct dataset *d, int64_t block, void *room, struct err *e);

/*
 * What identifies the contents of a dataset, as text:
 *
 *   INDEX-BYTES-SAMPLE[-SUMS]
 *
 * the XXH3-64 of the .idx, the size of the .bin, 32 bits over the checksums of a few blocks that
 * the index alone decides on, and, where there is a PREFIX.sum, its own checksum. Checkpoints of
 * earlier versions have the first two.
 */
/* s NULL: without sums. Reads the blocks of the sample, and compares them with the sums. */
int sums_fingerprint(const struct dataset *d, uint64_t index, const struct sums *s,
    char out[SUMS_FINGERPRINT], struct err *e);
/* True when two fingerprints agree in all parts that both have. */
bool sums_same(const char *a, const char *b);

/* After the .bin was cut to this many bytes and the .idx replaced: PREFIX.sum keeps the sums of the
 * whole blocks, and gets that of the last one. It is removed where it does not cover the bytes. An
 * error when the lock of the dataset is lost before its name changes. */
int sums_cut(const char *prefix, uint64_t bin_bytes, struct lock *lock, struct err *e);

#endif
