/*
 * levels.c - train/comm.h of ranks on several hosts, made of three other communicators
 *
 * Rank (h, l) is at place l of host h, and number h L + l of H L. `inside` has the ranks of its
 * host, `rail` those with its place, `all` every rank. What leaves a host is cut in two: terms are
 * first added inside, so that one partial sum goes to each other host, and what comes from others
 * is passed on inside, so that it comes to a host once. Hosts hold aligned runs of 2^k ranks, whose
 * sum is a subtree of lib/base/tree.h: a block of the hosts' sums is TREE_TERMS / L of them, and
 * the bits are those of one level.
 *
 *   operation               inside the host                          along the rail
 *   reduce_scatter_parts    of each host j the parts (j, .)          partial j to host j
 *   all_gather(_parts)      of each host j the parts (j, .)          the own part to all hosts
 *   broadcast               from the rank at the root's place        from the root, at its place
 *   all_to_all              blocks of the own host                   -
 *
 * All else, and blocks for other hosts, goes straight between any two ranks, through `all`.
 */
#include "lib/base/mem.h"
#include "lib/base/tree.h"
#include "lib/model/hosts.h"
#include "train/comm.h"

#include <stdlib.h>
#include <string.h>

enum { PACK = 16 }; /* pieces begin at multiples of it, in elements, so that terms do too */

struct levels {
	struct comm *all, *inside, *rail;
	struct hosts h;
	const struct backend *backend;
	struct comm_ops ops;
};

/* --- parts ------------------------------------------------------------------------------------ */

/* The parts of the ranks of host j in whole, as a gather or scatter among them. */
static struct comm_parts
of_host(const struct levels *v, const struct comm_parts *p, int j)
{
	struct tensor flat = tensor_flat(&p->whole);
	int64_t n = flat.shape[0] / v->h.count;
	struct comm_parts part = *p;

	part.whole = tensor_rows(&flat, (p->reversed ? v->h.count - 1 - j : j) * n, n);
	part.event = p->event ? p->event + j * v->h.inside : NULL;
	return part;
}

/* The host that is i hosts after the own one. */
static int
next_host(const struct levels *v, int i)
{
	return (v->h.own + i) % v->h.count;
}

/* The own part to every other host, and theirs to their places in whole. */
static void
gather_rail(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct levels *v = c->impl;
	struct p2p *message = mem_alloc(2 * (size_t)v->h.count, sizeof *message);
	int n = 0;

	for (int i = 1; i < v->h.count; i++) {
		int from = next_host(v, i), to = next_host(v, v->h.count - i),
		    rank = from * v->h.inside + v->h.place;

		message[n++] = (struct p2p){ true, to, 0, p->part };
		message[n++] = (struct p2p){ false, from, 0, comm_whole(c, p, rank) };
	}
	v->rail->ops->exchange(v->rail, st, &(struct comm_messages){ message, n });
	free(message);
	for (int i = 1; p->event && i < v->h.count; i++)
		v->backend->record(st, p->event[next_host(v, i) * v->h.inside + v->h.place]);
}

static void
all_gather_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct levels *v = c->impl;

	(void)comm_part(c, &p->part, &p->whole);
	gather_rail(c, st, p);
	for (int i = 0; i < v->h.count; i++) {
		int j = next_host(v, i);
		struct comm_parts part = of_host(v, p, j);

		if (i > 0)
			part.part = comm_whole(c, p, j * v->h.inside + v->h.place);
		v->inside->ops->all_gather_parts(v->inside, st, &part);
	}
}

static void
all_gather(struct comm *c, struct stream *st, const struct comm_gather *a)
{
	struct levels *v = c->impl;
	struct comm_parts p = { .whole = a->out, .part = a->in };

	(void)comm_part(c, &a->in, &a->out);
	gather_rail(c, st, &p);
	for (int i = 0; i < v->h.count; i++) {
		int j = next_host(v, i);
		struct comm_gather g = { of_host(v, &p, j).whole, a->in };

		if (i > 0)
			g.in = comm_whole(c, &p, j * v->h.inside + v->h.place);
		v->inside->ops->all_gather(v->inside, st, &g);
	}
}

