/* mplan.c - say whether a layout is legal and fits, search for the best one, and report on runs */
#include "plan/verbs.h"

static const struct verb *const verbs[] = { &plan_check, &plan_mem, &plan_draw, &plan_simulate,
	&plan_rankfile, &plan_time, &plan_search, &plan_fit, &plan_report, NULL };

static const struct tool tool = {
	.name = "mplan",
	.summary = "Plan a training run: what is legal, what fits, what is fast",
	.built_in = "nothing optional",
	.verbs = verbs,
};

/* cli_main finds the verb and gives it the options that were typed, which search needs to know. */
int
main(int argc, char **argv)
{
	return cli_main(&tool, argc, argv);
}
