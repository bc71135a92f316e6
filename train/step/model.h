/*
 * model.h - one micro batch through the layers of a stage
 */
#ifndef TRAIN_STEP_MODEL_H
#define TRAIN_STEP_MODEL_H

#include "train/engine/engine.h"

void step_load(struct step *s, const struct batch *b);
/* The chunk's input; and its output, or the gradient that its backward pass updates in place. */
struct tensor step_input(const struct step *s);
struct tensor step_stage_output(const struct step *s);
/* Queues a segment of a pass. A forward pass reads its input, which must have been loaded or
 * received. Before a backward pass the stage output holds the gradient of the output, after it that
 * of the input; the head starts from its loss. Accumulates main gradients. Collective over the
 * tensor group. */
void step_segment(struct step *s, const struct pass_items *of, const struct segment *segment);

#endif
