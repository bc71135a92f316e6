/* mtrain.c - train a language model on one process or on many */
#include "lib/base/prog.h"
#include "train/run.h"

#include <stdlib.h>

/* While the configuration is read every rank finds the same errors: rank 0 says them, all leave in order. */
static void
leave_together(int status)
{
	mpi_end();
	exit(status);
}

static struct comm *world;

/* Once work has begun, the first failure ends all ranks. */
static void
abort_all(int status)
{
	if (world->size > 1)
		world->ops->abort(world, status);
}

static void
print_version(void)
{
	char text[128] = "backends:";
	size_t n = 9;

	for (int i = 0; backends[i]; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, " %s", backends[i]->name);
	prog_version(text);
}

int
main(int argc, char **argv)
{
	struct train_config c;
	struct err err = { "" };
	int64_t ranks;
	int status;

	prog_begin(argv[0]);
	world = mpi_world(&err);
	if (!world)
		die("%s", err.msg);
	prog_on_exit(leave_together);
	prog_mute(world->rank != 0);
	train_parse(&c, argc, argv);
	if (c.parse.want_help || c.parse.want_version) {
		if (c.parse.want_version && world->rank == 0)
			print_version();
		leave_together(prog_end(EXIT_DONE));
	}
	if (train_check_launch(world->size, &err) < 0)
		die_usage("%s", err.msg);
	ranks = c.o.world_size ? c.o.world_size : world->size;
	if (c.o.world_size && !c.o.dry_run)
		die_usage("--world-size: is for --dry-run; a run has the ranks that mpirun starts");
	if (train_configure(&c, ranks, &err) < 0)
		die_usage("%s", err.msg);
	if (c.o.dry_run) {
		status = world->rank == 0 ? train_dry_run(&c, ranks) : EXIT_DONE;
	} else {
		prog_on_exit(abort_all);
		prog_mute(false);
		if (world->size > 1)
			prog_rank(world->rank);
		status = train_run(&c, world);
	}
	train_release(&c);
	status = prog_end(status);
	prog_on_exit(NULL);
	mpi_end();
	return status;
}
