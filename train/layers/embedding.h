/*
 * embedding.h - rows of the tables of word embeddings and of positions
 */
#ifndef TRAIN_LAYERS_EMBEDDING_H
#define TRAIN_LAYERS_EMBEDDING_H

#include "train/layers/layer.h"

/* y act [R,h] = the own rows of the embeddings of ids I32 [T], summed over tensor ranks and
 * multiplied as the model says. */
void words_forward(struct step *s, const struct tensor *ids, const struct tensor *y);
/* Adds dy [T,h], the gradient of all rows, to the gradient of the table; the first of a pass writes
 * it unless s->accumulate. */
void words_backward(struct step *s, const struct tensor *ids, const struct tensor *dy, bool first);

/* Adds the own rows of the learned positions ids I32 [T] to y; and dy to the gradient of their
 * table, as above. Nothing where the model has none. */
void places_forward(struct step *s, const struct tensor *ids, const struct tensor *y);
void places_backward(struct step *s, const struct tensor *ids, const struct tensor *dy, bool first);

#endif
