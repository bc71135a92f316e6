/* pretok_impl.h - shared by the files of the pre-tokenizer */
#ifndef TOKEN_PRETOK_IMPL_H
#define TOKEN_PRETOK_IMPL_H

#include "lib/token/automaton.h"
#include "lib/token/pretok.h"
#include "lib/token/unicode.h"

#include <stdbool.h>

/*
 * In an entry of a fast table, beside the next state, for one character or two bytes: a piece ends
 * before the character; a match that may become longer does; a piece ends before the second byte; a
 * match does; none of this is certain.
 */
#define PRETOK_END 0x80000000u
#define PRETOK_MATCH 0x40000000u
#define PRETOK_SECOND_END 0x20000000u
#define PRETOK_SECOND_MATCH 0x10000000u
#define PRETOK_SLOW 0x08000000u
#define PRETOK_STATE 0x07ffffffu

enum pretok_contraction { CONTRACTION_NONE, CONTRACTION_LOWER, CONTRACTION_ANY };

/* What the masks of a window need to know of an expression. */
struct pretok_rules {
	enum pretok_contraction contraction;
	size_t digits; /* most numbers in a piece */
	bool newlines; /* the newer form: words with prefixes, separate line ends */
	bool cased;    /* o200k's words */
};

struct pretok {
	unsigned char class[UNICODE_CODE_POINTS];
	struct automaton automaton;
	/* by class: characters that no match takes and that are next to one another make one piece
	 * if these are equal */
	unsigned char gap[AUTOMATON_CLASSES];
	/* the automaton with the first step of the next piece where a piece ends */
	uint32_t (*fast)[AUTOMATON_CLASSES];
	/* the same by two bytes of ASCII: pair[state * square + first[a] + second[b]] */
	uint32_t *pair;
	uint32_t square;
	uint16_t first[256], second[256];
	bool windows; /* for the rules; else there are none */
	struct pretok_rules rules;
};

/* Cuts by the tables alone, as pretok_ends does. */
size_t pretok_scan(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap);

#endif
