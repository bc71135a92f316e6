/*
 * dispatch.h - rows between the ranks that have them and those of their experts
 *
 * Of a rank's R rows each goes to its k experts, of each to the n ranks that share it: R k n rows
 * in the order of experts. The rank's own experts take rows in the order of experts, then of ranks,
 * then of rows, in rounds of P (train/ops.h). Where hosts share the experts, they take the tokens
 * of one host after the other (turns.h), and what follows is that of a turn: the experts are those
 * of the host, and the ranks its own. The experts must have been chosen. Collective over the ranks
 * of a host that hold the experts once together with others.
 */
#ifndef TRAIN_LAYERS_DISPATCH_H
#define TRAIN_LAYERS_DISPATCH_H

#include "train/layers/layer.h"

/* The places of a turn's rows: I32 [R,k n]. */
struct tensor dispatch_places(const struct layer *l, const struct step *s, int turn);
/* These, and the own counts of the turn, of choices I32 [R,k] of all experts: those of other hosts,
 * and numbers below 0, are none. */
void dispatch_place(const struct layer *l, struct step *s, int turn, const struct tensor *choice);
/* All ranks' counts of a turn into MOE_EXPERT_ROWS, of which each has its own row. */
void dispatch_counts(const struct layer *l, struct step *s, int turn);
/* Of these, the rows of each of the rank's experts from each rank: I32 [ranks,E_l]; and those of
 * all turns, from their ranks one after the other. */
struct tensor dispatch_received(const struct layer *l, const struct step *s, int turn);
struct tensor dispatch_arrived(const struct layer *l, const struct step *s);

/* Where the R k rows lie of which a round is taken: in b, or in the round itself where the rank
 * has all experts and they are the same. */
struct tensor dispatch_rows(const struct step *s, int b, const struct tensor *taken);
/* Between rows [R k,h] for each of the experts of a turn's rows and x [R,h], or between [R k,1] and
 * x real [R,k], numbers of the top-k indices: rows = those of x; or x = the sums over the experts
 * of each row, or x += them. */
struct dispatch_order {
	struct tensor rows, x;
	int turn;
	bool accumulate;
};
void dispatch_permute(const struct layer *l, struct step *s, const struct dispatch_order *d);
void dispatch_sum(const struct layer *l, struct step *s, const struct dispatch_order *d);

/* taken = the round from `first` of what the ranks have in rows; and back: what the round brings
 * takes its place in rows. */
struct dispatch {
	struct tensor rows, taken;
	int turn;
	int64_t first;
};
void dispatch_send(const struct layer *l, struct step *s, const struct dispatch *d);
void dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d);

#endif
