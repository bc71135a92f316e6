/*
 * groups.c - communicators from the layout, made in the same order on every rank
 *
 * Splitting is collective over the world, so every rank makes every call in this order, also for
 * groups that it is not in (color -1, which gives NULL). Colors come from lib/model/layout, whose
 * properties are tested.
 */
#include "lib/model/gpu.h"
#include "train/engine/groups.h"
#include "train/watch/comm_log.h"

/* All ranks that differ only on these axes, in the world's order, which fixes the order of sums. */
static struct comm *
along(struct comm *world, const struct layout *l, unsigned axes, struct err *err)
{
	return world->ops->split(
	    COMM_HERE(world), (int)layout_group(l, axes, world->rank), world->rank, err);
}

/* A communicator along axes of the stage's ranks as they share experts. */
static struct comm *
among_experts(struct comm *world, const struct layout *l, unsigned axes, struct err *err)
{
	return world->ops->split(
	    COMM_HERE(world), (int)layout_expert_group(l, axes, world->rank), world->rank, err);
}

/* The host communicators; those that carry device memory are converted afterwards. The data group
 * spans data and context ranks, which hold the same weights. kv joins the tensor ranks that hold
 * copies of one key-value group; embedding joins first and last stage when they share the table.
 * The host's own group stays a host communicator, for inference. */
static int
split_world(struct groups *g, const struct run_plan *plan, struct comm *world, struct err *err)
{
	const struct model_config *c = &plan->model;
	const struct layout *l = &plan->layout;
	int coord[AX_COUNT];
	int last = (int)l->pipeline_model_parallel_size - 1;
	int64_t group_ranks = layout_group_ranks(l, c);
	bool shares_table = !c->untie_embeddings_and_output_weights && last > 0;

	layout_coord(l, world->rank, coord);
	g->world = world;
	if (!(g->host = along(world, l, AX_BIT(AX_TP) | AX_BIT(AX_CP), err)) ||
	    !(g->tp = along(world, l, AX_BIT(AX_TP), err)) ||
	    !(g->cp = along(world, l, AX_BIT(AX_CP), err)) ||
	    !(g->dp = along(world, l, AX_BIT(AX_CP) | AX_BIT(AX_DP), err)) ||
	    !(g->pp = along(world, l, AX_BIT(AX_PP), err)))
		return -1;
	if (c->num_experts &&
	    (!(g->ep = among_experts(world, l, EX_BIT(EX_TP) | EX_BIT(EX_EP), err)) ||
		!(g->edp = among_experts(world, l, EX_BIT(EX_DP), err))))
		return -1;
	g->kv = world->ops->split(COMM_HERE(world),
	    (int)(layout_group(l, AX_BIT(AX_TP), world->rank) * l->tensor_model_parallel_size +
		coord[AX_TP] / group_ranks),
	    world->rank, err);
	if (!g->kv)
		return -1;
	g->embedding = world->ops->split(COMM_HERE(world),
	    shares_table && (coord[AX_PP] == 0 || coord[AX_PP] == last)
		? (int)layout_group(l, AX_BIT(AX_PP), world->rank)
		: -1,
	    world->rank, err);
	return 0;
}

/* A group that carries device memory. */
struct device_group {
	struct comm **comm;
	enum comm_role role;
	enum gpu_group kind;
};

/* Converts a host communicator into the device's, if the device has its own. NCCL waits here for
 * the other ranks. */
static int
to_device(const struct device_group *g, const struct groups_config *c, struct comm *world,
    struct err *err)
{
	const struct comm_config config = { comm_role_name[g->role],
		gpu_group_blocks(g->kind, &c->plan->shape), gpu_group_sums(g->kind) };
	struct comm *made;

	if (!c->backend->comm)
		return 0;
	comm_log_begin(COMM_HERE(world), g->role, "connection");
	made = c->backend->comm(c->device, *g->comm, &config, err);
	comm_log_end(world);
	if (!made)
		return -1;
	*g->comm = made;
	return 0;
}

static int
open_group(const struct device_group *g, const struct groups_config *c, struct comm *world,
    struct err *err)
{
	const struct backend *queues = c->backend->passed ? c->backend : NULL;

