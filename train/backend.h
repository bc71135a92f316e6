/*
 * backend.h - devices: memory, streams, and one table of operations
 *
 * A backend is a const struct; train/backends.c names those that were built. Work is queued on a
 * stream; on the CPU a stream executes at once, on a GPU it queues, and the engine uses record/wait
 * either way. Stream 0 computes; each communicator may use one of its own. Faults of the device
 * surface in sync(), the only call that can fail after open and alloc.
 */
#ifndef TRAIN_BACKEND_H
#define TRAIN_BACKEND_H

#include "lib/base/dtype.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct comm;
struct comm_config;
struct comm_ops;
struct observer;
struct ops;
struct device;
struct str;

/* Implementations put this first in a struct of their own. */
struct stream {
	const struct ops *ops;
	struct device *device;
	struct observer *observer; /* train/watch/observe.h; NULL: no observer */
};

struct event;
struct recorded;

/* Implementations of attention: BEST takes the first of the others that serves a shape; one that is
 * named serves every call or fails. LIBRARY: cuDNN. HOPPER: our own for compute capability 9.0; a
 * backward pass that these do not take is as with BEST. A backend with one_attention ignores it. */
enum attention_choice {
	ATTENTION_BEST,
	ATTENTION_LIBRARY,
	ATTENTION_TILED,
	ATTENTION_PLAIN,
	ATTENTION_HOPPER,
};

struct device_config {
	int local_rank;     /* this process's number on its host: picks the GPU */
	int num_threads;    /* CPU threads for this process */
	enum dtype dtype;   /* weights and activations: F32, BF16, F16, F64 */
	bool deterministic; /* the same bits in every run, even where that costs time */
	enum attention_choice attention;
	int64_t float8_experts; /* of which grouped is called with 8-bit operands; 0: it is not */
};

/* Collectives of the data ranks, those of tensor and of context ranks that are beside computation,
 * rows of experts between hosts, each kind of messages of pipeline stages, copies of saves, those
 * of what the host updates, and those of saved activations to the host and back, have streams of
 * their own. */
enum {
	STREAM_COMPUTE,
	STREAM_DATA,
	STREAM_TENSOR,
	STREAM_CONTEXT,
	STREAM_RAIL,
	STREAM_RECV_FORWARD,
	STREAM_SEND_FORWARD,
	STREAM_RECV_BACKWARD,
	STREAM_SEND_BACKWARD,
	STREAM_SAVE,
	STREAM_TO_HOST,
	STREAM_FROM_HOST,
	STREAM_OFFLOAD,
	STREAM_RELOAD,
	STREAM_COUNT
};

/* What a device's meters say; NAN: it has none, or does not tell. */
struct meter {
	double joules; /* taken since some start */
	double watts, celsius,
	    megahertz; /* now: power, temperature, the clock that it computes by */
};

