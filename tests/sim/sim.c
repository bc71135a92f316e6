/*
 * sim.c - sim --seeds A:B: simulates a disturbed run for each seed, checks it, and prints a table
 *
 * Each failure gets a line with the seed that repeats it; the exit status is then 1. sim --seed S
 * repeats one and prints what its ranks say; --trace prints every event.
 */
#include "lib/base/cli.h"
#include "lib/base/clock.h"
#include "lib/base/prog.h"
#include "tests/sim/case.h"
#include "tests/sim/crowd.h"
#include "tests/sim/sweep.h"
#include "tests/sim/table.h"

#include <stdlib.h>
#include <string.h>

struct sim_config {
	const char *seeds, *layout, *export, *faults, *part, *table;
	int64_t seed, jobs, until, stride, minutes, from, shorts;
	bool trace, twice, plain, shrink, sweep, half, srun, dark, stop;
};

static const struct opt sim_opts[] = {
	{ .name = "seeds",
	    .type = OPT_STRING,
	    .off = offsetof(struct sim_config, seeds),
	    .unit = "FIRST:LAST",
	    .help = "simulate these" },
	{ .name = "seed",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, seed),
	    .max = 1e15,
	    .def = "0",
	    .help = "simulate this one, and print what its ranks say" },
	{ .name = "trace",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, trace),
	    .help = "with --seed: print every event" },
	{ .name = "until",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, until),
	    .max = 1e15,
	    .def = "0",
	    .help = "with --seed: stop at this event with a trap, for a debugger; 0: never" },
	{ .name = "twice",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, twice),
	    .help = "simulate each seed twice and compare the logs" },
	{ .name = "plain",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, plain),
	    .help = "no faults: only the order of events is drawn" },
	{ .name = "faults",
	    .type = OPT_STRING,
	    .off = offsetof(struct sim_config, faults),
	    .unit = "LIST",
	    .help = "these in place of drawn ones: KIND:CALL[@PATH]:N[:RANK[:ERRNO[:TIMES]]], "
		    "several after commas, then-KIND: its calls count after the one before it; "
		    "kinds: kill, host, power, term, stop, slow, fail, fail-on, leap, short; "
		    "calls as in a trace, or any, or change; of PATH, whatever its numbers" },
	{ .name = "half",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, half),
	    .help = "begin with checkpoints of half of the run; drawn by default" },
	{ .name = "srun",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, srun),
	    .help = "with --faults: ranks live on when one has died; drawn by default" },
	{ .name = "dark",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, dark),
	    .help = "with --faults: power is lost when all is done; drawn by default" },
	{ .name = "short",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, shorts),
	    .max = 1e6,
	    .def = "0",
	    .unit = "N",
	    .help = "with --faults: one in N reads and writes is cut short; drawn by default" },
	{ .name = "shrink",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, shrink),
	    .help = "leave out the faults that a failure does not need" },
	{ .name = "sweep",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, sweep),
	    .help =
		"fail each call of each kind of each rank of each layout, once and from it on" },
	{ .name = "part",
	    .type = OPT_STRING,
	    .off = offsetof(struct sim_config, part),
	    .def = "1/1",
	    .unit = "K/N",
	    .help = "with --sweep: this of so many parts, which have no call in common" },
	{ .name = "from",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, from),
	    .max = 1e9,
	    .def = "0",
	    .help = "with --sweep: begin with this combination, where --minutes has ended it" },
	{ .name = "stride",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, stride),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .help = "with --sweep: each so manieth call" },
	{ .name = "stop",
	    .type = OPT_FLAG,
	    .off = offsetof(struct sim_config, stop),
	    .help = "end when a seed has failed" },
	{ .name = "minutes",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, minutes),
	    .max = 1e6,
	    .def = "0",
	    .help = "begin nothing more after as many, and say where to continue; 0: to the end" },
	{ .name = "table",
	    .type = OPT_STRING,
	    .off = offsetof(struct sim_config, table),
	    .unit = "FILE",
	    .help = "write the table there too: tests/tools/sim_tables.sh adds several" },
	{ .name = "layout",
	    .type = OPT_STRING,
	    .off = offsetof(struct sim_config, layout),
	    .unit = "NAME",
	    .help = "of all runs; drawn by default" },
	{ .name = "export",
	    .type = OPT_STRING,
	    .off = offsetof(struct sim_config, export),
	    .unit = "DIR",
	    .help = "with --seed: copy the simulated disk there at the end" },
	{ .name = "jobs",
	    .type = OPT_INT,
	    .off = offsetof(struct sim_config, jobs),
	    .min = 1,
	    .max = 256,
	    .def = "1",
	    .help = "seeds that are simulated at once" },
	OPT_END,
};

static void
print_failure(const struct result *r)
{
	char why[sizeof r->why];
	size_t n;

	snprintf(why, sizeof why, "%s", r->why);
	n = strlen(why);
	while (n && why[n - 1] == '\n')
		why[--n] = '\0';
	for (char *c = why; *c; c++)
		*c = *c == '\n' ? ';' : *c;
	printf("FAILED --seed %llu: %s: %s\n", (unsigned long long)r->seed, r->what, why);
	fflush(stdout);
}

