/*
 * libraries.c - ranks whose libraries have other versions: the first that differs from rank 0, its
 * host, and both versions are told before a library notices
 *
 * Without mpirun one rank agrees with itself; tests/parity/agree.sh runs it on several.
 */
#include "lib/base/str.h"
#include "tests/check.h"
#include "train/config/agree.h"

#include <unistd.h>

int
main(void)
{
	static const char older[] = "cuDNN 9.5.1, NCCL 2.28.3",
			  newer[] = "cuDNN 9.5.1, NCCL 2.30.7";
	struct err e = { "" };
	struct comm *world = mpi_world(&e);
	char host[256] = "", text[128], want[1024];
	bool last;
	int rc;

	CHECK(world);
	if (!world)
		return check_done();
	last = world->rank > 0 && world->rank == world->size - 1;
	gethostname(host, sizeof host - 1);
	snprintf(
	    text, sizeof text, "backend\tcuda\nlibraries\t%s\nbuffers\t1\n", last ? newer : older);
	snprintf(want, sizeof want,
	    "libraries: %s on rank 0 (%s), %s on rank %d (%s): must be the same on all ranks",
	    older, host, newer, world->size - 1, host);
	rc = agree_text(world, text, &e);
	CHECK(rc == (world->size > 1 ? -1 : 0));
	if (world->rank == 0 && world->size > 1)
		CHECK_STR(e.msg, want);
	world->ops->free(world);
	mpi_end();
	return check_done();
}
