/*
 * rankfile.h - the files of a TikTokenizer: ranks and special tokens
 *
 * Three forms, distinguished by the first byte: tiktoken's lines of "base64 rank", Megatron-LM's
 * JSON list of {"rank", "token_bytes", "token_str"}, and Mistral's tekken.json, an object that
 * holds such a list.
 */
#ifndef TOKEN_BPE_RANKFILE_H
#define TOKEN_BPE_RANKFILE_H

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/hf/added.h"
#include "lib/token/pretok.h"
#include "lib/token/tokenizer.h"

struct rankfile {
	struct mem_pool pool;        /* all bytes */
	struct bpe_token *token;     /* by id; bytes NULL: a special token or a hole */
	int64_t size;                /* ids are below */
	struct added_token *special; /* the pool owns their texts */
	size_t num_special;
	enum pretok_scanner scanner;
	/* the model assumed from only the number of ranks, or NULL */
	const char *guess;
	long line; /* the line of a failed read; 0: no particular line */
};

/* True when the file at path, whose first n bytes are head, begins like one of the three. */
bool rankfile_detect(const char *path, const unsigned char *head, size_t n);

/* Reads the bytes of a file; spec has the options of TikTokenizer. rankfile_release in every case.
 * The reason has neither path nor line. */
int rankfile_read(struct rankfile *f, const char *text, size_t len,
    const struct tokenizer_spec *spec, struct err *e);
void rankfile_release(struct rankfile *f);

#endif
