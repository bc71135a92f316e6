/*
 * dataset_repair.h - what can be put right of a damaged pair of .idx and .bin
 *
 * The lengths are believed and everything else follows from them: offsets are their running sum; a
 * document index that stops early, was merged without being shifted, or is none, is completed,
 * shifted or made anew with a document a sequence; a .bin that is too long is cut, and of one that
 * is too short the documents that are not whole are dropped from the end. A file whose header or
 * lengths are damaged cannot be repaired.
 */
#ifndef DATA_DATASET_REPAIR_H
#define DATA_DATASET_REPAIR_H

#include "lib/base/str.h"
#include "lib/data/dataset.h"

struct dataset_repair;

/* Adds a line to `found` for each thing that is wrong, and says what is done about it; none: the
 * dataset is sound. NULL with the reason when it cannot be put right. Takes 8 bytes of memory a
 * document. */
struct dataset_repair *dataset_repair_open(const char *prefix, struct str *found, struct err *e);
/* Writes the repaired dataset; output NULL: in place, where the index is replaced before the .bin
 * is cut, so that an interruption leaves what can be repaired again. notes: the text of
 * PREFIX.json, or NULL: none is written. */
int dataset_repair_save(
    struct dataset_repair *r, const char *output, const char *notes, struct err *e);
struct dataset_counts dataset_repair_counts(const struct dataset_repair *r); /* of what is saved */
void dataset_repair_close(struct dataset_repair *r);
int64_t dataset_repair_bin_bytes(const struct dataset_repair *r); /* of the damaged .bin */

#endif
