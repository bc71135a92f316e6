/*
 * blend.h - the samples of one split, from one corpus or from several by weight
 *
 * A list of one prefix without a weight is a plain corpus: sample i of the split is sample i of the
 * corpus. Every other list is a blend, bit-identical to Megatron-LM's BlendedDataset: dataset_index
 * and dataset_sample_index give the corpus of sample i and its number there.
 *
 *   list                  wanted   request to each corpus         samples of the blend
 *   one, no weight        N or -1  N, or one epoch                those of the corpus
 *   weights w             N        ceil(ceil(N w) (1 + surplus))  sum of ceil(N w)
 *   weights               -1       refused
 *   several, no weights   N        one epoch                      min(N, sum of the corpora's)
 *   several, no weights   -1       one epoch                      each sample once (exhaustive)
 *   per split, one prefix          as a plain corpus, even with a weight
 *   stages                N        ceil(sum of ceil(n w) (1 + surplus))  N
 *
 * Stages of a schedule, of n samples each, choose one after the other, each by its own weights with
 * counts from 0. The m-th sample that a stage takes from a corpus is sample F + m of its order,
 * where F is what the stages before it took: no sample is left out or read twice before the order
 * is used up. Validation and test have no stages.
 *
 * Where a blend draws more from a corpus than this requests (many corpora and a small N;
 * Megatron-LM fails with "oversamples"), the request is exactly what is drawn. Source: Megatron-LM
 * core/datasets/blended_dataset.py, blended_megatron_dataset_builder.py, helpers.cpp
 * (build_blending_indices, build_exhaustive_blending_indices).
 *
 * Corpora and blends are read-only after opening: any number of threads may read samples.
 */
#ifndef DATA_BLEND_H
#define DATA_BLEND_H

#include "lib/base/pool.h"
#include "lib/data/map_cache.h"
#include "lib/data/paths.h"
#include "lib/data/samples.h"

/* Every dataset of the lists, each opened once, in the order of first mention; blends borrow
 * them. */
struct corpora;

/* o NULL: no options; pool NULL: one after the other. The error is that of the first dataset, in
 * order of first mention, that cannot be opened. */
struct corpora *corpora_open(
    const struct data_paths *p, const struct dataset_options *o, struct pool *pool, struct err *e);
void corpora_close(struct corpora *c);
int corpora_count(const struct corpora *c);
const struct dataset *corpora_dataset(const struct corpora *c, int k);
/* The index of a prefix of the lists. */
int corpora_find(const struct corpora *c, const char *prefix);

/* Megatron-LM's --mid-level-dataset-surplus. */
#define BLEND_SURPLUS 0.005
enum { BLEND_CORPORA_MAX = 32767 }; /* per list: dataset_index is 16 bits wide */

/*
 * A corpus that continues in an earlier order: its maps are those of a request for num_samples, and
 * the split begins after the `first` samples of that order, which were drawn before. The order
 * wraps around, so that no sample is drawn twice before all were drawn once. first 0: nothing was
 * drawn, and the request is that of the table above. A list without weights gives the rest of each
 * order; a corpus with no rest is an error there.
 */
struct blend_kept {
	int64_t first, num_samples;
	bool same_request; /* the request is num_samples where first is 0 too */
};

struct blend_config {
	/* For each corpus; num_samples is the number wanted of the whole split (-1: none), split is
	 * NULL with per-split lists. */
	struct samples_config samples;
	/* The caller's, for all splits: it receives the files that write_cache makes, and a sync
	 * costs as much for all of them as for one. NULL: one for this split, committed on
	 * opening. */
	struct map_cache *cache;
	double surplus; /* BLEND_SURPLUS unless the user gives one */
	/* builds and opens corpora in parallel; NULL: one after the other */
	struct pool *pool;
	/* only counts: no maps of the corpora, so no tokens and no parts; and no blending index
	 * either, unless it is to be written or the cache has it: its arrays may not fit into
	 * memory */
	bool plan_only;
	const struct blend_kept *kept; /* [corpora of the list]; NULL: none continues */
	/* [stages of the paths]: the sample of the blend with which each begins, or less than 0;
	 * NULL: there are none */
	const int64_t *stage_first;
};

struct blend;

