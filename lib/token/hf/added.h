/*
 * added.h - finding special strings in a text
 *
 * Added tokens of a tokenizer.json and the specials of a rank file: strings that become one id
 * anywhere in a text. The leftmost match wins, and of those the longest. Semantics of the flags:
 * AddedVocabulary::find_matches of huggingface/tokenizers.
 */
#ifndef TOKEN_HF_ADDED_H
#define TOKEN_HF_ADDED_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct added_token {
	const char *text; /* borrowed while the set is built */
	size_t len;       /* 0: never found */
	uint32_t id;
	bool single_word;    /* not where a word character touches it */
	bool lstrip, rstrip; /* takes the white space on that side too */
	bool skip;           /* found, but treated as ordinary text */
	bool empty;          /* no text is left of it: it matches between all bytes */
};

enum { ADDED_FIRST = 3 }; /* first bytes that memchr looks for */

struct added; /* read-only, shared by threads */

/* NULL when no token has text. */
struct added *added_new(const struct added_token *token, size_t count);
void added_free(struct added *a); /* NULL is fine */

/* A text that is being cut: set s and n, zero the rest. */
struct added_walk {
	const char *s;
	size_t n;
	size_t pos;               /* the text before it is consumed */
	size_t from;              /* where the search continues */
	size_t start, end;        /* the text before the match is [start, end) */
	uint32_t id;              /* of the match after it */
	size_t next[ADDED_FIRST]; /* for the search */
	/* the white space scanned last: [blank, blank_end) */
	size_t blank, blank_end;
	size_t guard; /* 1 + end of the last match, where no empty one may follow */
};

enum added_result { ADDED_FAILED = -1, ADDED_END, ADDED_TOKEN, ADDED_CUT };

/*
 * Goes to the next match: ADDED_TOKEN with the ordinary text before it, which may be empty, and its
 * id; ADDED_CUT when only the text ends there; ADDED_FAILED at a text that the reference fails on.
 * ADDED_END when there is none: [start, end) is then the rest of the text. a may be NULL: no
 * matches.
 */
enum added_result added_next(const struct added *a, struct added_walk *w, struct err *e);

#endif
