/*
 * gpu.c - GPU memory that a rank uses outside the arenas
 *
 * What communicators take was measured by tests/gpu/footprint on H200s with NCCL 2.28: NCCL itself,
 * with the first; and of each communicator its state, and buffers for as many blocks as it may use,
 * which collectives and messages between two ranks each bring when the first of them is called.
 * How much less it is through sockets was measured by tests/gpu/hosts.sh.
 */
#include "lib/model/gpu.h"
#include "lib/model/hosts.h"

enum {
	NCCL = 422 << 20,
	NCCL_COMMUNICATOR = 6 << 20,
	NCCL_BLOCK = 6 << 20,    /* of a communicator that may use it */
	NCCL_BUFFERS = 12 << 20, /* of a block, for either use */
	/* most blocks of one that goes through sockets, whose buffers are the host's memory */
	SOCKETS = 8,
	/* blocks of communicators without a limit */
	COLLECTIVE = 24,
	MESSAGES = 32,
	CHANNELS_OF_STAGE = 4,
};

/* How a group communicates by NCCL. Ranks of one host that share memory pass it by. */
struct use {
	int64_t ranks;
	bool collectives, messages;
	bool sockets; /* between hosts */
};

static struct use
use_of(enum gpu_group g, const struct layout *l, const struct model_config *c,
    const struct train_shape *s, int pp)
{
	int64_t stages = l->pipeline_model_parallel_size;
	/* Ranks send each other their parts of the matrices that a rule updates as whole ones. */
	bool matrices = s->rule && s->rule->matrix_states > 0,
	     messages = matrices && s->sharding != SHARDING_NONE;
	bool overlap = layout_schedule(l, 1, true).overlap,
	     table = model_table_at_ends(c) && stages > 1 && (pp == 0 || pp == stages - 1);

	switch (g) {
	case GPU_TENSOR: return (struct use){ l->tensor_model_parallel_size, true, matrices };
	case GPU_CONTEXT:
		return (struct use){ l->context_parallel_size, c->num_experts > 0, false };
	case GPU_DATA: return (struct use){ layout_data_ranks(l), true, messages };
	case GPU_PIPELINE: return (struct use){ stages, s->fp8.format != FP8_NONE, !overlap };
	case GPU_STAGE:
		return (struct use){ model_balances_globally(c) ? layout_world(l) / stages : 1,
			true, false };
	case GPU_EXPERTS:
		return (struct use){ c->num_experts ? layout_expert_holders(l) : 1, true,
			matrices && layout_expert_slices(l) > 1 };
	case GPU_EXPERT_DATA:
		return (
		    struct use){ c->num_experts ? layout_expert_data_ranks(l) : 1, true, messages };
	case GPU_HEADS: return (struct use){ layout_group_ranks(l, c), true, false };
	case GPU_TABLE: return (struct use){ table ? 2 : 1, true, false };
	case GPU_CHANNEL: return (struct use){ overlap ? 2 : 1, false, false };
	case GPU_RAIL:
		return (struct use){ c->num_experts ? layout_expert_hosts(l) : 1, false, true };
	case GPU_INSTANCE: return (struct use){ layout_instances(l), true, false };
	default: return (struct use){ 1, false, false };
	}
}

/* Collectives that run beside computation may not occupy the whole device; those of few bytes and
 * messages of stages need not. */
int
gpu_group_blocks(enum gpu_group g, const struct train_shape *s)
{
	enum { OVERLAPPED = 16, FEW = 4, LEAST = 2 };

	switch (g) {
	case GPU_TENSOR: return s->tp_comm_overlap ? OVERLAPPED : 0;
	case GPU_CONTEXT:
	case GPU_DATA:
	case GPU_EXPERT_DATA: return OVERLAPPED;
	case GPU_PIPELINE:
	case GPU_STAGE:
	case GPU_HEADS:
	case GPU_TABLE:
	case GPU_INSTANCE:
	case GPU_RAIL: return FEW;
	case GPU_CHANNEL: return LEAST;
	default: return 0;
	}
}

/* Of gradients: norms, routers and biases; copies of keys and values; a table; what does not divide
 * among instances. */
size_t
gpu_group_sums(enum gpu_group g)
{
	enum { ROOM = 16 << 20 };

	return g == GPU_TENSOR || g == GPU_HEADS || g == GPU_TABLE || g == GPU_INSTANCE ? ROOM : 0;
}

/* The communicators of a group; with instances data ranks, and those of experts, have one of their
 * shards too, and with several hosts those that share experts one of their host. */
