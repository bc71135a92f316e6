/*
 * groups.c - communicators from the layout, made in the same order on every rank
 *
 * Splitting is collective over the world, so every rank makes every call in this order, also for
 * groups that it is not in (color -1, which gives NULL). Colors come from lib/model/layout, whose
 * properties are tested.
 */
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/model/gpu.h"
#include "train/engine/groups.h"
#include "train/engine/levels.h"
#include "train/watch/comm_log.h"

#include <stdlib.h>

/* Which part of a group: all; of data ranks those of an instance, or those with equal shards; of
 * ranks that share experts those of a host, or those at the same place of each. */
enum cut { WHOLE, SHARD, INSTANCE, INSIDE = SHARD, RAIL = INSTANCE };

/* A communicator of the groups. */
struct member {
	struct comm **comm;
	enum comm_role role;
	enum gpu_group kind;
	enum cut cut;
};

/* The ranks of a stage that differ only on these axes of experts. */
static int64_t
among_experts(const struct run_plan *p, unsigned axes, int64_t rank)
{
	return p->model.num_experts ? layout_expert_group(&p->layout, axes, rank) : -1;
}

/* Tensor ranks that hold copies of one group of keys and values. */
static int64_t
heads_of(const struct run_plan *p, int64_t rank)
{
	int64_t each = layout_group_ranks(&p->layout, &p->model);
	int coord[AX_COUNT];

	layout_coord(&p->layout, rank, coord);
	return layout_group(&p->layout, AX_BIT(AX_TP), rank) *
	    p->layout.tensor_model_parallel_size +
	    coord[AX_TP] / each;
}

/* First and last stage, where they share a table. */
static int64_t
table_of(const struct run_plan *p, int64_t rank)
{
	int last = (int)p->layout.pipeline_model_parallel_size - 1, coord[AX_COUNT];

	layout_coord(&p->layout, rank, coord);
	return model_table_at_ends(&p->model) && last > 0 &&
		(coord[AX_PP] == 0 || coord[AX_PP] == last)
	    ? layout_group(&p->layout, AX_BIT(AX_PP), rank)
	    : -1;
}

/* The number of a rank's group of a role; -1: it is in none. The data group spans data and context
 * ranks, which hold the same weights. */
static int64_t
group_of(const struct run_plan *p, enum comm_role role, int64_t rank)
{
	const struct layout *l = &p->layout;

	switch (role) {
	case COMM_LOGITS: return layout_group(l, AX_BIT(AX_TP) | AX_BIT(AX_CP), rank);
	case COMM_TENSOR: return layout_group(l, AX_BIT(AX_TP), rank);
	case COMM_CONTEXT: return layout_group(l, AX_BIT(AX_CP), rank);
	case COMM_DATA: return layout_group(l, AX_BIT(AX_CP) | AX_BIT(AX_DP), rank);
	case COMM_PIPELINE: return layout_group(l, AX_BIT(AX_PP), rank);
	case COMM_STAGE:
		return layout_group(l, AX_BIT(AX_TP) | AX_BIT(AX_CP) | AX_BIT(AX_DP), rank);
	case COMM_EXPERTS: return among_experts(p, EX_BIT(EX_TP) | EX_BIT(EX_EP), rank);
	case COMM_EXPERT_DATA: return among_experts(p, EX_BIT(EX_DP), rank);
	case COMM_HEADS: return heads_of(p, rank);
	case COMM_TABLE: return table_of(p, rank);
	default: BUG("the group of role %d", (int)role);
	}
}

/* The number of a rank among the ranks of its group that is cut. */
static int64_t
number_of(const struct run_plan *p, enum comm_role role, int64_t rank)
{
	int coord[AX_COUNT], at[EX_COUNT];

	layout_coord(&p->layout, rank, coord);
	if (role == COMM_DATA)
		return layout_data_rank(&p->layout, coord);
	layout_expert_coord(&p->layout, coord, at);
	if (role == COMM_EXPERTS)
		return at[EX_TP] + layout_expert_slices(&p->layout) * at[EX_EP];
	return at[EX_DP];
}

/* How many ranks a SHARD or INSIDE of a role has, and how many of these there are. */
static int64_t
cut_ranks(const struct layout *l, enum comm_role role)
{
	return role == COMM_DATA   ? layout_shard_ranks(l)
	    : role == COMM_EXPERTS ? layout_expert_inside(l)
				   : layout_expert_shard_ranks(l);
}

static int64_t
cut_parts(const struct layout *l, enum comm_role role)
{
	return role == COMM_EXPERTS ? layout_expert_hosts(l) : layout_instances(l);
}

