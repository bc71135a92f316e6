/*
 * automaton.h - expressions as one table: from a state and the class of the next character to the
 * next state
 *
 * A run of it from the first state finds the match that begins at a place: of all matches the one
 * that a backtracking engine would find first. States are lists of the places in the expressions
 * that can be reached, in order of preference, as in a Pike machine; a match drops the rest of its
 * list. Source: Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009.
 */
#ifndef TOKEN_AUTOMATON_H
#define TOKEN_AUTOMATON_H

#include "lib/base/err.h"
#include "lib/token/expression.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	AUTOMATON_CLASSES = 64, /* entries of a row, the last for the end of the text */
	AUTOMATON_END = 63,
	AUTOMATON_DEAD = 0,
	AUTOMATON_START = 1,
	AUTOMATON_STATES = 512
};

/* In an entry beside the next state: a match ends before the character. */
#define AUTOMATON_MATCH 0x80000000u
#define AUTOMATON_NEXT 0x7fffffffu

/* An expression on a part of all characters, the others of which are like the end of the text. */
struct automaton_part {
	const struct expression *x;
	const uint64_t *set; /* the classes of each of its sets */
	uint64_t within;     /* the classes of the part */
};

struct automaton {
	uint32_t (*row)[AUTOMATON_CLASSES];
	int num_states; /* the dead one and the first one included */
};

/*
 * Parts begin with different characters, unless there is only one. classes are those in use. -1
 * with a reason when there are too many states, or when finding all matches of a text could take
 * more than a bounded number of steps per character. automaton_release in every case.
 */
int automaton_build(struct automaton *a, const struct automaton_part *part, int count,
    uint64_t classes, struct err *e);
void automaton_release(struct automaton *a);

/* True when a text of only these classes is either one match or has none. */
bool automaton_keeps(const struct automaton *a, uint64_t classes);
/* True when at every character a match begins. */
bool automaton_covers(const struct automaton *a, uint64_t classes);

#endif