static uint64_t
copies_of(enum gpu_group g, const struct layout *l, const struct model_config *c)
{
	bool parts = layout_instances(l) > 1;

	switch (g) {
	case GPU_CHANNEL: return CHANNELS_OF_STAGE;
	case GPU_EXPERTS: return layout_expert_hosts(l) > 1 && layout_expert_inside(l) > 1 ? 2 : 1;
	case GPU_DATA: return parts && layout_shard_ranks(l) > 1 ? 2 : 1;
	case GPU_EXPERT_DATA: return parts && layout_expert_shard_ranks(l) > 1 ? 2 : 1;
	case GPU_INSTANCE: return c->num_experts ? 2 : 1;
	default: return 1;
	}
}

/* Whether data ranks are not the next after context ranks. */
static bool
data_is_apart(const struct layout *l)
{
	return layout_stride(l, AX_DP) > l->context_parallel_size * layout_stride(l, AX_CP);
}

/* How far neighbours in a group are from each other. */
static int64_t
stride_of(enum gpu_group g, const struct layout *l)
{
	int64_t data = layout_stride(l, data_is_apart(l) ? AX_DP : AX_CP);

	switch (g) {
	case GPU_CONTEXT: return layout_stride(l, AX_CP);
	case GPU_PIPELINE:
	case GPU_TABLE:
	case GPU_CHANNEL: return layout_stride(l, AX_PP);
	case GPU_DATA: return data;
	case GPU_EXPERT_DATA: return layout_expert_holders(l);
	case GPU_INSTANCE: return layout_shard_ranks(l) * data;
	case GPU_RAIL: return l->host_ranks ? l->host_ranks : 1;
	default: return 1;
	}
}

/* How many of them are made of two levels: hosts of so many ranks, of all and of shards. Those that
 * share experts take turns instead. Groups that other stages lie between are taken for such rows
 * only where one axis makes them. */
static uint64_t
levels_of(enum gpu_group g, const struct layout *l, int64_t ranks)
{
	bool apart = data_is_apart(l), row = !apart || l->context_parallel_size == 1,
	     parts = layout_instances(l) > 1;
	int64_t stride = stride_of(g, l), host = l->host_ranks;
	bool all = hosts_two_levels(ranks, stride, host);

	switch (g) {
	case GPU_TENSOR:
	case GPU_HEADS:
	case GPU_CONTEXT:
	case GPU_PIPELINE: return all;
	case GPU_STAGE: return !apart && all;
	case GPU_EXPERT_DATA:
		return (!apart && all) +
		    (!apart && parts &&
			hosts_two_levels(layout_expert_shard_ranks(l), stride, host));
	case GPU_DATA:
		return (row && all) +
		    (row && parts && hosts_two_levels(layout_shard_ranks(l), stride, host));
	case GPU_INSTANCE: return row && all;
	default: return 0;
	}
}

/* A communicator that may use so many blocks, 0 as all. */
static uint64_t
bytes_of(const struct use *u, int blocks)
{
	int collective = blocks ? blocks : COLLECTIVE, messages = blocks ? blocks : MESSAGES;

	if (u->sockets)
		return NCCL_COMMUNICATOR +
		    (uint64_t)(collective < SOCKETS ? collective : SOCKETS) * NCCL_BLOCK;
	return NCCL_COMMUNICATOR + (uint64_t)collective * NCCL_BLOCK +
	    (uint64_t)(u->collectives ? collective : 0) * NCCL_BUFFERS +
	    (uint64_t)(u->messages ? messages : 0) * NCCL_BUFFERS;
}

/* Of two levels the one inside a host is the group's on one host. The others are rails, to any rank
 * and to those of the same place (train/engine/groups.c). */
uint64_t
gpu_communicators(
    const struct layout *l, const struct model_config *c, const struct train_shape *s, int pp)
{
	uint64_t bytes = layout_world(l) > 1 ? NCCL : 0;
	int rail = gpu_group_blocks(GPU_RAIL, s);

	for (enum gpu_group g = 0; g < GPU_GROUPS; g++) {
		const struct use inside = use_of(g, l, c, s, pp);
		struct use u = inside, out = { u.ranks, u.collectives, true };

		if (u.ranks <= 1)
			continue;
		u.sockets = l->sockets && u.ranks * stride_of(g, l) > l->host_ranks;
		out.sockets = u.sockets;
		bytes +=
		    copies_of(g, l, c) * (bytes_of(&u, gpu_group_blocks(g, s)) + gpu_group_sums(g));
		bytes +=
		    levels_of(g, l, u.ranks) * (bytes_of(&inside, rail) + bytes_of(&out, rail));
	}
	return bytes;
}

uint64_t
gpu_workspace(
    const struct layout *l, const struct model_config *c, const struct train_shape *s, int pp)
{
	uint64_t own = (uint64_t)DEVICE_WORKSPACE + DEVICE_SIDE + DEVICE_CONTEXT;

	return s->dtype == DTYPE_F64 ? 0 : own + gpu_communicators(l, c, s, pp);
}
