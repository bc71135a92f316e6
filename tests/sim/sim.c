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

#include <stdlib.h>
#include <string.h>

struct sim_config {
	const char *seeds, *layout, *export;
	int64_t seed, jobs, until;
	bool trace, twice, plain;
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
	long seeds, failed, starts, yields, happened[STRIKE_KIND_COUNT], status[STATUSES];
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
	for (int i = 0; i < STATUSES; i++)
		s->status[i] += r->status[i];
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

static void
take(void *ctx, const struct result *r)
{
	struct summary *s = ctx;

	add(s, r);
	if (r->failed)
		print_failure(r);
}

static int
run_sim(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct sim_config *c = cfg;
	struct crowd crowd = { .jobs = (int)c->jobs, .twice = c->twice, .take = take };
	struct summary s = { 0 };
	unsigned long long first = (unsigned long long)c->seed, last = first;
	double begin = clock_seconds();
	int rc = cli_operands(argc, 0, "none", e);

	(void)argv;
	if (rc == 0 && c->seeds && sscanf(c->seeds, "%llu:%llu", &first, &last) != 2)
		return err_set(e, "--seeds: '%s' is not FIRST:LAST", c->seeds);
	crowd.options = (struct case_options){ .layout = -1,
		.plain = c->plain,
		.loud = !c->seeds,
		.trace = c->trace,
		.until = (long)c->until,
		.export = c->export };
	if (rc == 0 && c->layout && (rc = crowd.options.layout = find_layout(c->layout, e)) >= 0)
		rc = 0;
	crowd.first = first;
	crowd.last = last;
	crowd.ctx = &s;
	if (rc < 0 || (rc = crowd_run(&crowd, e)) < 0)
		return rc;
	print(&s, clock_seconds() - begin);
	return s.failed ? EXIT_FAILED : EXIT_DONE;
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
