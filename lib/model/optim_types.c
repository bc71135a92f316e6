/* optim_types.c - which types are supported, and where they may be chosen */
#include "lib/model/optim_types.h"

#include <string.h>

const char *const optim_main_params_types[] = { "fp32", "fp16", NULL };
const char *const optim_main_grads_types[] = { "fp32", "bf16", NULL };
const char *const optim_moment_types[] = { "fp32", "fp16", "bf16", "fp8", NULL };

enum { MAIN_PARAMS, MAIN_GRADS, EXP_AVG, EXP_AVG_SQ, ROWS };

/* The narrower types by option, and those that are supported; fp32 always is. */
static const struct {
	const char *option;
	size_t value; /* in struct optim_type_options */
	const char *const *names;
	const char *built;
} rows[ROWS] = {
	[MAIN_PARAMS] = { "main-params-dtype", offsetof(struct optim_type_options, main_params),
	    optim_main_params_types, NULL },
	[MAIN_GRADS] = { "main-grads-dtype", offsetof(struct optim_type_options, main_grads),
	    optim_main_grads_types, "bf16" },
	[EXP_AVG] = { "exp-avg-dtype", offsetof(struct optim_type_options, exp_avg),
	    optim_moment_types, "bf16" },
	[EXP_AVG_SQ] = { "exp-avg-sq-dtype", offsetof(struct optim_type_options, exp_avg_sq),
	    optim_moment_types, "bf16" },
};

static int
chosen(const struct optim_type_options *o, int row)
{
	int value;

	memcpy(&value, (const char *)o + rows[row].value, sizeof value);
	return value;
}

/* Checks one option; *below_fp32 is set if it chooses a type narrower than fp32. */
static int
check(const struct optim_type_options *o, int row, bool *below_fp32, struct err *e)
{
	const char *name = rows[row].names[chosen(o, row)], *built = rows[row].built;

	if (chosen(o, row) == 0)
		return 0;
	*below_fp32 = true;
	if (!o->use_precision_aware_optimizer)
		return err_set(
		    e, "--%s %s: needs --use-precision-aware-optimizer", rows[row].option, name);
	if (!built || strcmp(name, built))
		return err_set(e, "--%s %s: is not supported; give fp32%s%s", rows[row].option,
		    name, built ? " or " : "", built ? built : "");
	return 0;
}

/* The type of a row; real for fp32, so that runs in double stay so. */
static enum dtype
type_of(const struct optim_type_options *o, int row, const struct train_shape *s)
{
	int value = chosen(o, row);

	return value == 0 ? memory_compute(s->dtype) : dtype_from_name(rows[row].names[value]);
}

/* The option is of other rules than this one. Returns -1. */
static int
needs_rule(const char *option, const struct optim_rule *rule, struct err *e)
{
	struct str rules = { 0 };

	optim_rule_list(OPTIM_CHOOSES_TYPES, " or ", &rules);
	err_set(e, "--%s: needs --optimizer %s, not %s", option, rules.buf, rule->name);
	str_release(&rules);
	return -1;
}

int
optim_types_resolve(const struct optim_type_options *given, const struct layout *l,
    struct train_shape *s, struct str *notes, struct err *e)
{
	struct optim_type_options types = *given, *o = &types;
	bool below_fp32 = false;

	if (o->optimizer_cpu_offload) {
		s->optimizer_offload = o->optimizer_offload_fraction;
		if (!o->use_precision_aware_optimizer)
			str_adds(notes,
			    "--optimizer-cpu-offload: implies --use-precision-aware-optimizer\n");
		o->use_precision_aware_optimizer = true;
	}
	for (int i = 0; i < ROWS; i++)
		if (check(o, i, &below_fp32, e) < 0)
			return -1;
	s->optim.chosen = o->use_precision_aware_optimizer;
	s->optim.low_bits = s->optim.chosen && s->dtype == DTYPE_BF16;
	if (!o->use_precision_aware_optimizer)
		return 0;
	if (!(s->rule->traits & OPTIM_CHOOSES_TYPES))
		return needs_rule(given->use_precision_aware_optimizer
			? "use-precision-aware-optimizer"
			: "optimizer-cpu-offload",
		    s->rule, e);
	s->optim.grads = type_of(o, MAIN_GRADS, s);
	s->optim.state[0] = type_of(o, EXP_AVG, s);
	s->optim.state[1] = type_of(o, EXP_AVG_SQ, s);
	if (!below_fp32 && !s->optim.low_bits && !o->optimizer_cpu_offload)
		str_adds(notes,
		    "--use-precision-aware-optimizer: changes nothing without --bf16 or a type "
		    "narrower than fp32, such as --exp-avg-dtype bf16\n");
	if (s->optim.grads == memory_compute(s->dtype))
		return 0;
	/* A pass adds to gradients in fp32, so only sums that are kept apart can be narrower. */
	if (s->sharding < SHARDING_GRADS)
		return err_set(e,
		    "--main-grads-dtype bf16: needs --data-parallel-sharding-strategy optim_grads "
		    "or optim_grads_params");
	if (layout_data_ranks(l) == 1)
		str_adds(notes, "--main-grads-dtype bf16: changes nothing with one data rank\n");
	return 0;
}

/* The types that a run has which chooses none narrower, if it has not chosen. */
static void
choose_types(struct train_shape *s)
{
	enum dtype real = memory_compute(s->dtype);

	if (!s->optim.chosen)
		s->optim =
		    (struct optim_types){ true, { real, real }, real, s->dtype == DTYPE_BF16 };
}

void
optim_types_offload(struct train_shape *s)
{
	choose_types(s);
	s->optimizer_offload = 1;
}

void
optim_types_bf16_moments(struct train_shape *s)
{
	choose_types(s);
	s->optim.state[0] = s->optim.state[1] = DTYPE_BF16;
}