static int
find_layout(const char *name, struct err *e)
{
	for (int i = 0; i < LAYOUTS; i++)
		if (!strcmp(layouts[i].name, name))
			return i;
	return err_set(e, "--layout: there is no layout '%s'", name);
}

/* A range of seeds. */
struct range {
	uint64_t next, last;
	const struct sim_config *config;
	struct case_options options; /* of each, apart from the seed */
	struct table sum;
	uint64_t failed; /* the last seed that failed */
	double until;    /* no seed is begun after it, by the clock; 0: there is no end */
};

static bool
next_seed(void *ctx, struct case_options *o)
{
	struct range *r = ctx;

	if (r->next > r->last || (r->config && r->config->stop && r->sum.failed) ||
	    (r->until && clock_seconds() > r->until))
		return false;
	*o = r->options;
	o->seed = r->next++;
	return true;
}

static void
take_seed(void *ctx, const struct case_options *o, const struct result *x)
{
	struct range *r = ctx;

	table_add(&r->sum, x);
	if (!x->failed)
		return;
	r->failed = o->seed;
	print_failure(x);
}

/* Leaves out one fault after the other, as long as the seed fails all the same. */
static int
shrink(const struct range *from, struct err *e)
{
	struct range r = { .options = from->options };
	struct crowd crowd = { .jobs = 1, .next = next_seed, .take = take_seed, .ctx = &r };

	for (int i = 0; i < STRIKES; i++) {
		unsigned before = r.options.dropped;

		r.next = r.last = from->failed;
		r.sum = (struct table){ 0 };
		r.options.dropped |= 1u << i;
		if (crowd_run(&crowd, e) < 0)
			return -1;
		if (!r.sum.failed)
			r.options.dropped = before;
	}
	return 0;
}

static int
begin_range(struct range *r, const struct sim_config *c, struct err *e)
{
	unsigned long long first = (unsigned long long)c->seed, last = first;

	if (c->seeds && sscanf(c->seeds, "%llu:%llu", &first, &last) != 2)
		return err_set(e, "--seeds: '%s' is not FIRST:LAST", c->seeds);
	r->next = first;
	r->last = last;
	r->options = (struct case_options){ .layout = c->layout ? find_layout(c->layout, e) : -1,
		.begins = c->half           ? BEGIN_HALF
		    : c->faults || c->plain ? BEGIN_START
					    : BEGIN_DRAWN,
		.plain = c->plain,
		.srun = c->srun,
		.dark = c->dark,
		.shorts = (int)c->shorts,
		.loud = !c->seeds && !c->shrink && !c->sweep,
		.trace = c->trace,
		.until = (long)c->until,
		.export = c->export };
	if (c->layout && r->options.layout < 0)
		return -1;
	if (c->faults)
		r->options.num_strikes = faults_parse(c->faults, r->options.strike, e);
	return r->options.num_strikes < 0 ? -1 : 0;
}

static int
run_sim(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct sim_config *c = cfg;
	struct range r = { .config = c };
	struct crowd crowd = { .jobs = (int)c->jobs,
		.twice = c->twice,
		.here = !c->seeds && !c->twice && !c->shrink,
		.next = next_seed,
		.take = take_seed,
		.ctx = &r };
	double begin = clock_seconds(), until = c->minutes ? begin + 60 * (double)c->minutes : 0;
	struct sweep s = { .options = &r.options,
		.jobs = (int)c->jobs,
		.stride = (long)c->stride,
		.from = (long)c->from,
		.until = until };
	int rc = cli_operands(argc, 0, "none", e);

	(void)argv;
	if (rc < 0 || begin_range(&r, c, e) < 0)
		return rc < 0 ? rc : -1;
	if (c->sweep && sscanf(c->part, "%d/%d", &s.part, &s.parts) == 2 && s.part >= 1 &&
	    s.part <= s.parts)
		return sweep_run(&s, e);
	if (c->sweep)
		return err_set(e, "--part: '%s' is not K/N", c->part);
	r.until = until;
	if (crowd_run(&crowd, e) < 0 || (c->shrink && r.sum.failed && shrink(&r, e) < 0))
		return -1;
	r.sum.real = clock_seconds() - begin;
	if (c->table && table_write(&r.sum, c->table, e) < 0)
		return -1;
	table_print(&r.sum);
	if (c->minutes && r.next <= r.last)
		printf("the time is over: continue with --seeds %llu:%llu\n",
		    (unsigned long long)r.next, (unsigned long long)r.last);
	return r.sum.failed ? EXIT_FAILED : EXIT_DONE;
}

static const struct verb *const verbs[] = {
	&(const struct verb){ "", "", "runs in a simulated cluster, disturbed and checked",
	    sim_opts, sizeof(struct sim_config), run_sim },
	NULL,
};

static const struct tool tool = {
	.name = "sim",
	.summary = "runs in a simulated cluster, disturbed and checked",
	.built_in = "CPU",
	.verbs = verbs,
};

int
main(int argc, char **argv)
{
	crowd_alone(argv);
	return cli_main(&tool, argc, argv);
}
