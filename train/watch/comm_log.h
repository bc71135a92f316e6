/*
 * comm_log.h - what a rank waits for: the calls of its communicators, numbered
 *
 * A table of operations that wraps the implementation's, as observe.h wraps struct ops. It is
 * written without a lock by the thread that communicates and may be read by any other: the watchdog
 * reads it when that thread hangs.
 */
#ifndef TRAIN_WATCH_COMM_LOG_H
#define TRAIN_WATCH_COMM_LOG_H

#include "train/comm.h"

/* Among whom a rank communicates; the names are for messages: "data ranks". */
enum comm_role {
	COMM_WORLD,
	COMM_LOGITS,
	COMM_TENSOR,
	COMM_CONTEXT,
	COMM_DATA,
	COMM_PIPELINE,
	COMM_STAGE,
	COMM_EXPERTS,
	COMM_EXPERT_DATA,
	COMM_HEADS,
	COMM_TABLE,
	COMM_ROLES
};
extern const char *const comm_role_name[COMM_ROLES];

/* A call. The strings are static. */
struct comm_record {
	uint64_t number; /* among the calls of its communicator, from 1; 0: none */
	enum comm_role role;
	const char *kind, *site; /* "all-reduce", "train/engine/grads.c:20" */
	uint64_t bytes;          /* of the longest array that this rank sends or receives */
	double begun;            /* clock_seconds() when it was called */
};

/* The calls that a rank has begun. */
struct comm_call_counts {
	int32_t call_group; /* ranks of equal call group make the same calls in the same order */
	int32_t last;       /* enum comm_role of the latest */
	uint64_t calls[COMM_ROLES];
	/* The calls since the last one of all ranks, until the next of those is over, differ from
	 * those at the same place in the step before. */
	bool unusual;
};

/* The position of a rank. */
struct comm_state {
	bool waits;
	bool computes; /* it does not wait, but its device has not reached a call that is queued */
	double since;  /* clock_seconds(), of the wait */
	struct comm_record at; /* the call that it waits in, or the last one that has ended */
	struct comm_call_counts made;
};

/* A group, for comm_log_join. */
struct comm_group {
	enum comm_role role;
	const struct backend *backend; /* whose device queues its calls; NULL: they block */
	struct device *device;
};

struct comm_log;

/* Starts recording world's calls. A world of one is not recorded. */
struct comm_log *comm_log_new(struct comm *world);
/* No thread may be using the log; its communicators may be freed before or after. */
void comm_log_free(struct comm_log *log);
/* Records the calls of c in world's log until c is freed. Has no effect if world is not recorded,
 * or for a communicator of one. A queued call has ended when the device has passed it; c must be
 * freed before the device is closed. */
void comm_log_join(struct comm *world, struct comm *c, const struct comm_group *g);
/* Records a wait for other ranks that is not a call of a communicator in world's log; kind is
 * static, the source position is that of COMM_HERE(world). No operation of world may be called in
 * between. */
void comm_log_begin(struct comm *world, enum comm_role role, const char *kind);
/* From here on this rank makes the calls of that call group, which is 0 at first. */
void comm_log_call_group(struct comm *world, int call_group);
/* Sets what abort() of a communicator does first, in the thread that communicates. */
void comm_log_on_abort(struct comm_log *log, void (*hold)(void *ctx), void *ctx);
void comm_log_end(struct comm *world);

/* The oldest call that has not ended. Any thread may call this, one at a time. */
void comm_log_state(struct comm_log *log, struct comm_state *out);

#endif
