/*
 * comm_log.h - what a rank waits for: the calls of its communicators, numbered
 *
 * A table of operations before the implementation's own, as observe.h has one before struct ops. It
 * is written by the thread that communicates, without a lock, and read by any other: the watchdog
 * asks when that thread hangs.
 */
#ifndef TRAIN_ENGINE_COMM_LOG_H
#define TRAIN_ENGINE_COMM_LOG_H

#include "train/comm.h"

/* A call. The strings are static. */
struct comm_record {
	uint64_t number;                 /* among the calls of its communicator, from 1; 0: none */
	const char *group, *kind, *site; /* "data ranks", "all-reduce", "train/engine/grads.c:20" */
	uint64_t bytes;                  /* of the longest array that this rank gives or gets */
	double begun;                    /* clock_seconds() when it was called */
};

/* Where a rank is. */
struct comm_state {
	bool waits;
	double since;          /* clock_seconds(), of the wait */
	struct comm_record at; /* the call that it waits for, or the last one that has ended */
};

/* What a group is, for comm_log_join. */
struct comm_group {
	const char *name;              /* of its ranks; static */
	const struct backend *backend; /* whose device queues its calls; NULL: they block */
	struct device *device;
};

struct comm_log;

/* world's calls are kept from here on, under the name "all ranks". Nothing is kept of a world of
 * one. */
struct comm_log *comm_log_new(struct comm *world);
/* No thread may use the log any more; its communicators may be freed or not. */
void comm_log_free(struct comm_log *log);
/* The calls of c go into the log that world's go into, until c is freed. Nothing when world's are
 * not kept, and of a communicator of one. Calls that are queued have ended when the device has
 * passed them, before which the device must not be closed without c being freed. */
void comm_log_join(struct comm *world, struct comm *c, const struct comm_group *g);
/* A wait for other ranks that is no call of a communicator, in the log of world; kind and group are
 * static, the place is that of COMM_HERE(world). Nothing of world is called in between. */
void comm_log_begin(struct comm *world, const char *group, const char *kind);
void comm_log_end(struct comm *world);
/* The oldest call that has not ended. Any thread, but one at a time. */
void comm_log_state(struct comm_log *log, struct comm_state *out);

#endif
