/*
 * maps.h - index maps and blends from options: the verbs index and blend
 */
#ifndef SHARD_MAPS_H
#define SHARD_MAPS_H

#include "lib/base/opt.h"
#include "lib/data/blend.h"
#include "lib/model/batch.h"
#include "lib/token/tokenizer.h"

#include <stdio.h>

/* The options as they were typed. */
struct maps_config {
	struct tokenizer_spec spec; /* first: the tokenizer's option rows rely on it */
	struct path_options paths;
	struct opt_list tokenizer_option;
	const char *split, *num_samples, *tokenizer_class, *tokenizer_path, *cache_dir;
	int64_t seq_length, seed, threads, consumed;
	double surplus;
	int packing, long_documents; /* enums of packing.h */
	bool add_extra_token, drop_last_partial, dry_run;
	/* the batches of the run: where the stages of a schedule begin */
	int64_t global_batch_size;
	struct opt_list rampup;
	const char *step_schedule;
};

/* In which order the ranks of a run read its samples. */
struct reading_config {
	int64_t micro_batch_size;
	int loader; /* enum sampler_type */
	bool no_data_sharding;
};

/* Reads the file that lists the corpora, if an option names one, into c: once, since it may be a
 * pipe. The caller frees *text after the last use of c. */
int shard_maps_load(struct maps_config *c, char **text, struct err *e);
/* Checks what the option tables cannot, including lists of corpora; -1 is wrong usage. */
int shard_maps_check(const struct maps_config *c, struct err *e);
/* The samples that checked options ask a split for; -1: one epoch. */
int64_t shard_maps_wanted(const struct maps_config *c, enum split which);
/* The batches of the run that the options name; -1 is wrong usage. */
int shard_maps_batches(const struct maps_config *c, struct batch_ramp *r, struct err *e);
/* Writes the maps of every split that is present, and prints rows "split samples epochs hash
 * dataset". The options must be checked; notes gets lines for people. */
int shard_index(const struct maps_config *c, FILE *out, struct str *notes, struct err *e);
/* Prints what each corpus gives to every split, a row each, and writes the blending index unless
 * dry_run. */
int shard_blend(const struct maps_config *c, FILE *out, struct str *notes, struct err *e);

/* Goes through the splits, or one of them; row is called for each while its corpora are open. */
struct maps_run {
	const struct maps_config *c;
	bool plan_only, write; /* as in blend.h */
	bool one;              /* only `which`, whose absence is an error */
	enum split which;
	FILE *out;
	/* printed before the first split that is present; NULL: row does it */
	const char *head;
	/* of a run that reads these data: how orders continue, by the corpora of the training list,
	 * and where stages begin, samples of the order; NULL: as they follow from the options */
	const struct blend_kept *kept;
	const int64_t *stage_first;
	bool trust;      /* as in samples_config: the run has checked its maps */
	bool masks;      /* opens the masks of the corpora */
	const void *ctx; /* the caller's */
	int (*row)(const struct maps_run *, const struct blend *, enum split, struct err *);
};
int shard_maps_run(const struct maps_run *r, struct str *notes, struct err *e);

#endif
