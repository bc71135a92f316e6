/*
 * merge_config.h - the YAML of mergekit in its plain form
 *
 *   merge_method: ties
 *   base_model: BASE
 *   models:
 *     - model: A
 *       parameters: {weight: 0.5} in lines of their own
 *   parameters:
 *     normalize: true
 *   dtype: bfloat16
 *
 * Scalars alone: what is a list (a gradient over layers), a filter, a slice or a key that is not
 * known is refused by its name and line. Source: arcee-ai/mergekit 0.1.4, mergekit/config.py.
 */
#ifndef CKPT_MERGE_CONFIG_H
#define CKPT_MERGE_CONFIG_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Numbers are NAN, and texts NULL, where the file does not say them. */
struct merge_model {
	const char *path;
	double weight, density;
};

struct merge_config {
	struct mem_pool pool; /* owns all texts */
	const char *method, *base, *dtype, *normalize, *rescale;
	double t, lambda, weight, density; /* of all models */
	int count;
	struct merge_model *model;
};

/* merge_config_release in every case. */
int merge_config_read(struct merge_config *c, const char *path, struct err *e);
void merge_config_release(struct merge_config *c);

#endif
