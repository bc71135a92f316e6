/* verbs.h - the verbs of mplan */
#ifndef PLAN_VERBS_H
#define PLAN_VERBS_H

#include "lib/base/cli.h"

extern const struct verb plan_check, plan_mem, plan_draw, plan_simulate, plan_rankfile, plan_time,
    plan_search, plan_fit, plan_report;

#endif
