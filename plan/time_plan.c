/* time_plan.c - the step of a plan that was resolved */
#include "plan/time_plan.h"
#include "plan/memtable.h"

void
time_plan(const struct run_plan *plan, const struct hardware *hw, struct step_time *out)
{
	struct memory_stages stages;
	struct run_case r = { &plan->model, &plan->layout, &plan->shape, hw, &stages, { 0 } };
	int64_t elements, own;

	memory_stages_init(&stages, r.model, r.layout, r.shape);
	memtable_most(&stages, r.shape, &elements, &own);
	r.owned = operation_owned(&stages, r.shape, elements, own);
	time_step(&r, out);
	memory_stages_release(&stages);
}
