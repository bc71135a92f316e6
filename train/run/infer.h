/* infer.h - runs without training: --tokens-file and --generate */
#ifndef TRAIN_RUN_INFER_H
#define TRAIN_RUN_INFER_H

#include "train/engine/engine.h"
#include "train/run/requests.h"

/* Collective. What such a run reads, and its plan; nothing of others. The requests of --generate
 * are released by the caller. Returns an exit status, with the reason where it is none of success;
 * world NULL: of this process alone. */
int infer_plan(struct train_config *c, struct comm *world, struct requests *r, struct err *err);
/* The same plan for --dry-run, where the prompts may not be there. */
int infer_planned(struct train_config *c, struct err *err);
/* Collective. The plan is that of infer_plan. 0, -1 with a reason, or EXIT_NUMERICAL on all ranks,
 * reported by rank 0, when the logits are not finite. */
int infer_logits(struct engine *e, const struct train_config *c, struct err *err);

#endif
