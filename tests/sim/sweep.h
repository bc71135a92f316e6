/* sweep.h - every call fails once */
#ifndef SIM_SWEEP_H
#define SIM_SWEEP_H

#include "lib/base/err.h"
#include "tests/sim/case.h"

/* For each kind of call and each rank of the layout: fails the n-th one, alone or with all after
 * it, for n = 1, 1 + stride, ... until a run ends before it comes to the n-th; in a run from the
 * beginning, and in one from half of it. An exit status, or -1 with a reason. */
int sweep_run(const struct case_options *o, int jobs, long stride, struct err *e);

#endif
