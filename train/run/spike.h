/*
 * spike.h - losses that stand out from those before them, and the steps that are passed over for
 * them
 *
 * A spike is a loss above `factor` times the median of the last `window` losses, or one that is not
 * a number. It is put down to its own batch and to the window's, so the steps from `window` before
 * it to itself are passed over when the run has gone back before them. The median, not the mean,
 * because a spike that the run goes on through must not raise the limit for the next. All of it
 * follows from the losses alone, which all ranks have alike.
 */
#ifndef TRAIN_RUN_SPIKE_H
#define TRAIN_RUN_SPIKE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPIKE_WINDOW_MAX = 1000, SPIKE_TIMES_MAX = 100 };

/* --rewind-on-spike. times: how often a run goes back at most. window 0: never. */
struct spike_rule {
	double factor;
	int64_t window, times;
};

/* Iterations, counted from 1; both ends are in it. */
struct spike_range {
	int64_t first, last;
};

/* What a run remembers, and its checkpoints record. Zero: nothing yet. */
struct spike_record {
	int num_losses;
	double loss[SPIKE_WINDOW_MAX]; /* of the last steps that were taken, the oldest first */
	int num_rewinds;
	struct spike_range passed[SPIKE_TIMES_MAX]; /* over, by each rewind */
};

/* One that a step was found to be. endured: the run goes through it. */
struct spike {
	int64_t iteration;
	double loss, median;
	bool endured;
};

/* FACTOR:WINDOW[:TIMES]. -1 with the rule that the text breaks. */
int spike_parse(const char *text, struct spike_rule *out, struct err *e);
/* The median that the next loss is compared with; NAN while there is no window full of losses. */
double spike_median(const struct spike_record *r, const struct spike_rule *rule);
/* True when the loss is a spike after those of the record. */
bool spike_is(const struct spike_record *r, const struct spike_rule *rule, double loss);
/* A step was taken with this loss. */
void spike_keep(struct spike_record *r, const struct spike_rule *rule, double loss);
/* A rewind because of the iteration, of which there are fewer than SPIKE_TIMES_MAX so far. Returns
 * the iterations that are passed over from now on. */
struct spike_range spike_rewind(
    struct spike_record *r, const struct spike_rule *rule, int64_t iteration);
/* Whether a rewind passes over this iteration. */
bool spike_passes(const struct spike_record *r, int64_t iteration);

/* The record in two texts, as state.conf keeps it, empty where there is nothing; and back, where
 * NULL is empty: -1 when a text is damaged, with its name in e. Doubles are exact. */
void spike_print(const struct spike_record *r, struct str *losses, struct str *passed);
int spike_read(struct spike_record *r, const char *losses, const char *passed, struct err *e);

#endif
