/*
 * meta_dir.h - the weights of a model in the form of Meta and Mistral
 *
 *   consolidated.00.pth ...                  files of torch.save, each a part of every tensor: that
 *                                            of a tensor rank
 *   consolidated.safetensors                 or consolidated-00001-of-00003.safetensors ...: whole
 *                                            tensors
 *
 * Files of several ranks must be numbered from 0 on. Source: meta-llama/llama-models,
 * mistralai/mistral-inference.
 */
#ifndef CKPT_META_DIR_H
#define CKPT_META_DIR_H

#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/ckpt/torchzip.h"

struct meta_tensor {
	const char *name;
	const char *why;       /* why it is no tensor; NULL: it is one */
	struct torch_tensor x; /* a rank's part; of no type when it cannot be read */
};

/* The tensors of a rank, sorted by name. */
struct meta_rank {
	int count;
	struct meta_tensor *tensor;
};

struct meta_dir {
	int num_files, num_ranks;
	struct meta_file *file;
	struct meta_rank *rank;
};

/* Whether a directory has such files. */
bool meta_dir_is(const char *dir);
/* meta_dir_close in every case. */
int meta_dir_open(struct meta_dir *m, const char *dir, struct err *e);
void meta_dir_close(struct meta_dir *m);
/* NULL: the rank has none of this name. */
const struct meta_tensor *meta_dir_find(const struct meta_dir *m, int rank, const char *name);
/* Compares files with their checksums, where they have them; adds lines, returns how many. */
int meta_dir_verify(const struct meta_dir *m, struct str *problems);

#endif
