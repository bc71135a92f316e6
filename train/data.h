/*
 * data.h - the batches of a run: a pure function of (seed, consumed samples)
 *
 * Sample number C0 + m (b D) + j b + i of a split is sample i of micro batch m on data rank j of
 * the step that starts at C0, so the data does not depend on the layout. All tensor and pipeline
 * ranks of one data rank read the same samples. Index maps are built by rank 0 and mapped by the
 * others. Blends of datasets will stand between this file and samples.h.
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include "lib/format/samples.h"
#include "train/config.h"
#include "train/engine.h"

struct data;

/* Collective. Opens what the run needs; prints the size of each split on rank 0. Fails on all
 * ranks; rank 0 has the reason. */
struct data *data_open(const struct train_config *c, struct comm *world, struct err *e);
void    data_close(struct data *d);
/* Samples there are in a split; 0: the split is absent. */
int64_t data_count(const struct data *d, enum split which);
/*
 * The micro batch of samples [first, first + b) of a split, into the caller's arrays. Returns its
 * unmasked tokens, or -1 with a reason that names dataset and document when a token is no part of the
 * vocabulary. From any thread.
 */
int64_t data_batch(
    const struct data *d, enum split which, int64_t first, const struct batch *out, struct err *e);
/* What a checkpoint records of the data, one line without newline. */
const char *data_fingerprint(const struct data *d);

#endif
