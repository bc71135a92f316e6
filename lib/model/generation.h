/*
 * generation.h - the plan and the memory of a run that generates text
 *
 * A pass over new positions reads the keys and values of all before, which are kept for the run.
 * Prompts of a batch end at the same position, so that what is before the shorter ones is hidden
 * from them as another document. They go through the model some positions at a time, and then one
 * position of each prompt: the same buffers within a pass, of other sizes.
 */
#ifndef MODEL_GENERATION_H
#define MODEL_GENERATION_H

#include "lib/model/memory.h"
#include "lib/model/options.h"

/* What a generation is to have room for. */
struct generation {
	int64_t batch;       /* prompts at once */
	int64_t prompt, new; /* tokens: of the longest prompt, and the most that follow one */
	bool keeps;          /* keys and values; false: each pass is over all positions */
};

/* The plan of passes over prompts, from that of the run. */
struct run_plan generation_plan(const struct run_plan *p, const struct generation *g);
/* Positions of a batch that are passed before the first new one, for a longest prompt of so many
 * tokens: a whole number of passes. */
int64_t generation_prompt(const struct run_plan *p, int64_t tokens);
/* The plan of a pass over one position of each sample, from that of passes over prompts; and its
 * memory, in that of the other plan. */
struct run_plan generation_decoding(const struct run_plan *p);
void generation_memory(struct memory_plan *m, const struct run_plan *p,
    const struct memory_plan *prompts, const int coord[AX_COUNT]);

#endif
