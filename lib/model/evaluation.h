/*
 * evaluation.h - the plan and the memory of evaluations: micro batches of another size, in the
 * memory of the run
 *
 * An evaluation comes between steps, when activations and scratch hold nothing, so it gives these
 * arenas another layout; weights and all else of the run stay where they are. The arenas are as
 * large as the larger of the two asks for.
 */
#ifndef MODEL_EVALUATION_H
#define MODEL_EVALUATION_H

#include "lib/model/memory.h"
#include "lib/model/options.h"

/* Samples of a micro batch of an evaluation. */
int64_t evaluation_micro_batch(const struct run_plan *p);
/* The plan with its micro batches and their number in a batch. */
struct run_plan evaluation_plan(const struct run_plan *p);
/* The plan of a run as its evaluations of tasks take it: samples hold several requests, which see
 * themselves alone, and the head tells the likeliest token too. */
struct run_plan evaluation_tasks(const struct run_plan *p);
/* The memory plan of an evaluation at coord; the buffers of the run lie as in training's. */
void evaluation_memory(struct memory_plan *m, const struct run_plan *p, const int coord[AX_COUNT]);
/* The memory plan of the run at coord: training's, in arenas that evaluations fit into too. */
void run_memory(struct memory_plan *m, const struct run_plan *p, const int coord[AX_COUNT]);
/* The memory plan of the first rank of a stage, with room for evaluations; x is of the plan, and
 * must outlive m. */
void run_memory_stage(
    struct memory_plan *m, struct memory_stages *x, const struct run_plan *p, int stage);

#endif
