/* crowd.h - many seeds, each in a process of its own */
#ifndef SIM_CROWD_H
#define SIM_CROWD_H

#include "lib/base/err.h"
#include "tests/sim/case.h"

struct crowd {
	int jobs;
	bool twice; /* each once more: the logs must be the same */
	bool here;  /* in this process, for a debugger: there is one alone */
	/* The next case; false: there is none left. */
	bool (*next)(void *ctx, struct case_options *o);
	/* Told of each that has ended. */
	void (*take)(void *ctx, const struct case_options *o, const struct result *r);
	void *ctx;
};
/* -1 with a reason when no process can be made. */
int crowd_run(const struct crowd *c, struct err *e);

/* The result of a process that has ended with a status of waitpid(): failed, if it did not come to
 * the result's end. */
void crowd_note_end(struct result *r, int status);

/* Zeroes that all processes share; NULL: no memory. */
void *crowd_shared(size_t n);

/* Starts this program again where the addresses or the libraries' threads would differ from one run
 * to the next. */
void crowd_alone(char **argv);

#endif
