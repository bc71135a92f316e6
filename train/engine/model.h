/*
 * model.h - one micro batch through the layers of a stage
 */
#ifndef TRAIN_ENGINE_MODEL_H
#define TRAIN_ENGINE_MODEL_H

#include "train/engine/engine.h"

void step_load(struct step *s, const struct batch *b);
/* The chunk's input; and its output, or the gradient that its backward pass updates in place. */
struct tensor step_input(const struct step *s);
struct tensor step_link(const struct step *s);
void step_forward(struct step *s);
/* The link holds the gradient of the output before the call, and that of the input after it. The
 * head starts from its loss. */
void step_backward(struct step *s);

#endif
