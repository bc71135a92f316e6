/* impl.h - shared by the files of train/nccl: ranks of one host that write to each other's memory
 */
#ifndef TRAIN_NCCL_IMPL_H
#define TRAIN_NCCL_IMPL_H

#include "train/comm.h"
#include "train/cuda/device.h"

struct peers;

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

#endif
