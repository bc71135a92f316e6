/*
 * spmcut.h - where normalised text may be cut so that its parts are encoded one by one
 *
 * No piece crosses the place between two characters that are neighbours in no piece. A unit ends
 * there: neither a merge nor a path of the unigram search crosses it. For models trained word by
 * word this holds before every blank that follows something else, and at most punctuation; in
 * Japanese text it leaves units of some ten characters. It is tested at blanks, punctuation and
 * characters beyond ASCII; testing between two letters is not worth its cost. A user-defined symbol
 * is a separate unit when the model's kind never merges it.
 */
#ifndef TOKEN_SPM_SPMCUT_H
#define TOKEN_SPM_SPMCUT_H

#include "lib/token/spm/spmodel.h"
#include "lib/token/spm/spmtext.h"
#include "lib/token/trie.h"

/* Units follow each other without gaps. */
struct spm_unit {
	uint32_t len;    /* bytes */
	uint32_t symbol; /* 1 + id of the user-defined symbol that it is; 0: text */
};

/* The least room for units: a block of bytes may give that many. */
enum { UNITS_MIN = 2 * BYTE_BLOCK };

/* Read-only after spmcut_init. */
struct spmcut {
	struct byte_set look; /* bytes next to which a cut is possible */
	/* bit a of row b: cut between a and b, found at b */
	uint64_t before[128][4];
	uint64_t after[128][4]; /* bit b of row a: the same, found only at a */
	uint64_t *pair;         /* neighbours in pieces, by hash, with false positives */
	int shift;              /* of the hash */
	bool words;             /* cut before every blank, nowhere else */
	struct trie symbols;    /* user-defined symbols in their normalised form */
	bool symbol_first[256];
	size_t symbol_max; /* length of the longest; 0: none is cut out */
};

void spmcut_init(struct spmcut *c, const struct spmodel *m);
void spmcut_release(struct spmcut *c);

/*
 * Cuts bytes [*from, len) and moves *from after the last unit; returns the number of units, at most
 * max (UNITS_MIN or more), 0 when no more can be cut: then *from is len if the text is at its end
 * (final), else the rest must be given again with more text. SPM_PADDING bytes after len are read.
 */
size_t spmcut_next(const struct spmcut *c, const unsigned char *bytes, size_t *from, size_t len,
    bool final, struct spm_unit *out, size_t max);

#endif
