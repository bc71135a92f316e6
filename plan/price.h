/*
 * price.h - the seconds of operations (lib/model/operations.h) on a device
 *
 * Every rate is here or in lib/model/hardware.c, and what was measured for it is named there.
 * Source: docs/planning.md 2.
 */
#ifndef PLAN_PRICE_H
#define PLAN_PRICE_H

#include "lib/model/hardware.h"
#include "lib/model/operations.h"

struct run_case {
	const struct model_config *model;
	const struct layout *layout;
	const struct train_shape *shape;
	const struct hardware *hw;
	struct memory_stages *stages; /* of the layout; not for time_blocks */
	struct operation_owned owned; /* on the largest stage; not for time_blocks */
};

/* An operation alone, once; nothing of it is hidden. */
double price_operation(const struct run_case *r, const struct operation *o);
/* A message of a stage to another, on the same host or not. */
double price_message(const struct run_case *r, double bytes, bool inside);
/* Whether it lands in memory of the receiver (plan/simulate.h), as between GPUs of a host. */
bool price_message_lands(const struct run_case *r, bool inside);
/* A pass of a block: seconds of each class, exchanges less what the operations beside them hide.
 * launches: kernels that the host starts. */
struct price {
	double part[OPERATION_CLASSES];
	double launches;
};
/* Of the list of a block: its forward pass, the same once more where the layer is recomputed, or
 * where the block is the last of those that are, and its backward pass, with the modules that it
 * repeats. */
struct block_price {
	struct price forward, again, ending, backward;
};
void price_block(const struct run_case *r, const struct operation_list *x, struct block_price *out);

/* Sets layout.host_ranks and layout.expert_hosts of a plan on these hosts, the latter to 1 for
 * programs whose hosts take no turns. */
void price_hosts(struct layout *l, const struct model_config *c, const struct hardware *hw);

#endif
