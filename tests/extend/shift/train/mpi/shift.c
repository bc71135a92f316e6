/* shift.c - to the next rank, whose message takes the place of what was sent */
#include "lib/base/int64.h"
#include "train/mpi/impl.h"

enum { MESSAGE = 1 << 20, TAG = 0 };

void
mpi_shift(struct comm *c, struct stream *st, const struct comm_shift *a)
{
	const struct mpi_comm *m = c->impl;
	int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
	int64_t bytes = comm_elements(&a->x) * (int64_t)dtype_size(a->x.dtype);

	(void)st;
	for (int64_t done = 0; c->size > 1 && done < bytes; done += MESSAGE)
		mpi_check(c,
		    MPI_Sendrecv_replace((char *)a->x.data + done,
			(int)int64_min(MESSAGE, bytes - done), MPI_BYTE, next, TAG, before, TAG,
			m->mpi, MPI_STATUS_IGNORE),
		    "a shift");
}