	if (to_device(g, c, world, err) < 0)
		return -1;
	comm_log_join(world, *g->comm, &(struct comm_group){ g->role, queues, c->device });
	return 0;
}

/* Edge k of the ring of n stages leads from stage k to the next; those of one round have no stage
 * in common. */
int
channel_in_round(int round, int stage, int n)
{
	enum { EDGE_ROUNDS = CHANNEL_ROUNDS / 2 };
	bool back = round >= EDGE_ROUNDS;
	int edge[] = { (stage + n - 1) % n, stage }; /* from the stage before, to the next */

	for (int k = 0; k < 2; k++)
		if ((edge[k] == n - 1 && n % 2 ? EDGE_ROUNDS - 1 : edge[k] % 2) ==
		    round % EDGE_ROUNDS)
			return 2 * back + (k != (int)back);
	return -1;
}

/* The two stages at an edge, of the same place on all other axes. */
static int
open_channels(struct groups *g, const struct groups_config *c, struct comm *world, struct err *err)
{
	const struct layout *l = &c->plan->layout;
	int n = (int)l->pipeline_model_parallel_size, coord[AX_COUNT];
	int pipeline = (int)layout_group(l, AX_BIT(AX_PP), world->rank);

	layout_coord(l, world->rank, coord);
	for (int i = 0; i < CHANNEL_ROUNDS; i++) {
		int stage = coord[AX_PP], k = channel_in_round(i, stage, n);
		int edge = k == 0 || k == 3 ? (stage + n - 1) % n : stage;
		struct comm *made = world->ops->split(
		    COMM_HERE(world), k < 0 ? -1 : pipeline * n + edge, world->rank, err);

		if (k < 0)
			continue;
		g->channel[k] = made;
		if (!made ||
		    open_group(&(struct device_group){ &g->channel[k], COMM_PIPELINE, GPU_CHANNEL },
			c, world, err) < 0)
			return -1;
	}
	return 0;
}

/* Collective over world. A device communicator takes over its host communicator and frees it.
 * groups_close frees what was made before a failure. A backend without comm uses the host's
 * communicators, which can carry its memory too. */
int
groups_open(struct groups *g, const struct groups_config *c, struct comm *world, struct err *err)
{
	const struct device_group group[] = {
		{ &g->tp, COMM_TENSOR, GPU_TENSOR },
		{ &g->cp, COMM_CONTEXT, GPU_CONTEXT },
		{ &g->dp, COMM_DATA, GPU_DATA },
		{ &g->pp, COMM_PIPELINE, GPU_PIPELINE },
		{ &g->ep, COMM_EXPERTS, GPU_EXPERTS },
		{ &g->edp, COMM_EXPERT_DATA, GPU_EXPERT_DATA },
		{ &g->kv, COMM_HEADS, GPU_HEADS },
		{ &g->embedding, COMM_TABLE, GPU_TABLE },
	};
	int coord[AX_COUNT];

	if (split_world(g, c->plan, world, err) < 0)
		return -1;
	layout_coord(&c->plan->layout, world->rank, coord);
	comm_log_call_group(world, coord[AX_PP]);
	comm_log_join(world, g->host, &(struct comm_group){ COMM_LOGITS, NULL, NULL });
	for (size_t i = 0; i < sizeof group / sizeof *group; i++)
		if (*group[i].comm && open_group(&group[i], c, world, err) < 0)
			return -1;
	if (c->backend->comm && layout_schedule(&c->plan->layout, 1, true).overlap)
		return open_channels(g, c, world, err);
	return 0;
}

/* The world belongs to the caller. */
void
groups_close(struct groups *g)
{
	struct comm *all[] = { g->host, g->tp, g->cp, g->dp, g->pp, g->ep, g->edp, g->kv,
		g->embedding };
	int k;

	for (int i = 0; g->pp && i < CHANNEL_ROUNDS; i++)
		if ((k = channel_in_round(i, g->pp->rank, g->pp->size)) >= 0 && g->channel[k])
			g->channel[k]->ops->free(COMM_HERE(g->channel[k]));
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i])
			all[i]->ops->free(COMM_HERE(all[i]));
}
