/* sweep.h - every call fails once */
#ifndef SIM_SWEEP_H
#define SIM_SWEEP_H

#include "lib/base/err.h"
#include "tests/sim/case.h"

struct sweep {
	const struct case_options *options; /* layout: -1: each */
	int jobs;                           /* runs at once */
	long stride;                        /* each so manieth call */
	int part, parts;                    /* the part-th, from 1 on, of so many */
	long from;                          /* the combination that is the first */
	double until;                       /* none is begun after it; 0: there is no end */
};
/* For each kind of call and each rank of a layout: fails the n-th one, alone or with all after it,
 * for n = 1, 1 + stride, ... until a run ends before it comes to the n-th; in a run from the
 * beginning, and in one from half of it. What a failed start leaves on the disk is continued once,
 * however many failures leave the same. An exit status, or -1 with a reason. */
int sweep_run(const struct sweep *x, struct err *e);

#endif
