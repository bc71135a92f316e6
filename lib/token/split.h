/*
 * split.h - the pre-tokenizer of a tokenizer.json: steps that cut the text into pieces
 *
 * Kinds of steps are rows of a table; an unknown kind is refused by name. Pieces go from step to
 * step one at a time, the last ones to the model.
 */
#ifndef TOKEN_SPLIT_H
#define TOKEN_SPLIT_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/base/str.h"
#include "lib/token/alphabet.h"
#include "lib/token/hf/normalize.h"
#include "lib/token/pretok.h"
#include "lib/token/unicode_sets.h"

#include <stdbool.h>

enum { SPLIT_STEPS = 16 };

enum split_behavior {
	SPLIT_REMOVED,
	SPLIT_ISOLATED,
	SPLIT_MERGED_WITH_PREVIOUS,
	SPLIT_MERGED_WITH_NEXT,
	SPLIT_CONTIGUOUS
};

enum metaspace_prepend { METASPACE_ALWAYS, METASPACE_FIRST, METASPACE_NEVER };

struct split_kind;

struct split_step {
	const struct split_kind *kind;
	struct pretok *scanner; /* instead of the pattern, of steps that isolate its matches */
	struct regex *pattern;
	enum split_behavior behavior;
	bool invert; /* matches are the text, the rest are the delimiters */
	/* letters: the steps after this ByteLevel see its alphabet */
	bool prefix_space, letters;
	/* for joining the step with its neighbours: isolates is false where that is impossible;
	 * text is borrowed while the file is read */
	bool isolates;
	struct pretok_step cut;
	struct points points;
	enum unicode_set set; /* its characters are the matches */
	int64_t length;       /* characters per piece */
	enum metaspace_prepend prepend;
	char *replacement;
	size_t len;
	bool split;
};

/* Read-only, shared by threads; zero-initialise. A scanner for the last steps is kept separately,
 * so that the model can cut and encode in one pass. */
struct splitter {
	struct split_step step[SPLIT_STEPS];
	int count;
	struct pretok *last; /* NULL: none */
	bool bytes;          /* the last step is a ByteLevel: pieces are bytes, not characters */
	bool origin;         /* a step asks whether a piece comes from the beginning of the text */
	struct alphabet alphabet; /* of a ByteLevel that is not at the end */
};

struct split_scratch {                /* of one thread; zero-initialise */
	struct str text[SPLIT_STEPS]; /* of steps that change the text */
	/* pieces of the ByteLevels that are not at the end */
	struct str letters[SPLIT_STEPS];
	struct regex_scratch *regex; /* lent by the owner */
};

/* From the member "pre_tokenizer", which may be NULL or null. splitter_release in every case. */
int splitter_parse(struct splitter *p, const struct json_value *v, struct err *e);
void splitter_release(struct splitter *p);
void split_scratch_release(struct split_scratch *x);

/* Receives the pieces in order; returns 0, or -1 to stop. */
struct split_sink {
	int (*piece)(void *ctx, const struct span *piece, struct err *e);
	void *ctx;
};

/* Cuts a non-empty text, without p->last. */
int splitter_run(const struct splitter *p, struct split_scratch *x, const struct span *text,
    const struct split_sink *sink, struct err *e);

/* "prepend_scheme", or "add_prefix_space" of older files, of a Metaspace: pre-tokenizer or
 * decoder. */
int metaspace_prepend(const struct json_value *v, enum metaspace_prepend *out, struct err *e);

#endif