/* The corpora of `paths` must be open in c. An error names the split and the corpus. */
struct blend *blend_open(const struct corpora *c, const struct data_paths *paths,
    const struct blend_config *cfg, struct err *e);
void blend_close(struct blend *b);
int64_t blend_count(
    const struct blend *b); /* samples; a blend may have up to (corpora - 1) more than wanted */
/* The hash of the blending index, of the first stage's: 32 digits, empty for a plain corpus. */
const char *blend_hash(const struct blend *b);
/* True when its maps, for a plain corpus the corpus's, were read and not built. */
bool blend_from_cache(const struct blend *b);
/* Notes for the user (maps rebuilt and why, larger requests to corpora), a line each; NULL when
 * there are none. */
const char *blend_notes(const struct blend *b);

/* One corpus's share of the split. */
struct blend_corpus {
	const struct dataset *dataset;
	/* counts, epochs and tokens: samples.h; no maps with plan_only */
	const struct samples *samples;
	double weight;       /* the requested share, normalised; 1 for a plain corpus */
	int64_t num_samples; /* requested; -1: one epoch */
	int64_t drawn;       /* samples of the split that come from it */
	/* position in its order of the first one drawn; 0 unless it continues an order */
	int64_t first;
};
int blend_num_corpora(const struct blend *b);
void blend_corpus(const struct blend *b, int k, struct blend_corpus *out);

/* A stage of the schedule: samples from `first` on that corpora give by their weights, and the hash
 * of its blending index. A list without stages is one, a plain corpus none. */
struct blend_stage {
	int64_t first, count; /* count 0: the run does not reach it, or begins after it */
	int num_corpora;
	const char *hash;
};
int blend_num_stages(const struct blend *b);
void blend_stage(const struct blend *b, int k, struct blend_stage *out);
/* The stage of a sample. */
int blend_stage_at(const struct blend *b, int64_t sample);
/* The i-th corpus of stage k, of which weight, drawn and first are the stage's; returns its number
 * for blend_corpus. */
int blend_stage_corpus(const struct blend *b, int k, int i, struct blend_corpus *out);

/* The corpus of sample i, 0 <= i < blend_count, and the sample's number there. */
void blend_locate(const struct blend *b, int64_t sample, int *corpus, int64_t *of_corpus);
/* Its tokens, their bytes of the mask, and its parts, like samples_tokens, samples_weights and
 * samples_parts; every part lies in one sequence of corpus *corpus. */
int64_t blend_tokens(const struct blend *b, int64_t sample, int64_t *out, struct err *e);
int64_t blend_weights(const struct blend *b, int64_t sample, uint8_t *out, struct err *e);
int64_t blend_parts(
    const struct blend *b, int64_t sample, int *corpus, struct sample_part *out, int64_t cap);
/* Announces that its tokens will be read soon. */
void blend_will_need(const struct blend *b, int64_t sample);
/*
 * How many of the first `consumed` samples come from each corpus: out[blend_num_corpora]. Beyond
 * the count the blend starts over. A resumed run compares these after a change of its corpora or
 * weights.
 */
void blend_consumed(const struct blend *b, int64_t consumed, int64_t *out);

/* --- the arithmetic, for tests and planning --------------------------------------------------- */

/* weight[i] / sum, with the sum in numpy's pairwise order; out may be weight. */
void blend_normalise(const double *weight, int count, double *out);
/* The samples that a corpus of normalised weight w gives to a blend of n, and the request to it. */
int64_t blend_share(int64_t n, double w);
int64_t blend_request(int64_t n, double w, double surplus);
/*
 * The greedy choice: sample i comes from the corpus with the largest deficit against its weight,
 * the first of equals.
 *
 *   weight          [count], normalised
 *   limit           [count] samples that each corpus has, whose sum is size: exhaustive;
 *                   NULL: no limits
 *   dataset         [size] and
 *   dataset_sample  [size]: the two arrays
 *   drawn           [count]: samples of each corpus
 *
 * The arrays may be NULL where only the counts are wanted.
 *
 * Equal bit by bit to the loop over all corpora for every sample; with many corpora the time per
 * sample grows with the square root of their number.
 */
struct blend_choice {
	const double *weight;
	const int64_t *limit;
	int count;
	int64_t size;
	int16_t *dataset;
	int64_t *dataset_sample, *drawn;
};
void blend_choose(const struct blend_choice *c);

#endif
