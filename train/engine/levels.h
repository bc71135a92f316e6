/*
 * levels.h - the two levels of groups whose ranks are on several hosts
 *
 * group[r] is the number of the group that rank r of the world is in, of one role; -1: it is in
 * none.
 */
#ifndef TRAIN_ENGINE_LEVELS_H
#define TRAIN_ENGINE_LEVELS_H

#include "lib/model/hosts.h"
#include "train/comm.h"
#include "train/watch/comm_log.h"

/*
 * Collective over world: splits the ranks of groups with several ranks on each of several hosts
 * into those of a host and those of a rail. 1: this rank's group is one, *h says how it lies and
 * l->inside and l->rail are set. 0: it is not, or it is not even. -1 with a reason.
 */
int levels_split(
    struct comm_levels *l, struct hosts *h, const int *group, struct comm *world, struct err *err);

/* On rank 0: says once what costs bytes or time, of the first such group of the role. */
void levels_warn(enum comm_role role, const int *group, const struct comm *world);

#endif
