/*
 * path.h - the best path of a unigram model through a piece that is longer than memory should hold
 * its places
 *
 * Every place has the best score of the paths that end there and the last token of that path. The
 * path of the whole is found from the end, so none of it is certain before, unless the paths to all
 * places that a token may yet begin at are one path up to some place. They mostly are, and the
 * tokens up to there are given out. A text can be made whose paths stay apart to its end: one
 * letter again and again does it for some models. So of a stretch that is not certain yet only this
 * is kept: the places that tokens from before it had reached, and through which of them the path
 * runs to each place that its own tokens reach. Its tokens are found by searching it again from the
 * former, to the same bits.
 */
#ifndef TOKEN_PATH_H
#define TOKEN_PATH_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A part of the piece: tokens begin before its first `starts` symbols, and end after any of n. The
 * first `carried` places are known: those that tokens from before it reach; 0: it is the first. */
struct path_part {
	size_t at, first; /* byte and symbol of the piece where it begins */
	size_t carried, starts, n;
};

/* A model and a piece. Places are numbered within a part: place k is before its symbol k. */
struct path_text {
	void *ctx;
	size_t longest;     /* symbols of a token */
	size_t place_bytes; /* of one */
	/* Reads the symbols of a part: n becomes how many there are, up to `longest` more than
	 * `starts`. Returns the byte after the first `starts` of them. */
	size_t (*read)(void *ctx, struct path_part *part);
	/* Finds the places of the part that was read last. -1 if there is no path. */
	int (*search)(void *ctx, void *place, const struct path_part *part, struct err *e);
	/* Symbols of the last token to place k > 0; 0: no path leads there yet. */
	size_t (*back)(const void *ctx, const void *place, const struct path_part *part, size_t k);
	/* The last token to place k is the next one of the path. */
	void (*put)(void *ctx, const void *place, size_t k);
};

/* Symbols of a stretch, if the caller has no reason for another number. */
enum { PATH_STRETCH = 1 << 16 };

/* Finds the path of a piece of at least one symbol, on stretches of `stretch` > 0 symbols. */
int path_search(const struct path_text *t, size_t stretch, struct err *e);

#endif
