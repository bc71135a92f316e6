/* fit.h - options that would make a run fit into a device's memory */
#ifndef MODEL_FIT_H
#define MODEL_FIT_H

#include "lib/model/options.h"

/*
 * 0 if the rank at coord fits into `available` bytes, or -1 with one line: by how much it does not,
 * and which single change of options would make it fit (or all of them together when no single one
 * does), each tried with the function that plans the run. `extra` bytes come on top of the plan.
 */
int memory_fit(const struct run_plan *plan, const int coord[AX_COUNT], uint64_t extra,
    uint64_t available, struct err *e);

#endif
