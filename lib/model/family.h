/*
 * family.h - model families: how Hugging Face names and describes a model
 *
 * Adding one: a file in lib/model/family with a const struct family, and its line in family.c. A
 * family has rows for the members of config.json and for the names of its tensors, and says whether
 * a config is one of its own. The blocks themselves are recipes of model_config (norm,
 * activation, positions, biases), so most families need no other code.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "lib/model/keys.h"
#include "lib/model/params.h"

/* Where a role's tensor is in Hugging Face's files. `hf` has "%d" for the layer. Several roles may
 * name one tensor: they are then its consecutive blocks of output rows, in the order of the
 * table. */
struct family_name {
	enum role role;
	const char *hf;
	bool transposed; /* stored [in, out] (GPT-2's Conv1D) */
};

struct family {
	const char *model_type, *architecture; /* "llama", "LlamaForCausalLM" */
	const struct family_name *names;       /* ended by a NULL hf */
	const char *optional_prefix;           /* some files leave it out; NULL: none */
	const struct key *keys;                /* members of config.json, in the order of writing */
	int num_keys;
	bool tied; /* what it means that "tie_word_embeddings" is missing */
	/* what the keys do not say: rules between them, and the recipe of the blocks */
	int (*read_rest)(struct model_config *c, const struct json_value *config, struct err *e);
	/* the reason it is not of this family */
	int (*check)(const struct model_config *c, struct err *e);
	/* members beside the keys, each ",\n  \"key\": value"; NULL: none */
	void (*write_rest)(const struct model_config *c, struct str *out);
};

const struct family *family_find(const char *model_type); /* or NULL */
/* Every family that there is, ended by NULL. */
const struct family *const *family_all(void);
/* 0 if a config is of this family, which has a name for every parameter then; -1 with the reason it
 * is not. */
int family_check(const struct family *f, const struct model_config *c, struct err *e);
/* The first family that a config belongs to; the reason lists why it is none. */
const struct family *family_of(const struct model_config *c, struct err *e);
/* Reads a config.json (path or directory) into c, by its model_type. Returns the family or NULL. */
const struct family *family_read_config(const char *path, struct model_config *c, struct err *e);
/* config.json of a model, dtype as torch names it. */
void family_write_config(
    const struct family *f, const struct model_config *c, const char *torch_dtype, struct str *out);

/* Where parameter p lies in Hugging Face's files: the tensor's name, its shape there, and the slice
 * that p is of it (in the stored orientation). transposed: p's rows are its columns. */
struct family_place {
	char name[128];
	int ndim;
	int64_t shape[SLICE_DIMS];
	struct slice box;
	bool transposed;
};
int family_place(const struct family *f, const struct model_config *c, const struct param *p,
    struct family_place *out, struct err *e);

/* The dictionaries rope_scaling and rope_parameters, of both generations of config.json; rope_theta
 * at the top is a key of the family. */
int family_read_rope(struct model_config *c, const struct json_value *config, struct err *e);
void family_write_rope(const struct model_config *c, struct str *out);
/* The members bos_token_id, eos_token_id and pad_token_id; those that are none as null, or not at
 * all. */
void family_write_ids(const struct model_config *c, bool nulls, struct str *out);
/* A model_config before a family reads. */
void family_defaults(struct model_config *c);

#endif
