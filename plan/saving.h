/*
 * saving.h - how a plan saves memory: what data ranks shard, what is recomputed, and what lies in
 * host memory
 *
 * Savings are ordered: one is less than another if it does no more in any respect. A plan has a
 * saving only where none that is less makes it fit, since more costs time. Whether the optimizer's
 * state is sharded is no such cost: plans with and without it are both tried. Several instances
 * share gradients at least.
 */
#ifndef PLAN_SAVING_H
#define PLAN_SAVING_H

#include "plan/candidate.h"

enum saving_recompute { SAVE_NOTHING, SAVE_SELECTIVE, SAVE_LAYERS, SAVE_RECOMPUTES };

struct saving {
	unsigned char sharding;  /* enum sharding */
	unsigned char recompute; /* enum saving_recompute */
	bool offload;            /* of activations */
	bool optimizer;          /* on the host */
};

/* Bits of sets of savings. */
uint64_t saving_bit(struct saving s);
/* Those that are less than s. */
uint64_t saving_less(struct saving s);
/* The first savings of a layout, without those that cost time; returns how many. */
int saving_first(const struct search_input *in, const struct layout *l, struct saving out[2]);
/* Those that come next after s, each more in one respect; returns how many. */
int saving_next(
    const struct search_input *in, const struct layout *l, struct saving s, struct saving out[4]);
/* The least of all. */
struct saving saving_none(const struct search_input *in);
/* Those no less than s that save as much as they can by one way to shard and one to recompute:
 * where there is little to save, what a saving needs itself may be more. One of them needs the
 * least memory. Returns how many. */
enum { SAVING_MOST = (SHARDING_PARAMS + 1) * SAVE_RECOMPUTES };
int saving_most(const struct search_input *in, const struct layout *l, struct saving s,
    struct saving out[SAVING_MOST]);
/* Whether it is of as many layers as needed: recomputed, or on the host where it offloads. */
bool saving_has_amount(struct saving s);
/* The largest such number for chunks of so many layers. */
int saving_amount(struct saving s, int layers);
/* Sets what s says, of so many layers, in a shape with what was typed. */
void saving_apply(struct saving s, int layers, struct train_shape *shape);

#endif
