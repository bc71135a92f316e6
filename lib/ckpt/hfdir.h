/*
 * hfdir.h - the weights of a Hugging Face directory: one file, or shards with an index
 *
 *   model.safetensors, pytorch_model.bin           or
 *   model.safetensors.index.json                   {"metadata": {...}, "weight_map": {tensor: file,
 * ...}} model-00001-of-00003.safetensors ...
 *
 * Opening checks every file as safetensors.h and torchzip.h do. The files that the index names must
 * be there; which tensors they hold counts, not what the index says. A name in two files must be
 * one tensor. Source: huggingface/transformers modeling_utils.py; huggingface_hub serialization.
 */
#ifndef CKPT_HFDIR_H
#define CKPT_HFDIR_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/ckpt/hf_tensor.h"
#include "lib/model/family.h"

#include <stdbool.h>

struct hfdir;

struct hfdir *hfdir_open(const char *path, struct err *e);
void hfdir_close(struct hfdir *h);
const char *hfdir_path(const struct hfdir *h);  /* the directory of the files */
const char *hfdir_notes(const struct hfdir *h); /* lines: what else is there */
int hfdir_count(const struct hfdir *h);
const struct hfdir_tensor *hfdir_at(const struct hfdir *h, int i);              /* sorted by name */
const struct hfdir_tensor *hfdir_find(const struct hfdir *h, const char *name); /* or NULL */
int hfdir_num_files(const struct hfdir *h);
/* Joins the tensors that are quantised as config.json says; call it once, before any tensor is
 * asked for. Returns how many were joined. */
int hfdir_decode(struct hfdir *h, const struct config_quantised *how);
/* The box of a tensor, row-major and dense. */
struct hfdir_box {
	struct slice slice;
	enum dtype as;   /* the type of its view; of a quantised tensor FP32 too */
	bool transposed; /* the last two dimensions of the result are swapped */
};
int hfdir_read(const struct hfdir_tensor *t, const struct hfdir_box *box, void *dst, struct err *e);
/* Where the box lies so in a mapped file, and its bytes; NULL: it does not. */
const void *hfdir_find_box(
    const struct hfdir_tensor *t, const struct hfdir_box *box, uint64_t *bytes);
/* Whether two tensors have the same numbers, in whatever types. */
bool hfdir_same(const struct hfdir_tensor *a, const struct hfdir_tensor *b);
/* Compares files with their checksums, where they have them; adds lines, returns how many. */
int hfdir_verify(const struct hfdir *h, struct str *problems);

/* One line of an index: a tensor and its file. */
struct hf_index_entry {
	const char *tensor, *file; /* owned by the index */
};

struct hf_index {
	struct json *json;
	int count;
	struct hf_index_entry *entry; /* sorted by tensor, none twice; file names are plain */
};

/* What the index says; no lines for a single file. */
const struct hf_index *hfdir_index(const struct hfdir *h);

/* Parses the text of an index; name is for messages. Released by hf_index_release, also after an
 * error. */
int hf_index_parse(
    struct hf_index *x, const char *text, size_t len, const char *name, struct err *e);
void hf_index_release(struct hf_index *x);

#endif
