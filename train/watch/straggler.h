/*
 * straggler.h - which ranks the others wait for
 *
 * A rank's time of computing, without its waits for others, tells the slow rank from those that it
 * holds up: the steps of all take equally long.
 */
#ifndef TRAIN_WATCH_STRAGGLER_H
#define TRAIN_WATCH_STRAGGLER_H

#include "lib/base/str.h"

/* The figures of a rank; NAN: not known. */
struct straggler {
	double work, batch; /* milliseconds of a step computed, and waited for batches */
	double watts, celsius, megahertz;
	double tflops; /* the work of the model while it computed */
};

/* Appends the lines of Megatron-LM's --log-straggler, without a newline at their end: the least and
 * most of each figure that all ranks know, with the rank; then, where count is above 1 and below
 * ranks, as many of the slowest and the fastest in order. of: [ranks]; all know their tflops. */
void straggler_text(const struct straggler *of, int ranks, int count, struct str *out);

#endif
