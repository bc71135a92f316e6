/*
 * hfdir.h - the weights of a Hugging Face directory: one safetensors file, or shards with an index
 *
 *   model.safetensors                              or
 *   model.safetensors.index.json                   {"metadata": {...}, "weight_map": {tensor: file,
 * ...}} model-00001-of-00003.safetensors ...
 *
 * Opening checks every file as safetensors.h does, and the index against the files: every name must
 * be in the file that the map gives and in no other, and no file may hold a name that the map
 * lacks. Source: huggingface/transformers modeling_utils.py; huggingface_hub serialization.
 */
#ifndef CKPT_HFDIR_H
#define CKPT_HFDIR_H

#include "lib/base/err.h"
#include "lib/ckpt/safetensors.h"

#include <stdbool.h>

struct hfdir;

/* Whether the directory holds such weights. */
bool hfdir_is(const char *dir);
struct hfdir *hfdir_open(const char *dir, struct err *e);
void hfdir_close(struct hfdir *h);
int hfdir_count(const struct hfdir *h);
const struct safetensors_entry *hfdir_at(const struct hfdir *h, int i); /* sorted by name */
const struct safetensors_entry *hfdir_find(const struct hfdir *h, const char *name); /* or NULL */
int hfdir_num_files(const struct hfdir *h);

/* One line of an index: a tensor and its file. */
struct hf_index_entry {
	const char *tensor, *file; /* owned by the index */
};

struct hf_index {
	struct json *json;
	int count;
	struct hf_index_entry *entry; /* sorted by tensor, none twice; file names are plain */
};

/* Parses the text of an index; name is for messages. Released by hf_index_release, also after an
 * error. */
int hf_index_parse(
    struct hf_index *x, const char *text, size_t len, const char *name, struct err *e);
void hf_index_release(struct hf_index *x);

#endif