struct backend {
	const char *name;      /* "cpu", "cuda" */
	const struct ops *ops; /* that it has, whatever the type: what is NULL here it lacks */
	/* of its memory, likewise; NULL: those of the host, which has all */
	const struct comm_ops *comm_ops;
	/* the backend of the host's own processors, whose operations take host memory */
	const struct backend *host;
	bool one_attention; /* has one implementation of attention */
	bool repeatable; /* the same bits in every run also without device_config.deterministic */
	/* Whether the device here has attention of our own for Hopper. NULL: it has not. */
	bool (*has_hopper_attention)(void);
	int64_t max_head_size, max_norm; /* widest head, longest row of a norm; 0: no limit */
	int64_t max_experts;             /* that a router chooses among */
	/* fewest rows for which a GEMM keeps its rate */
	int64_t gemm_rows;
	/* most rows of which linear_step is at least as fast as its parts */
	int64_t step_rows;
	/* Whether this host has a usable device now; fills why if not. */
	bool (*available)(struct err *why);
	/* Names the libraries that a device uses and whose versions may differ between hosts; they
	 * must be the same on all ranks. NULL: there are none. */
	void (*describe)(char *text, size_t size);
	/* Of NCCL, where communicators are made by it: 22105 is 2.21.5. NULL: they are not. */
	int (*nccl_version)(void);
	struct device *(*open)(const struct device_config *, struct err *);
	void (*close)(struct device *);
	/* Memory of its own that the backend takes at open, in bytes. NULL: that of a GPU, which
	 * lib/model/gpu states. */
	size_t (*workspace)(const struct device_config *);
	/* Bytes free on the device now; 0 when that means nothing. */
	size_t (*free_memory)(struct device *);
	/* Bytes in use now: of the GPU, by all processes; on the CPU the resident pages of this
	 * process. 0 where the system does not tell. */
	size_t (*used_memory)(struct device *);
	/* Sets the fields of *out that the device has a meter for, and leaves the others. NULL: it
	 * has none. */
	void (*meter)(struct device *, struct meter *out);
	/* Zeroed device memory, 256-byte aligned. NULL with a reason when there is none left. */
	void *(*alloc)(struct device *, size_t bytes, struct err *);
	void (*release)(struct device *, void *);
	struct stream *(*stream)(struct device *, int index); /* 0..STREAM_COUNT-1; borrowed */
	/* Copies between host and device; the host bytes must live until the stream has passed. */
	void (*copy_in)(struct stream *, void *device_dst, const void *host_src, size_t bytes);
	void (*copy_out)(struct stream *, void *host_dst, const void *device_src, size_t bytes);
	int (*sync)(struct stream *, struct err *);
	/* Pins host memory, for the fastest copies to and from the device, for which the host does
	 * not wait. Failure to pin is not an error. From any thread. */
	void (*pin)(struct device *, void *host, size_t bytes);
	void (*unpin)(struct device *, void *host);
	struct event *(*event)(struct device *); /* borrowed until close */
	/* An event that knows when the stream passed it, and the seconds between two of them, both
	 * passed; and how many of these the device computed, not counting the time in which other
	 * processes had its cores. A GPU does not tell: all of them. */
	struct event *(*timer)(struct device *);
	double (*elapsed)(struct event *from, struct event *to);
	double (*computed)(struct event *from, struct event *to);
	void (*record)(struct stream *, struct event *);
	void (*wait)(struct stream *, struct event *);
	/* Whether the stream has passed the place where the event was recorded last. True also
	 * where the device has failed, which sync reports. From any thread. NULL: nothing is
	 * queued, and work is done when the call returns. */
	bool (*passed)(struct device *, struct event *);
	/* Waits until the stream has passed the place where the event was recorded last; from any
	 * thread. */
	void (*await)(struct device *, struct event *);
	/* Before a thread that did not open the device queues work. NULL: nothing to do. */
	void (*enter)(struct device *);
	/* Operations that are queued between record_begin and record_end are kept instead of run,
	 * and run by each launch, with the arguments they had. Events order what is kept and
	 * nothing else; there are no collectives and timers among it. record_begin is false, and
	 * record_end NULL, with why, where that cannot be done: nothing has been run then.
	 * record_begin NULL: the backend has none of this. */
	bool (*record_begin)(struct stream *, struct err *why);
	struct recorded *(*record_end)(struct stream *, struct err *why);
	void (*launch)(struct stream *, struct recorded *);
	/* Frees a recording, which no stream may still run. NULL is ignored. */
	void (*drop)(struct recorded *);
	/* A communicator for memory of the device, of the ranks of a host communicator, which it
	 * takes over: free() frees both. All ranks of host call. NULL: host memory is device
	 * memory, and the host communicator serves. */
	struct comm *(*comm)(
	    struct device *, struct comm *host, const struct comm_config *, struct err *);
};

/* What a communicator is for. */
struct comm_config {
	const char *name; /* of its ranks, for messages: "data ranks" */
	/* the most multiprocessors that one of its collectives takes from concurrent computation;
	 * 0: as many as are fastest */
	int max_blocks;
	size_t sum_bytes; /* of device memory, through which its sums pass; 0: it makes none */
};

/* Those that were built, ended by NULL, best first. backend_find gives one of them, with or without
 * a usable device; NULL with a reason where a library that it needs is not on this host.
 * backend_choose picks name, or the first available when name is "auto". All are static. */
extern const char *const backend_names[];
/* Appends what this build can compute on, whatever devices the host has, and with which libraries
 * of the host. */
void backend_words(struct str *text);
const struct backend *backend_find(const char *name, struct err *e);
const struct backend *backend_choose(const char *name, struct err *e);

extern const struct backend backend_cpu;

/* What an object with a backend exports under the name BACKEND_OBJECT. It takes symbols of the
 * program that opens it, so only that of its own build may. */
#define BACKEND_OBJECT "mikoshi_backend"
struct backend_object {
	const char *build; /* PROG_BUILD (lib/base/prog.h) */
	size_t size;       /* of struct backend, as it was compiled */
	const struct backend *backend;
};

/* Opens an object, a path or a name that the loader looks up. NULL with a reason: it or a library
 * that it needs is not there, or it is of another build. */
const struct backend *backend_opened(const char *object, struct err *e);

#endif
