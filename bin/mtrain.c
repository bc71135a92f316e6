/*
 * mtrain.c - train a language model on one process or on many
 *
 * Until the configuration is agreed on, only rank 0 prints and all ranks leave in order, since
 * every rank finds the same; from then on a rank that fails says so with its number and ends the
 * world. Options are parsed before MPI starts, which may take for ever, and checked after that,
 * since MPI says which rank may print.
 */
#include "lib/base/prog.h"
#include "lib/base/str.h"
#include "train/config/agree.h"
#include "train/config/config.h"
#include "train/config/help.h"
#include "train/run/explain.h"
#include "train/run/launch.h"
#include "train/run/run.h"
#include "train/run/settle.h"
#include "train/watch/comm_log.h"
#include "train/watch/deadline.h"
#include "train/watch/stop.h"

#include <stdlib.h>
#include <string.h>

static struct comm *world;

/* MPI_Finalize waits for all ranks. */
static void
end_mpi(void)
{
	comm_log_begin(COMM_HERE(world), COMM_WORLD, "end of MPI");
	mpi_end();
	comm_log_end(world);
}

/* While the configuration is read every rank finds the same errors: rank 0 prints them, all leave
 * in order. */
static void
leave_together(int status)
{
	(void)status;
	end_mpi();
}

/* Once work has begun, the first failure ends all ranks. */
static void
abort_all(int status)
{
	if (world->size > 1)
		world->ops->abort(world, status);
}

/* MPI_Init waits for every rank that the launcher promised. */
static struct comm *
start_mpi(int64_t timeout)
{
	struct err err;
	struct comm *all;
	char text[160];

	snprintf(text, sizeof text,
	    "--init-timeout %lld: MPI_Init still waits after as many seconds: a rank did not start "
	    "or cannot be reached",
	    (long long)timeout);
	deadline_start(timeout, text);
	all = mpi_world(&err);
	deadline_met();
	if (!all)
		die("%s", err.msg);
	return all;
}

/* True when the options ask for a text alone, whatever else was given. */
static bool
only_tells(const struct train_config *c)
{
	return c->parse.want_help || c->parse.want_version || c->want_mdoc;
}

/* Collective; -1 on all ranks, with the reason on rank 0. parsed: what train_parse returned. The
 * ranks' options are compared before rules between them are: an error on one rank may come from
 * options that differ. */
static int
configure(struct train_config *c, int parsed, struct err *e)
{
	int rc, wrong = comm_agree(COMM_HERE(world), parsed, e);

	if (agree_options(world, c, e) < 0)
		return -1;
	if (only_tells(c))
		return wrong ? -1 : 0;
	/* No list of corpora is read for options that a rank cannot use. */
	if (!wrong && agree_lists(world, c, e) < 0)
		return -1;
	if (c->o.dry_run || wrong)
		rc = train_configure(c, train_planned_ranks(c, world->size), e);
	else if (launch_wanted(&c->o))
		rc = err_set(e, "--%s: the ranks are started already: leave it out",
		    c->o.launch ? "launch" : "ranks");
	else
		rc = train_check_launch(world->size, e);
	if (comm_agree(COMM_HERE(world), rc, e))
		return -1;
	return c->o.dry_run ? 0 : settle(c, world, e);
}

/* Collective, after configure has failed: whether a checkpoint or its tracker does not open on some
 * rank, which is not wrong usage and may have another end when the run is started again. */
static bool
unreadable(const struct train_config *c)
{
	double any = c->unreadable;
	struct tensor t = tensor_1d(&any, DTYPE_F64, 1);

	world->ops->all_reduce(COMM_HERE(world), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	return any != 0;
}

/* On rank 0 alone; --help wins over --version, and both over --dry-run. */
static int
answer(struct train_config *c)
{
	struct str text = { 0 };

	if (c->want_mdoc || c->parse.want_help) {
		train_help(c);
		return EXIT_DONE;
	}
	if (!c->parse.want_version)
		return train_dry_run(c, train_planned_ranks(c, world->size));
	backend_words(&text);
	prog_version(text.buf);
	str_release(&text);
	return EXIT_DONE;
}

/* With a launcher everything starts MPI, --version too, so that a launch gives one answer. Output
 * is flushed and checked before MPI ends. */
int
main(int argc, char **argv)
{
	struct train_config c;
	struct watchdog_config limits;
	struct watchdog *watchdog;
	struct err err = { "" };
	bool mdoc = argc == 2 && !strcmp(argv[1], "--mdoc");
	int status = EXIT_DONE, parsed;
	char **words = launch_words(argc, argv);

	prog_begin(argv[0]);
	stop_catch_signals();
	parsed = train_parse(&c, mdoc ? 1 : argc, argv, &err);
	c.want_mdoc = mdoc;
	/* Neither needs another rank. */
	if ((c.o.explain || c.parse.shell) && !only_tells(&c)) {
		if (parsed < 0)
			die_usage("%s", err.msg);
		status = prog_end(c.parse.shell ? train_completion(&c) : train_explain(&c));
		train_release(&c);
		prog_exit(status);
	}
	if (parsed == 0 && launch_wanted(&c.o) && !only_tells(&c) && !mpi_launched())
		launch_run(&c, words);
	free(words);
	world = start_mpi(c.o.init_timeout);
	prog_on_exit(leave_together);
	prog_mute(world->rank != 0);
	train_limits(&c.o, &limits);
	watchdog = watchdog_start(world, &limits);
	if (configure(&c, parsed, &err) < 0) {
		if (unreadable(&c))
			die("%s", err.msg);
		die_usage("%s", err.msg);
	}
	if (only_tells(&c) || c.o.dry_run) {
		stop_default_signals();
		if (world->rank == 0)
			status = answer(&c);
	} else {
		prog_on_exit(abort_all);
		prog_mute(false);
		if (world->size > 1)
			prog_rank(world->rank);
		status = train_run(&c, world, watchdog);
		lock_release(c.lock);
	}
	train_release(&c);
	status = prog_end(status);
	prog_on_exit(NULL);
	end_mpi();
	watchdog_stop(watchdog);
	prog_exit(status);
}
