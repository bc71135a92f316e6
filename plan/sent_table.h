/* sent_table.h - the bytes that a rank sends in a step, as a table */
#ifndef PLAN_SENT_TABLE_H
#define PLAN_SENT_TABLE_H

#include "lib/model/options.h"

#include <stdio.h>

struct sent_options {
	int64_t ranks_per_host; /* 0: not asked for */
	bool json;
};

/* A row for each axis that sends: bytes inside hosts and to other hosts, rounded to whole ones. */
void sent_print(const struct run_plan *plan, const struct sent_options *o, FILE *f);

#endif
