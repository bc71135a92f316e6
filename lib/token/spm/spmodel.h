/*
 * spmodel.h - the contents of a SentencePiece model: pieces, scores, and the preparation of text
 *
 * A bounds-checked reader of the protobuf message ModelProto: field 1 pieces {1 text, 2 score, 3
 * type}, field 2 trainer {3 model type, 22 split_by_whitespace, 24 treat_whitespace_as_suffix, 35
 * byte_fallback, 44 unk_surface, 45-48 the texts of unk, bos, eos, pad}, fields 3 and 5 normalizer
 * and denormalizer {2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5
 * escape_whitespaces}. Other fields are skipped. Source: google/sentencepiece
 * src/sentencepiece_model.proto; protobuf.dev/programming-guides/encoding.
 */
#ifndef TOKEN_SPM_SPMODEL_H
#define TOKEN_SPM_SPMODEL_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sp_type { SP_NORMAL = 1, SP_UNKNOWN, SP_CONTROL, SP_USER_DEFINED, SP_UNUSED, SP_BYTE };
enum sp_model { SP_UNIGRAM = 1, SP_BPE, SP_WORD, SP_CHAR };

struct sp_piece {
	const char *text; /* UTF-8 without NUL bytes; borrowed, not NUL-ended */
	size_t len;
	float score;
	enum sp_type type;
};

/* A text inside the model; borrowed, not NUL-ended. */
struct sp_text {
	const char *bytes;
	size_t len;
};

/* The preparation of text or, in a denormalizer, its finishing. */
struct sp_normalizer {
	bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
	bool whitespace_as_suffix; /* the dummy blank goes to the end */
	const void *charsmap;      /* compiled rules, borrowed; none when charsmap_len is 0 */
	size_t charsmap_len;
};

/* An entry of the index: the tag is another part of the hash and saves most comparisons of
 * texts. */
struct sp_slot {
	uint32_t id, tag; /* id + 1; 0: empty */
};

struct spmodel {
	int count;
	struct sp_piece *piece; /* by id */
	struct sp_slot *slot;   /* ids by hash of the text; texts are distinct */
	uint32_t slot_mask;
	enum sp_model model;
	bool byte_fallback, split_by_whitespace;
	struct sp_normalizer normalizer, denormalizer;
	struct sp_text unk_surface; /* the decoded text of an unknown piece */
	int unk, bos, eos, pad;     /* ids; -1: none */
};

/* Parses bytes, which must outlive the model; name is for messages. spmodel_release in every
 * case. */
int spmodel_parse(
    struct spmodel *m, const void *bytes, size_t len, const char *name, struct err *e);
void spmodel_release(struct spmodel *m);

/* The id of a piece, or -1. */
int spmodel_find(const struct spmodel *m, const char *text, size_t len);

/*
 * The hash of a text grows byte by byte: start at 0, step once per byte. So the hash of bytes [i,
 * j) is that of [0, j) less that of [0, i) times spmodel_hash_power(j - i), modulo 2^64, and one
 * pass over a text gives the hashes of all its parts.
 */
#define SPMODEL_HASH_BASE 0x9e3779b97f4a7c15u

static inline uint64_t
spmodel_hash_step(uint64_t hash, unsigned char byte)
{
	return hash * SPMODEL_HASH_BASE + byte + 1;
}

/* spmodel_find for a text whose hash is known. */
int spmodel_find_hashed(const struct spmodel *m, uint64_t hash, const char *text, size_t len);

#endif
