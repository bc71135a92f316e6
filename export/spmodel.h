/*
 * spmodel.h - what tokenizer.json needs from a SentencePiece model: pieces, scores, and how text is
 * prepared
 *
 * A bounds-checked reader of the protobuf message ModelProto: field 1 pieces {1 text, 2 score, 3
 * type}, field 2 trainer {3 model type, 22 split_by_whitespace, 35 byte_fallback, 40-43 unk, bos,
 * eos, pad}, field 3 normalizer {2 precompiled_charsmap, 3 add_dummy_prefix, 4
 * remove_extra_whitespaces, 5 escape_whitespaces}. Other fields are passed over. Source:
 * google/sentencepiece src/sentencepiece_model.proto; protobuf.dev/programming-guides/encoding.
 */
#ifndef EXPORT_SPMODEL_H
#define EXPORT_SPMODEL_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_type { SP_NORMAL = 1, SP_UNKNOWN, SP_CONTROL, SP_USER_DEFINED, SP_UNUSED, SP_BYTE };
enum sp_model { SP_UNIGRAM = 1, SP_BPE, SP_WORD, SP_CHAR };

struct sp_piece {
	const char *text;               /* UTF-8 without NUL bytes; borrowed, not NUL-ended */
	size_t len;
	float score;
	enum sp_type type;
};

struct spmodel {
	int count;
	struct sp_piece *piece;         /* by id */
	int *by_text;                   /* ids, sorted by text; none twice */
	enum sp_model model;
	bool byte_fallback, split_by_whitespace;
	bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
	int unk, bos, eos, pad;         /* ids; -1: none */
	const void *charsmap;           /* precompiled normalisation, borrowed */
	size_t charsmap_len;
};

/* Parses bytes, which must stay; name is for messages. spmodel_release in every case. */
int spmodel_parse(
    struct spmodel *m, const void *bytes, size_t len, const char *name, struct err *e);
void spmodel_release(struct spmodel *m);
/* The id of a piece, or -1. */
int  spmodel_find(const struct spmodel *m, const char *text, size_t len);

#endif
