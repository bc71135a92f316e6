/*
 * candidate.c - whether a plan fits
 *
 * A plan that needs more than 1 - margin of the device counts as tight, since libraries and
 * fragmentation take memory that no plan includes. What other programs take is foreseen within as
 * much: one of their plans counts as tight until it needs 1 + margin.
 */
#include "plan/candidate.h"
#include "plan/allocated.h"

static const double gib = 1073741824.0, margin = 0.04;

double
search_need(const struct candidate *c, const struct hardware *hw)
{
	return (double)c->bytes + hw->reserve_gb * gib;
}

enum fit
search_fit(const struct candidate *c, const struct hardware *hw)
{
	double used = search_need(c, hw) / (hw->memory_gb * gib),
	       most = allocated_elsewhere(hw) ? 1 + margin : 1;

	return used > most ? FIT_NO : used > 1 - margin ? FIT_TIGHT : FIT_YES;
}

double
search_need_on_host(const struct candidate *c, const struct hardware *hw)
{
	return (double)c->host * fmin(hw->gpus_per_node, (double)layout_world(&c->layout));
}

bool
search_fits_host(const struct candidate *c, const struct hardware *hw)
{
	return hw->host_memory_gb <= 0 || search_need_on_host(c, hw) <= hw->host_memory_gb * gib;
}
