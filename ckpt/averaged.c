/* averaged.c - a weighted sum of checkpoints as a source, and the weights */
#include "ckpt/averaged.h"

#include <math.h>

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

struct averaged {
	struct derived d;
	bool masters; /* all sources have them, of all parameters */
};

static const struct average_rule *
rule_of(const struct derived *d)
{
	return d->rule;
}

/* Which copy of a parameter of a source is summed, and its type; DTYPE_NONE: it has none. */
static enum dtype
choose_copy(const struct derived *d, struct source *from, const struct param *p, int *copy)
{
	struct source_part part = { .param = p };
	struct source_stored first, how;

	*copy = 0;
	if (!from->kind->find(from, &part, &first))
		return DTYPE_NONE;
	if (((const struct averaged *)d)->masters)
		return first.dtype;
	for (part.copy = 1; part.copy < first.copies; part.copy++)
		if (from->kind->find(from, &part, &how) && dtype_size(how.dtype) == 2) {
			*copy = part.copy;
			return how.dtype;
		}
	return first.dtype;
}

/* A type that holds the numbers of both. */
static enum dtype
wider(enum dtype a, enum dtype b)
{
	if (a == b || dtype_size(a) > dtype_size(b))
		return a;
	return dtype_size(b) > dtype_size(a) ? b : DTYPE_F32;
}

static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	int copy;

	if (p->state)
		return false;
	for (int i = 0; i < d->count; i++) {
		enum dtype t = choose_copy(d, d->from[i], p->param, &copy);

		if (t == DTYPE_NONE)
			return false;
		out->dtype = i ? wider(out->dtype, t) : t;
	}
	if (rule_of(d)->dtype != DTYPE_NONE)
		out->dtype = rule_of(d)->dtype;
	return true;
}

static int
compute(struct derived *d, const struct source_part *p, double *dst, struct err *e)
{
	for (int i = 0; i < d->count; i++) {
		struct derived_term t = { d->from[i], *p, rule_of(d)->weight[i], i > 0 };

		choose_copy(d, t.from, p->param, &t.part.copy);
		if (derived_sum(d, &t, dst, e) < 0)
			return -1;
	}
	return 0;
}

/* True when every parameter of the source is in fp32 or fp64. */
static bool
has_masters(const struct source *s)
{
	for (int i = 0; i < s->count; i++)
		if (dtype_size(source_dtype(s, &s->param[i], NULL)) < sizeof(float))
			return false;
	return true;
}

static int
set_model(struct derived *d, struct err *e)
{
	struct averaged *a = (struct averaged *)d;

	if (derived_same_models(d, e) < 0)
		return -1;
	a->masters = true;
	for (int i = 0; i < d->count && a->masters; i++)
		a->masters = has_masters(d->from[i]);
	d->how = a->masters ? "masters" : "weights";
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
	.size = sizeof(struct averaged),
	.keeps = KEEPS_HISTORIES | KEEPS_RUN_OPTIONS,
	.model = set_model,
	.origin = find_origin,
	.compute = compute,
	.state = set_state,
};
