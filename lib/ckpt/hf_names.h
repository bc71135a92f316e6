/*
 * hf_names.h - how the tensors of a Hugging Face directory are named, and what those are that no
 * parameter uses
 *
 * A family names its tensors as the model with a head does. Files of the base model lack a prefix,
 * and those of a model of several modalities, or of an adapter's base, have another one: one rule
 * holds for a directory. Source: conversion_mapping.py of huggingface/transformers.
 */
#ifndef CKPT_HF_NAMES_H
#define CKPT_HF_NAMES_H

#include "lib/ckpt/hfdir.h"
#include "lib/model/family.h"

enum { HF_NAME = 192 };

struct hf_names {
	char base[32]; /* the prefix that a family's names have, but for the head: "model." */
	int rule;
};

/* Chooses the rule under which the tensor that has this name in the family is there; the first
 * where there is none. */
void hf_names_choose(struct hf_names *n, const struct hfdir *dir, const char *embedding);
/* The name in the files. */
void hf_names_map(const struct hf_names *n, const char *name, char out[HF_NAME]);
/* Whether the files are of a base model, which has no head. */
bool hf_names_lack_head(const struct hf_names *n);

/* What a tensor is that no parameter uses. */
enum hf_class {
	HF_BUFFER,   /* follows from the config */
	HF_MODALITY, /* of images or sound */
	HF_MTP,      /* of layers that predict later tokens */
	HF_HEAD,     /* of a classifier or a reward */
	HF_ADAPTER,
	HF_FOREIGN
};
enum hf_class hf_class_of(
    const char *name, const struct model_config *c, const struct config_rest *rest);

#endif
