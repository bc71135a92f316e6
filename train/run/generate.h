/* generate.h - text that follows prompts: --generate */
#ifndef TRAIN_RUN_GENERATE_H
#define TRAIN_RUN_GENERATE_H

#include "train/engine/engine.h"
#include "train/run/requests.h"

/* The plan of a run that continues so many prompts of these lengths. -1 where it cannot. */
int generate_plan(struct train_config *c, const struct request_lengths *l, struct err *err);
/* Collective. Chooses tokens on so many threads, and prints on rank 0. 0, -1 with a reason, or on
 * all ranks an exit status that rank 0 has reported: logits were not finite, or a prompt was
 * wrong. */
int generate(struct engine *e, struct requests *r, int num_threads, struct err *err);

#endif
