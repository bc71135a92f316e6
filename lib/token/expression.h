/*
 * expression.h - regular expressions that become scanners, as trees
 *
 * The subset that pre-tokenizers use: characters, sets with their operations, properties, groups,
 * alternatives, all repetitions, and looking ahead at one character. Read as Oniguruma reads them.
 * Anything else is refused, and is left to a general engine.
 */
#ifndef TOKEN_EXPRESSION_H
#define TOKEN_EXPRESSION_H

#include "lib/base/err.h"
#include "lib/token/points.h"

#include <stdbool.h>
#include <stddef.h>

enum { EXPRESSION_SETS = 64, EXPRESSION_NO_END = -1 };

enum expression_kind {
	EXPRESSION_SET,    /* one character of a set */
	EXPRESSION_LOOK,   /* nothing, if the next character is of a set */
	EXPRESSION_JOIN,   /* its parts one after the other; without parts: nothing */
	EXPRESSION_EITHER, /* the first of its parts with which the rest matches */
	EXPRESSION_REPEAT
};

/* Parts are a list: the first one, then each one's next; -1 ends it. */
struct expression_node {
	enum expression_kind kind;
	int part, next;
	int set;
	bool at_end;  /* of LOOK: it holds at the end of the text too */
	int min, max; /* of REPEAT; max may be EXPRESSION_NO_END */
	bool lazy;    /* as few as possible are tried first */
};

struct expression {
	struct expression_node *node;
	int root, num_nodes, cap;
	struct points set[EXPRESSION_SETS];
	int num_sets;
};

/* Each zeroes *x first; expression_release in every case. -1 with a reason: not in the subset. */
int expression_parse(struct expression *x, const char *regex, size_t len, struct err *e);
/* One character of a set, or a run of them. */
void expression_of_set(struct expression *x, const struct points *set, bool run);
void expression_release(struct expression *x);

#endif
