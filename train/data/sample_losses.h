/* sample_losses.h - a file with the loss of every sample of training: --sample-losses */
#ifndef TRAIN_DATA_SAMPLE_LOSSES_H
#define TRAIN_DATA_SAMPLE_LOSSES_H

#include "train/data/data.h"

/* Opens the file on rank 0, without the rows after `iteration`. NULL where the option is not given;
 * rank 0 ends the run when the file cannot be written, here and below. */
struct sample_losses;
struct sample_losses *sample_losses_open(const struct data *d, struct engine *e, int64_t iteration);
void sample_losses_close(struct sample_losses *l); /* NULL is allowed, here and below */
/* Collective: adds a row for each sample of the step that began at sample `first`, if its iteration
 * is one of those that are written. losses: what the passes left, as corpus_log_losses gives it. */
void sample_losses_step(
    struct sample_losses *l, const void *losses, int64_t iteration, int64_t first);

#endif
