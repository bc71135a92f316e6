/*
 * attention.h - what a step asks of attention beside its passes
 */
#ifndef TRAIN_LAYERS_ATTENTION_H
#define TRAIN_LAYERS_ATTENTION_H

#include "train/layers/layer.h"

/* The largest scores of the micro batch, by head, join those in the layer's row of BUF_SCORES;
 * after the forward pass, while its slot is held. */
void attention_measure(const struct layer *l, struct step *s);

#endif
