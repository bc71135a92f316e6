/* gpu.c - GPU memory outside the arenas: which communicators a rank has, and what they take */
#include "lib/model/gpu.h"

#include "tests/check.h"
#include "tests/sized_model.h"

static struct model_config model;
static struct train_shape shape = { .dtype = DTYPE_BF16 };
static const struct optim_rule matrices = { .name = "whole", .matrix_states = 1 };

/* MiB beyond those of a single rank. */
static int64_t
more(const struct layout *l, int pp)
{
	static const struct layout one = { .tensor_model_parallel_size = 1,
		.context_parallel_size = 1,
		.data_parallel_size = 1,
		.pipeline_model_parallel_size = 1 };
	uint64_t all = gpu_workspace(l, &model, &shape, pp);

	CHECK(gpu_workspace(&one, &model, &shape, 0) ==
	    (uint64_t)DEVICE_CONTEXT + DEVICE_WORKSPACE + DEVICE_SIDE);
	return (int64_t)(all - gpu_workspace(&one, &model, &shape, 0)) >> 20;
}

/* NCCL itself, and a communicator of so many blocks: once per use, collectives or messages; and
 * with ROOM what sums pass through that each of its ranks gets. */
static int64_t
takes(int blocks, int uses)
{
	return 6 + (6 + 12 * uses) * blocks;
}

int
main(void)
{
	enum { NCCL = 422, ROOM = 16 };
	struct layout l = { .tensor_model_parallel_size = 1,
		.context_parallel_size = 1,
		.data_parallel_size = 4,
		.pipeline_model_parallel_size = 1 };
	int64_t one_host;

	model = sized_model((struct model_sizes){ 2, 64, 4, 4, 96, 32, 100 });
	CHECK(more(&l, 0) == NCCL + takes(16, 1));
	shape.grad_reduce_in_bf16 = true;
	CHECK(more(&l, 0) == NCCL + takes(16, 1));
	shape.grad_reduce_in_bf16 = false;

	/* Those that own whole matrices send messages. */
	shape.rule = &matrices;
	CHECK(more(&l, 0) == NCCL + takes(16, 1));
	shape.sharding = SHARDING_OPTIM;
	CHECK(more(&l, 0) == NCCL + takes(16, 2));
	shape.rule = NULL;
	CHECK(more(&l, 0) == NCCL + takes(16, 1));
	shape.sharding = SHARDING_NONE;

	/* Tensor ranks may use the whole device unless they communicate beside GEMMs. */
	l.data_parallel_size = 1;
	l.tensor_model_parallel_size = 2;
	CHECK(more(&l, 0) == NCCL + takes(24, 1) + ROOM);
	shape.tp_comm_overlap = true;
	CHECK(more(&l, 0) == NCCL + takes(16, 1) + ROOM);

	/* Stages exchange by one communicator, or by one for each kind of message; the first and
	 * the last share a table. */
	l.tensor_model_parallel_size = 1;
	l.pipeline_model_parallel_size = 4;
	model.untie_embeddings_and_output_weights = true;
	CHECK(more(&l, 0) == NCCL + takes(4, 1) && more(&l, 1) == more(&l, 0));
	model.untie_embeddings_and_output_weights = false;
	CHECK(more(&l, 1) == NCCL + takes(4, 1) && more(&l, 3) == more(&l, 1) + takes(4, 1) + ROOM);
	l.virtual_stages = 2;
	l.overlap_p2p = true;
	CHECK(more(&l, 1) == NCCL + takes(4, 0) + 4 * takes(2, 0));

	/* Ranks that share experts on several hosts have a communicator of their host, where it has
	 * several of them, and a rail for messages. */
	model.num_experts = 8;
	l = (struct layout){ 1, 1, 4, 1, .expert_model_parallel_size = 4 };
	one_host = more(&l, 0);
	l.expert_hosts = 2;
	CHECK(more(&l, 0) == one_host + takes(24, 1) + takes(4, 1));
	l.expert_hosts = 4;
	CHECK(more(&l, 0) == one_host + takes(4, 1));

	/* Instances have shards of experts, and equal shards of these, as of all else. */
	l = (struct layout){ 1, 1, 8, 1, .expert_model_parallel_size = 2 };
	one_host = more(&l, 0);
	l.optimizer_instances = 2;
	CHECK(more(&l, 0) == one_host + 2 * takes(16, 1) + 2 * (takes(4, 1) + ROOM));

	/* On two levels there are two rails more, to any rank and to those of the same place. */
	model.num_experts = 0;
	l = (struct layout){ 1, 1, 8, 1, .host_ranks = 8 };
	CHECK(more(&l, 0) == NCCL + takes(16, 1));
	l.host_ranks = 1;
	CHECK(more(&l, 0) == NCCL + takes(16, 1));
	l.host_ranks = 4;
	CHECK(more(&l, 0) == NCCL + takes(16, 1) + takes(4, 1) + takes(4, 2));
	l.optimizer_instances = 2; /* whose shards are inside a host, and each instance on one */
	CHECK(more(&l, 0) ==
	    NCCL + 2 * takes(16, 1) + takes(4, 1) + takes(4, 2) + takes(4, 1) + ROOM);
	l = (struct layout){ 2, 1, 4, 1, .host_ranks = 4 };
	CHECK(more(&l, 0) == NCCL + takes(16, 1) + ROOM + takes(16, 1) + takes(4, 1) + takes(4, 2));
	l.host_ranks = 2; /* one tensor pair each: data ranks have one level */
	CHECK(more(&l, 0) == NCCL + takes(16, 1) + ROOM + takes(16, 1));

	/* Through sockets a communicator of several hosts has fewer blocks, and no buffers here. */
	l = (struct layout){ 1, 1, 2, 1, .host_ranks = 1, .sockets = true };
	CHECK(more(&l, 0) == NCCL + takes(8, 0));
	l = (struct layout){ 2, 1, 1, 1, .host_ranks = 1, .sockets = true };
	CHECK(more(&l, 0) == NCCL + takes(8, 0) + ROOM);
	l.host_ranks = 2;
	CHECK(more(&l, 0) == NCCL + takes(16, 1) + ROOM);
	l = (struct layout){ 1, 1, 8, 1, .host_ranks = 4, .sockets = true };
	CHECK(more(&l, 0) == NCCL + takes(8, 0) + takes(4, 1) + takes(4, 0));

	shape.dtype = DTYPE_F64;
	CHECK(gpu_workspace(&l, &model, &shape, 0) == 0);
	return check_done();
}