/* --- a scatter -------------------------------------------------------------------------------- */

/* Elements [first, first + count) of every part, and the room that their sums pass through: partial
 * sums for each host, [H, count], as many as come from other hosts, and terms from the others of
 * the own host. */
struct piece {
	int64_t first, count;
	struct tensor partials, arrivals, terms;
};

/* What partial sums are kept in, since they are rounded once, at the end. */
static enum dtype
partial_type(const struct comm_parts *p)
{
	if (dtype_size(p->whole.dtype) > 2)
		return p->whole.dtype;
	return p->part.dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* A tensor of n elements from a byte of the room on. */
static struct tensor
take(char **room, enum dtype t, int64_t n)
{
	struct tensor x = tensor_1d(*room, t, n);

	*room += tensor_bytes(&x);
	return x;
}

/* Elements of a piece; 0: there is no room for two levels. */
static int64_t
piece_size(const struct levels *v, const struct comm_parts *p, int64_t count)
{
	int64_t terms = (v->h.inside - 1) * (int64_t)dtype_size(p->whole.dtype),
		sums = (2 * v->h.count - 1) * (int64_t)dtype_size(partial_type(p)),
		most = (int64_t)tensor_bytes(&p->partial_sums) / (terms + sums);

	return most >= count ? count : most - most % PACK;
}

static struct piece
piece_at(const struct levels *v, const struct comm_parts *p, int64_t first, int64_t count)
{
	enum dtype partial = partial_type(p);
	char *room = p->partial_sums.data;
	struct piece k = { .first = first, .count = count };

	k.partials = take(&room, partial, v->h.count * count);
	k.arrivals = take(&room, partial, (v->h.count - 1) * count);
	k.terms = take(&room, p->whole.dtype, (v->h.inside - 1) * count);
	return k;
}

/* The sum of the ranks of the own host for each other host, then for the own one. */
static void
scatter_inside(
    const struct levels *v, struct stream *st, const struct comm_parts *p, const struct piece *k)
{
	for (int i = 1; i <= v->h.count; i++) {
		int j = next_host(v, i);
		struct comm_parts part = of_host(v, p, j);

		part.first = p->first + k->first;
		part.part = tensor_rows(&k->partials, j * k->count, k->count);
		part.partial_sums = k->terms;
		part.block = 0;
		v->inside->ops->reduce_scatter_parts(v->inside, st, &part);
	}
}

/* The sum of the hosts. */
static void
scatter_rail(
    const struct levels *v, struct stream *st, const struct comm_parts *p, const struct piece *k)
{
	struct tensor part = tensor_flat(&p->part);

	v->rail->ops->reduce_scatter_parts(v->rail, st,
	    &(struct comm_parts){ .whole = k->partials,
		.part = tensor_rows(&part, k->first, k->count),
		.partial_sums = k->arrivals,
		.block = TREE_TERMS / v->h.inside });
}

static void
reduce_scatter_parts(struct comm *c, struct stream *st, const struct comm_parts *p)
{
	struct levels *v = c->impl;
	int64_t count = comm_partial_sums(c, p), size = count ? piece_size(v, p, count) : 0;

	if (p->block)
		BUG("a sum of %d hosts in blocks of %d ranks", v->h.count, p->block);
	if (count && !size)
		v->all->ops->reduce_scatter_parts(v->all, st, p);
	for (int64_t first = 0; size && first < count; first += size) {
		struct piece k = piece_at(v, p, first, count - first < size ? count - first : size);

		scatter_inside(v, st, p, &k);
		scatter_rail(v, st, p, &k);
	}
}

/* --- the rest --------------------------------------------------------------------------------- */

static void
broadcast(struct comm *c, struct stream *st, const struct comm_broadcast *a)
{
	struct levels *v = c->impl;
	struct comm_broadcast out = { a->x, a->root / v->h.inside },
			      in = { a->x, a->root % v->h.inside };

	if (v->h.place == in.root)
		v->rail->ops->broadcast(v->rail, st, &out);
	v->inside->ops->broadcast(v->inside, st, &in);
}

/* Blocks of ranks of other hosts, of messages between all. */
static int
leaving(const struct levels *v, struct p2p *message, int count)
{
	int n = 0;

	for (int i = 0; i < count; i++)
		if (message[i].peer / v->h.inside != v->h.own)
			message[n++] = message[i];
	return n;
}

static void
all_to_all(struct comm *c, struct stream *st, const struct comm_arrays *a)
{
	struct levels *v = c->impl;
	int inside = v->h.inside, n;
	struct comm_block *own = mem_alloc((size_t)(a->count * inside), sizeof *own);
	struct p2p *message = comm_blocks(c, a->block, a->count, &n);

	for (int k = 0; k < a->count; k++)
		memcpy(own + k * inside, a->block + k * c->size + v->h.own * inside,
		    (size_t)inside * sizeof *own);
	n = leaving(v, message, n);
	v->inside->ops->all_to_all(v->inside, st, &(struct comm_arrays){ own, a->count });
	v->all->ops->exchange(v->all, st, &(struct comm_messages){ message, n });
	free(own);
	free(message);
}

/* Calls that are not cut in two, those of short arrays and those whose order of terms does not show
 * among them, go straight between any two ranks; so does every call that is added to the list. */
#define CALL(name, type) \
	static void straight_##name(struct comm *c, struct stream *st, const struct type *a) \
	{ \
		struct levels *v = c->impl; \
\
		v->all->ops->name(v->all, st, a); \
	}
#include "train/comm_list.h"

static struct comm *
split(struct comm *c, int color, int key, struct err *e)
{
	struct levels *v = c->impl;

	return v->all->ops->split(v->all, color, key, e);
}

/* The answer is that of the own host. */
static bool
share(struct comm *c, const struct comm_memory *piece, int count, struct err *why)
{
	struct levels *v = c->impl;

	return v->inside->ops->share(v->inside, piece, count, why);
}

static void
barrier(struct comm *c)
{
	struct levels *v = c->impl;

	v->all->ops->barrier(v->all);
}

static char *
gather_bytes(struct comm *c, const void *bytes, size_t len, int root, size_t *total)
{
	struct levels *v = c->impl;

	return v->all->ops->gather_bytes(v->all, bytes, len, root, total);
}

static void __attribute__((noreturn)) abort_all(struct comm *c, int status)
{
	struct levels *v = c->impl;

	v->all->ops->abort(v->all, status);
}

static void
free_levels(struct comm *c)
{
	struct levels *v = c->impl;

	v->inside->ops->free(v->inside);
	v->rail->ops->free(v->rail);
	v->all->ops->free(v->all);
	free(v);
	free(c);
}

/* A call that ranks do not have straight is not there either (train/comm.h). */
static void
fill_ops(struct comm_ops *o, const struct comm_ops *all)
{
	*o = (struct comm_ops){ .split = split,
		.share = share,
		.barrier = barrier,
		.gather_bytes = gather_bytes,
		.abort = abort_all,
		.free = free_levels };
#define CALL(name, type) o->name = all->name ? straight_##name : NULL;
#include "train/comm_list.h"
	o->all_gather_parts = all_gather_parts;
	o->all_gather = all_gather;
	o->reduce_scatter_parts = reduce_scatter_parts;
	o->broadcast = broadcast;
	o->all_to_all = all_to_all;
}

struct comm *
hosts_comm(const struct comm_levels *l, const struct hosts *h, const struct backend *b)
{
	struct comm *c = mem_zalloc(1, sizeof *c);
	struct levels *v = mem_zalloc(1, sizeof *v);

	if (!h->even || h->inside == 1 || h->count == 1)
		BUG("two levels of %d hosts of %d ranks", h->count, h->inside);
	*v = (struct levels){ l->all, l->inside, l->rail, *h, b };
	fill_ops(&v->ops, l->all->ops);
	c->ops = &v->ops;
	c->rank = l->all->rank;
	c->size = l->all->size;
	c->impl = v;
	return c;
}
