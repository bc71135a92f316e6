/*
 * save.h - checkpoints of a run: written by all ranks, read under any layout
 *
 * A parameter X is stored as its master (the weight itself when that is fp32 or fp64), its moments
 * as X.exp_avg and X.exp_avg_sq. Every rank writes what its optimizer owns; without the distributed
 * optimizer the data ranks share the writing in the same way. Reading asks for the boxes that this
 * rank holds, whoever wrote them.
 */
#ifndef TRAIN_SAVE_H
#define TRAIN_SAVE_H

#include "train/config.h"
#include "train/engine.h"

/* What a run remembers beside its tensors. */
struct progress {
	int64_t iteration, consumed_samples, optimizer_steps, skipped;
};

/* Collective. On failure every rank gets -1; the reason is rank 0's to say, the previous checkpoint
 * is intact. */
int save_checkpoint(struct engine *e, const struct train_config *c, const struct progress *p,
    const char *fingerprint, struct err *err);
/*
 * Loads weights, and with START_RESUME optimizer state, progress, loss scale and schedule, from
 * c->weights_from: a checkpoint or (weights alone) a Hugging Face directory.
 */
int load_checkpoint(struct engine *e, struct train_config *c, struct progress *p,
    const char *fingerprint, struct err *err);

#endif
