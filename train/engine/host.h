/*
 * host.h - the host beside the device: a thread that computes on arrays in host memory
 *
 * Jobs run one at a time, in the order in which the main thread queued them, beside whatever the
 * device computes. They use the operations of the backend of the host's own processors, and get
 * pieces of the device's arrays through the ring (BUF_STAGING_RING): one is copied while the one
 * before it is used. A save that reads host arrays holds the jobs that were queued after it.
 */
#ifndef TRAIN_ENGINE_HOST_H
#define TRAIN_ENGINE_HOST_H

#include "train/engine/engine.h"

struct host;

/* Takes ARENA_HOST; sets e->host and e->host_stream, or leaves them NULL where the host computes
 * nothing. Jobs compute with the stream, the main thread only while none is queued. */
int host_open(struct engine *e, const struct device_config *c, struct err *err);
void host_close(struct engine *e);

/* The streams of the device for copies to the host, and back, which only jobs use. */
struct stream *host_arrivals(const struct engine *e);
struct stream *host_returns(const struct engine *e);

/* Queues run(e, arg); arg must live until then. Returns the job's number. */
int64_t host_queue(struct engine *e, void (*run)(struct engine *, void *arg), void *arg);
/* Waits for a job and all before it; 0 is no job. */
void host_await(struct engine *e, int64_t job);

/* What to do with the pieces of the own parts (memory_bucket_chunk) of some buckets. */
struct host_walk {
	int first, end; /* the buckets */
	/* Queues the copies of a piece on host_arrivals; slot: real, of the piece's count. */
	void (*fetch)(
	    struct engine *, const struct bucket_chunk *, const struct tensor *slot, void *ctx);
	/* Uses it: the copies are there. */
	void (*take)(
	    struct engine *, const struct bucket_chunk *, const struct tensor *slot, void *ctx);
	void *ctx;
};
/* Calls fetch and take for each piece, in the flat order. For jobs. */
void host_walk(struct engine *e, const struct host_walk *w);

/* From the main thread: host arrays stay as the jobs queued so far leave them, until host_resume.
 * Then, from any one thread: host_held waits until they are so. */
void host_hold(struct engine *e);
void host_held(struct engine *e);
void host_resume(struct engine *e);

#endif
