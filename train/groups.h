/* groups.h - communicators from the layout (lib/model/layout.h); the world itself stays the
 * caller's */
#ifndef TRAIN_GROUPS_H
#define TRAIN_GROUPS_H

#include "train/engine.h"

int groups_open(struct groups *g, struct comm *world, const struct model_config *c,
    const struct layout *l, struct err *err);
void groups_close(struct groups *g);

#endif
