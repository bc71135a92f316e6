/* impl.h - shared by the files of train/mpi */
#ifndef TRAIN_MPI_IMPL_H
#define TRAIN_MPI_IMPL_H

#include "lib/base/process.h"
#include "train/comm.h"

#include <mpi.h>

/* Where the ranks of the world are. */
struct places {
	int *machine, *host; /* of each rank their numbers, in the order of ranks; of the world */
	char (*where)[PROCESS_WHERE]; /* likewise, as process_where() tells it */
};

/* What a communicator keeps besides its rank and size; arrays grow to what the largest
 * exchange needs. */
struct mpi_comm {
	MPI_Comm mpi; /* MPI_COMM_NULL in a process without MPI */
	/* shared by every communicator of the process; the world's free() frees it */
	char *staging;
	bool owns_staging;
	MPI_Request *request;
	size_t num_requests, max_requests;
	int *count, *start; /* one per rank, for MPI_Allgatherv */
	/* of the world alone; the second and third where ranks are even on several hosts, else
	 * NULL */
	struct places places;
	struct comm *inside, *rail;
};

/* Collective over the world. */
void mpi_places_open(struct comm *world);
void mpi_places_close(struct places *p);

/* Ends the world when MPI reports a failure: one line, with what it was in, and a status. */
void mpi_check(struct comm *c, int rc, const char *what);

/* num arrays of count elements, one after another in rank order. */
struct summands {
	const char *data;
	int num;
	int64_t count;
	enum dtype dtype;
	int block;     /* terms of a block of the sum; 0: TREE_TERMS */
	enum dtype to; /* of the result: dtype, or for a sum of floating types another */
};

/*
 * dst[i] = S(data[0][i], data[1][i], ...) of lib/base/tree.h, or their maximum. F16, BF16 and F32
 * are added in F32, F64 in F64, and the result is rounded to its type once; I32 and I64 wrap
 * around. A maximum over a NaN is NaN. dst holds count elements and does not overlap data;
 * nothing need be aligned. Other types are a BUG.
 */
void reduce_in_order(void *dst, const struct summands *s, enum reduce op);

#define CALL(name, type) void mpi_##name(struct comm *, struct stream *, const struct type *);
#include "train/comm_list.h"

#endif
