/*
 * pass_items.h - what a pass through a chunk does, in order, and where its data ranks may
 * communicate
 *
 * A forward pass goes through the chunk's blocks. A backward pass goes through them in reverse; it
 * runs blocks that kept nothing forward again before the first of them that it goes back through.
 * Gradients are reduced and weights gathered by bucket, so only between items that use other
 * buckets; saved activations leave and come back (activation_offload.h) between items of other
 * layers. What lies between two such places can be recorded by a device and launched as a whole.
 */
#ifndef MODEL_PASS_ITEMS_H
#define MODEL_PASS_ITEMS_H

#include "lib/model/memory.h"

/* Of training, forward and backward; and forward without layers after the head. */
enum pass_kind { PASS_FORWARD, PASS_BACKWARD, PASS_EVALUATION, PASS_KINDS };
enum item_kind { ITEM_FORWARD, ITEM_RECOMPUTE, ITEM_BACKWARD };

/* One block. */
struct pass_item {
	enum item_kind kind;
	int block; /* of the stage */
	/* of those that run again together: the first, whose input was kept, and the last, whose
	 * output nothing reads */
	bool first, last;
};

/* Items [first, end) of a pass. */
struct segment {
	int number; /* its index in the list */
	int first, end;
};

/* The first segment is the whole pass; the others follow each other through it. Within one of them
 * all items use the same buckets, belong to the same unit that leaves and go in the same
 * direction. */
struct pass_items {
	bool backward;
	struct pass_item *item;
	int num_items;
	struct segment *segment;
	int num_segments;
};

/* The items of a pass through a chunk of the stage whose plan is m; released by
 * pass_items_release. */
void pass_items_init(
    struct pass_items *out, const struct memory_plan *m, int chunk, enum pass_kind kind);
void pass_items_release(struct pass_items *m);

#endif
