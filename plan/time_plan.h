/*
 * time_plan.h - how long a step of a plan takes whose options were resolved
 */
#ifndef PLAN_TIME_PLAN_H
#define PLAN_TIME_PLAN_H

#include "lib/model/options.h"
#include "plan/time.h"

void time_plan(const struct run_plan *plan, const struct hardware *hw, struct step_time *out);
/* Of the step, what the passes of its stages and their messages take. */
void time_plan_stages(
    const struct run_plan *plan, const struct hardware *hw, struct pipeline_costs *out);

#endif
