/*
 * path.h - the best path of a unigram model through a piece that is longer than memory should hold
 * its places
 *
 * Every place has the best score of the paths that end there and the last token of that path. The
 * path of the whole is found from the end, so no part of it is certain earlier, unless the paths to
 * all places where a token may still begin share a beginning. They usually do, and the tokens of
 * that beginning are emitted. A text can be crafted whose paths stay separate to its end: for some
 * models, one repeated letter suffices. So of a stretch that is not yet certain, only this is kept:
 * the places that tokens from before it had reached, and which of them is on the path to each place
 * that its own tokens reach. Its tokens are found by a second search from the former, with
 * bit-identical results.
 */
#ifndef TOKEN_PATH_H
#define TOKEN_PATH_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* A part of the piece: tokens begin before its first `starts` symbols, and end after any of n. The
 * first `carried` places are known: those that earlier tokens reach; 0: it is the first part. */
struct path_part {
	size_t at, first; /* byte and symbol in the piece where it begins */
	size_t carried, starts, n;
};

/* A model and a piece. Places are numbered within a part: place k is before its symbol k. */
struct path_text {
	void *ctx;
	size_t longest;     /* most symbols of a token */
	size_t place_bytes; /* of one */
	/* Reads the symbols of a part: sets n, which is at most `starts` + `longest`. Returns the
	 * byte after the first `starts` of them. */
	size_t (*read)(void *ctx, struct path_part *part);
	/* Finds the places of the last part read. -1 if there is no path. */
	int (*search)(void *ctx, void *place, const struct path_part *part, struct err *e);
	/* The symbols of the last token to place k > 0; 0: no path leads there yet. */
	size_t (*back)(const void *ctx, const void *place, const struct path_part *part, size_t k);
	/* The last token to place k is the next one of the path. */
	void (*put)(void *ctx, const void *place, size_t k);
};

/* The default number of symbols per stretch. */
enum { PATH_STRETCH = 1 << 16 };

/* Finds the path of a piece of at least one symbol, on stretches of `stretch` > 0 symbols. */
int path_search(const struct path_text *t, size_t stretch, struct err *e);

#endif
