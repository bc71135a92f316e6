/*
 * hf_files.h - the files of a Hugging Face directory beside its weights and config.json
 *
 * They belong to the tokenizer, to chats and to sampling, and no training changes them: a
 * checkpoint records where they lay and what they held, and an export has them again.
 */
#ifndef CKPT_HF_FILES_H
#define CKPT_HF_FILES_H

#include "lib/base/err.h"
#include "lib/base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* The names, but for templates that have one of their own. */
#define HF_FILES \
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", \
	    "tokenizer.model", "vocab.json", "merges.txt", "chat_template.jinja", \
	    "generation_config.json"
/* The directory of the templates that have a name. */
#define CHAT_TEMPLATES "additional_chat_templates"

/* Zero-initialise; hf_files_release. */
struct hf_files {
	int count;
	char **name; /* [count], below the directory; of one directory always in the same order */
};

/* Those of the files that are in a directory. */
int hf_files_list(struct hf_files *f, const char *dir, struct err *e);
void hf_files_release(struct hf_files *f);
/* Whether this is the name of such a file. */
bool hf_files_is(const char *name);
/* Whether such a file is a template of chats: NAME.jinja, which is not hidden. */
bool hf_files_is_template(const char *name);
/* The XXH3-64 of a regular file's bytes. */
int hf_files_sum(const char *path, uint64_t *sum, struct err *e);
/* Appends to the text of a state.conf the directory, and name and sum of each file in it; nothing
 * where there is none. */
int hf_files_record(const char *dir, struct str *state, struct err *e);

#endif
