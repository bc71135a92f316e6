/*
 * tokenizer.h - text to token ids and back, whatever the tokenizer's kind
 *
 * A tokenizer is read-only after tokenizer_open and shared by all threads; what encoding writes to
 * (buffers, piece caches) is a tokenizer_worker, one per thread. Results depend only on the text,
 * never on the worker or its earlier texts.
 *
 * Types carry Megatron-LM's names. To add a kind, define a struct tokenizer_kind (tokenizer_impl.h)
 * in a file and add a line to registry.c.
 */
#ifndef TOKEN_TOKENIZER_H
#define TOKEN_TOKENIZER_H

#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/base/str.h"
#include "lib/token/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which of two equally likely cuts a SentencePiece unigram model takes: the rule of the library's
 * versions from 0.2.2 on, or of those up to 0.2.1. */
enum unigram_ties { UNIGRAM_TIES_0_2_2, UNIGRAM_TIES_0_2_1 };
extern const char *const unigram_ties_names[]; /* for options; ended by NULL */

/* The release of transformers whose AutoTokenizer a directory's ids follow where releases differ.
 */
enum tokenizer_like { TOKENIZER_LIKE_5_24, TOKENIZER_LIKE_5_23, TOKENIZER_LIKE_4_57 };
extern const char *const tokenizer_like_names[]; /* for options; ended by NULL */

/* What to open. Unused members are NULL or 0. */
struct tokenizer_spec {
	/* Megatron-LM's name; NULL: determined from the files */
	const char *type;
	/* SentencePiece .model, tokenizer.json or its directory, rank file */
	const char *model;
	const char *vocab, *merges; /* GPT-2's vocab.json and merges.txt */
	/* NullTokenizer and the JSON list of TikTokenizer: ids are below this */
	int64_t vocab_size;
	int unigram_ties;                  /* an enum unigram_ties */
	int like;                          /* an enum tokenizer_like */
	bool special_as_text;              /* special strings in the text are ordinary text */
	bool hf_no_include_special_tokens; /* tokenizer.json: without the ids of its template */
	/* rank files: how text is cut; NULL: as known for the file */
	const char *tiktoken_pattern;
	int64_t tiktoken_num_special_tokens; /* JSON list: ids before the ranks; 0: 1000 */
	/* their names; none: as known for the file */
	struct opt_list tiktoken_special_tokens;
};

enum tokenizer_special {
	TOKENIZER_UNK,
	TOKENIZER_BOS,
	TOKENIZER_EOS,
	TOKENIZER_PAD,
	TOKENIZER_SPECIALS
};

enum piece_type { PIECE_NORMAL, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_BYTE, PIECE_UNUSED };

struct tokenizer_piece {
	const char *bytes; /* borrowed from the tokenizer; may hold NULs */
	size_t len;
	float score; /* SentencePiece's; 0 elsewhere */
	enum piece_type type;
};

struct tokenizer;
struct tokenizer_worker;

struct tokenizer *tokenizer_open(const struct tokenizer_spec *spec, struct err *e);
void tokenizer_close(struct tokenizer *t);
const char *tokenizer_type(const struct tokenizer *t); /* Megatron-LM's name, given or determined */
int64_t tokenizer_vocab_size(const struct tokenizer *t); /* before padding for tensor parallelism */
int64_t tokenizer_special(
    const struct tokenizer *t, enum tokenizer_special which);     /* -1: there is none */
const char *tokenizer_special_name(enum tokenizer_special which); /* "unk", "bos", "eos", "pad" */
const char *tokenizer_hash(
    const struct tokenizer *t); /* XXH3-64 of the files in order, as by hash_text */
bool tokenizer_adds_bos(const struct tokenizer *t); /* encoding itself adds bos */
/* The id that "add_eos_token" of a directory's configs puts after every text; -1: none. The
 * template of a tokenizer.json does not count: after its ids Megatron-LM appends another eod. */
int64_t tokenizer_after(const struct tokenizer *t);
/* The rule that ids depend on, by its name; NULL where there is no unigram model of
 * SentencePiece. */
const char *tokenizer_unigram_ties(const struct tokenizer *t);
/* The release that ids depend on, by its name; NULL where the releases do not differ. */
const char *tokenizer_like(const struct tokenizer *t);
/* Appends a line for each part of the files that is ignored. */
void tokenizer_notes(const struct tokenizer *t, struct str *out);
int tokenizer_num_files(const struct tokenizer *t);
const char *tokenizer_file(const struct tokenizer *t, int i); /* path as given */
/* The piece of an id below the vocabulary size; BUG outside. */
struct tokenizer_piece tokenizer_piece_at(const struct tokenizer *t, int64_t id);
/* The id of the piece with these bytes, or -1. A control piece is preferred, since a word may have
 * the same spelling. Searches all pieces. */
int64_t tokenizer_find_piece(const struct tokenizer *t, const char *bytes, size_t len);
/* What a token stands for in a document. Holes, and pieces that are not used, are of no class. */
enum surface { SURFACE_TEXT, SURFACE_BYTE, SURFACE_CONTROL, SURFACE_NONE };
/* Appends the exact bytes of an id's token in a document: a blank for U+2581 where the tokenizer
 * writes it so, and the byte of <0xNN>. A byte that is no character by itself is a SURFACE_BYTE in
 * every kind of tokenizer. Of control pieces, the spelling. */
enum surface tokenizer_surface(const struct tokenizer *t, int64_t id, struct str *out);
bool tokenizer_has_text(const struct tokenizer *t); /* false: ids are their own text */
/* Appends the ids that the model alone gives to the exact bytes of a piece: without normaliser,
 * prefix, special tokens and template. -1 when it cannot take them: bytes that are not UTF-8, for a
 * model of characters. */
int tokenizer_encode_piece(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e);

/* Appends ids that came from a file; one outside the vocabulary is an error. */
int tokenizer_check_ids(const struct tokenizer *t, const int64_t *ids, size_t count,
    struct token_ids *out, struct err *e);

/* Appends ", NAME VERSION" for each library that ids can depend on: for --version. */
void tokenizer_libraries(struct str *out);

struct tokenizer_worker *tokenizer_worker_new(const struct tokenizer *t);
void tokenizer_worker_free(struct tokenizer_worker *w);

/* Appends the ids of len bytes of text (well-formed UTF-8; NULs allowed). Adds neither bos nor eos,
 * except that a tokenizer.json adds what its post-processor says, and a directory without one what
 * "add_bos_token" and "add_eos_token" say, unless that was switched off. Fails when the text is not
 * something that this tokenizer can encode (no numbers for a NullTokenizer; bytes that are not
 * UTF-8, or text that exceeds the limits of a regular expression, for a tokenizer.json), or is
 * longer than 2^31 bytes. */
int tokenizer_encode(
    struct tokenizer_worker *w, const char *text, size_t len, struct token_ids *out, struct err *e);

/* Appends the text of the ids; may be malformed UTF-8 where a character is incomplete. An id
 * outside the vocabulary is an error. skip_special leaves out control pieces. */
int tokenizer_decode(struct tokenizer_worker *w, const struct token_ids *ids, bool skip_special,
    struct str *out, struct err *e);

#endif
