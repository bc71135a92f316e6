/*
 * model.h - one micro batch through the layers of a stage
 */
#ifndef TRAIN_ENGINE_MODEL_H
#define TRAIN_ENGINE_MODEL_H

#include "train/engine/engine.h"

void step_load(struct step *s, const struct batch *b);
/* The stage's input is in step_input (received there), its output in step_output. */
struct tensor step_input(const struct step *s);
struct tensor step_output(const struct step *s);
void step_forward(struct step *s);
/* The gradient of the stage's output is in BUF_DX before, that of its input after. The last stage
 * starts from its loss. */
void step_backward(struct step *s);

#endif
