/* groups.h - communicators from the layout (lib/model/layout.h); the world itself stays the
 * caller's */
#ifndef TRAIN_ENGINE_GROUPS_H
#define TRAIN_ENGINE_GROUPS_H

#include "train/engine/engine.h"

/* Fills e->groups from the plan of e, whose device is open: those that carry device memory are the
 * device's own. */
int groups_open(struct engine *e, struct comm *world, struct err *err);
void groups_close(struct groups *g);

#endif
