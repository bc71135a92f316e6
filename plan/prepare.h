/*
 * prepare.h - from options to plans and devices
 */
#ifndef PLAN_PREPARE_H
#define PLAN_PREPARE_H

#include "lib/model/options.h"
#include "plan/days.h"
#include "plan/search.h"

/* What every verb checks first: the options and the model; -1 with the reason. */
int plan_begins(
    const struct opt_parse *p, int argc, char **argv, struct model_config *c, struct err *e);
/* Whether a device is described, which the time of a plan needs; the device, which the plan
 * learns. */
int time_needs(const struct opt_parse *p, struct err *e);
void time_device(const struct opt_parse *p, struct run_plan *plan, struct hardware *hw);
/* What was typed of a whole run; what follows from bytes is negative where it was not. */
void days_typed(const struct opt_parse *p, struct days_options *out);
/* What a rankfile cannot do without, likewise. */
int rankfile_needs(const struct opt_parse *p, struct err *e);
/* What the search cannot do without, in one line; -1 when some of it is missing. */
int search_needs(const struct opt_parse *p, struct err *e);
/* What the search may choose, of a struct plan_config. */
int search_for(const struct opt_parse *p, struct search_input *in, struct err *e);
/* Training in fp32 is rarely meant where a device has faster GEMMs of 16 bits: appends a line of
 * what it costs; nothing for another precision. */
void search_fp32(const struct opt_parse *p, const struct search *s, const struct search_input *in,
    struct str *out);

#endif
