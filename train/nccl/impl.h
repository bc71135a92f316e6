/* impl.h - shared by the files of train/nccl: ranks of one host that write to each other's memory
 */
#ifndef TRAIN_NCCL_IMPL_H
#define TRAIN_NCCL_IMPL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "train/comm.h"
#include "train/cuda/device.h"
#include "train/ops.h"

struct peers;

enum { PEERS_MAX = 16 }; /* ranks that share memory, at most */

/* As comm_ops.share, over the host communicator of the same ranks, which it keeps borrowed. NULL,
 * with why at rank 0, on all ranks where one cannot. */
struct peers *peers_open(struct comm *host, struct device *d, const struct comm_memory *piece,
    int count, struct err *why);
/* Collective. NULL is ignored. Nothing is queued any more. */
void peers_close(struct peers *p);
/* Whether the beginning of t lies in memory that is shared. */
bool peers_hold(const struct peers *p, const struct tensor *t);
/* As comm_ops.all_gather_parts and comm_ops.reduce_scatter_parts. */
void peers_gather(struct peers *p, struct stream *st, const struct comm_parts *parts);
void peers_scatter(struct peers *p, struct stream *st, const struct comm_parts *parts);
/* As comm_ops.all_to_all. */
void peers_all_to_all(
    struct peers *p, struct stream *st, const struct comm_block *block, int count);
/* As comm_ops.message, where peers_hold receive buffer. */
void peers_message(
    struct peers *p, struct stream *st, const struct p2p *m, const struct tensor *receive_buffer);
/* As comm_ops.all_to_all_rows, where peers_hold x->out. */
void peers_rows(struct peers *p, struct stream *st, const struct rows_exchange *x);

/* The room that sums of a communicator pass through, and the event of the last of them. */
struct sums {
	struct tensor room; /* U8 */
	struct event *passed;
};

/* bytes 0: the communicator makes no sums. -1 with a reason where the device has no memory. */
int nccl_sums_open(struct sums *s, struct device *d, size_t bytes, struct err *e);
/* Nothing is queued any more. */
void nccl_sums_close(struct sums *s, struct device *d);
/* As comm_ops.all_reduce of sums. */
void nccl_sums_all(struct sums *s, struct comm *c, struct stream *st, const struct comm_reduce *a);
/* As comm_ops.reduce_scatter_parts, once all parts are made; the slots are those of p. */
void nccl_sums_scatter(struct comm *c, struct stream *st, const struct comm_parts *p);
#define CALL(name, type) void nccl_##name(struct comm *, struct stream *, const struct type *);
#define CALL_MPI(name, type)
#include "train/comm_list.h"

/* What a rank tells each other one in its memory, by the number of the call, at [flag][own rank]:
 * memory is open to it; what it is sent has come. */
enum flag { FLAG_OPEN, FLAG_CAME };

enum { ROWS_EXPERTS = 3072 }; /* at most in an exchange of rows */

/* An exchange of rows by a rank's kernel. */
struct rows_copy {
	struct tensor counts;
	int rank, size;
	bool back;
	int64_t first, round, row_bytes;
	const void *in;
	void *out[PEERS_MAX];       /* of each rank */
	uint32_t *flags[PEERS_MAX]; /* likewise: [flag][PEERS_MAX] */
	uint32_t *arrived;          /* on this GPU; 0, and so it is left */
	uint32_t number;
};
/* Queues it on a GPU of so many multiprocessors. rows.cu */
cudaError_t rows_copy(const struct rows_copy *c, int num_sms, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
