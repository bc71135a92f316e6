/*
 * disk.h - a model of a file system that forgets what was not synced
 *
 * A file is what its last fsync left and the writes after it; a directory likewise, with names for
 * writes. After a crash any subset of what came after is there, in any combination: a write may
 * also have left zeroes where its bytes should be. A rename is one change: both names or none.
 * Names are lost or kept whatever became of the files that they name.
 */
#ifndef FAULTS_DISK_H
#define FAULTS_DISK_H

#include "tests/faults/oplog.h"

#include <stdint.h>

struct disk;

/* An empty one. It points into the log whose records it takes. */
struct disk *disk_new(void);
void disk_free(struct disk *d);
/* Does what a record says. True when it changes anything that a crash may show. -1 with a reason
 * for what cannot be. */
int disk_take(struct disk *d, const struct oplog_record *r, struct err *e);
/* What a crash leaves: 0 loses all that was not synced, 4 keeps all, 1 to 3 something between,
 * drawn from the seed. */
enum { DISK_LOSSES = 5 };
/* Writes what a crash leaves into the directory, which is there and empty. */
int disk_crash(const struct disk *d, int keep, uint64_t seed, const char *dir, struct err *e);

#endif
