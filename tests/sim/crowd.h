/* crowd.h - many seeds, each in a process of its own */
#ifndef SIM_CROWD_H
#define SIM_CROWD_H

#include "lib/base/err.h"
#include "tests/sim/case.h"

struct crowd {
	uint64_t first, last;
	int jobs;
	bool twice;                  /* each seed once more: the logs must be the same */
	struct case_options options; /* of each, apart from the seed */
	void (*take)(void *ctx, const struct result *r); /* told of each, in the order of ends */
	void *ctx;
};
/* -1 with a reason when no process can be made. */
int crowd_run(const struct crowd *c, struct err *e);

/* Starts this program again where the addresses or the libraries' threads would differ from one run
 * to the next. */
void crowd_alone(char **argv);

#endif
