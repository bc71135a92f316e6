/* rotate.h - rotary positions of a layer */
#ifndef TRAIN_LAYERS_ROTATE_H
#define TRAIN_LAYERS_ROTATE_H

#include "train/layers/layer.h"

/* Rotates r->x, whose table, positions and number of elements are the model's. Nothing to do for
 * learned positions, and in layers without any. */
void rotate_heads(const struct layer *l, struct step *s, struct rope *r);

#endif
