/*
 * groups.h - the communicators of a rank, by its layout (lib/model/layout.h)
 */
#ifndef TRAIN_ENGINE_GROUPS_H
#define TRAIN_ENGINE_GROUPS_H

#include "lib/model/options.h"
#include "train/comm.h"
#include "train/engine/levels.h"

/* A ring of n stages opens, shares and frees its channels in this many rounds. */
enum { CHANNELS = 4, CHANNEL_ROUNDS = 6 };

/* Communicators of this rank; those of size 1 exist too. NULL: this rank is in none. */
struct groups {
	struct comm *world; /* all ranks; like the next one host memory, always MPI */
	struct comm *host;  /* the ranks with parts of the same logits: tensor and context ranks */
	struct comm *tp, *cp, *dp, *pp;
	/* The data ranks of an instance, and those with equal shards of all instances; of experts
	 * likewise. With one instance shard is dp, edp, and there is no other. */
	struct comm *shard, *eshard, *instance, *einstance;
	/* a communicator with a neighbouring stage for each kind of message, in the order of enum
	 * action_kind; NULL where messages are exchanged between passes, or block */
	struct comm *channel[CHANNELS];
	/* of models with experts: ranks that hold those of a layer once together; ranks that hold
	 * the same of them */
	struct comm *ep, *edp;
	/* of the former those of a host, and those at the same place of each; where rows go to them
	 * as to one host, ep and NULL */
	struct comm *ep_inside, *ep_rail;
	struct comm *stage;     /* all ranks of a stage; of models that add up their loads alone */
	struct comm *kv;        /* tensor ranks that hold the same key/value groups */
	struct comm *embedding; /* first and last stage, when they share a table */
	struct hop hop; /* of the role of which the most ranks are in groups on several hosts */
};

/* The channel that a stage of n is at in a round, -1: none. The two stages of a channel are at it
 * in the same round; in any other order stages could wait for each other around the ring. */
int channel_in_round(int round, int stage, int n);

/* The implementations that the groups use. */
struct groups_config {
	const struct run_plan *plan;
	const struct backend *backend;
	struct device *device; /* open */
};

/* Collective over world, which stays the caller's. Groups that carry device memory use the device's
 * own communicators. groups_close frees what was made before a failure. */
int groups_open(
    struct groups *g, const struct groups_config *c, struct comm *world, struct err *err);
void groups_close(struct groups *g);

#endif
