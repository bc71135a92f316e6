/* plan.h - what happens to a seed: its pace and its faults */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include "tests/sim/faults.h"
#include "tests/sim/scene.h"

/* What a seed's faults are drawn from: the spots of a run that begins with nothing, and of one that
 * continues (none of tools), and how many calls the first makes. */
struct seen {
	long yields;            /* of all ranks */
	long calls[CALL_COUNT]; /* of rank 0 */
	struct spots whole, rest;
};

/* How long calls and messages take, and where threads pause. */
void plan_pace(void);
/* Draws faults; half: the run continues one. s stays as long as they do. */
void plan_faults(const struct layout *x, const struct seen *s, bool half, struct faults *f);
/* The layout and the faults, in words. */
void plan_words(const struct layout *x, const struct faults *f, char *out, size_t cap);

#endif
