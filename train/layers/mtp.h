/*
 * mtp.h - the labels of the heads
 */
#ifndef TRAIN_LAYERS_MTP_H
#define TRAIN_LAYERS_MTP_H

#include "train/engine/engine.h"

/* I32 [T] and F32 [T]: the labels of head `number`, 0 being that of the next token, and what their
 * losses are multiplied by. */
struct tensor later_labels(const struct step *s, int number);
struct tensor later_mask(const struct step *s, int number);

#endif
