/* optim_rule.c - the rows of the update rules, and look-ups in them */
#include "lib/model/optim_rule.h"
#include "lib/model/optim_list.h"

#include <string.h>

#define RULE(name, matrix_states, ...) { #name, matrix_states, { __VA_ARGS__ } },
#define NAME(name, ...) #name,

const struct optim_rule optim_rules[] = { OPTIM_RULES(RULE) };
const char *const optim_rule_names[] = { OPTIM_RULES(NAME) NULL };

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
