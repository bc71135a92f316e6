/*
 * vocab_map.h - which row of a vocabulary table each token of another tokenizer begins with
 *
 * Tokens meet by their exact bytes in a document (tokenizer_surface), never by number: text, bytes
 * and control pieces apart. Of several old tokens with the same bytes the first is for the first
 * new one, and so on; the lowest is for those that are left.
 */
#ifndef CKPT_VOCAB_MAP_H
#define CKPT_VOCAB_MAP_H

#include "lib/token/tokenizer.h"

/* Where a row comes from. */
enum row_from {
	ROW_SAME,    /* the old row of the same number has the same piece */
	ROW_MOVED,   /* another one has */
	ROW_ROLE,    /* a control piece: the old one that is bos, eos, unk or pad as it is */
	ROW_MAP,     /* as the file says */
	ROW_MEAN_OF, /* new: the mean of the rows of the old pieces that make it */
	ROW_NEW,     /* new: of no such pieces */
	ROW_KEPT,    /* of no token: the old row of the same number */
	ROW_FROMS
};

struct vocab_row {
	enum row_from from;
	int64_t old;         /* the row that it is a copy of; -1: new */
	size_t first, count; /* of its pieces in vocab_map.pieces */
};

struct vocab_map {
	const struct tokenizer *before, *after;
	int64_t old_rows, count; /* rows of the old table and of the new one */
	struct vocab_row *row;   /* [count] */
	struct token_ids pieces;
	int64_t of[ROW_FROMS]; /* how many rows are from each */
	int64_t doubles;       /* tokens that have the bytes of one with a lower number */
	int64_t lost;          /* old tokens whose row is not in the new table */
};

struct vocab_map_rule {
	bool pieces;      /* encode new tokens by the old tokenizer */
	bool shrink;      /* as many rows as tokens, else at least as many as before */
	const char *file; /* lines of an old token, a tab and a new one; NULL: none */
};

/* Fills *m, of which old_rows and the tokenizers are set. vocab_map_release in every case. */
int vocab_map_make(struct vocab_map *m, const struct vocab_map_rule *rule, struct err *e);
void vocab_map_release(struct vocab_map *m);
bool vocab_row_is_new(const struct vocab_row *r);
/* The new token that has the row of an old one; -1: none. */
int64_t vocab_map_find(const struct vocab_map *m, int64_t old);

#endif
