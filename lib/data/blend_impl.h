/* blend_impl.h - what corpora.c, blend.c (opening), blend_plan.c (sizes and requests) and
 * blend_cache.c (files) share */
#ifndef DATA_BLEND_IMPL_H
#define DATA_BLEND_IMPL_H

#include "lib/data/blend.h"
#include "lib/data/samples_impl.h"

#include <pthread.h>

/* One pair of the list. */
struct part {
	int dataset;             /* of the corpora */
	struct samples *samples; /* one of blend.unique */
	double weight;           /* normalised as the choice wants it */
	int64_t num_samples;     /* asked for; -1: one epoch */
	int64_t drawn;
	int64_t first; /* of a kept order: samples drawn before; 0: no kept order */
};

struct blend {
	const struct corpora *corpora;
	const struct path_list *list; /* the caller's; only while opening */
	enum split which;
	bool plain;      /* no blending index */
	bool exhaustive; /* every sample of every corpus once */
	int num_parts, num_unique;
	struct part *part;       /* [num_parts] */
	struct samples **unique; /* [num_unique]: same corpus and same number are one */
	int64_t count;
	struct index_map dataset;        /* [count] */
	struct index_map dataset_sample; /* [count] */
	bool from_cache;
	char hash[33];
	struct str notes;
};

/* blend_plan.c: what is asked of each corpus, the samples objects without maps, count and
 * weights. */
int blend_plan(struct blend *b, const struct blend_config *cfg, struct err *e);
/* After the choice: corpora that give more than they have are asked for it; *changed says whether
 * there are any. */
int blend_replan(struct blend *b, const struct blend_config *cfg, bool *changed, struct err *e);

/* blend_cache.c: hash, and the two arrays from the cache; false when they are not there. */
bool blend_load(struct blend *b, const struct samples_config *c);
int blend_store(
    const struct blend *b, const struct samples_config *c, struct file_set *set, struct err *e);

/* Runs fn for each index, by the pool if there is one; fn fills the err of its index, and the first
 * is the result's. */
struct jobs {
	void *ctx;
	int (*fn)(void *ctx, int index, struct err *e);
};
int jobs_run(struct jobs *j, int count, struct pool *pool, struct err *e);

#endif
