/*
 * hf.h - a Hugging Face directory as a model of ours: config.json, the parameter table, and the
 * place of each parameter
 *
 * Names may lack the family's optional prefix. A tied output table may exist if it equals the
 * embedding. Buffers in old files (attention masks, rotary frequencies) are ignored; any other
 * tensor that the model lacks is refused.
 */
#ifndef CKPT_HF_H
#define CKPT_HF_H

#include "lib/base/str.h"
#include "lib/ckpt/hfdir.h"
#include "lib/model/family.h"

struct hf_model {
	char path[1024];
	struct model_config config;
	const struct family *family;
	struct hfdir *dir;
	int count;
	struct param *param;
};

/* Opens config.json and the weights; hf_model_release in every case. */
int hf_model_open(struct hf_model *m, const char *path, struct err *e);
void hf_model_release(struct hf_model *m);
/* Adds one line per problem (missing, of another shape, not floats, unknown) and returns their
 * number; notes gets one line about ignored buffers. */
int hf_model_check(const struct hf_model *m, struct str *problems, struct str *notes);
/* The place of parameter i, and its tensor in the file, or NULL with a reason. */
const struct safetensors_entry *hf_model_find(
    const struct hf_model *m, int i, struct family_place *place, struct err *e);
/* Copies parameter i, row-major in our orientation, in the dtype of the file. dst has room for all
 * of it. */
int hf_model_read(const struct hf_model *m, int i, void *dst, struct err *e);

#endif
