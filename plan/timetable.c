/* timetable.c - the time of a step as a table */
#include "plan/timetable.h"
#include "plan/allocated.h"

/* In the order of enum operation_class. */
static const char *const parts[OPERATION_CLASSES] = { "products", "attention", "memory_bound",
	"tensor_exchanges", "context_exchanges", "expert_exchanges", "data_exchanges",
	"stage_messages", "host", "update" };

/* FLOPs of attention above the diagonal, which the full square has too. */
static double
upper_half(const struct run_plan *plan)
{
	const struct layout one = { 1, 1, 1, 1 };
	struct train_shape s = plan->shape;
	struct work w;

	s.micro_batch_size = plan->global_batch_size;
	work_of(&w, &block_attention, &plan->model, &one, &s);
	return 3 * w.attention * (double)model_softmax_layers(&plan->model);
}

static void
print_seconds(const char *name, double seconds, double total, FILE *f)
{
	fprintf(f, "%s_seconds\t%.6g\t%.4f\n", name, seconds, seconds / total);
}

static void
print_figure(const char *name, double value, FILE *f)
{
	fprintf(f, "%s\t%.6g\t-\n", name, value);
}

/* What a step computes, over its seconds. */
static void
print_rates(const struct run_plan *plan, const struct hardware *hw, double seconds, FILE *f)
{
	double ranks = (double)layout_world(&plan->layout),
	       tokens = (double)plan->global_batch_size * (double)plan->shape.seq_length;
	double causal = model_flops(&plan->model, plan->global_batch_size, plan->shape.seq_length,
	    layout_vocab(&plan->layout, &plan->model));
	double rate = causal / seconds / ranks, full = rate + upper_half(plan) / seconds / ranks;
	enum dtype type = plan->shape.fp8.format != FP8_NONE ? DTYPE_F8_E4M3 : plan->shape.dtype;

	print_figure("tokens_per_second", tokens / seconds, f);
	print_figure("tokens_per_second_per_rank", tokens / seconds / ranks, f);
	print_figure("tflops_causal", rate / 1e12, f);
	print_figure("tflops_full", full / 1e12, f);
	print_figure("mfu_causal", rate / hardware_peak(hw, type), f);
	print_figure("mfu_full", full / hardware_peak(hw, type), f);
}

/* What the arrays of the fullest rank take, and what the program takes of the device, with the
 * reserve; as shares of its memory. */
static void
print_allocated(const struct run_plan *plan, const struct hardware *hw, FILE *f)
{
	const double gib = 1073741824.0;
	double arrays = allocated_bytes(plan, hw) / gib,
	       taken = allocated_reserved(plan, arrays * gib) / gib + hw->reserve_gb;

	fprintf(f, "allocated_gib\t%.6g\t%.4f\n", arrays, arrays / hw->memory_gb);
	fprintf(f, "taken_gib\t%.6g\t%.4f\n", taken, taken / hw->memory_gb);
}

static void
print_days(const struct run_plan *plan, const struct hardware *hw, const struct days_options *o,
    double seconds, FILE *f)
{
	struct run_days d;

	days_of(o, plan, (double)model_num_parameters(&plan->model), hw, seconds, &d);
	days_print(&d, o, hw, layout_world(&plan->layout), f);
}

void
timetable_print(const struct run_plan *plan, const struct hardware *hw,
    const struct days_options *days, FILE *f)
{
	struct step_time t;

	time_plan(plan, hw, &t);
	fputs("figure\tvalue\tshare\n", f);
	print_seconds("step", t.total, t.total, f);
	for (int i = 0; i < OPERATION_CLASSES; i++)
		print_seconds(parts[i], t.part[i], t.total, f);
	print_seconds("stage_wait", t.bubble, t.total, f);
	print_rates(plan, hw, t.total, f);
	if (hw->profile_error > 0)
		print_figure("model_error_percent", hw->profile_error, f);
	else
		fputs("model_error_percent\t-\t-\n", f);
	if (hw->stack)
		print_allocated(plan, hw, f);
	if (days->train_tokens > 0)
		print_days(plan, hw, days, t.total, f);
}
