/*
 * comm.h - the communication contract: host memory through train/mpi, a GPU's through train/nccl
 *
 * Collectives are queued on a stream (train/mpi finishes them before it returns). Tensors are
 * dense. A lost peer ends the program through abort(). Communicators are made in the same order on
 * every rank.
 *
 * Every rank gets the same bits of a sum, which are those of S over the ranks of the communicator
 * (lib/base/tree.h), whatever hosts they are on: F16 and BF16 are added in F32, and the sum is
 * rounded to the type of the tensor once. Integers wrap around. train/nccl moves bytes and adds
 * them itself: no library adds floating types.
 */
#ifndef TRAIN_COMM_H
#define TRAIN_COMM_H

#include "lib/base/str.h"
#include "train/backend.h"
#include "train/tensor.h"

enum reduce { REDUCE_SUM, REDUCE_MAX };

struct comm {
	const struct comm_ops *ops;
	int rank, size;
	void *impl;
	const char *site;             /* of the next call: COMM_HERE */
	struct comm_history *history; /* train/engine/comm_log.h; NULL: none is kept */
};

/* c, for a call that is to be known by its place: c->ops->barrier(COMM_HERE(c)). */
#define COMM_HERE(c) comm_at(c, __FILE__ ":" COMM_TEXT(__LINE__))
#define COMM_TEXT(x) COMM_TEXT_OF(x)
#define COMM_TEXT_OF(x) #x

/* One message of an exchange: send when `send`, else receive; peer is a rank of the
 * communicator. */
struct p2p {
	bool send;
	int peer;
	int tag; /* tells several messages between the same two ranks apart */
	struct tensor buf;
};

/*
 * Rows to the ranks of their experts, or back. Each of `size` ranks has E / size of the experts,
 * or of slices of them, and counts I32 [size,E] has the rows of each rank for each of these; they
 * are in the device's memory, as is all that follows from them. in holds the rows of this rank in
 * the order of experts, and out gets a window of those for its experts, rows [first, first + P) of
 * their order (struct grouped); what no window has is not sent. back: the other way round, and only
 * the rows of the window are written. Rows are dense; P and first are the same on all ranks.
 */
struct rows_exchange {
	struct tensor out, in, counts;
	int64_t first;
	bool back;
};

/*
 * An array of which each rank gives a part to every other: give is what goes to a rank, take what
 * comes from it. take of the own rank is not written; what others write to lies in shared memory,
 * and they write as far from the beginning of their piece as this rank's own take from that of its.
 */
struct comm_block {
	struct tensor give, take;
};

/* Memory of a rank that the others may write to, once it is shared. */
struct comm_memory {
	void *data;
	size_t bytes;
};

/*
 * A gather or a scatter in parts: whole holds `size` equal parts in the order of ranks, and part is
 * this rank's, in its place inside whole or elsewhere. What others write to lies in shared memory,
 * as far from the beginning of the same piece on every rank: whole in a gather, slots in a scatter.
 */
struct comm_parts {
	struct tensor whole, part;
	bool reversed; /* the last rank's part is the first of whole */
	/* Of a scatter: as much room for each other rank, at least COMM_ROOM elements. Parts that
	 * do not fit pass through it in pieces. */
	struct tensor slots;
	/* size of them. A gather records event[i] when the part of rank i is there; a scatter, for
	 * which all have been recorded, reads that part after event[i]. NULL: all is there when the
	 * stream passes the gather, or gets to the scatter. */
	struct event *const *event;
};

enum { COMM_ROOM = 128 };

