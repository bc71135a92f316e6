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

#include <stdlib.h>
#include <string.h>

struct sim_config {
	const char *seeds, *layout, *export, *faults, *part;
	int64_t seed, jobs, until, stride;
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
	    .help =
		"these in place of drawn ones: KIND:CALL:N[:RANK[:ERRNO]], several after "
		"commas; kinds: kill, host, power, term, stop, slow, fail, fail-on, leap, short; "
		"calls as in a trace, or any" },
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

/* Sums over all seeds. */
struct summary {
	long seeds, failed, starts, yields, happened[STRIKE_KIND_COUNT], count[COUNT_COUNT],
	    status[STATUSES];
	long calls[LAYOUTS][CALL_COUNT], at[LAYOUTS][CALL_COUNT];
	double seconds;
};

static void
add(struct summary *s, const struct result *r)
{
	s->seeds++;
	s->failed += r->failed;
	s->starts += r->starts;
	s->yields += r->yields;
	s->seconds += r->seconds;
	for (int i = 0; i < STRIKE_KIND_COUNT; i++)
		s->happened[i] += r->happened[i];
	for (int i = 0; i < COUNT_COUNT; i++)
		s->count[i] += r->count[i];
	for (int i = 0; i < STATUSES; i++)
		s->status[i] += r->status[i];
	for (int i = 0; i < CALL_COUNT; i++) {
		s->calls[r->layout][i] += r->calls[i];
		s->at[r->layout][i] += r->at[i];
	}
}

/* What calls there are, of which layouts, and at which of them something has happened. */
static void
print_sites(const struct summary *s)
{
	int sites = 0, struck = 0;

	for (int i = 0; i < CALL_COUNT; i++) {
		long calls = 0, at = 0;

		for (int k = 0; k < LAYOUTS; k++) {
			calls += s->calls[k][i];
			at += s->at[k][i];
			sites += s->calls[k][i] > 0;
			struck += s->at[k][i] > 0;
		}
		printf("call\t%s\t%ld\tstruck\t%ld\n", call_names[i], calls, at);
	}
	printf("sites (a kind of call in a layout): %d, struck: %d\n", sites, struck);
}

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

static void
print(const struct summary *s, double seconds)
{
	static const char *const names[STATUSES] = { "0", "1", "2", "3", "4", "5", "6", "7",
		"signal" };

	for (int i = 0; i < STRIKE_KIND_COUNT; i++)
		printf("fault\t%s\t%ld\n", strike_names[i], s->happened[i]);
	for (int i = 0; i < COUNT_COUNT; i++)
		printf("also\t%s\t%ld\n", count_names[i], s->count[i]);
	print_sites(s);
	for (int i = 0; i < STATUSES; i++)
		if (s->status[i])
			printf("status\t%s\t%ld\n", names[i], s->status[i]);
	printf("%ld seeds, %ld failed: %ld starts, %ld calls, %.1f simulated hours, %.0f seeds an "
	       "hour\n",
	    s->seeds, s->failed, s->starts, s->yields, s->seconds / 3600,
	    (double)s->seeds / seconds * 3600);
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
	struct summary sum;
	uint64_t failed; /* the last seed that failed */
};

static bool
next_seed(void *ctx, struct case_options *o)
{
	struct range *r = ctx;

	*o = r->options;
	o->seed = r->next++;
	return o->seed <= r->last && !(r->config && r->config->stop && r->sum.failed);
}

static void
take_seed(void *ctx, const struct case_options *o, const struct result *x)
{
	struct range *r = ctx;

	add(&r->sum, x);
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
		r.sum = (struct summary){ 0 };
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
	struct sweep s = { .options = &r.options, .jobs = (int)c->jobs, .stride = (long)c->stride };
	double begin = clock_seconds();
	int rc = cli_operands(argc, 0, "none", e);

	(void)argv;
	if (rc < 0 || begin_range(&r, c, e) < 0)
		return rc < 0 ? rc : -1;
	if (c->sweep && sscanf(c->part, "%d/%d", &s.part, &s.parts) == 2 && s.part >= 1 &&
	    s.part <= s.parts)
		return sweep_run(&s, e);
	if (c->sweep)
		return err_set(e, "--part: '%s' is not K/N", c->part);
	if (crowd_run(&crowd, e) < 0 || (c->shrink && r.sum.failed && shrink(&r, e) < 0))
		return -1;
	print(&r.sum, clock_seconds() - begin);
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
