/*
 * prefetch.h - micro batches that a separate thread reads in advance
 *
 * The order in which a run asks for micro batches is known: those of a step one after the other,
 * then those of the next; and, apart from these, that of an evaluation, from its first batch to its
 * last and from the first again. A thread reads both ahead, so that neither a slow disk nor the
 * making of batches is waited for, and no step waits because an evaluation came before it. Batches
 * that were given out stay as they are until the device has copied them, which the caller says by
 * prefetch_passed.
 */
#ifndef TRAIN_DATA_PREFETCH_H
#define TRAIN_DATA_PREFETCH_H

#include "train/data/data.h"

struct prefetch;

/* A micro batch: number `microbatch` of this data rank in the step that starts at sample `step` of
 * a set (data.h). */
struct prefetch_key {
	int set;
	int64_t step;
	int microbatch;
};

/* How many batches were read, how often the run had to wait for one, and how long in all. */
struct prefetch_stats {
	int64_t reads, waits;
	double seconds;
};

/* Of micro batches, the weight of the tokens that the loss counts, and of those that each of the
 * layers after the head predicts. */
struct token_weights {
	double next, later[MODEL_MTP_MAX];
	int64_t layers;
};

/* Data and engine outlive it. steps: there is room for a whole step, as prefetch_tokens needs. */
struct prefetch *prefetch_new(const struct engine *e, const struct data *d, bool steps);
void prefetch_free(struct prefetch *p);
/* Starts reading: training from the step after `consumed` samples, and the first evaluation from
 * its start. */
void prefetch_start(struct prefetch *p, int64_t consumed);
/* Like data_batch; after a failure the batch is valid too, without a token that counts. A request
 * for another micro batch than the next of its kind (training, evaluation) restarts reading from
 * it. */
double prefetch_batch(
    struct prefetch *p, struct prefetch_key k, struct batch *out, struct err *err);
/* Waits until the next `count` micro batches of training, from k on, are read, of which none may be
 * with the device; *w: the weights of their tokens, as data_batch returns them. */
void prefetch_tokens(struct prefetch *p, struct prefetch_key k, int count, struct token_weights *w);
/* The device has passed all copies of batches that were given out: they may be filled again. */
void prefetch_passed(struct prefetch *p);
struct prefetch_stats prefetch_stats(struct prefetch *p);

#endif
