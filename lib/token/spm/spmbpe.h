/*
 * spmbpe.h - merging by score, as SentencePiece's BPE models do
 *
 * Symbols are numbers: 1 + id for pieces, larger ones for characters that occur in pieces without
 * being one, 0 for other characters. A text starts as one symbol per character. Of all neighbours
 * whose concatenation is a piece, those of the largest score join first, the leftmost of equals;
 * when none are left, unused pieces are split the way they were made. Source: google/sentencepiece
 * src/bpe_model.cc, version 0.1.97.
 *
 * The library splits an unused piece the way it was last looked up anywhere in the text. There is
 * only one way: two symbols that make the piece were merged from its characters and from nothing
 * outside it, and those merges are the merges of the piece by itself, whatever surrounds it. So no
 * text needs to be merged as a whole.
 */
#ifndef TOKEN_SPM_SPMBPE_H
#define TOKEN_SPM_SPMBPE_H

#include "lib/token/ids.h"
#include "lib/token/spm/spmodel.h"
#include "lib/token/spm/spmtext.h"
#include "lib/token/window.h"

/* The ids of characters that no piece covers. */
struct spm_unknown {
	bool bytes; /* one id per byte of UTF-8; else one unk for a run */
	bool marks; /* the byte 0x20 stands for U+2581 */
	uint32_t unk, byte[256];
};

/* Appends the ids of the character of len bytes at p; a run of unknowns already begun in out
 * continues. */
void spm_unknown_add(
    const struct spm_unknown *u, const unsigned char *p, size_t len, struct token_ids *out);

struct spm_pair {
	uint64_t key;    /* left symbol, right symbol; 0: the slot is empty */
	uint32_t merged; /* symbol */
	uint32_t rank;   /* the smaller, the sooner */
};

/* Read-only after spmbpe_init. */
struct spmbpe {
	const struct spmodel *model;
	struct code_map symbol; /* of a character */
	uint32_t *bytes;        /* by symbol: bytes in normalised text */
	uint32_t num_symbols;
	size_t widest;         /* the most characters of a symbol */
	struct spm_pair *pair; /* by hash of left and right; the extra last one is empty */
	uint64_t *filter;      /* bits of the hashes of pairs */
	uint32_t mask;
	int shift;
	bool unused; /* the model has pieces to be split */
};

/* One thread's scratch; zero-initialise. */
struct spmbpe_worker {
	struct window window; /* for texts that are too long for the short method */
	struct spm_node *node;
	uint64_t *heap;
	size_t node_cap, heap_cap;
	uint32_t (*split)[2]; /* of unused pieces, by symbol */
};

void spmbpe_init(struct spmbpe *b, const struct spmodel *m);
void spmbpe_release(struct spmbpe *b);
void spmbpe_worker_release(struct spmbpe_worker *w);
void spmbpe_worker_trim(struct spmbpe_worker *w, size_t most); /* frees memory above that */

/* A unit that is not empty. */
struct spmbpe_unit {
	const unsigned char *bytes;
	size_t len;
	const struct spm_unknown *unknown;
	struct token_ids *out; /* receives the ids */
	/* Called when there are ids, so that a long unit's are passed on in parts; or NULL. */
	void (*flush)(void *ctx);
	void *ctx;
};

/* Appends the ids of a unit. The memory besides does not grow with the unit. */
void spmbpe_encode(const struct spmbpe *b, struct spmbpe_worker *w, const struct spmbpe_unit *unit);

#endif
