/*
 * optim_record.c - what a checkpoint records of the optimizer
 *
 * Moments depend on the rule and its constants: another rule would misread them, and with other
 * constants the run would be neither the old one nor a new one. A rule lists its constants (struct
 * optim_kind); one table gives their fields, for writing and for comparing.
 */
#include "lib/model/options.h"
#include "train/optim/optim.h"
#include "train/state/optim_record.h"

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
	{ "muon-momentum", OPTIM_MUON, offsetof(struct run_state, muon_momentum),
	    offsetof(struct optim_options, muon.momentum) },
};

enum { CONSTANTS = sizeof constants / sizeof *constants };

/* True when the rule has the constant. */
static bool
has(const struct optim_options *o, enum optim_constant which)
{
	return optim_kinds[o->kind]->constants & which;
}

/* The form of weight decay; NULL for a rule with only one. */
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

/* Compares bits, because any difference changes the run. A constant that the checkpoint lacks
 * counts as equal. */
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
