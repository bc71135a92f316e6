/* pretok_impl.h - shared by the files of the pre-tokenizer */
#ifndef TOKEN_PRETOK_IMPL_H
#define TOKEN_PRETOK_IMPL_H

#include "lib/token/automaton.h"
#include "lib/token/pretok.h"
#include "lib/token/simd.h"
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

enum pretok_form {
	FORM_GPT2,
	FORM_NEWER, /* words with prefixes, separate line ends */
	FORM_RUNS   /* runs of a set, with a space before them or without; the rest is between */
};

/* What the masks of a window need to know of an expression. */
struct pretok_rules {
	enum pretok_contraction contraction;
	enum pretok_form form;
	size_t digits; /* most numbers in a piece: 1 or 3, for GPT-2 any number */
	bool apart;    /* an earlier step cuts numbers off: to white space they are the end */
	bool cased;    /* o200k's words */
	bool slashes;  /* among the line ends after others */
	bool joins;    /* of FORM_RUNS: a space joins the run after it */
	bool aliens;   /* alien is not empty */
	struct simd_set run, alien; /* bytes of FORM_RUNS; ASCII that windows do without */
};

struct pretok {
	unsigned char class[UNICODE_CODE_POINTS];
	int num_classes;
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

/* The tables alone: pretok_compile without windows. */
struct pretok *pretok_tables(const struct pretok_step *step, int count, struct err *e);
/* Windows for any expression that cuts ASCII by one of the forms. */
void pretok_find_rules(struct pretok *p);

/* Cuts by the tables alone, as pretok_ends does; or until a piece begins with ASCII. */
size_t pretok_scan_foreign(
    const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap);
size_t pretok_scan(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap);

#endif
