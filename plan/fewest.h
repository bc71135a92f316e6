/*
 * fewest.h - the fewest ranks with which a whole run ends in time
 */
#ifndef PLAN_FEWEST_H
#define PLAN_FEWEST_H

#include "plan/days.h"
#include "plan/prepare.h"

/* The search of the fewest ranks, in whole hosts where there are several, with which the best plan
 * trains --train-tokens in --target-days; --world-size is the most that there are. -1 when no
 * number of them does, with the reason; search_release in either case. */
int fewest_run(const struct opt_parse *p, const struct days_options *o, struct search *s,
    struct search_input *in, struct err *e);
/* A line of the days by the best plan of a search, of device-hours and price. */
void fewest_say(const struct search *s, const struct search_input *in, const struct days_options *o,
    struct str *out);

#endif
