/* tokenizer_impl.h - the interface of a kind of tokenizer; only for the files of lib/token */
#ifndef TOKEN_TOKENIZER_IMPL_H
#define TOKEN_TOKENIZER_IMPL_H

#include "lib/token/tokenizer.h"

enum { TOKENIZER_FILES = 5, TOKENIZER_FILE_MAX = 1 << 30 };

struct tokenizer {
	const struct tokenizer_kind *kind;
	const char *type;
	void *impl; /* the kind's own data, read-only after open */
	int64_t vocab_size, special[TOKENIZER_SPECIALS];
	uint64_t hash;
	char hash_text[17];    /* set when it is open */
	struct str notes;      /* a line each */
	bool adds_bos;         /* encode adds it */
	bool escaped;          /* texts of pieces have U+2581 for a blank, and <0xNN> for a byte */
	int64_t before, after; /* ids that tokenizer_encode puts around a text; -1: none */
	const char *unigram_ties; /* static; NULL: there is no such rule */
	const char *like;         /* likewise: the release of transformers */
	const char *release;      /* static; what makes another hash of the same files, or NULL */
	int num_files;
	char *file[TOKENIZER_FILES];
};

struct tokenizer_worker {
	const struct tokenizer *tokenizer;
	void *impl; /* the kind's scratch */
};

struct tokenizer_kind {
	const char *const *types; /* Megatron-LM's names, the usual one first; ended by NULL */
	/* True when the files given and the first n bytes of the model file are of this kind. */
	bool (*detect)(const struct tokenizer_spec *spec, const unsigned char *head, size_t n);
	/* Fills impl, vocab_size, special, hash and the files; close is called even after an
	 * error. */
	int (*open)(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e);
	void (*close)(struct tokenizer *t); /* impl may be NULL */
	/* NULL with worker_free: no scratch is needed */
	void *(*worker_new)(const struct tokenizer *t);
	void (*worker_free)(void *scratch);
	int (*encode)(struct tokenizer_worker *w, const char *text, size_t len,
	    struct token_ids *out, struct err *e);
	/* Appends the ids that the model alone gives to len bytes: no normaliser, nothing put
	 * before them, no special string, no template. Blanks are blanks. -1: it cannot take them.
	 * NULL: the tokenizer has no text. */
	int (*encode_piece)(struct tokenizer_worker *w, const char *text, size_t len,
	    struct token_ids *out, struct err *e);
	/* ids are in range, so it cannot fail */
	void (*decode)(
	    struct tokenizer_worker *w, const uint32_t *ids, size_t count, struct str *out);
	struct tokenizer_piece (*piece)(const struct tokenizer *t, int64_t id);
};

extern const struct tokenizer_kind tokenizer_sentencepiece, tokenizer_hf, tokenizer_tiktoken,
    tokenizer_gpt2, tokenizer_null;

/* Sets only kind and type. */
int tokenizer_choose(struct tokenizer *t, const struct tokenizer_spec *spec, struct err *e);

/* Reads one of the tokenizer's files, remembers its path and adds it to the hash. *out is freed by
 * the caller. */
int tokenizer_read_file(
    struct tokenizer *t, const char *path, char **out, size_t *len, struct err *e);

#endif