struct comm_ops {
	/* Ranks of equal color form a communicator ordered by key; color < 0: none (NULL without
	 * error). */
	struct comm *(*split)(struct comm *, int color, int key, struct err *);
	/* A maximum of host memory is NaN where any rank has NaN; of device memory NaN is left out.
	 * A sum of floating types in device memory passes through the room that the communicator
	 * was given, and comes after the one before it, on whatever stream. */
	void (*all_reduce)(struct comm *, struct stream *, const struct tensor *inout, enum reduce);
	/* out holds size equal parts, part i from rank i. in may lie in its place inside out. */
	void (*all_gather)(
	    struct comm *, struct stream *, const struct tensor *out, const struct tensor *in);
	/* Once, collective on the host, before the first of the next three: ranks may write to each
	 * other's memory, of as many pieces and bytes on each, and do so in an all_gather into it
	 * too, where all have `out` as far from the beginning of the same piece. False on all, with
	 * why at rank 0, where one cannot: the calls serve as well then, but by messages. */
	bool (*share)(struct comm *, const struct comm_memory *piece, int count, struct err *why);
	/* whole gets the parts of the others, from the next rank's on; the own one is not written
	 * there, and its event not recorded. All have read part when the stream passes. */
	void (*all_gather_parts)(struct comm *, struct stream *, const struct comm_parts *);
	/* part gets the sum of this rank's part in the whole of all ranks. part may lie in its
	 * place inside whole. Ranks make their own part last, the next rank's first. */
	void (*reduce_scatter_parts)(struct comm *, struct stream *, const struct comm_parts *);
	/* Each array has a block for each rank, in their order: block [count][size]. All have read
	 * what this rank gives when the stream passes. */
	void (*all_to_all)(
	    struct comm *, struct stream *, const struct comm_block *block, int count);
	void (*broadcast)(struct comm *, struct stream *, const struct tensor *, int root);
	/* One batch: no order, no deadlock; returns (queues) when all are done. */
	void (*exchange)(struct comm *, struct stream *, const struct p2p *, int count);
	/* One message between two ranks, of which one always sends and the other always receives;
	 * it waits for those before it, and for no other call. Where they have shared the memory
	 * that landing lies in, each rank's own, as far from the beginning of the same piece on
	 * both, a message is copied there as soon as the one before it has been received, and no
	 * multiprocessor takes part; a longer one in pieces. Elsewhere as in exchange. */
	void (*message)(
	    struct comm *, struct stream *, const struct p2p *, const struct tensor *landing);
	/* Where ranks have shared the memory that out lies in, they write rows to each other, and
	 * no host waits; elsewhere on a device the host reads counts, for which it waits. */
	void (*all_to_all_rows)(struct comm *, struct stream *, const struct rows_exchange *);
	void (*barrier)(struct comm *);
	/* Host bytes of every rank, concatenated in rank order at root (NULL elsewhere); *total
	 * bytes; the caller frees. */
	char *(*gather_bytes)(
	    struct comm *, const void *bytes, size_t len, int root, size_t *total);
	void (*abort)(struct comm *, int status) __attribute__((noreturn));
	void (*free)(struct comm *);
};

/* site must be static. */
static inline struct comm *
comm_at(struct comm *c, const char *site)
{
	c->site = site;
	return c;
}

/*
 * Whether any rank of c has failed (rc < 0, with a reason in err). Every rank gets the same answer;
 * rank 0 gets the first reason, since it prints the messages. Collective, on the host. Called with
 * COMM_HERE: its two operations are known by the caller's place.
 */
bool comm_agree(struct comm *c, int rc, struct err *err);

/* The elements of a tensor to send or receive. One that is not dense is a BUG: the engine makes
 * none. */
int64_t comm_elements(const struct tensor *t);
/* The elements of part, of which whole must hold as many as c has ranks, of the same type. */
int64_t comm_part(const struct comm *c, const struct tensor *part, const struct tensor *whole);

/* As comm_part; and p->slots must have room for the part of each other rank, or for pieces. */
int64_t comm_slots(const struct comm *c, const struct comm_parts *p);
/* The part of a rank in p->whole. */
struct tensor comm_whole(const struct comm *c, const struct comm_parts *p, int rank);

/* The messages of an all_to_all, 2 count (size - 1) of them, to free(); *n: how many. */
struct p2p *comm_blocks(const struct comm *c, const struct comm_block *block, int count, int *n);

/* The messages of an exchange of rows, of which there are at most 2 E: counts are in the host's
 * memory. Returns their number. A rank's messages to itself come in pairs, sent and received. */
int comm_rows(const struct comm *c, const struct rows_exchange *x, struct p2p *message);

/* train/mpi: starts MPI; world of one without a launcher. staging: bytes of host memory the
 * implementation keeps. */
struct comm *mpi_world(struct err *e);
void mpi_end(void);
size_t mpi_staging_bytes(void);
/* Appends the name and version of the MPI library. */
void mpi_describe(struct str *out);
/* This process's number among those on its host, and how many there are; the host's name. */
int mpi_local_rank(struct comm *world, int *local_size);

/* train/nccl: a communicator for memory of a GPU, as backend.h describes `comm`. */
struct comm *nccl_comm(
    struct device *d, struct comm *host, const struct comm_config *c, struct err *e);
/* Of the library that is linked: 22105 is 2.21.5. */
int nccl_version(void);

#endif
