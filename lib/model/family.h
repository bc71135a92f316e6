/*
 * family.h - model families: how Hugging Face names and describes a model
 *
 * Adding one: a file in lib/model/family with a const struct family, and its line in
 * family_list.h. A family has rows for the members of config.json and for the names of its tensors.
 * The blocks are recipes in model_config (norm, activation, positions, biases), so most families
 * need no other code.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "lib/model/keys.h"
#include "lib/model/params.h"

/* The name in Hugging Face's files of a tensor that is named as in its layer (struct param). `hf`
 * has "%d" for the layer, and a second one for the expert: a name of an expert's tensor without it
 * is of the tensors of all experts of the layer, one after the other along a first dimension.
 * Several rows may name one tensor: they are then its consecutive blocks of output rows, in table
 * order, or take turns. */
enum family_turns {
	TURNS_NONE,
	TURNS_ROWS,  /* a row of each */
	TURNS_HEADS, /* the rows of a head of queries of each */
	TURNS_LINEAR /* those of a head of keys of linear attention, with its heads of values */
};
struct family_name {
	const char *name;
	const char *hf;
	bool transposed; /* stored [in, out] (GPT-2's Conv1D) */
	enum family_turns turns;
	bool filters; /* stored [channels, 1, taps] */
};

struct family {
	const char *model_type, *architecture; /* "llama", "LlamaForCausalLM" */
	/* types whose models are the same but for their names, which are read and never written;
	 * ended by NULL, NULL: none */
	const char *const *aliases;
	const struct family_name *names; /* ended by a NULL hf */
	/* names that files may have instead, which are read and never written; NULL: none */
	const struct family_name *other_names;
	const struct key *keys; /* members of config.json, in the order in which they are written */
	int num_keys;
	/* members without a row that read_rest reads or that change nothing in this family, and
	 * those that must be null, false, 0 or empty; ended by NULL, NULL: none */
	const char *const *others, *const *off;
	bool tied; /* the default of "tie_word_embeddings" */
	/* elements 2i and 2i + 1 of a head rotate together, not those of its halves */
	bool interleaved;
	/* reads what the keys do not cover: rules between them, and the recipe of the blocks */
	int (*read_rest)(struct model_config *c, const struct json_value *config, struct err *e);
	/* writes members without a key, each as ",\n \"key\": value"; NULL: none */
	void (*write_rest)(const struct model_config *c, struct str *out);
};

const struct family *family_find(const char *model_type); /* or NULL */
/* All families, ended by NULL. */
const struct family *const *family_all(void);
/* 0 if the family's config.json can say all of a model that gives its weights their meaning; -1
 * with the family and what it has instead otherwise. */
int family_check(const struct family *f, const struct model_config *c, struct err *e);
/* The first family that fits a config; NULL with the reason of the nearest if none does. */
const struct family *family_of(const struct model_config *c, struct err *e);

/* How weights are quantised. */
struct config_quantised {
	char method[64]; /* "": they are not */
	bool decoded;    /* the method is one of those that lib/ckpt/hf_decode.h reads */
	/* rows and columns of the blocks of fp8 that have one factor each; 0: the tensor has one */
	int64_t block[2];
};

/* What a config.json says besides the model. */
struct config_rest {
	struct str notes;       /* lines */
	bool other_modality;    /* there are towers of images or sound in the files */
	int64_t num_mtp_layers; /* that predict later tokens */
	struct config_quantised quantised;
};
void config_rest_release(struct config_rest *rest);

/* Reads a config.json (path or directory) into c, by its model_type; of a model with several
 * modalities, that of its text. Returns the family or NULL. rest, which may be NULL, is zeroed
 * first and released by the caller in every case. */
const struct family *family_read_config(
    const char *path, struct model_config *c, struct config_rest *rest, struct err *e);
/* Reads the text of a config.json alike; name is for messages. */
const struct family *family_parse_config(
    const char *text, const char *name, struct model_config *c, struct err *e);
/* Writes the config.json of a model, dtype as torch names it. */
void family_write_config(
    const struct family *f, const struct model_config *c, const char *torch_dtype, struct str *out);

/* The place of parameter p in Hugging Face's files: the tensor's name and shape there, and the
 * slices of it that are p (in the stored orientation): `runs` of them, one after the other in p's
 * rows, of which box is the first and the others lie `apart` each from the one before along the
 * stored dimension of p's rows. dim: of each dimension of p, that of the tensor; one of all experts
 * has a dimension more than p, before the others, and filters have one between. Where p rotates
 * other pairs than the family does, its rows, or elements, are in another order in each head: head
 * of them, of which the first `rotary` rotate; 0 elsewhere. */
struct family_place {
	char name[128];
	int ndim;
	int64_t shape[SLICE_DIMS];
	struct slice slice;
	int64_t runs, apart;
	int dim[2];
	int64_t head, rotary;
	bool transposed;
};
int family_place(const struct family *f, const struct model_config *c, const struct param *p,
    struct family_place *out, struct err *e);
/* Where one of p's rows lies in the order of the stored ones, and the reverse. */
int64_t family_stored_row(const struct family_place *place, int64_t row);
int64_t family_row_of(const struct family_place *place, int64_t stored);
/* The box of the stored tensor that is a box of p's rows within one run. */
struct slice family_stored_slice(const struct family_place *place, const struct slice *of);

/* The rotary settings of a model whose layers share them, of both generations of config.json.
 * c->rotary_base, and c->rotary_percent, hold what a file means that does not say them. */
struct rope_members {
	const char *base, *share; /* their names at the top of the file; share NULL: all rotate */
	/* the positions before longrope of a file that does not say them there; 0: as the rest */
	int64_t original;
};
int family_read_rope(struct model_config *c, const struct json_value *config, struct err *e);
int family_read_rope_as(struct model_config *c, const struct json_value *config,
    const struct rope_members *top, struct err *e);
void family_write_rope(const struct model_config *c, struct str *out);
/* With more members in the dictionaries, each as ",\n \"key\": value". */
void family_write_rope_with(const struct model_config *c, const char *more, struct str *out);
/* Those of a model whose layers with a window have plain angles of their own base; window_base is
 * its name at the top of the file, NULL: none. */
int family_read_rope_by_layer(struct model_config *c, const struct json_value *config,
    const char *window_base, struct err *e);
void family_write_rope_by_layer(const struct model_config *c, struct str *out);
/* The dictionary that counts where layers share it; or NULL. */
const struct json_value *family_rope_of(const struct json_value *config);
/* Whether a member says that something is not there: null, false, 0, or empty. */
bool family_is_off(const struct json_value *v);
/* Whether a file says that transformers 4 wrote it. */
bool family_is_of_4(const struct json_value *config);
/* layer_types, which lists the layers with and without the window: 1 when it was read, 0 when there
 * is none. */
int family_read_layer_types(struct model_config *c, const struct json_value *config, struct err *e);
void family_write_layer_types(const struct model_config *c, struct str *out);
/* The members bos_token_id, eos_token_id and pad_token_id; missing ids are written as null or left
 * out. */
void family_write_ids(const struct model_config *c, bool nulls, struct str *out);
/* A model_config with the defaults that apply before a family reads it. */
void family_defaults(struct model_config *c);

#endif
