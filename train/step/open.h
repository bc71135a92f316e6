/*
 * open.h - the beginning and the end of an engine
 */
#ifndef TRAIN_STEP_OPEN_H
#define TRAIN_STEP_OPEN_H

#include "train/engine/engine.h"

struct engine_config {
	const struct run_plan *plan;
	const struct backend *backend;
	int num_threads;
	uint64_t seed;
	double z_loss;
	bool deterministic;
	enum attention_choice attention;
	/* overlap the reduction of gradients with the last backward pass, and the gather of weights
	 * with the next forward pass */
	bool overlap_grad_reduce, overlap_param_gather;
};

/* As uses_check, of the blocks that the model has. */
int engine_check_uses(const struct model_config *c, const struct backend *b, struct err *e);
/* Allocates the memory, makes the communicators and builds the list of layers. The plan must be for
 * world->size ranks. */
int engine_open(
    struct engine *e, const struct engine_config *c, struct comm *world, struct err *err);
/* Makes the tables of angles those of sequences of this length, as engine_open makes them those of
 * the plan's. */
void engine_set_length(struct engine *e, int64_t length);
void engine_close(struct engine *e);

#endif
