/* deal.h - the rows of samples that a rank has, in the layers' order */
#ifndef TRAIN_DATA_DEAL_H
#define TRAIN_DATA_DEAL_H

#include "lib/data/samples.h"
#include "train/engine/engine.h"

/* A micro batch of so many samples, on a context rank. */
struct deal {
	const struct run_plan *plan;
	int64_t samples;
	int context;
};

/* Copies the part of sample i that the context rank holds to its rows of a batch, and the starts of
 * its documents, or of those of the whole sample if attention reads all of it. Returns the weight
 * of the tokens that the loss counts. */
double deal_sample(
    const struct deal *d, const struct sample *one, int64_t i, const struct batch *out);
/* Copies the labels of later tokens and their weights, where the batch has them: a token that the
 * next document or sample has is none. */
void deal_later(const struct deal *d, const struct sample *one, int64_t i, const struct batch *out);
/* A sample without any token that counts from row `first` on, which is one document: for the places
 * after the last sample, and the end of one. */
void deal_padding(struct sample *one, int64_t first, int64_t seq_length);

#endif
