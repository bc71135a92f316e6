/*
 * optim_record.c - what a checkpoint records of the optimizer
 *
 * Moments are sums of one rule, with its own constants: another rule would misread them, and other
 * constants make a run that is neither the old one nor a new one. A rule says which constants are
 * its own (struct optim_kind); one table says where they are stored, for writing and for comparing.
 */
#include "lib/model/options.h"
#include "train/state/save.h"

#include <math.h>
#include <string.h>

static const struct {
	const char *option;
	enum optim_constant which;
	size_t state, own; /* in struct run_state and struct optim_options */
} constants[] = {
	{ "adam-beta1", OPTIM_BETA1, offsetof(struct run_state, adam_beta1),
	    offsetof(struct optim_options, beta1) },
	{ "adam-beta2", OPTIM_BETA2, offsetof(struct run_state, adam_beta2),
	    offsetof(struct optim_options, beta2) },
	{ "adam-eps", OPTIM_EPS, offsetof(struct run_state, adam_eps),
	    offsetof(struct optim_options, eps) },
	{ "sgd-momentum", OPTIM_MOMENTUM, offsetof(struct run_state, sgd_momentum),
	    offsetof(struct optim_options, momentum) },
};

enum { CONSTANTS = sizeof constants / sizeof *constants };

/* True for a constant of the rule. */
static bool
has(const struct optim_options *o, enum optim_constant which)
{
	return optim_kinds[o->kind]->constants & which;
}

/* How weight decay enters; NULL where the rule has one form. */
static const char *
decay_form(const struct optim_options *o)
{
	if (!has(o, OPTIM_DECAY_FORM))
		return NULL;
	return o->decoupled_weight_decay ? "decoupled" : "gradient";
}

static double
number(const void *of, size_t off)
{
	double x;

	memcpy(&x, (const char *)of + off, sizeof x);
	return x;
}

void
optim_record(const struct optim_options *o, struct run_state *s)
{
	s->optimizer = optim_rules[o->kind].name;
	s->weight_decay_form = decay_form(o);
	for (int i = 0; i < CONSTANTS; i++)
		if (has(o, constants[i].which))
			memcpy((char *)s + constants[i].state, (const char *)o + constants[i].own,
			    sizeof(double));
}

/* Compares bits, since otherwise the runs differ. What the checkpoint does not say is taken to be
 * equal. */
void
optim_differences(const struct optim_options *o, const struct run_state *s, struct str *out)
{
	const char *form = decay_form(o);

	for (int i = 0; i < CONSTANTS; i++) {
		double was = number(s, constants[i].state), is = number(o, constants[i].own);

		if (has(o, constants[i].which) && !isnan(was) && was != is)
			str_addf(out, "%s--%s is %.15g and was %.15g", out->len ? ", " : "",
			    constants[i].option, is, was);
	}
	if (form && s->weight_decay_form && strcmp(form, s->weight_decay_form))
		str_addf(out, "%s--no-decoupled-weight-decay is %s", out->len ? ", " : "",
		    o->decoupled_weight_decay ? "not given and was" : "given and was not");
}
