/*
 * hf_front.h - what a directory of Hugging Face's form is: where its weights are, or what it is
 * instead
 *
 *   models--OWNER--NAME/{refs,snapshots,blobs}   the root of a hub's cache: one of its snapshots
 *   model.safetensors, or its index and shards   read before
 *   pytorch_model.bin, or its index and shards   files of torch.save
 *
 * Source: huggingface/transformers modeling_utils.py; huggingface_hub file_download.py.
 */
#ifndef CKPT_HF_FRONT_H
#define CKPT_HF_FRONT_H

#include "lib/base/io.h"
#include "lib/base/str.h"

struct hf_front {
	char dir[IO_PATH]; /* that holds the files */
	const char *file;  /* the weights, or the index of their files */
	bool is_index, is_bin;
	struct str notes; /* lines: what else the directory holds */
};

/* Whether the path is of such a form, including those that are refused. */
bool hf_front_is(const char *path);
/* Whether a directory has weights in a form that is read. */
bool hf_front_has_weights(const char *dir);
/* Finds the weights. -1 with what the path is in their place. hf_front_release in every case. */
int hf_front_open(struct hf_front *f, const char *path, struct err *e);
void hf_front_release(struct hf_front *f);

#endif
