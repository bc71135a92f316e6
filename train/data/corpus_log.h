/* corpus_log.h - what the corpora have given so far, and their losses */
#ifndef TRAIN_DATA_CORPUS_LOG_H
#define TRAIN_DATA_CORPUS_LOG_H

#include "train/data/data.h"
#include "train/report/metrics.h"

/* Training's counts by corpus while the run continues: consumed samples, and with
 * --log-loss-by-corpus the loss. */
struct corpus_log;
/* Collective over the world. NULL with a reason when rank 0 cannot read what the checkpoint says.
 */
struct corpus_log *corpus_log_open(
    const struct data *d, struct engine *e, int64_t consumed, struct err *err);
void corpus_log_close(struct corpus_log *l);
/* Samples consumed of each corpus of training in its present order; valid only on rank 0. NULL:
 * mock data. */
const int64_t *corpus_log_counts(const struct corpus_log *l);
/* The tokens of each that counted in steps that were taken, up to the last corpus_log_gather; -1:
 * not known. Valid only on rank 0. NULL: mock data. */
const int64_t *corpus_log_trained(const struct corpus_log *l);
/* Collective over the world where a token may not count: adds up what the ranks have counted. */
void corpus_log_gather(struct corpus_log *l);
/* A micro batch of training was read for the step that begins at sample `first`. */
void corpus_log_batch(
    struct corpus_log *l, int64_t first, int microbatch, const struct batch *batch);
/* Where the passes leave losses and masks of tokens, for struct pipeline; NULL when they are not
 * wanted. */
void *corpus_log_losses(const struct corpus_log *l);
/* A step that began at sample `first` was taken; its losses have arrived. skipped: its losses do
 * not count. */
void corpus_log_step(struct corpus_log *l, int64_t first, bool skipped);
/* At log steps, collective over the world when losses are asked for, or a token may not count: a
 * line of the metrics (rank 0's; m NULL elsewhere) after `consumed` samples. */
void corpus_log_write(struct corpus_log *l, struct metrics *m, int64_t iteration, int64_t consumed);

#endif
