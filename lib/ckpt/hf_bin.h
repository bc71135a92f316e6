/*
 * hf_bin.h - a file of torch.save that holds the tensors of a model by name
 *
 * A dict of tensors, or one under "state_dict" or "model". Nothing is executed. What is no tensor,
 * or one that breaks a rule, is an entry with the reason: it matters only where it is needed.
 */
#ifndef CKPT_HF_BIN_H
#define CKPT_HF_BIN_H

#include "lib/ckpt/torchzip.h"

struct hf_bin_entry {
	const char *name;
	struct torch_tensor tensor; /* of no type when `why` says why it is none */
	const char *why;            /* NULL: a tensor */
};

struct hf_bin;

/* NULL with "PATH: why". */
struct hf_bin *hf_bin_open(const char *path, struct err *e);
int hf_bin_count(const struct hf_bin *b);
const struct hf_bin_entry *hf_bin_at(const struct hf_bin *b, int i); /* borrowed until close */
/* Compares every record with its checksum; see torchzip_verify. */
int hf_bin_verify(const struct hf_bin *b, struct err *e);
void hf_bin_close(struct hf_bin *b);

#endif
