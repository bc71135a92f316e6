/* shift.h - to the next rank */
#ifndef TRAIN_CALL_SHIFT_H
#define TRAIN_CALL_SHIFT_H

#include "train/call/call.h"

/* x, in place, becomes that of the rank before; the first rank's is the last one's. */
struct comm_shift {
	struct tensor x;
};

static inline struct comm_call
describe_shift(int size, const struct comm_shift *a)
{
	struct comm_call c = { "shift", tensor_bytes(&a->x) };

	(void)size;
	return c;
}

#endif

#ifdef CALL
CALL_MPI(shift, comm_shift)
#endif
