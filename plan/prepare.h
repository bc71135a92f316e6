/*
 * prepare.h - from options to a search of plans
 */
#ifndef PLAN_PREPARE_H
#define PLAN_PREPARE_H

#include "plan/search.h"

/* What the search cannot do without, in one line; -1 when some of it is missing. */
int search_needs(const struct opt_parse *p, struct err *e);
/* What the search may choose, of a struct plan_config. */
int search_for(const struct opt_parse *p, struct search_input *in, struct err *e);
/* Training in fp32 is rarely meant where a device has faster GEMMs of 16 bits: appends a line of
 * what it costs; nothing for another precision. */
void search_fp32(const struct opt_parse *p, const struct search *s, const struct search_input *in,
    struct str *out);

#endif
