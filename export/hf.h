/* hf.h - mexport: a checkpoint becomes a Hugging Face directory */
#ifndef EXPORT_HF_H
#define EXPORT_HF_H

#include "lib/base/str.h"
#include "lib/ckpt/source.h"
#include "lib/model/family.h"

/* Whether a tokenizer that is made of a SentencePiece model puts bos before each text: as the
 * documents of the training had it, or as the option says. */
enum add_bos_token { ADD_BOS_AUTO, ADD_BOS_TRUE, ADD_BOS_FALSE };

struct export_options {
	const char *src, *dst;
	/* DTYPE_NONE: that of the run's weights in state.conf, else of the tensors */
	enum dtype dtype;
	uint64_t max_shard_bytes;
	const char *tokenizer_model, *vocab_file, *merge_file;
	const char *arch; /* model_type; NULL: the first family that fits the model */
	int add_bos;      /* an enum add_bos_token */
	bool average;     /* of the weights, instead of those of the last step */
	bool force;       /* replace a Hugging Face directory */
	bool check;       /* compare, and write nothing */
};

/* Writes all files into a temporary directory next to dst and renames it. notes gets one line per
 * note or warning. */
int export_hf(
    const struct export_options *o, struct str *notes, struct str *warnings, struct err *e);

/* Compares dst with what it would be an export of, of src NULL with itself alone: every tensor, the
 * index, the texts and the tokenizer. Appends a line for each difference and returns how many; -1
 * with the reason when src cannot be read. `what` describes a directory without any. */
int export_check(const struct export_options *o, struct str *differences, struct str *notes,
    struct str *what, struct err *e);

/* "50GB" (10^9), "5GiB" (2^30), "300000" or "300000B"; 0 with a reason when it is not a size. */
uint64_t export_size(const char *text, struct err *e);

/* --- the weights, weights.c ------------------------------------------------------------------- */

/* A tensor of the export and the parameters that are its parts, consecutive in the table. */
struct hf_tensor {
	char name[128];
	int ndim;
	int64_t shape[SLICE_DIMS];
	uint64_t bytes;
	int first, count; /* parameters */
	int shard;
};

struct hf_export {
	struct source *src;
	const struct family *family;
	const char *state; /* of the parameters: NULL, or STATE_AVERAGE */
	enum dtype dtype;
	int count, num_shards;
	struct hf_tensor *tensor; /* in model order */
};

/* Lists the tensors and distributes them over shards. weights_release in every case. */
int weights_plan(struct hf_export *x, uint64_t max_shard_bytes, struct err *e);
/* Writes every shard and, when there are several, the index. A bounded part of one tensor is in
 * memory at a time. */
int weights_write(struct hf_export *x, const char *dir, struct err *e);
void weights_release(struct hf_export *x);

#endif
