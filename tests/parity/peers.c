/*
 * peers.c - a preloaded library that counts to how many other ranks a rank sends
 *
 * At the end of MPI each rank writes the number to the file PEERS.RANK, PEERS from the environment.
 * Collectives of MPI itself are not counted.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 4096 };
static char sent_to[RANKS];

static void *
next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int
MPI_Isend(
    const void *bytes, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *request)
{
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	MPI_Group group, world;
	int rank = MPI_UNDEFINED;

	*(void **)&send = next("MPI_Isend");
	MPI_Comm_group(c, &group);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_translate_ranks(group, 1, &to, world, &rank);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	if (rank >= 0 && rank < RANKS)
		sent_to[rank] = 1;
	return send(bytes, n, t, to, tag, c, request);
}

int
MPI_Finalize(void)
{
	int (*end)(void), rank, count = 0;
	char path[4096];
	FILE *f;

	*(void **)&end = next("MPI_Finalize");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < RANKS; i++)
		count += sent_to[i];
	snprintf(path, sizeof path, "%s.%d", getenv("PEERS"), rank);
	f = fopen(path, "w");
	if (f) {
		fprintf(f, "%d\n", count);
		fclose(f);
	}
	return end();
}
