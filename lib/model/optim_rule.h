/*
 * optim_rule.h - update rules: what the optimizer keeps for each parameter
 *
 * The memory plan, --optimizer, save, load, mckpt and mplan know a rule only by its row. To add
 * one, add its line to optim_list.h, and train/optim/NAME.c with the const struct optim_kind
 * optim_NAME at its end (train/optim/optim.h).
 */
#ifndef MODEL_OPTIM_RULE_H
#define MODEL_OPTIM_RULE_H

#include <stdbool.h>
#include <stddef.h>

enum { OPTIM_STATES_MAX = 4 };

struct optim_rule {
	const char *name; /* as in --optimizer and state.conf */
	/* The first so many states are of the matrices of layers, which the rule updates as whole
	 * matrices, and the others of all other parameters; 0: every state is of every parameter.
	 */
	int matrix_states;
	/* arrays as large as what they are kept of, real, 0 at first; a checkpoint holds state S of
	 * a parameter X as X.S. Ended by NULL. */
	const char *states[OPTIM_STATES_MAX + 1];
};

/* A checkpoint holds the average of a parameter X as X.ema, whatever the rule. */
#define STATE_AVERAGE "ema"

/* By the option's value. */
extern const struct optim_rule optim_rules[];
extern const char *const optim_rule_names[]; /* ended by NULL */

/* The number of states; 0 for NULL, which stands for weights alone. */
int optim_num_states(const struct optim_rule *r);
/* Whether state i is kept of a parameter; matrix: one of a layer (param_is_layer_matrix). */
bool optim_keeps(const struct optim_rule *r, int i, bool matrix);
/*
 * The rule whose states a checkpoint holds; NULL: it holds none. has tells whether it holds a
 * state. name is the rule that the checkpoint names, or NULL; if that is unknown, the result is the
 * rule with the most states among those whose states are all there.
 */
const struct optim_rule *optim_rule_of(
    const char *name, bool (*has)(const void *ctx, const char *state), const void *ctx);

#endif
