/* levels.c - the two levels of groups whose ranks are on several hosts */
#include "train/engine/levels.h"
#include "lib/base/mem.h"
#include "lib/base/prog.h"
#include "lib/base/tree.h"

#include <stdlib.h>

enum { NAMED = 4 }; /* hosts that a warning names, at most */

/* The ranks of a group in the world's order, and their hosts. */
struct group {
	int *member, *host;
	int size;
};

/* The group that a rank is in; empty where it is in none. */
static struct group
find_group(const int *group, const struct comm *world, int rank)
{
	struct group g = { .member = mem_alloc((size_t)world->size, sizeof *g.member),
		.host = mem_alloc((size_t)world->size, sizeof *g.host) };

	for (int r = 0; r < world->size; r++)
		if (group[r] >= 0 && group[r] == group[rank]) {
			g.member[g.size] = r;
			g.host[g.size++] = mpi_hosts(world)[r];
		}
	return g;
}

static void
release(struct group *g)
{
	free(g->member);
	free(g->host);
}

static bool
has_levels(const struct hosts *h)
{
	return h->count > 1 && h->inside > 1;
}

/* Whether a rank is the first of its group. */
static bool
leads(const int *group, int rank)
{
	int first = 0;

	while (group[first] != group[rank])
		first++;
	return group[rank] >= 0 && first == rank;
}

static bool
any_levels(const int *group, const struct comm *world)
{
	bool any = false;

	for (int r = 0; r < world->size && !any; r++) {
		struct group g;
		struct hosts h;

		if (!leads(group, r))
			continue;
		g = find_group(group, world, r);
		hosts_of(&h, g.host, g.size, 0);
		any = has_levels(&h);
		release(&g);
	}
	return any;
}

static int
own_number(const struct group *g, const struct comm *world)
{
	int own = 0;

	while (own < g->size && g->member[own] != world->rank)
		own++;
	return own;
}

/* Ranks of a host are known by the first of them, those of a rail by the one on the first host. */
int
levels_split(
    struct comm_levels *l, struct hosts *h, const int *group, struct comm *world, struct err *err)
{
	struct group g;
	int inside = -1, rail = -1, own;

	if (!any_levels(group, world))
		return 0;
	g = find_group(group, world, world->rank);
	own = own_number(&g, world);
	*h = (struct hosts){ .count = 1 };
	if (g.size)
		hosts_of(h, g.host, g.size, own);
	if (has_levels(h)) {
		inside = g.member[h->own * h->inside];
		rail = g.member[h->place];
	}
	release(&g);
	l->inside = world->ops->split(COMM_HERE(world), inside, world->rank, err);
	l->rail = world->ops->split(COMM_HERE(world), rail, world->rank, err);
	if (inside < 0)
		return 0;
	return l->inside && l->rail ? 1 : -1;
}

static bool
on_several_hosts(const struct group *g)
{
	for (int i = 1; i < g->size; i++)
		if (g->host[i] != g->host[0])
			return true;
	return false;
}

void
levels_hop(struct hop *hop, enum comm_role role, const int *group, const struct comm *world)
{
	struct group g;
	int own;

	*hop = (struct hop){ .role = role, .to = -1, .from = -1, .next = -1 };
	for (int r = 0; r < world->size; r++) {
		if (!leads(group, r))
			continue;
		g = find_group(group, world, r);
		hop->leaving += on_several_hosts(&g) ? g.size : 0;
		release(&g);
	}
	g = find_group(group, world, world->rank);
	own = own_number(&g, world);
	if (own < g.size && on_several_hosts(&g)) {
		hop->to = hosts_next(g.host, g.size, own, false);
		hop->from = hosts_next(g.host, g.size, own, true);
		hop->next = hop->to < 0 ? -1 : g.member[hop->to];
	}
	release(&g);
}

/* Appends how many ranks of a group are on each of its hosts: "3 on node1, 5 on node2". */
static void
add_hosts(const struct group *g, const struct comm *world, struct str *out)
{
	int hosts = 0;

	for (int i = 0; i < g->size; i++) {
		int count = 0, first = 0;

		while (g->host[first] != g->host[i])
			first++;
		if (first < i || hosts++ >= NAMED)
			continue;
		for (int k = i; k < g->size; k++)
			count += g->host[k] == g->host[i];
		str_addf(
		    out, "%s%d on %s", i ? ", " : "", count, mpi_host_name(world, g->member[i]));
	}
	if (hosts > NAMED)
		str_addf(out, ", the rest on %d more", hosts - NAMED);
}

/* True once something is said of the group. */
static bool
warn_of(enum comm_role role, const struct group *g, const struct comm *world)
{
	int first = g->member[0], last = g->member[g->size - 1];
	struct hosts h;
	struct str on = { 0 };
	bool tensor;

	hosts_of(&h, g->host, g->size, 0);
	tensor = role == COMM_TENSOR && h.count > 1;
	add_hosts(g, world, &on);
	if (tensor)
		warn("tensor ranks %d to %d are on several hosts, %s: every layer waits for the "
		     "network",
		    first, last, on.buf);
	if (!h.even)
		warn("%s %d to %d: %s, which are not equally many neighbours, a power of two of at "
		     "most %d: each sends to all others, with the same results, but more bytes go "
		     "between hosts",
		    comm_role_name[role], first, last, on.buf, TREE_TERMS);
	str_release(&on);
	return tensor || !h.even;
}

void
levels_warn(enum comm_role role, const int *group, const struct comm *world)
{
	bool said = world->rank != 0;

	for (int r = 0; r < world->size && !said; r++)
		if (leads(group, r)) {
			struct group g = find_group(group, world, r);

			said = warn_of(role, &g, world);
			release(&g);
		}
}
