/*
 * places.c - where the ranks of the world are
 *
 * One gather, when the world is made, tells every rank the place of every other; what is asked
 * later needs no message. MPI's own division by shared memory does not serve: what shares memory is
 * not always a machine.
 */
#include "lib/base/mem.h"
#include "lib/model/hosts.h"
#include "train/mpi/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers equal texts alike, in the order of ranks. Of texts that begin with a boot's id, and a
 * blank, that alone counts where only the machine is asked for. */
static void
number(int *out, char (*where)[PROCESS_WHERE], int size, bool machine)
{
	int next = 0;

	for (int r = 0; r < size; r++) {
		size_t boot = strcspn(where[r], " ");
		int i = 0;

		while (i < r &&
		    (machine && boot ? strncmp(where[i], where[r], boot + 1)
				     : strcmp(where[i], where[r])))
			i++;
		out[r] = i < r ? out[i] : next++;
	}
}

void
mpi_places_open(struct comm *world)
{
	struct mpi_comm *m = world->impl;
	char(*where)[PROCESS_WHERE] = mem_zalloc((size_t)world->size, sizeof *where);
	struct tensor own = tensor_1d(where[world->rank], DTYPE_U8, sizeof *where),
		      all = tensor_1d(where, DTYPE_U8, (int64_t)sizeof *where * world->size);

	m->places.machine = mem_alloc((size_t)world->size, sizeof *m->places.machine);
	m->places.host = mem_alloc((size_t)world->size, sizeof *m->places.host);
	process_where(where[world->rank]);
	mpi_all_gather(world, NULL, &(struct comm_gather){ all, own });
	number(m->places.machine, where, world->size, true);
	number(m->places.host, where, world->size, false);
	m->places.where = where;
}

void
mpi_places_close(struct places *p)
{
	free(p->machine);
	free(p->host);
	free(p->where);
}

/* The number of a rank among those of its machine, and how many there are. */
static int
local_rank(const struct comm *world, int rank, int *local_size)
{
	const int *machine = ((const struct mpi_comm *)world->impl)->places.machine;
	int before = 0;

	*local_size = 0;
	for (int r = 0; r < world->size; r++) {
		before += r < rank && machine[r] == machine[rank];
		*local_size += machine[r] == machine[rank];
	}
	return before;
}

int
mpi_local_rank(const struct comm *world, int *local_size)
{
	return local_rank(world, world->rank, local_size);
}

const int *
mpi_hosts(const struct comm *world)
{
	return ((const struct mpi_comm *)world->impl)->places.host;
}

const char *
mpi_host_name(const struct comm *world, int rank)
{
	const char *where = ((const struct mpi_comm *)world->impl)->places.where[rank],
		   *blank = strchr(where, ' ');

	return blank ? blank + 1 : where;
}

/* Hosts of a machine that are already several are divided no further: a machine's ranks are cut in
 * their order. */
int
mpi_pretend_hosts(struct comm *world, int64_t hosts, struct err *e)
{
	struct places *p = &((struct mpi_comm *)world->impl)->places;
	int *key = mem_alloc((size_t)world->size, sizeof *key), next = 0, rc = 0;

	for (int r = 0; r < world->size && rc >= 0; r++) {
		int size, local = local_rank(world, r, &size);

		rc = hosts_pretended(local, size, hosts, e);
		key[r] = rc;
		if (r == world->rank && rc >= 0)
			process_pretend(rc);
	}
	for (int r = 0; r < world->size && rc >= 0; r++) {
		int i = 0;

		while (i < r && (p->machine[i] != p->machine[r] || key[i] != key[r]))
			i++;
		p->host[r] = i < r ? p->host[i] : next++;
		p->where[r][strcspn(p->where[r], "#")] = '\0';
		snprintf(p->where[r] + strlen(p->where[r]), sizeof *p->where - strlen(p->where[r]),
		    "#%d", key[r]);
	}
	free(key);
	return rc < 0 ? -1 : 0;
}

int
mpi_levels(struct comm *world, struct err *e)
{
	struct mpi_comm *m = world->impl;
	struct hosts h;

	hosts_of(&h, m->places.host, world->size, world->rank);
	if (h.count == 1 || h.inside == 1)
		return 0;
	m->inside = world->ops->split(COMM_HERE(world), h.own, world->rank, e);
	m->rail = world->ops->split(COMM_HERE(world), h.place, world->rank, e);
	return m->inside && m->rail ? 0 : -1;
}
