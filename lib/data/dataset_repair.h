/*
 * dataset_repair.h - repairing a damaged pair of .idx and .bin
 *
 * The lengths are trusted and everything else follows from them: offsets are their running sum; a
 * document index that ends early is completed, one that was merged without a shift is shifted, and
 * an invalid one is rebuilt with one document per sequence; a .bin that is too long is truncated,
 * and one that is too short loses the incomplete documents at its end. A file whose header or
 * lengths are damaged cannot be repaired.
 */
#ifndef DATA_DATASET_REPAIR_H
#define DATA_DATASET_REPAIR_H

#include "lib/base/str.h"
#include "lib/data/dataset.h"

struct dataset_repair;

/* Adds a line to `found` for each fault and its repair; no line: the dataset is sound. NULL with
 * the reason when it cannot be repaired. Takes 8 bytes of memory per document. */
struct dataset_repair *dataset_repair_open(const char *prefix, struct str *found, struct err *e);
/* A mask is repaired with its tokens, only into an output. */
bool dataset_repair_has_mask(const struct dataset_repair *r);
/* output NULL: in place, where the index is replaced before the .bin is truncated, so that an
 * interrupted repair can be repeated. notes: the text of PREFIX.json, or NULL: not written. lock
 * and replace: as of dataset_writer_guard. */
struct repair_target {
	const char *output, *notes;
	struct lock *lock;
	bool replace;
};
/* Writes the repaired dataset. */
int dataset_repair_save(struct dataset_repair *r, const struct repair_target *to, struct err *e);
struct dataset_counts dataset_repair_counts(const struct dataset_repair *r); /* of what is saved */
void dataset_repair_close(struct dataset_repair *r);
int64_t dataset_repair_bin_bytes(const struct dataset_repair *r); /* of the damaged .bin */

#endif
