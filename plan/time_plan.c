/* time_plan.c - the step of a plan that was resolved */
#include "plan/time_plan.h"
#include "plan/memtable.h"

/* A plan as a case, whose stages are released by memory_stages_release. */
static struct run_case
begin(const struct run_plan *plan, const struct hardware *hw, struct memory_stages *stages)
{
	struct run_case r = { &plan->model, &plan->layout, &plan->shape, hw, stages, { 0 } };
	int64_t elements, own;

	memory_stages_init(stages, r.model, r.layout, r.shape);
	memtable_most(stages, r.shape, &elements, &own);
	r.owned = operation_owned(stages, r.shape, operation_stage(stages, elements), own);
	return r;
}

void
time_plan(const struct run_plan *plan, const struct hardware *hw, struct step_time *out)
{
	struct memory_stages stages;
	struct run_case r = begin(plan, hw, &stages);

	time_step(&r, out);
	memory_stages_release(&stages);
}

void
time_plan_stages(const struct run_plan *plan, const struct hardware *hw, struct pipeline_costs *out)
{
	struct memory_stages stages;
	struct run_case r = begin(plan, hw, &stages);
	struct block_costs costs;

	time_blocks(&r, &costs);
	time_pipeline(&r, &costs, out);
	memory_stages_release(&stages);
}
