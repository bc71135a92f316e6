/* routers.h - what the routers of a step did: the load of each expert, the losses that balance them
 */
#ifndef TRAIN_RUN_ROUTERS_H
#define TRAIN_RUN_ROUTERS_H

#include "train/engine/engine.h"
#include "train/report/metrics.h"

struct routers;

/* NULL for a model without experts, which the others take too. */
struct routers *routers_new(const struct engine *e);
void routers_free(struct routers *r);
/* Queues a copy of this rank's sums, which is there after the next engine_read_scalars. */
void routers_read(struct routers *r, const struct engine *e);
/* Collective over the world: the sums of all ranks, and their means. */
struct metrics_routers routers_sum(struct routers *r, const struct engine *e);
/* A line for each layer with experts. */
void routers_write(const struct routers *r, struct metrics *m, int64_t iteration);

#endif
