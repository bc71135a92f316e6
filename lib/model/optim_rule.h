/*
 * optim_rule.h - update rules: what the optimizer keeps for each parameter
 *
 * The memory plan, --optimizer, save, load, mckpt and mplan know a rule only by its row. To add
 * one, add its line to optim_list.h, and train/optim/NAME.c with the const struct optim_kind
 * optim_NAME at its end (train/optim/optim.h).
 */
#ifndef MODEL_OPTIM_RULE_H
#define MODEL_OPTIM_RULE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum { OPTIM_STATES_MAX = 4 };

enum optim_trait {
	/* the two states that it has may have other types than real, and be kept on the host with
	 * the masters: --use-precision-aware-optimizer, --optimizer-cpu-offload */
	OPTIM_CHOOSES_TYPES = 1,
	/* the one rule whose states are read from and written to Megatron-LM's checkpoints, which
	 * name them as it does */
	OPTIM_OF_MEGATRON = 2,
};

struct optim_rule {
	const char *name; /* as in --optimizer and state.conf */
	unsigned traits;
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
extern const char *const optim_rule_words[]; /* other programs', for .alias of a row */

/* The first rule with a trait. */
const struct optim_rule *optim_rule_with(enum optim_trait trait);
/* Appends the names of the rules that have all of the traits, `between` between them. */
void optim_rule_list(unsigned traits, const char *between, struct str *out);
/* -1 with the reason when a state.conf names a rule that this build lacks; NULL names none. */
int optim_rule_known(const char *name, struct err *e);

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
