/*
 * hf.h - a tokenizer.json in memory: hf_plan.c reads it from the file and hf.c runs it
 *
 * Only for the files of lib/token. Added tokens cut the text; the parts between them go through the
 * normalizer, the pre-tokenizer and the model; the template of the post-processor adds its ids
 * around the result.
 */
#ifndef TOKEN_HF_HF_H
#define TOKEN_HF_HF_H

#include "lib/token/alphabet.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/hf/added.h"
#include "lib/token/hf/decoder.h"
#include "lib/token/hf/hf_configs.h"
#include "lib/token/hf/hf_rows.h"
#include "lib/token/hf/normalize.h"
#include "lib/token/names.h"
#include "lib/token/split.h"
#include "lib/token/symbols.h"
#include "lib/token/tokenizer_impl.h"
#include "lib/token/unigram.h"

#include <stdbool.h>

struct hf {
	struct mem_pool pool; /* bytes of the tokens */
	struct name *text;    /* by id: the decoded text; bytes NULL: a hole */
	bool *control;        /* by id: an added token that is special */
	/* added tokens, searched before and after the normalizer */
	struct added *raw, *normalized;
	struct normalizer normalizer;
	struct splitter splitter;
	struct bpe_token *token; /* the byte-level model's, by id */
	struct bpe *bpe;         /* byte-level, or NULL */
	struct symbols *symbols; /* else this one, or NULL; in the alphabet if splitter.bytes */
	struct unigram *unigram; /* else this one; likewise */
	struct name *name;       /* its tokens, by id */
	struct alphabet alphabet;
	struct decoder decoder;
	struct token_ids before, after; /* the template */
	bool check_text;                /* text must be well-formed UTF-8 */
};

/* The state while the file is read. */
struct hf_reading {
	struct hf *hf;
	struct hf_configs configs;
	enum hf_source source;
	const struct class_row *row;
	struct json *made; /* the substitute for a tokenizer.json, or NULL */
	/* the members that a class of transformers builds itself, or NULL */
	struct json *class_tree;
	const struct json_value *class_tokens; /* its special tokens by default, or NULL */
	/* the file, and its model, with the members of the class last */
	struct json_value root, own_model;
	const struct tokenizer_spec *spec;
	const struct json_value *model, *vocab, *added;
	/* tokens of "added_tokens_decoder" are searched for before the normalizer */
	bool raw_configs;
	struct json_value list; /* a Unigram vocabulary as an object: vocab points to it */
	/* added tokens of the file and of the configs: added points to it */
	struct json_value joined;
	struct json *extra; /* those of the configs */
	size_t num_listed;  /* entries of the file itself, which come first */
	/* the first of the entries whose id in the file does not count, and their number */
	const struct json_value *moved;
	size_t num_moved;
	double *score;      /* its scores, by id; else NULL */
	struct pool *pool;  /* of two threads */
	struct names names; /* model and added tokens */
	int64_t model_size; /* ids of the model are below */
	int64_t size;       /* ids are below; until added tokens have theirs, a bound of it */
	bool *in_model;     /* by id */
	char *text;         /* room in the pool for the next token's text */
	struct bpe_merge *merge;
	size_t num_merges;
};

/* True where transformers 4.57 is followed, which matters for a directory. */
static inline bool
hf_is_old(const struct hf_reading *r)
{
	return r->spec->like == TOKENIZER_LIKE_4_57 && r->configs.dir;
}

/* What a directory has; HF_JSON also when it has nothing. */
enum hf_source hf_source(const char *dir);
/* For a directory without tokenizer.json: sets r->made and *root to the one that transformers 5.23
 * makes of its tokenizer.model, or vocab.json and merges.txt, by the class r->row. */
int hf_made(
    struct hf_reading *r, struct tokenizer *t, const struct json_value **root, struct err *e);
/* The number of sentinels that T5's class adds: "extra_ids". */
int hf_extra_ids(const struct hf_configs *c);

/* The members that a class rebuilds, and its default special tokens, as a list of two for the
 * caller to free; the row must have members. root is the tokenizer.json, or NULL. */
struct json *hf_class_parts(const struct hf_configs *c, const struct class_row *row,
    const struct json_value *root, struct err *e);
/* Sets r->root from the tree of a tokenizer.json: unchanged, or as the class r->row rebuilds it.
 * hf_class_release in every case. */
int hf_class(
    struct hf_reading *r, struct tokenizer *t, const struct json_value *root, struct err *e);
void hf_class_release(struct hf_reading *r);

/* Adds the ids that a class puts around a text: always the same tokens, or, without a
 * tokenizer.json, those of "add_bos_token" and "add_eos_token". The special ids must be known. */
void hf_around(struct hf_reading *r, struct tokenizer *t);
/* The latter for an open tokenizer of another kind, by the configs in dir; their tokens become t's
 * bos and eos. The hash of t changes if there is such an id. */
int hf_around_directory(struct tokenizer *t, const char *dir, struct err *e);

/* Appends the tokens that only the configs name to the file's added tokens; the model's vocabulary
 * must be known. */
int hf_config_tokens(struct hf_reading *r, struct err *e);
/* A member that is a list, empty when it is missing or null. */
int hf_list(
    const struct json_value *root, const char *key, const struct json_value **out, struct err *e);
/* Numbers the added tokens and makes their sets; names, texts and vocabulary must be complete. */
int hf_added(struct hf_reading *r, struct err *e);
/* Notes the entries of the file whose ids do not count. */
void hf_added_notes(const struct hf_reading *r, struct tokenizer *t);
/* The ids around a text, from the member "post_processor". */
int hf_template(struct hf_reading *r, const struct json_value *v, struct err *e);

/* What a tokenizer is read from. */
struct hf_files {
	enum hf_source source;
	const struct json_value *root; /* of a tokenizer.json; NULL: the files of dir */
	const char *dir;               /* has the configs, or is NULL */
};
/* Fills t's struct hf, vocabulary size and special ids; hf_close after an error too. */
int hf_plan(struct tokenizer *t, const struct tokenizer_spec *spec, const struct hf_files *files,
    struct err *e);

/* The ids of bos, eos, unk and pad: from the configs, else by the names of tokens. */
int hf_special(const struct hf_reading *r, struct tokenizer *t, struct err *e);

#endif
