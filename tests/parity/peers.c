/*
 * peers.c - a preloaded library that counts the bytes that a rank sends to each other one
 *
 * At the end of MPI each rank writes lines "rank bytes" of those it has sent to into the file
 * PEERS.RANK, PEERS from the environment. Collectives of MPI itself are not counted.
 */
#include "tests/parity/preload.h"

enum { RANKS = 4096 };
static struct {
	long messages;
	long long bytes;
} sent[RANKS];

int
MPI_Isend(
    const void *bytes, int n, MPI_Datatype t, int to, int tag, MPI_Comm c, MPI_Request *request)
{
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
	MPI_Group group, world;
	int rank = MPI_UNDEFINED, size;

	*(void **)&send = next("MPI_Isend");
	MPI_Comm_group(c, &group);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_translate_ranks(group, 1, &to, world, &rank);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	MPI_Type_size(t, &size);
	if (rank >= 0 && rank < RANKS) {
		sent[rank].messages++;
		sent[rank].bytes += (long long)n * size;
	}
	return send(bytes, n, t, to, tag, c, request);
}

int
MPI_Finalize(void)
{
	FILE *f = rank_file("PEERS");
	int (*end)(void);

	*(void **)&end = next("MPI_Finalize");
	for (int i = 0; f && i < RANKS; i++)
		if (sent[i].messages)
			fprintf(f, "%d %lld\n", i, sent[i].bytes);
	if (f)
		fclose(f);
	return end();
}
