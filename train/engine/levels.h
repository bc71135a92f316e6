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

/* By what a rank goes to other hosts: a communicator of its groups, and the ranks of it after and
 * before this one of the same rail (lib/model/rails.h), of which `next` is the former in the world.
 */
struct hop {
	struct comm *comm; /* NULL: the rank is in no group of the role */
	enum comm_role role;
	int to, from, next; /* -1: it goes to no other host */
	int leaving;        /* ranks of the world whose group of the role is on several hosts */
};

/* Fills all of *hop but its communicator; to and from count in the whole group, and are those of a
 * rail where they are divided by the ranks inside. */
void levels_hop(struct hop *hop, enum comm_role role, const int *group, const struct comm *world);

/* On rank 0: says once what costs bytes or time, of the first such group of the role. */
void levels_warn(enum comm_role role, const int *group, const struct comm *world);

#endif
