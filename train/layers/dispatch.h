/*
 * dispatch.h - rows between the ranks that have them and those of their experts
 *
 * Of a rank's R rows each goes to its k experts, of each to the n ranks that share it; the rank's
 * own experts take P rows, in the order of experts, then of ranks, then of rows. The choice must
 * have been made (BUF_PLACE, BUF_EXPERT_ROWS). Collective over the ranks that hold the experts once
 * together.
 */
#ifndef TRAIN_LAYERS_DISPATCH_H
#define TRAIN_LAYERS_DISPATCH_H

#include "train/layers/layer.h"

/* All ranks' counts into BUF_EXPERT_ROWS, of which each has its own row. */
void dispatch_counts(const struct layer *l, struct step *s);
/* y act [P,h] = x [R,h] where its experts are. */
void dispatch_rows(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x);
/* y act [R,h] = the sums of the k rows of each in x [P,h], or y += them. */
struct dispatch {
	struct tensor y, x;
	bool accumulate;
};
void dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d);
/* Numbers of the choice: y real [P,1] = x [R,k], and back. */
void dispatch_weights(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x);
void dispatch_weights_back(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x);

#endif
