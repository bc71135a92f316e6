/*
 * timetable.h - the time of a step as a table: what each part takes, and the rates that follow
 */
#ifndef PLAN_TIMETABLE_H
#define PLAN_TIMETABLE_H

#include "plan/days.h"
#include "plan/time_plan.h"

#include <stdio.h>

/* Tab-separated under a header: figure, value, share of the step's seconds. With train_tokens the
 * whole run follows, in shares of its own. */
void timetable_print(const struct run_plan *plan, const struct hardware *hw,
    const struct days_options *days, FILE *f);

#endif
