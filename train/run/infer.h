/* infer.h - forward passes without training: --tokens-file and --generate */
#ifndef TRAIN_RUN_INFER_H
#define TRAIN_RUN_INFER_H

#include "train/config/train_config.h"
#include "train/engine/engine.h"

/* Collective. The plan's sequence length is that of infer_seq_length, its micro batch 1. 0, -1 with
 * a reason, or EXIT_NUMERICAL on all ranks, reported by rank 0, when the logits are not finite. */
int infer_logits(struct engine *e, const struct train_config *c, struct err *err);
int infer_generate(struct engine *e, const struct train_config *c, struct err *err);
/* Sequence length of the pass that the options ask for; 0: none. */
int64_t infer_seq_length(const struct train_config *c, struct err *err);

#endif
