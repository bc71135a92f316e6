/*
 * spmnorm.h - the normaliser of SentencePiece models, a part of a text at a time
 *
 * In the order of the library: user-defined symbols pass unchanged, longest first; else the longest
 * compiled rule that matches; else one character, where a byte that is not UTF-8 becomes U+FFFD.
 * Then blanks: at the ends and in runs they are dropped if the model says so, one is put before it
 * or at the end, and U+2581 stands for them (byte 0x20 in here, see spmtext.h). Source:
 * google/sentencepiece src/normalizer.cc, version 0.1.97.
 */
#ifndef TOKEN_SPM_SPMNORM_H
#define TOKEN_SPM_SPMNORM_H

#include "lib/base/err.h"
#include "lib/token/spm/spmodel.h"
#include "lib/token/spm/spmtext.h"
#include "lib/token/trie.h"

/* The entry of a character: 1 + index of the rules that begin with it, and bits for a rule for it
 * alone and for being second in a rule. */
enum { RULE_INDEX = (1 << 30) - 1, RULE_SECOND = 1 << 30 };
#define RULE_ALONE (1u << 31)

/* The rules for texts that begin with one character. */
struct norm_rule {
	uint32_t value; /* 1 + offset of the replacement of the character alone; 0: none */
	uint32_t unit;  /* in the double array, after the character */
};

/* Read-only after spmnorm_init. */
struct spmnorm {
	const struct sp_normalizer *spec;
	uint32_t *unit; /* the rules: a double array of darts-clone */
	size_t num_units;
	const unsigned char *pool; /* replacements, each ended by a NUL; borrowed */
	size_t pool_len;
	struct norm_rule *rule;
	struct code_map rule_of; /* of a character: RULE_ bits; 0: it is copied */
	struct trie symbols;     /* user-defined symbols, by bytes */
	bool symbol_first[256], ascii_runs_on;
	struct byte_set slow;  /* bytes that cannot be copied without checking rules and symbols */
	struct byte_set blank; /* of the others: ' ' and bytes that always become it */
};

/* Normalised text from start up to len; SPM_PADDING more bytes may be read. */
struct spm_buffer {
	unsigned char *bytes;
	size_t start, len, cap;
};

/* A text being normalised. */
struct norm_text {
	const unsigned char *p, *end;
	bool after_blank; /* the next blank is dropped */
};

/* Symbols are the model's user-defined pieces; the model must stay. spmnorm_release in every
 * case. */
int spmnorm_init(
    struct spmnorm *n, const struct spmodel *m, const struct sp_normalizer *spec, struct err *e);
void spmnorm_release(struct spmnorm *n);

/* Begins a text of len > 0 bytes; false when it is all blanks and thus normalises to nothing. */
bool spmnorm_begin(const struct spmnorm *n, struct norm_text *t, const void *text, size_t len,
    struct spm_buffer *b);
/* Appends the normalised form of about `bytes` more bytes; false at the end of the text. */
bool spmnorm_next(const struct spmnorm *n, struct norm_text *t, size_t bytes, struct spm_buffer *b);
/* After the end: drops trailing blanks, which must still be in b, and puts the blank at the end. */
void spmnorm_end(const struct spmnorm *n, struct spm_buffer *b);

#endif
