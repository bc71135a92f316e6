/*
 * rails.c - the rate at which each rank sends to another host, measured before the first step
 *
 * NCCL and MPI have no call that tells it. What is exchanged lies in an arena that the first pass
 * overwrites, so that no memory is taken for it; a run whose arenas are tiny is not measured.
 */
#include "train/run/rails.h"
#include "lib/base/prog.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A connection is made by the first bytes; the next ones tell how many the others are. */
enum { TIMES = 3, CONNECT = 64 << 10, LEAST = 1 << 20, MOST = 64 << 20 };
/* Of the exchanges that count, all together. */
static const double SECONDS = 1;

/* Bytes to the next host, and as many from the one before. */
struct trial {
	const struct engine *e;
	char *give, *take;
	struct event *begin, *end;
};

static bool
several_hosts(const struct comm *world)
{
	const int *host = mpi_hosts(world);
	int r = 1;

	while (r < world->size && host[r] == host[0])
		r++;
	return r < world->size;
}

static double
greatest(struct comm *world, double x)
{
	struct comm_reduce a = { tensor_1d(&x, DTYPE_F64, 1), REDUCE_MAX };

	world->ops->all_reduce(COMM_HERE(world), NULL, &a);
	return x;
}

/* What all ranks have room for, twice. */
static int64_t
take_room(struct trial *t)
{
	const struct engine *e = t->e;
	enum arena a =
	    e->mem.arena[ARENA_SAVED] > e->mem.arena[ARENA_SCRATCH] ? ARENA_SAVED : ARENA_SCRATCH;
	double half = (double)(e->mem.arena[a] / 2);
	int64_t bytes = (int64_t)-greatest(e->groups.world, -half);

	t->give = e->arena[a];
	t->take = t->give + e->mem.arena[a] / 2 / CONNECT * CONNECT;
	return bytes / CONNECT * CONNECT;
}

/* Seconds of an exchange, which all ranks begin together. One that goes to no other host has no
 * message in it, so that all make as many calls. */
static double
exchange(const struct trial *t, int64_t bytes)
{
	const struct engine *e = t->e;
	const struct hop *hop = &e->groups.hop;
	int64_t n = bytes / (int64_t)dtype_size(DTYPE_F32);
	struct p2p message[] = { { true, hop->to, 0, tensor_1d(t->give, DTYPE_F32, n) },
		{ false, hop->from, 0, tensor_1d(t->take, DTYPE_F32, n) } };
	struct comm *world = e->groups.world, *c = hop->comm;

	world->ops->barrier(COMM_HERE(world));
	if (!c)
		return 0;
	comm_log_begin(COMM_HERE(world), hop->role, "rate of rails");
	e->backend->record(e->stream, t->begin);
	c->ops->exchange(
	    COMM_HERE(c), e->stream, &(struct comm_messages){ message, hop->next < 0 ? 0 : 2 });
	e->backend->record(e->stream, t->end);
	engine_sync(e);
	comm_log_end(world);
	return e->backend->elapsed(t->begin, t->end);
}

/* As many as three exchanges have the time for, by what the slowest rank takes for the least. */
static int64_t
choose_bytes(const struct trial *t, int64_t room)
{
	double seconds = greatest(t->e->groups.world, exchange(t, LEAST));
	int64_t bytes = LEAST;

	while (2 * bytes <= MOST && 2 * bytes <= room &&
	    TIMES * seconds * (double)(2 * bytes) / LEAST <= SECONDS)
		bytes *= 2;
	return bytes;
}

/* In GB/s, by the fastest exchange: ranks begin together only nearly. 0 on a rank that goes to no
 * other host. */
static double
measure(struct trial *t)
{
	int64_t room = take_room(t), bytes;
	double least = INFINITY;

	if (room < LEAST)
		return 0;
	t->begin = t->e->backend->timer(t->e->device);
	t->end = t->e->backend->timer(t->e->device);
	exchange(t, CONNECT);
	bytes = choose_bytes(t, room);
	for (int i = 0; i < TIMES; i++)
		least = fmin(least, exchange(t, bytes));
	return least > 0 && t->e->groups.hop.next >= 0 ? (double)bytes * 1e-9 / least : 0;
}

static struct rail
own_rail(const struct engine *e)
{
	const struct comm *world = e->groups.world;
	struct rail r = { .next = e->groups.hop.comm ? e->groups.hop.next : -1 };

	snprintf(r.host, sizeof r.host, "%s", mpi_host_name(world, world->rank));
	r.local = mpi_local_rank(world, &r.sharing);
	r.cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
	ports_read(&r.ports, PORTS_DIR);
	r.rate = measure(&(struct trial){ .e = e });
	return r;
}

/* Elsewhere than on rank 0 there is no list. */
struct rails
rails_measure(const struct engine *e)
{
	struct comm *world = e->groups.world;
	struct rails r = { .count = world->size };
	struct rail own;
	size_t total;

	if (!several_hosts(world))
		return r;
	own = own_rail(e);
	r.rail = (struct rail *)(void *)world->ops->gather_bytes(
	    COMM_HERE(world), &own, sizeof own, 0, &total);
	r.nccl = e->backend->nccl_version ? e->backend->nccl_version() : 0;
	return r;
}

void
rails_say(const struct rails *r)
{
	struct str warning[RAILS_WARNINGS] = { { 0 } }, words = { 0 };
	const char *fault = rails_nccl_fault(r->nccl);
	int n;

	if (!r->rail)
		return;
	rails_words(r, &words);
	if (words.len)
		note("%s", words.buf);
	n = rails_warn(r, warning);
	for (int i = 0; i < n; i++)
		warn("%s", warning[i].buf);
	if (fault)
		note("this version of NCCL %s", fault);
	for (int i = 0; i < RAILS_WARNINGS; i++)
		str_release(&warning[i]);
	str_release(&words);
}

void
rails_release(struct rails *r)
{
	free(r->rail);
}
