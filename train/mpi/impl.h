/* impl.h - shared by the files of train/mpi */
#ifndef TRAIN_MPI_IMPL_H
#define TRAIN_MPI_IMPL_H

#include "train/comm.h"

/* num arrays of count elements, one after another in rank order. */
struct summands {
	const char *data;
	int num;
	int64_t count;
	enum dtype dtype;
};

/*
 * dst[i] = S(data[0][i], data[1][i], ...) of lib/base/tree.h, or their maximum. F16, BF16 and F32
 * are added in F32, F64 in F64, and the result is rounded to the element type once; I32 and I64
 * wrap around. A maximum over a NaN is NaN. dst holds count elements and does not overlap data;
 * nothing need be aligned. Other types are a BUG.
 */
void reduce_in_order(void *dst, const struct summands *s, enum reduce op);

#define DECLARE(name, type) void mpi_##name(struct comm *, struct stream *, const struct type *);
COMM_CALLS(DECLARE, DECLARE)
#undef DECLARE

#endif
