/* options.h - the option tables of mplan's verbs, and the struct that they fill */
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include "lib/model/options.h"
#include "plan/draw.h"
#include "lib/model/hardware.h"
#include "plan/memtable.h"

struct plan_config {
	struct run_options run;
	int64_t world_size, top, pick;
	struct memtable_options mem;
	struct draw_options draw;
	int gpu;
	struct hardware hw;
	const char *output;
	bool force;
};

extern const struct opt plan_check_opts[], plan_mem_opts[], plan_draw_opts[], plan_search_opts[];

#endif
