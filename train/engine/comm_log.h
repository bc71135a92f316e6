/*
 * comm_log.h - what a rank waits for: the calls of its communicators, numbered
 *
 * A table of operations that wraps the implementation's, as observe.h wraps struct ops. It is
 * written without a lock by the thread that communicates and may be read by any other: the watchdog
 * reads it when that thread hangs.
 */
#ifndef TRAIN_ENGINE_COMM_LOG_H
#define TRAIN_ENGINE_COMM_LOG_H

#include "train/comm.h"

/* A call. The strings are static. */
struct comm_record {
	uint64_t number;                 /* among the calls of its communicator, from 1; 0: none */
	const char *group, *kind, *site; /* "data ranks", "all-reduce", "train/engine/grads.c:20" */
	uint64_t bytes;                  /* of the longest array that this rank sends or receives */
	double begun;                    /* clock_seconds() when it was called */
};

/* The position of a rank. */
struct comm_state {
	bool waits;
	double since;          /* clock_seconds(), of the wait */
	struct comm_record at; /* the call that it waits in, or the last one that has ended */
};

/* A group, for comm_log_join. */
struct comm_group {
	const char *name;              /* of its ranks; static */
	const struct backend *backend; /* whose device queues its calls; NULL: they block */
	struct device *device;
};

struct comm_log;

/* Starts recording world's calls, under the name "all ranks". A world of one is not recorded. */
struct comm_log *comm_log_new(struct comm *world);
/* No thread may be using the log; its communicators may be freed before or after. */
void comm_log_free(struct comm_log *log);
/* Records the calls of c in world's log until c is freed. Has no effect if world is not recorded,
 * or for a communicator of one. A queued call has ended when the device has passed it; c must be
 * freed before the device is closed. */
void comm_log_join(struct comm *world, struct comm *c, const struct comm_group *g);
/* Records a wait for other ranks that is not a call of a communicator in world's log; kind and
 * group are static, the source position is that of COMM_HERE(world). No operation of world may be
 * called in between. */
void comm_log_begin(struct comm *world, const char *group, const char *kind);
void comm_log_end(struct comm *world);
/* The oldest call that has not ended. Any thread may call this, one at a time. */
void comm_log_state(struct comm_log *log, struct comm_state *out);

#endif
