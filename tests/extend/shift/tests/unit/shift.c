/* shift.c - run by several ranks: each gets what the one before it had */
#include "lib/base/mem.h"
#include "tests/check.h"
#include "train/comm.h"

enum { N = 300001 };

int
main(void)
{
	struct err e;
	struct comm *world = mpi_world(&e);
	double *x = mem_alloc(N, sizeof *x);
	int before = (world->rank + world->size - 1) % world->size;

	for (int i = 0; i < N; i++)
		x[i] = world->rank * N + i;
	world->ops->shift(world, NULL, &(struct comm_shift){ tensor_1d(x, DTYPE_F64, N) });
	for (int i = 0; i < N; i++)
		CHECK(x[i] == before * N + i);
	free(x);
	world->ops->free(world);
	mpi_end();
	return check_done();
}