/* The number of the part of a group that a rank is in. */
static int64_t
part_of(const struct run_plan *p, const struct member *m, int64_t rank)
{
	int64_t group = group_of(p, m->role, rank), number, ranks;

	if (m->cut == WHOLE || group < 0)
		return group;
	number = number_of(p, m->role, rank);
	ranks = cut_ranks(&p->layout, m->role);
	return m->cut == SHARD ? group * cut_parts(&p->layout, m->role) + number / ranks
			       : group * ranks + number % ranks;
}

/* Whether the run has groups of this kind. */
static bool
has(const struct run_plan *p, const struct member *m)
{
	if ((m->role == COMM_EXPERTS || m->role == COMM_EXPERT_DATA) && !p->model.num_experts)
		return false;
	if (m->role == COMM_STAGE && !model_balances_globally(&p->model))
		return false;
	return m->cut == WHOLE || cut_parts(&p->layout, m->role) > 1;
}

/* The host communicators, in the world's order, which fixes the order of sums; those that carry
 * device memory are converted afterwards. */
static int
split_world(const struct member *m, int count, const struct run_plan *plan, struct comm *world,
    struct err *err)
{
	for (int i = 0; i < count; i++) {
		int color = (int)part_of(plan, &m[i], world->rank);

		if (!has(plan, &m[i]))
			continue;
		*m[i].comm = world->ops->split(COMM_HERE(world), color, world->rank, err);
		if (color >= 0 && !*m[i].comm)
			return -1;
	}
	return 0;
}

/* What a communicator of a role on a device is for. */
static struct comm_config
config_of(const struct member *m, const struct groups_config *c, enum gpu_group blocks)
{
	return (struct comm_config){ comm_role_name[m->role],
		gpu_group_blocks(blocks, &c->plan->shape), gpu_group_sums(m->kind) };
}

/* Converts a host communicator into the device's, if the device has its own. NCCL waits here for
 * the other ranks. */
static int
to_device(struct comm **comm, const struct member *m, const struct groups_config *c,
    const struct comm_config *config, struct comm *world, struct err *err)
{
	struct comm *made;

	if (!c->backend->comm)
		return 0;
	comm_log_begin(COMM_HERE(world), m->role, "connection");
	made = c->backend->comm(c->device, *comm, config, err);
	comm_log_end(world);
	if (!made)
		return -1;
	*comm = made;
	return 0;
}

/* Of a group on two levels: the communicator of all becomes the device's, and so do the two. */
static int
open_levels(const struct member *m, const struct groups_config *c, struct comm_levels *l,
    const struct hosts *h, struct comm *world, struct err *err)
{
	struct comm_config inside = config_of(m, c, m->kind), out = config_of(m, c, GPU_RAIL);

	inside.sum_bytes = 0;
	if (to_device(&l->all, m, c, &out, world, err) < 0)
		return -1;
	out.sum_bytes = 0;
	*m->comm = l->all;
	if (to_device(&l->inside, m, c, &inside, world, err) < 0 ||
	    to_device(&l->rail, m, c, &out, world, err) < 0)
		return -1;
	*m->comm = hosts_comm(l, h, c->backend);
	return 0;
}

/* Keeps that of the role that takes the most ranks to other hosts, the first of them. A rail has
 * one rank of each host. */
static void
keep_hop(struct hop *kept, const struct hop *hop, struct comm *comm, int inside)
{
	if (hop->leaving <= kept->leaving)
		return;
	*kept = *hop;
	kept->comm = comm;
	kept->to /= inside;
	kept->from /= inside;
}

/* What hosts have of the group, and its rails. Ranks of a rail, and any two, have few messages at a
 * time. Those that share experts take turns (train/layers/turns.h). */
static int
open_member(
    struct groups *g, const struct member *m, const struct groups_config *c, struct err *err)
{
	struct comm *world = g->world;
	struct comm_config config = config_of(m, c, m->kind);
	struct comm_levels l = { .all = *m->comm };
	int *group = mem_alloc((size_t)world->size, sizeof *group), levels = 0, rc = 0;
	struct hosts h;
	struct hop hop;

	for (int r = 0; r < world->size; r++)
		group[r] = (int)part_of(c->plan, m, r);
	levels_warn(m->role, group, world);
	levels_hop(&hop, m->role, group, world);
	if (m->role != COMM_EXPERTS)
		levels = levels_split(&l, &h, group, world, err);
	free(group);
	if (levels > 0)
		rc = open_levels(m, c, &l, &h, world, err);
	else if (levels == 0 && l.all)
		rc = to_device(m->comm, m, c, &config, world, err);
	keep_hop(&g->hop, &hop, levels > 0 ? l.rail : *m->comm, levels > 0 ? h.inside : 1);
	return levels < 0 ? -1 : rc;
}

