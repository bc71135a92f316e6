/* averaged.c - a weighted sum of checkpoints as a source, and the weights */
#include "ckpt/averaged.h"
#include "lib/base/mem.h"

#include <math.h>
#include <stdlib.h>

const char *const average_styles[] = { "linear", "minus-sqrt", "linear__reverse",
	"minus-sqrt__reverse", "ema", NULL };

/* --- weights ---------------------------------------------------------------------------------- */

/* What is left of the learning rate after checkpoint i of n. */
static double
decayed(enum average_style style, int i, int n)
{
	double x = (double)i / n;

	return style == AVERAGE_MINUS_SQRT ? 1 - sqrt(x) : 1 - x;
}

/* The sums are taken in the order of Megatron-LM's, so that the weights are the same numbers. */
static void
decay_weights(enum average_style style, int n, double *weight)
{
	double sum = 0;

	weight[0] = 0;
	for (int i = 1; i < n; i++)
		weight[i] = decayed(style, i, n) - (i < n - 1 ? decayed(style, i + 1, n) : 0);
	for (int i = 0; i < n; i++)
		sum += weight[i];
	weight[0] = 1 - sum;
}

void
average_weights(enum average_style style, double decay, int n, double *weight)
{
	bool reverse = style == AVERAGE_LINEAR_REVERSE || style == AVERAGE_MINUS_SQRT_REVERSE;
	double sum = 0;

	if (style != AVERAGE_EMA)
		decay_weights(reverse ? style - AVERAGE_LINEAR_REVERSE : style, n, weight);
	for (int i = 0; i < n && style == AVERAGE_EMA; i++)
		sum += weight[i] = pow(decay, n - 1 - i);
	for (int i = 0; i < n && style == AVERAGE_EMA; i++)
		weight[i] /= sum;
	for (int i = 0; reverse && i < n / 2; i++) {
		double first = weight[i];

		weight[i] = weight[n - 1 - i];
		weight[n - 1 - i] = first;
	}
}

/* --- the source ------------------------------------------------------------------------------- */

static const struct average_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	if (p->state)
		return false;
	out->dtype = derived_widest(d, p->param);
	if (out->dtype != DTYPE_NONE && rule_of(d)->dtype != DTYPE_NONE)
		out->dtype = rule_of(d)->dtype;
	return out->dtype != DTYPE_NONE;
}

static int
begin(struct derived *d, const struct source_part *p, struct err *e)
{
	struct derived_term *t = mem_alloc((size_t)d->count, sizeof *t);
	int rc;

	for (int i = 0; i < d->count; i++) {
		t[i] = (struct derived_term){ d->from[i], *p, rule_of(d)->weight[i] };
		derived_choose_copy(d, t[i].from, p->param, &t[i].part.copy);
	}
	rc = derived_read(d, t, d->count, e);
	free(t);
	return rc;
}

static int
set_model(struct derived *d, struct err *e)
{
	if (derived_same_models(d, true, e) < 0)
		return -1;
	derived_find_masters(d);
	d->weight = rule_of(d)->weight;
	return 0;
}

/* The number of the result, where it is not the last source's, whose steps and samples stay. */
static int
set_state(struct derived *d, struct err *e)
{
	const struct run_state *last = &derived_last(d)->state;
	const struct average_rule *r = rule_of(d);
	struct str *text = &d->s.state_text;
	struct err why;

	if (r->dtype != DTYPE_NONE)
		state_edit(text, "dtype", "%s", dtype_name(r->dtype));
	if (r->output_iteration < 0 || r->output_iteration == last->iteration)
		return 0;
	state_edit(text, "iteration", "%lld", (long long)r->output_iteration);
	state_edit(text, "optimizer_steps", "%lld",
	    (long long)(r->output_iteration - last->skipped_iterations));
	if (state_parse(&d->s.state, text->buf, d->s.path, &why) < 0)
		return err_set(
		    e, "--output-iteration %lld: %s", (long long)r->output_iteration, why.msg);
	state_release(&d->s.state);
	return 0;
}

const struct derived_kind derived_averaged = {
	.name = "weighted sum",
	.size = sizeof(struct derived),
	.keeps = KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.begin = begin,
	.numbers = derived_sum,
	.state = set_state,
};
