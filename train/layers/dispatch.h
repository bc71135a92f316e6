/*
 * dispatch.h - rows between the ranks that have them and those of their experts
 *
 * Of a rank's R rows each goes to its k experts, of each to the n ranks that share it: R k n rows
 * in the order of experts. The rank's own experts take rows in the order of experts, then of ranks,
 * then of rows, in rounds of P (train/ops.h). The experts must have been chosen (MOE_PERMUTATION,
 * MOE_EXPERT_ROWS). Collective over the ranks that hold the experts once together.
 */
#ifndef TRAIN_LAYERS_DISPATCH_H
#define TRAIN_LAYERS_DISPATCH_H

#include "train/layers/layer.h"

/* All ranks' counts into MOE_EXPERT_ROWS, of which each has its own row. */
void dispatch_counts(const struct layer *l, struct step *s);
/* Of these, the rows of each of the rank's experts from each rank: I32 [ranks,E_l]. */
struct tensor dispatch_received(const struct layer *l, const struct step *s);

/* Where the R k rows lie of which a round is taken: in b, or in the round itself where the rank
 * has all experts and they are the same. */
struct tensor dispatch_rows(const struct step *s, int b, const struct tensor *taken);
/* rows [R k,h] = those of x [R,h] for each of their experts; or [R k,1] of x real [R,k], numbers of
 * the top-k indices. */
void dispatch_permute(
    const struct layer *l, struct step *s, const struct tensor *rows, const struct tensor *x);
/* y = the sums over the experts of each row, or y += them; or numbers of the top-k indices. */
struct dispatch_sum {
	struct tensor y, rows;
	bool accumulate;
};
void dispatch_sum(const struct layer *l, struct step *s, const struct dispatch_sum *d);

/* taken = the round from `first` of what the ranks have in rows; and back: what the round brings
 * takes its place in rows. */
struct dispatch {
	struct tensor rows, taken;
	int64_t first;
};
void dispatch_send(const struct layer *l, struct step *s, const struct dispatch *d);
void dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d);

#endif
