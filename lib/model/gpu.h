/*
 * gpu.h - GPU memory that a rank uses outside the arenas
 *
 * mtrain, or the driver and NCCL on its behalf, take these bytes at the start, and mplan and
 * --dry-run report them. The workspace of attention is a buffer of the plan.
 */
#ifndef MODEL_GPU_H
#define MODEL_GPU_H

#include "lib/model/layout.h"
#include "lib/model/shape.h"

enum {
	/* workspace of one operation: cuBLASLt, partial sums, sorting */
	DEVICE_WORKSPACE = 32 << 20,
	DEVICE_SIDE = 4 << 20, /* after it: what a GEMM hands to the next kernel, or gets */
	DEVICE_CONTEXT =
	    552 << 20, /* the driver's, with our kernels and the libraries' loaded; measured on an
			* H200 with CUDA 13.0, cuBLASLt 13.1 and cuDNN 9.19 */
};

/* Groups of ranks that have a communicator on GPUs. */
enum gpu_group {
	GPU_TENSOR,
	GPU_CONTEXT,
	GPU_DATA,
	GPU_PIPELINE,
	GPU_STAGE, /* all ranks of a stage, whose routers count the loads of all */
	GPU_EXPERTS,
	GPU_EXPERT_DATA,
	GPU_HEADS,    /* tensor ranks with copies of one group of keys and values */
	GPU_TABLE,    /* the stages that share a table */
	GPU_CHANNEL,  /* two stages, for one of four kinds of messages */
	GPU_INSTANCE, /* ranks with equal shards */
	GPU_RAIL,     /* ranks of several hosts at the same place, and those of a group together */
	GPU_GROUPS
};

/* The most multiprocessors that a collective of a group takes from concurrent computation; 0: as
 * many as are fastest. */
int gpu_group_blocks(enum gpu_group g, const struct train_shape *s);

/* Bytes of device memory through which pass a group's sums of floating types that every rank gets;
 * 0: it has none. */
size_t gpu_group_sums(enum gpu_group g);

/* What the communicators of a rank of stage pp take. What ranks map of each other's arenas is not
 * among it: about 2 bytes in 1,000 of what is mapped. */
uint64_t gpu_communicators(
    const struct layout *l, const struct model_config *c, const struct train_shape *s, int pp);
/* All bytes; 0 in double precision, which runs only on the CPU. */
uint64_t gpu_workspace(
    const struct layout *l, const struct model_config *c, const struct train_shape *s, int pp);

#endif
