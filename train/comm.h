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
#include "train/comm_list.h"

struct comm {
	const struct comm_ops *ops;
	int rank, size;
	void *impl;
	const char *site;             /* of the next call: COMM_HERE */
	struct comm_history *history; /* train/watch/comm_log.h; NULL: none is kept */
};

/* c, for a call that is to be known by its place: c->ops->barrier(COMM_HERE(c)). */
#define COMM_HERE(c) comm_at(c, __FILE__ ":" COMM_TEXT(__LINE__))
#define COMM_TEXT(x) COMM_TEXT_OF(x)
#define COMM_TEXT_OF(x) #x

/* Memory of a rank that the others may write to, once it is shared. */
struct comm_memory {
	void *data;
	size_t bytes;
};

struct comm_ops {
#define CALL(name, type) void (*name)(struct comm *, struct stream *, const struct type *);
#include "train/comm_list.h"
	/* Ranks of equal color form a communicator ordered by key; color < 0: none (NULL without
	 * error). */
	struct comm *(*split)(struct comm *, int color, int key, struct err *);
	/* Once, collective on the host, before the first call in parts and the first all_to_all:
	 * ranks may write to each other's memory, of as many pieces and bytes on each, and do so in
	 * an all_gather into it too, where all have `out` as far from the beginning of the same
	 * piece. False on all, with why at rank 0, where one cannot: the calls serve as well then,
	 * but by messages. */
	bool (*share)(struct comm *, const struct comm_memory *piece, int count, struct err *why);
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

/* The elements of p->part, which must be as in a scatter; and p->partial_sums must have room for
 * them of each other rank, or for pieces. */
int64_t comm_partial_sums(const struct comm *c, const struct comm_parts *p);
/* The part of a rank in p->whole. */
struct tensor comm_whole(const struct comm *c, const struct comm_parts *p, int rank);

/* The messages of an all_to_all, 2 count (size - 1) of them, to free(); *n: how many. */
struct p2p *comm_blocks(const struct comm *c, const struct comm_block *block, int count, int *n);

/* The messages of an exchange of rows, of which there are at most 2 E: counts are in the host's
 * memory. Returns their number. A rank's messages to itself come in pairs, sent and received. */
int comm_rows(const struct comm *c, const struct rows_exchange *x, struct p2p *message);

/* train/mpi: starts MPI; without a launcher a world of one, without MPI. staging: bytes of host
 * memory that the implementation keeps. */
bool mpi_launched(void);
struct comm *mpi_world(struct err *e);
void mpi_end(void);
size_t mpi_staging_bytes(void);
/* Appends the name and version of the MPI library. */
void mpi_describe(struct str *out);
/* Where the ranks of the world are was asked for when it was made. This process's number among
 * those on its machine, and how many there are: they share its GPUs, cores and files. */
int mpi_local_rank(const struct comm *world, int *local_size);
/* Of each rank the number of its host, from 0 on in the order of ranks: those of one host may map
 * each other's memory. The world's own. */
const int *mpi_hosts(const struct comm *world);
/* The name of a rank's host, and "#K" where that is the K-th pretended one. The world's. */
const char *mpi_host_name(const struct comm *world, int rank);
/* From here on the ranks of each machine are so many hosts. -1, alike on all ranks, where they
 * cannot be divided so. */
int mpi_pretend_hosts(struct comm *world, int64_t hosts, struct err *e);

/* Communicators of the ranks of two levels (lib/model/hosts.h): all of them, those of the own host,
 * and those at the own place in their hosts. */
struct comm_levels {
	struct comm *all, *inside, *rail;
};
struct hosts;
/* Collective over the world: from here on its long reductions, and what rank 0 gathers, go by two
 * levels where its ranks are even on several hosts. -1 with a reason. */
int mpi_levels(struct comm *world, struct err *e);
/* train/hosts: a communicator of the ranks of l->all, of which what leaves a host is cut in two; it
 * takes over all three. There are several hosts of several ranks. Its share() shares what the ranks
 * of a host have. Events are the backend's. */
struct comm *hosts_comm(
    const struct comm_levels *l, const struct hosts *h, const struct backend *b);

/* train/nccl: its table, in which a call that it lacks is NULL. */
extern const struct comm_ops nccl_ops;
/* train/nccl: a communicator for memory of a GPU, as backend.h describes `comm`. */
struct comm *nccl_comm(
    struct device *d, struct comm *host, const struct comm_config *c, struct err *e);
/* Of the library that is linked: 22105 is 2.21.5. */
int nccl_version(void);

#endif
