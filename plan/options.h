/* options.h - the option tables of mplan's verbs, and the struct that they fill */
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include "lib/model/options.h"
#include "plan/days.h"
#include "plan/draw.h"
#include "plan/fit_options.h"
#include "lib/model/hardware.h"
#include "plan/memtable.h"
#include "plan/rankfile.h"
#include "plan/report.h"
#include "plan/sent_table.h"

struct plan_config {
	struct run_options run;
	int64_t world_size, top, pick;
	struct memtable_options mem;
	struct sent_options sent;
	struct draw_options draw;
	struct timeline_options timeline;
	struct rankfile_options rankfile;
	struct days_options days;
	struct report_options report;
	struct fit_options fit;
	int gpu;
	struct hardware hw;
	const char *output;
	bool force;
};

extern const struct opt plan_check_opts[], plan_mem_opts[], plan_draw_opts[], plan_simulate_opts[],
    plan_rankfile_opts[], plan_time_opts[], plan_search_opts[], plan_report_opts[], plan_fit_opts[];

/* What most plans have, for --help. */
#define PLAN_COMMON \
	"world-size model num-layers hidden-size num-attention-heads num-query-groups vocab-size " \
	"seq-length num-experts tensor-model-parallel-size pipeline-model-parallel-size " \
	"context-parallel-size expert-model-parallel-size micro-batch-size global-batch-size " \
	"bf16 data-parallel-sharding-strategy recompute-granularity config"

#endif
