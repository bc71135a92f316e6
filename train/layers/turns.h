/*
 * turns.h - tokens on their way to the experts of other hosts, which take those of one host after
 * the other, and back
 *
 * H hosts have the experts of a layer together. A rank sends its R rows to each other host once, to
 * the rank at its own place there, whatever the router chose: sizes are known when messages are
 * queued. Turn i of H takes the rows of the i-th host from the own one on, of which the own rank
 * has those of the rank at its place. What the experts of a host add up to goes back once. Turn 0,
 * of the own rows, needs no message, and messages of the others pass beside computation. With one
 * host there is one turn. Source: docs/parallelism.md 7.
 */
#ifndef TRAIN_LAYERS_TURNS_H
#define TRAIN_LAYERS_TURNS_H

#include "train/layers/layer.h"

int turns_count(const struct engine *e);

/* Queues the sending of x [R,h], with choices and weights; and that of gradients dy [R,h]. Neither
 * changes before turns_end. Collective over the ranks at the own place of all hosts, as all that
 * follows. */
void turns_begin(const struct layer *l, struct step *s, const struct tensor *x);
void turns_begin_backward(const struct layer *l, struct step *s, const struct tensor *dy);

/* Rows of a turn with the weights of their choices, and gradients, `own` those of turn 0. */
struct turn {
	struct tensor x, weight, dy;
};
struct turn rows_of_turn(
    const struct layer *l, const struct step *s, int turn, const struct turn *own);
/* The rows of a turn, or their gradients, are there when the stream passes. */
void turn_await(struct step *s, int turn);
/* The places and counts of a turn's rows among those of the host's experts. */
void turn_place(const struct layer *l, struct step *s, int turn);

/* Where the host's sums [R,h] for the rows of a turn go, and the gradients [R,k] of the weights of
 * their choices: a place of its own, or with one host `own`. Then they are sent to where the rows
 * came from. */
struct turn_sums {
	struct tensor y, dweight;
};
struct turn_sums turn_sums(
    const struct layer *l, struct step *s, int turn, const struct turn_sums *own);
void turn_return(const struct layer *l, struct step *s, int turn, bool backward);
/* y [R,h] = the sum over hosts, or y += it, and in the backward pass the gradients of the weights.
 * Nothing is left to do with one host. */
void turns_end(const struct layer *l, struct step *s, const struct turn_sums *own, bool accumulate,
    bool backward);
/* What was sent has been read, and nothing comes back. */
void turns_leave(struct step *s);

#endif
