/*
 * pretok.h - cutting text into the pieces that BPE merges, by scanners instead of regular
 * expressions
 *
 * A scanner gives exactly the matches of its regular expression, one after the other; together they
 * cover the text. Bytes that are not well-formed UTF-8 count as one character each of class other,
 * so that any bytes can be cut. A tokenizer has one struct pretok per expression; it is read-only
 * and shared by threads.
 */
#ifndef TOKEN_PRETOK_H
#define TOKEN_PRETOK_H

#include "lib/base/err.h"
#include "lib/token/points.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pretok_scanner {
	PRETOK_GPT2,        /* also r50k, p50k */
	PRETOK_CL100K,      /* Llama 3 as well */
	PRETOK_CL100K_TAIL, /* tiktoken's later spelling: white space at the end of the text is one
			     * piece; the same ids with cl100k's own vocabulary */
	PRETOK_QWEN2,       /* Qwen2, 2.5 and 3; their NFC is not done here */
	PRETOK_QWEN35,      /* Qwen3.5: marks go with letters */
	PRETOK_O200K,       /* GPT-4o, gpt-oss, Llama 4 */
	PRETOK_TIKTOKEN_V1, /* Megatron-LM's TikTokenizer */
	PRETOK_TIKTOKEN_V2,
	PRETOK_SCANNERS,
	PRETOK_NONE = -1
};

struct pretok;

/*
 * The scanner of a regular expression (UTF-8, as it stands in a tokenizer.json after JSON's escapes
 * are undone, or in a program's source). It is compared with the known spellings as a string;
 * PRETOK_NONE when none matches.
 */
enum pretok_scanner pretok_find(const char *regex, size_t len);

struct pretok *pretok_new(enum pretok_scanner scanner);

/* The most steps; the most entries of the table of pairs of bytes. */
enum { PRETOK_STEPS = 16, PRETOK_PAIRS_MAX = 1 << 18 };

/* A step that makes each match a piece, and what is between two matches another. */
struct pretok_step {
	const char *regex;
	size_t len;
	const struct points *set; /* instead of the expression: one of these characters, or */
	bool run;                 /* as many as there are */
};
/* A known expression as a step. */
struct pretok_step pretok_step(enum pretok_scanner scanner);
/* One scanner for steps in a row, each of which cuts the pieces of the one before. NULL with a
 * reason when they are not of the kinds that can be one. */
struct pretok *pretok_compile(const struct pretok_step *step, int count, struct err *e);
/* True when every character is certain to be in a match. */
bool pretok_covers(const struct pretok *p);
void pretok_free(struct pretok *p);

/* The end of the piece that begins at pos < n. n is the end of the text for the rules that look
 * ahead; the text before pos does not matter. */
size_t pretok_next(const struct pretok *p, const unsigned char *s, size_t n, size_t pos);

/* A text that is being cut; zero pos to begin. n < 2^31. */
struct pretok_text {
	const unsigned char *s;
	size_t n, pos; /* bytes; bytes already cut */
};

/*
 * Writes the ends of the next pieces, offsets from s in increasing order, and moves pos to the last
 * of them. Returns how many: at most cap, which is at least PRETOK_BLOCK; 0 only at the end of the
 * text. The same ends as pretok_next gives one by one, found a block at a time.
 */
enum { PRETOK_BLOCK = 64 };
size_t pretok_ends(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap);

#endif
