/* options.c - the option tables of mplan's verbs */
#include "plan/options.h"

/* clang-format off */
#define WORLD \
	{ .type = OPT_GROUP, .help = "Run" }, \
	{ .name = "world-size", .type = OPT_INT, .off = offsetof(struct plan_config, world_size), \
	  .min = 1, .max = 10000000, \
	  .help = "ranks of the run; required" }
/* clang-format on */

const struct opt plan_check_opts[] = { WORLD,
	{ .name = "gpus-per-node",
	    .type = OPT_INT,
	    .off = offsetof(struct plan_config, sent.ranks_per_host),
	    .min = 1,
	    .max = 1e6,
	    .help = "also print the bytes that a rank sends in a step, by axis, inside hosts of so "
		    "many ranks and to other hosts" },
	{ .name = "json",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, sent.json),
	    .help = "these as one JSON object per axis, and nothing else",
	    .needs = "gpus-per-node" },
	RUN_OPTS(struct plan_config, run), OPT_END };

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

const struct opt plan_draw_opts[] = { WORLD,
	{ .name = "view",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct plan_config, draw.view),
	    .choices = draw_views,
	    .def = "timeline",
	    .help = "what is drawn: the passes of a step, the memory in use over it, or which "
		    "ranks are on which hosts" },
	{ .name = "format",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct plan_config, draw.format),
	    .choices = draw_formats,
	    .def = "text",
	    .help = "text, SVG, or the JSON of Chrome's tracing and Perfetto, which holds passes, "
		    "messages and memory" },
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, output),
	    .unit = "FILE",
	    .help = "write the drawing there, not to standard output" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, force),
	    .help = "replace a file that exists" },
	{ .name = "width",
	    .type = OPT_INT,
	    .off = offsetof(struct plan_config, draw.width),
	    .min = 1,
	    .max = 1e6,
	    .def = "96",
	    .unit = "N",
	    .help = "columns that a step takes" },
	{ .name = "passes",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, draw.passes),
	    .help = "one row per pass instead: a table of when it starts and ends" },
	TIMELINE_OPTS(struct plan_config, timeline), HARDWARE_OPTS(struct plan_config, hw, gpu),
	RUN_OPTS(struct plan_config, run), OPT_END };

const struct opt plan_simulate_opts[] = { WORLD, TIMELINE_OPTS(struct plan_config, timeline),
	HARDWARE_OPTS(struct plan_config, hw, gpu), RUN_OPTS(struct plan_config, run), OPT_END };

const struct opt plan_rankfile_opts[] = { WORLD,
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, output),
	    .unit = "FILE",
	    .help = "write the file there; required" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, force),
	    .help = "replace a file that exists" },
	{ .name = "launcher",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct plan_config, rankfile.launcher),
	    .choices = launchers,
	    .def = "openmpi4",
	    .help = "what reads the file: mpirun of Open MPI 4.1 or of 5, or srun" },
	{ .name = "hostfile",
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, rankfile.hostfile),
	    .unit = "FILE",
	    .help = "the names of the hosts, one at the begin of each line, as mpirun reads them; "
		    "without it mpirun takes their numbers in a batch system's allocation" },
	{ .name = "cores-per-host",
	    .type = OPT_INT,
	    .off = offsetof(struct plan_config, rankfile.cores),
	    .min = 1,
	    .max = 1e6,
	    .help = "cores of a host, shared out to its ranks; one for each by default" },
	HARDWARE_OPTS(struct plan_config, hw, gpu), RUN_OPTS(struct plan_config, run), OPT_END };

const struct opt plan_time_opts[] = { WORLD, DAYS_OPTS(struct plan_config, days),
	HARDWARE_OPTS(struct plan_config, hw, gpu), RUN_OPTS(struct plan_config, run), OPT_END };

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
	DAYS_OPTS(struct plan_config, days),
	{ .name = "target-days",
	    .type = OPT_NUMBER,
	    .off = offsetof(struct plan_config, days.target_days),
	    .min = 1e-6,
	    .max = 1e6,
	    .unit = "days",
	    .help = "search the fewest ranks with which the run ends in time; --world-size, if "
		    "given, is the most that there are",
	    .needs = "train-tokens" },
	HARDWARE_OPTS(struct plan_config, hw, gpu), RUN_OPTS(struct plan_config, run), OPT_END };

/* clang-format off */
#define REPORT_LIST(n, f, u, h) \
	{ .name = n, .type = OPT_LIST, .off = offsetof(struct plan_config, report.f), .unit = u, \
	  .help = h }
/* clang-format on */

const struct opt plan_report_opts[] = { { .type = OPT_GROUP, .help = "Page" },
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, output),
	    .unit = "FILE",
	    .help = "write the page there, not to standard output" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, force),
	    .help = "replace a report that exists" },
	{ .name = "title",
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, report.title),
	    .unit = "TEXT",
	    .help = "heading of the page; the names of the runs by default" },
	REPORT_LIST("label", label, "NAME",
	    "names of the runs, in the order of the metrics files; by default those of the files, "
	    "or of their directories"),
	REPORT_LIST("checkpoint", checkpoint, "DIR",
	    "directories of --save of the runs, in the same order, whose last options give the "
	    "plan; by default those that lie beside the metrics files and whose options name "
	    "them"),
	REPORT_LIST("samples", samples, "FILE",
	    "texts to show, such as mtrain --generate prints, one for each run"),
	HARDWARE_OPTS(struct plan_config, hw, gpu), OPT_END };

const struct opt plan_fit_opts[] = { { .type = OPT_GROUP, .help = "Rows" },
	{ .name = "rows",
	    .type = OPT_LIST,
	    .off = offsetof(struct plan_config, fit.rows),
	    .unit = "PREFIX",
	    .help = "only rows whose id begins with one of these; all by default" },
	{ .name = "each",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, fit.each),
	    .help = "the error of each row too" },
	{ .name = "output",
	    .letter = 'o',
	    .type = OPT_STRING,
	    .off = offsetof(struct plan_config, fit.output),
	    .unit = "FILE",
	    .help = "write the constants as a file for --stack" },
	{ .name = "force",
	    .type = OPT_FLAG,
	    .off = offsetof(struct plan_config, fit.force),
	    .help = "replace such a file that exists" },
	HARDWARE_OPTS(struct plan_config, hw, gpu), OPT_END };
