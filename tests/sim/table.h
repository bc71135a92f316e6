/* table.h - sums over many seeds, for people and for a file */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "tests/sim/case.h"

struct table {
	long seeds, failed, starts, yields, happened[STRIKE_KIND_COUNT], count[COUNT_COUNT],
	    status[STATUSES];
	long calls[LAYOUTS][CALL_COUNT], at[LAYOUTS][CALL_COUNT];
	double seconds, real; /* simulated, and of this machine */
	uint64_t logs;        /* the lower halves of the hashes of logs, added */
};
void table_add(struct table *t, const struct result *r);
void table_print(const struct table *t);
/* A row for each sum: two names and a number, separated by tabs. tests/tools/sim_tables.sh adds
 * such files. */
int table_write(const struct table *t, const char *path, struct err *e);

#endif
