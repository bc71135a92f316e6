/* options.c - the option tables of mplan's verbs */
#include "plan/options.h"

/* clang-format off */
#define WORLD \
	{ .type = OPT_GROUP, .help = "Run" }, \
	{ .name = "world-size", .type = OPT_INT, .off = offsetof(struct plan_config, world_size), \
	  .min = 1, .max = 10000000, \
	  .help = "ranks of the run; required" }
/* clang-format on */

const struct opt plan_check_opts[] = { WORLD, RUN_OPTS(struct plan_config, run), OPT_END };

const struct opt plan_mem_opts[] = { WORLD,
	{ .name = "all-ranks",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, mem.all_ranks),
	    .help = "one row per rank" },
	{ .name = "buffers",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, mem.buffers),
	    .help = "one row per buffer" },
	{ .name = "json",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, mem.json),
	    .help = "one JSON object per row" },
	RUN_OPTS(struct plan_config, run), OPT_END };

const struct opt plan_search_opts[] = { WORLD,
	{ .name = "top",
	    .type = OPT_INT,
	    .off = offsetof(struct plan_config, top),
	    .min = 1,
	    .max = 1e6,
	    .def = "10",
	    .help = "rows to print" },
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, output),
	    .unit = "FILE",
	    .help = "write the best plan as an option file for mtrain --config" },
	{ .name = "pick",
	    .type = OPT_INT,
	    .off = offsetof(struct plan_config, pick),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .help = "with --output: write the plan of this rank instead" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, force),
	    .help = "replace a file that exists" },
	HARDWARE_OPTS(struct plan_config, hw, gpu), RUN_OPTS(struct plan_config, run), OPT_END };
