/*
 * qk_clip.h - q and k shrink where the scores of attention have become too large
 */
#ifndef TRAIN_OPTIM_QK_CLIP_H
#define TRAIN_OPTIM_QK_CLIP_H

#include "lib/model/optim_options.h"
#include "train/engine/engine.h"

/* [layers][groups] of the model, also of those after the head, the largest scores of the step,
 * equal on every rank; the caller frees it. NULL where scores are not kept. Waits for the device;
 * collective over the world. */
double *qk_clip_scores(struct engine *e);
/* Shrinks an own part of a bucket: masters, and the weights where those are apart. Nothing without
 * scores. Queued where the part is updated, on the device or by the host. */
void qk_clip_part(struct engine *e, const struct qk_clip *c, const double *scores, int bucket,
    const struct part *within);

#endif
