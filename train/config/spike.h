/*
 * spike.h - losses that stand out from those before them, and the steps that are passed over
 * because of them
 *
 * A spike is a loss above `factor` times the median of the last `history` losses, or one that is
 * not a number. Its own batch and those of the history are blamed, so once the run has gone back,
 * the steps from `history` before the spike to the spike itself are passed over. The median, not
 * the mean, because a spike that the run goes through must not raise the limit for the next. All of
 * it follows from the losses alone, which are the same on all ranks.
 */
#ifndef TRAIN_CONFIG_SPIKE_H
#define TRAIN_CONFIG_SPIKE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { SPIKE_HISTORY_MAX = 1000, SPIKE_TIMES_MAX = 100 };

/* --rewind-on-spike. times: how often a run goes back at most. history 0: never. */
struct spike_rule {
	double factor;
	int64_t history, times;
};

/* Iterations, counted from 1, both ends included. */
struct spike_range {
	int64_t first, last;
};

/* What a run remembers, and its checkpoints record. Zero: nothing yet. */
struct spike_record {
	int num_losses;
	double loss[SPIKE_HISTORY_MAX]; /* of the last steps that were taken, the oldest first */
	int num_rewinds;
	struct spike_range passed[SPIKE_TIMES_MAX]; /* over, by each rewind */
};

/* A step that was found to be a spike. endured: the run goes through it. */
struct spike {
	int64_t iteration;
	double loss, median;
	bool endured;
};

/* FACTOR:WINDOW[:TIMES]. -1 with the rule that `text` breaks. */
int spike_parse(const char *text, struct spike_rule *out, struct err *e);
/* The median with which the next loss is compared; NAN until the history is full. */
double spike_median(const struct spike_record *r, const struct spike_rule *rule);
/* True when the loss is a spike after those of the record. */
bool spike_is(const struct spike_record *r, const struct spike_rule *rule, double loss);
/* Records the loss of a step that was taken. */
void spike_keep(struct spike_record *r, const struct spike_rule *rule, double loss);
/* Records a rewind because of this iteration; there were fewer than SPIKE_TIMES_MAX so far. Returns
 * the iterations that are passed over from now on. */
struct spike_range spike_rewind(
    struct spike_record *r, const struct spike_rule *rule, int64_t iteration);
/* True when a rewind passes over this iteration. */
bool spike_passes(const struct spike_record *r, int64_t iteration);

/* The record as two texts for state.conf, empty where there is nothing, and back. NULL reads as
 * empty; -1 when a text is damaged, with its name in e. Doubles are exact. */
void spike_print(const struct spike_record *r, struct str *losses, struct str *passed);
int spike_read(struct spike_record *r, const char *losses, const char *passed, struct err *e);

#endif
