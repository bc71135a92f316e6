/* hf_configs.h - the configs of a tokenizer; only for the files of lib/token/hf */
#ifndef TOKEN_HF_HF_CONFIGS_H
#define TOKEN_HF_HF_CONFIGS_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/token/tokenizer_impl.h"

#include <stdbool.h>

/* The configs in the directory of a tokenizer.json, in the order of search and hashing. */
enum hf_config_file {
	TOKENIZER_CONFIG,
	SPECIAL_TOKENS_MAP,
	ADDED_TOKENS,
	MODEL_CONFIG,
	HF_CONFIGS
};

struct hf_configs {
	const char *dir;               /* NULL: the file was given without its directory */
	struct json *file[HF_CONFIGS]; /* NULL: missing */
	bool used[HF_CONFIGS];         /* ids depend on it, if it exists */
};

/* Reads the configs in dir, which may be NULL; hf_configs_release in every case. */
int hf_configs_read(struct hf_configs *c, const char *dir, struct err *e);
void hf_configs_release(struct hf_configs *c);
/* The root of a config, or NULL. */
const struct json_value *hf_config(const struct hf_configs *c, enum hf_config_file which);
const char *hf_config_name(enum hf_config_file which);
/* A member of tokenizer_config.json, or else of special_tokens_map.json, and which has it; or
 * NULL. */
const struct json_value *hf_config_member(
    const struct hf_configs *c, const char *key, enum hf_config_file *which);
/* Adds the used ones to the tokenizer's files and its hash. */
int hf_configs_count(const struct hf_configs *c, struct tokenizer *t, struct err *e);

#endif
