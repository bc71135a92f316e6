/*
 * window.h - ranked merging of lists that are longer than memory should hold
 *
 * Ranked merging joins, of all pairs of neighbours in a list, the one of lowest rank, leftmost of
 * equals, until none may merge: it is defined on the whole list. Here it is done in stretches, with
 * exactly the same tokens for any ranks.
 *
 * Merging is local: as long as no step has crossed the ends of a part, the steps inside it are
 * those of the part by itself, because the pair that is next in the whole list is also next in the
 * part.
 *
 * So let merging the symbols before a place end in the token x, and merging those after it begin
 * with the token y. Merging all of them leaves both lists of tokens, if merging the symbols of x
 * and y alone leaves x and y: the first step to cross the place, with all that came before it in
 * the two, would be steps of these alone. And the tokens of a list before a place that none of them
 * crosses are those of the list cut there.
 *
 * Let the first n symbols of a list have been read, and no token be made of more than k. For any
 * continuation, one of the last k places among these symbols is crossed by no token of the list. So
 * the tokens with which the list begins if cut at any of these k places are certain. Stretches end
 * there.
 *
 * That place is not far back, however long the list is: the pairs of one rank merge from the left,
 * so the symbols after a place can only undo merges of a larger rank before it, one token per rank.
 * So it is at most as many symbols back as the tokens of all ranks have together. For a repeated
 * word of 1 to 12 letters with the vocabulary cl100k, whose k is 128, it was at most 132.
 *
 * Source: the compatible pairs of tokens, and the locality of the merges inside a token, are those
 * of the crate bpe of github.com/github/rust-gems. Cutting at all k places makes the tokens certain
 * without the rest of the text, for any rule and vocabulary.
 */
#ifndef TOKEN_WINDOW_H
#define TOKEN_WINDOW_H

#include "lib/token/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

/* A list of symbols, and the receiver of its tokens. */
struct window_list {
	/* Appends the next symbols: at least `want`, or fewer at the end of the list, after which
	 * further calls append none. */
	void (*read)(void *ctx, struct token_ids *symbols, size_t want);
	/* The next tokens of the whole list, at least one. */
	void (*take)(void *ctx, const uint32_t *token, size_t n);
	void *ctx;
};

/* How pairs merge. */
struct window_rule {
	/* Merges n > 0 symbols in place and returns the number of tokens; width [n] gets the number
	 * of symbols of each token. */
	size_t (*merge)(void *ctx, uint32_t *symbol, uint32_t *width, size_t n);
	void *ctx;
	size_t widest; /* no token is made of more symbols */
};

/* The default number of symbols per stretch: merging that many fits a near cache. */
enum { WINDOW_SIZE = 1 << 16 };

/* Merged symbols: token i consists of width[i]. */
struct window_run {
	uint32_t *token, *width;
	size_t symbols, count; /* symbols, and the tokens that they became */
	size_t cap;
};

/* Scratch, one per thread: zero-initialise, window_release. */
struct window {
	struct token_ids symbols; /* from the first of the stretch */
	struct window_run run, trial;
};

/*
 * Merges a list on stretches of `size` > 0 symbols, SIZE_MAX for one stretch. A stretch without a
 * certain place in its second half is doubled, which only texts crafted for a vocabulary need, or
 * vocabularies with a token about as wide as a stretch.
 */
void window_merge(
    struct window *w, const struct window_list *list, const struct window_rule *rule, size_t size);
void window_release(struct window *w);

#endif
