/* optim_rule.c - the rows of the update rules, and look-ups in them */
#include "lib/model/optim_rule.h"
#include "lib/model/optim_list.h"

#include <string.h>

#define RULE(name, traits, matrix_states, ...) { #name, traits, matrix_states, { __VA_ARGS__ } },
#define NAME(name, ...) #name,

const struct optim_rule optim_rules[] = { OPTIM_RULES(RULE) };
const char *const optim_rule_names[] = { OPTIM_RULES(NAME) NULL };
const char *const optim_rule_words[] = { "adamw", "adam", NULL };

const struct optim_rule *
optim_rule_with(enum optim_trait trait)
{
	for (int i = 0; i < OPTIM_NUM_RULES; i++)
		if (optim_rules[i].traits & trait)
			return &optim_rules[i];
	BUG("lib/model/optim_list.h has no rule with trait %d", (int)trait);
}

void
optim_rule_list(unsigned traits, const char *between, struct str *out)
{
	const char *before = "";

	for (int i = 0; i < OPTIM_NUM_RULES; i++)
		if ((optim_rules[i].traits & traits) == traits) {
			str_addf(out, "%s%s", before, optim_rules[i].name);
			before = between;
		}
}

int
optim_rule_known(const char *name, struct err *e)
{
	struct str known = { 0 };

	for (int i = 0; name && i < OPTIM_NUM_RULES; i++)
		if (!strcmp(name, optim_rules[i].name))
			return 0;
	if (!name)
		return 0;
	optim_rule_list(0, ", ", &known);
	err_set(e, "state.conf: optimizer: no rule '%.60s' in this build, which has %s", name,
	    known.buf);
	str_release(&known);
	return -1;
}

int
optim_num_states(const struct optim_rule *r)
{
	int n = 0;

	while (r && r->states[n])
		n++;
	return n;
}

bool
optim_keeps(const struct optim_rule *r, int i, bool matrix)
{
	return r->matrix_states == 0 || (i < r->matrix_states) == matrix;
}

/* A checkpoint belongs to the rule it names if it holds at least one of its states; any others are
 * then missing. */
const struct optim_rule *
optim_rule_of(const char *name, bool (*has)(const void *ctx, const char *state), const void *ctx)
{
	const struct optim_rule *best = NULL;

	for (const struct optim_rule *r = optim_rules; r < optim_rules + OPTIM_NUM_RULES; r++) {
		int all = optim_num_states(r), held = 0;

		for (int i = 0; i < all; i++)
			held += has(ctx, r->states[i]);
		if (name && !strcmp(name, r->name))
			return held ? r : NULL;
		if (held == all && all > optim_num_states(best))
			best = r;
	}
	return best;
}
