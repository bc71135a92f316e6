/* blend_impl.h - shared by corpora.c, blend.c (opening), blend_plan.c (sizes and requests) and
 * blend_cache.c (files) */
#ifndef DATA_BLEND_IMPL_H
#define DATA_BLEND_IMPL_H

#include "lib/data/blend.h"
#include "lib/data/samples_impl.h"

#include <pthread.h>

/* One pair of the list, or a corpus of a schedule. */
struct part {
	int dataset;             /* index into the corpora */
	struct samples *samples; /* one of blend.unique */
	double weight;           /* its share of all samples, normalised */
	int64_t num_samples;     /* requested; -1: one epoch */
	int64_t drawn;
	int64_t first; /* samples of a continued order drawn before; 0: no continued order */
	bool kept;     /* the request is that of an earlier run: its order starts over at its end */
};

/* Samples that one greedy choice gives: all of a list's, or those of a line of a schedule. */
struct stage {
	const struct path_list *list; /* the caller's; only while opening */
	int64_t first, count;         /* samples of the blend; count 0: none */
	int num_parts;
	int *part;      /* [num_parts]: indices of parts */
	double *weight; /* [num_parts], normalised for the choice */
	/* [num_parts]: samples of each that earlier stages drew, and that this one draws */
	int64_t *before, *drawn;
	struct index_map dataset;        /* [count], of the stage's parts */
	struct index_map dataset_sample; /* [count] */
	bool from_cache;
	char hash[33];
};

struct blend {
	const struct corpora *corpora;
	const struct path_list *list; /* the caller's; only while opening */
	enum split which;
	bool plain;      /* no blending index */
	bool scheduled;  /* stages of a schedule */
	bool exhaustive; /* every sample of every corpus once */
	int num_parts, num_unique, num_stages;
	struct part *part;       /* [num_parts] */
	struct samples **unique; /* [num_unique]: one per pair of corpus and number of samples */
	struct stage *stage;     /* [num_stages]; plain: none */
	int64_t count;
	bool from_cache;
	bool
	    counted; /* it has no arrays: the choice is made once more where counts are asked for */
	struct str notes;
};

/* blend_plan.c: the stages, the requests, the samples objects without maps, counts and weights. */
int blend_plan(
    struct blend *b, const struct data_paths *paths, const struct blend_config *cfg, struct err *e);
/* After the choice: raises the requests of corpora that give more than they have; *changed is true
 * when there are any. */
int blend_replan(struct blend *b, const struct blend_config *cfg, bool *changed, struct err *e);

/* blend_cache.c: the hash of stage k, and its two arrays from the cache; false when they are
 * missing. */
bool blend_load(struct blend *b, int k, const struct samples_config *c, struct map_cache *cache);
int blend_store(const struct blend *b, int k, const struct samples_config *c,
    struct map_cache *cache, struct err *e);

/* Runs fn for each index, by the pool if there is one; fn fills the err of its index, and the first
 * error is the result. */
struct jobs {
	void *ctx;
	int (*fn)(void *ctx, int index, struct err *e);
};
int jobs_run(struct jobs *j, int count, struct pool *pool, struct err *e);

#endif
