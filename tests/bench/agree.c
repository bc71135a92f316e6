/*
 * agree.c - mpirun -np N agree: milliseconds that ranks with the same options need to agree on
 * them: the slowest rank in the median round
 */
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "train/config/agree.h"
#include "train/config/config.h"

#include <stdlib.h>

enum { ROUNDS = 21 };

/* Seconds that the slowest rank needs for one agreement; all ranks start together. */
static double
once(struct comm *world, const struct train_config *c)
{
	struct err e;
	double since, seconds;
	struct tensor t = tensor_1d(&seconds, DTYPE_F64, 1);

	world->ops->barrier(world);
	since = clock_seconds();
	if (agree_options(world, c, &e) < 0)
		die("%s", e.msg);
	seconds = clock_seconds() - since;
	world->ops->all_reduce(world, NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	return seconds;
}

static int
by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int
main(int argc, char **argv)
{
	char *options[] = { argv[0], "--lr", "1e-3", "--data-path", "a", "b", "--bf16", NULL };
	struct train_config c;
	struct err e;
	double seconds[ROUNDS];
	struct comm *world;

	prog_begin(argv[0]);
	if (argc != 1)
		die_usage("usage: mpirun -np N agree");
	world = mpi_world(&e);
	if (!world || train_parse(&c, 7, options, &e) < 0)
		die("%s", e.msg);
	for (int i = 0; i < ROUNDS; i++)
		seconds[i] = once(world, &c);
	qsort(seconds, ROUNDS, sizeof *seconds, by_size);
	if (world->rank == 0)
		printf("%.3f\n", seconds[ROUNDS / 2] * 1000);
	train_release(&c);
	mpi_end();
	return prog_end(EXIT_DONE);
}