static void
follow(const struct member *m, const struct groups_config *c, struct comm *world)
{
	const struct backend *queues = c->backend->passed ? c->backend : NULL;

	if (*m->comm)
		comm_log_join(world, *m->comm, &(struct comm_group){ m->role, queues, c->device });
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
	struct member m = { NULL, COMM_PIPELINE, GPU_CHANNEL };
	const struct comm_config config = config_of(&m, c, m.kind);

	layout_coord(l, world->rank, coord);
	for (int i = 0; i < CHANNEL_ROUNDS; i++) {
		int stage = coord[AX_PP], k = channel_in_round(i, stage, n);
		int edge = k == 0 || k == 3 ? (stage + n - 1) % n : stage;
		struct comm *made = world->ops->split(
		    COMM_HERE(world), k < 0 ? -1 : pipeline * n + edge, world->rank, err);

		if (k < 0)
			continue;
		m.comm = &g->channel[k];
		*m.comm = made;
		if (!made || to_device(m.comm, &m, c, &config, world, err) < 0)
			return -1;
		follow(&m, c, world);
	}
	return 0;
}

/* Collective over world. A device communicator takes over its host communicator and frees it.
 * groups_close frees what was made before a failure. A backend without comm uses the host's
 * communicators, which can carry its memory too. */
int
groups_open(struct groups *g, const struct groups_config *c, struct comm *world, struct err *err)
{
	/* The host's own group, of ranks with parts of the same logits, stays a host communicator,
	 * for inference; kv joins the tensor ranks with copies of a group of keys and values. */
	const struct member all[] = {
		{ &g->host, COMM_LOGITS, GPU_GROUPS },
		{ &g->tp, COMM_TENSOR, GPU_TENSOR },
		{ &g->cp, COMM_CONTEXT, GPU_CONTEXT },
		{ &g->dp, COMM_DATA, GPU_DATA },
		{ &g->shard, COMM_DATA, GPU_DATA, SHARD },
		{ &g->instance, COMM_DATA, GPU_INSTANCE, INSTANCE },
		{ &g->pp, COMM_PIPELINE, GPU_PIPELINE },
		{ &g->stage, COMM_STAGE, GPU_STAGE },
		{ &g->ep, COMM_EXPERTS, GPU_EXPERTS },
		{ &g->ep_inside, COMM_EXPERTS, GPU_EXPERTS, INSIDE },
		{ &g->ep_rail, COMM_EXPERTS, GPU_RAIL, RAIL },
		{ &g->edp, COMM_EXPERT_DATA, GPU_EXPERT_DATA },
		{ &g->eshard, COMM_EXPERT_DATA, GPU_EXPERT_DATA, SHARD },
		{ &g->einstance, COMM_EXPERT_DATA, GPU_INSTANCE, INSTANCE },
		{ &g->kv, COMM_HEADS, GPU_HEADS },
		{ &g->embedding, COMM_TABLE, GPU_TABLE },
	};
	enum { MEMBERS = sizeof all / sizeof *all };
	int coord[AX_COUNT];

	g->world = world;
	if (split_world(all, MEMBERS, c->plan, world, err) < 0)
		return -1;
	layout_coord(&c->plan->layout, world->rank, coord);
	comm_log_call_group(world, coord[AX_PP]);
	comm_log_join(world, g->host, &(struct comm_group){ COMM_LOGITS, NULL, NULL });
	for (int i = 1; i < MEMBERS; i++) {
		if (has(c->plan, &all[i]) && open_member(g, &all[i], c, err) < 0)
			return -1;
		follow(&all[i], c, world);
	}
	g->shard = g->shard ? g->shard : g->dp;
	g->eshard = g->eshard ? g->eshard : g->edp;
	g->ep_inside = g->ep_inside ? g->ep_inside : g->ep;
	if (c->backend->comm && layout_schedule(&c->plan->layout, 1, true).overlap)
		return open_channels(g, c, world, err);
	return 0;
}

/* The world belongs to the caller. */
void
groups_close(struct groups *g)
{
	struct comm *all[] = { g->host, g->tp, g->cp, g->dp, g->shard != g->dp ? g->shard : NULL,
		g->instance, g->pp, g->stage, g->ep, g->ep_inside != g->ep ? g->ep_inside : NULL,
		g->ep_rail, g->edp, g->eshard != g->edp ? g->eshard : NULL, g->einstance, g->kv,
		g->embedding };
	int k;

	for (int i = 0; g->pp && i < CHANNEL_ROUNDS; i++)
		if ((k = channel_in_round(i, g->pp->rank, g->pp->size)) >= 0 && g->channel[k])
			g->channel[k]->ops->free(COMM_HERE(g->channel[k]));
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i])
			all[i]->ops->free(COMM_HERE(all[i]));
}
