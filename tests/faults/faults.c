/*
 * faults.c - faults --seed S --count N: does N injections, taking the classes in turn, checks them,
 * and prints a table of the outcomes
 *
 * Each failure gets a line with the number that repeats it (--only), and the exit status is then 1.
 */
#include "lib/base/cli.h"
#include "lib/base/prog.h"
#include "tests/faults/trial.h"

#include <string.h>

enum { CLASSES_MAX = 64, STATUSES = 9, PROBLEMS = 3 };

struct faults_config {
	int64_t seed, count, only;
	const char *class;
};

static const struct opt faults_opts[] = {
	{ .name = "seed",
	    .type = OPT_INT,
	    .off = offsetof(struct faults_config, seed),
	    .max = 1e15,
	    .def = "1",
	    .help = "seed of the random choices, together with the injection's number" },
	{ .name = "count",
	    .type = OPT_INT,
	    .off = offsetof(struct faults_config, count),
	    .min = 1,
	    .max = 1e6,
	    .def = "20",
	    .help = "injections" },
	{ .name = "only",
	    .type = OPT_INT,
	    .off = offsetof(struct faults_config, only),
	    .min = -1,
	    .max = 1e6,
	    .def = "-1",
	    .help = "only this injection, with its output" },
	{ .name = "class",
	    .type = OPT_STRING,
	    .off = offsetof(struct faults_config, class),
	    .unit = "TEXT",
	    .help = "only classes whose names contain the text" },
	OPT_END,
};

/* A row of the table; the outcome counts the exit statuses. */
struct tally {
	int made, skipped, struck, failed, status[STATUSES];
};
struct summary {
	struct tally class[CLASSES_MAX];
	int verdict[VERDICT_COUNT];
};

static void
count(struct summary *s, const struct trial *t, int class)
{
	struct tally *row = &s->class[class];
	bool failed = false;

	row->made++;
	row->struck += t->struck;
	if (t->status != COMMAND_HUNG)
		row->status[t->status < STATUSES - 1 ? t->status : STATUSES - 1]++;
	for (int v = 0; v < VERDICT_COUNT; v++) {
		s->verdict[v] += t->verdict[v];
		failed |= t->verdict[v];
	}
	row->failed += failed;
}

/* One line, of the first problems; with its output when only this one was asked for. */
static void
print_trial(const struct trial *t, bool whole)
{
	struct str text = { 0 };
	char *rest = NULL, *line = t->problems.buf ? strtok_r(t->problems.buf, "\n", &rest) : NULL;

	str_addf(&text, "--seed %lld --only %d: %s: %s", (long long)t->seed, t->index,
	    t->class->name, t->what);
	for (int i = 0; line && (whole || i < PROBLEMS); i++, line = strtok_r(NULL, "\n", &rest))
		str_addf(&text, "; %s", line);
	warn("%s%s", text.buf, line ? "; and more" : "");
	if (whole && t->said.buf)
		fputs(t->said.buf, stderr);
	str_release(&text);
}

/* The classes take turns, so that few injections meet most of them. -1 when it could not be
 * made. */
static int
inject(struct scene *scene, const struct faults_config *c, int index, struct summary *s)
{
	int class = (int)((index + c->seed) % fault_num_classes), rc;
	struct trial t = { .scene = scene,
		.seed = (uint64_t)c->seed,
		.index = index,
		.class = &fault_classes[class] };
	struct err e;

	if (c->class && !strstr(t.class->name, c->class))
		return 0;
	rc = trial_make(&t, &e);
	if (rc < 0)
		warn("--seed %lld --only %d: %s: %s", (long long)c->seed, index, t.class->name,
		    e.msg);
	else if (rc > 0)
		s->class[class].skipped++;
	else
		count(s, &t, class);
	if (t.problems.len || (c->only >= 0 && rc == 0))
		print_trial(&t, c->only >= 0);
	trial_release(&t);
	return rc;
}

/* TSV, and a line for people. Returns how many failed. */
static int
print(const struct summary *s)
{
	int made = 0, struck = 0, failed = 0;

	printf("class\tinjections\tskipped\tstruck\texit_0\texit_1\texit_2\texit_3\texit_"
	       "4\tkilled\tfailed\n");
	for (int i = 0; i < fault_num_classes; i++) {
		const struct tally *r = &s->class[i];

		if (r->made + r->skipped == 0)
			continue;
		printf("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", fault_classes[i].name,
		    r->made, r->skipped, r->struck, r->status[0], r->status[1], r->status[2],
		    r->status[3], r->status[4], r->status[STATUSES - 1], r->failed);
		made += r->made;
		struck += r->struck;
		failed += r->failed;
	}
	printf("%d injections, %d struck: %d lost checkpoints, %d hangs, %d silent differences, %d "
	       "ends that are not stated\n",
	    made, struck, s->verdict[VERDICT_LOST], s->verdict[VERDICT_HUNG],
	    s->verdict[VERDICT_DIFFERS], s->verdict[VERDICT_UNSTATED]);
	return failed;
}

static int
run_faults(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct faults_config *c = cfg;
	struct summary s = { 0 };
	struct scene scene = { 0 };
	int rc = cli_operands(argc, 0, "none", e), first = c->only < 0 ? 0 : (int)c->only, failed;

	(void)argv;
	if (rc == 0)
		rc = scene_open(&scene, e);
	if (rc < 0)
		return rc;
	rc = 0;
	for (int i = first; rc >= 0 && i < (c->only < 0 ? (int)c->count : first + 1); i++)
		rc = inject(&scene, c, i, &s);
	scene_close(&scene);
	failed = print(&s);
	return rc < 0 || failed ? EXIT_FAILED : EXIT_DONE;
}

static const struct verb *const verbs[] = {
	&(const struct verb){ "", "", "disturb tiny runs, and see that nothing is lost",
	    faults_opts, sizeof(struct faults_config), run_faults },
	NULL,
};

static const struct tool tool = {
	.name = "faults",
	.summary = "disturb tiny runs, and see that nothing is lost",
	.built_in = "CPU",
	.verbs = verbs,
};

int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
