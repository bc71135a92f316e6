/* data_impl.h - shared by data.c (reading), data_open.c, contents.c, audit.c, data_record.c and
 * data_report.c */
#ifndef TRAIN_DATA_DATA_IMPL_H
#define TRAIN_DATA_DATA_IMPL_H

#include "lib/data/blend.h"
#include "lib/data/sampler.h"
#include "lib/data/sums.h"
#include "train/data/data.h"

/* Samples of one kind. */
struct set {
	enum split which;
	char *name;          /* NULL but for one of several validation sets */
	struct blend *blend; /* NULL: absent, or mock data */
	int64_t count, batches;
	/* sample of the run that is number 0 here: not 0 where the data changed on resume */
	int64_t start;
};

/* A checkpoint's record of one corpus. */
struct corpus_record {
	char fingerprint[SUMS_FINGERPRINT];
	char mask[SUMS_FINGERPRINT]; /* of its mask; empty: it had none */
	/* as in the list; 0: the list has none; -1: no longer in the list */
	double weight;
	/* as in struct blend_kept, at the start of the order that was saved */
	int64_t first, num_samples;
	int64_t trained; /* tokens of it that counted; -1: not known */
	int64_t epochs;  /* with `separate`: which maps num_samples made */
	bool separate;
	int64_t consumed; /* of its order, those before `first` included */
	char *prefix;
};

/* The record of the data in the checkpoint that a run resumes from. */
struct data_record {
	int64_t iteration, consumed; /* where the run continues */
	bool any;       /* false: nothing else is set, as in new runs and imported checkpoints */
	bool continues; /* this run continues the checkpoint's order */
	int64_t start;  /* sample of the run with which the order began */
	int64_t seed, seq_length;
	char *split;    /* "-" with per-split lists */
	char *packing;  /* --long-documents of best-fit; NULL: cut */
	int64_t loader; /* enum sampler_type, or 2 for cyclic without sharding */
	int num_stages; /* of its schedule; 0: one list */
	struct stage_record *stage;
	int count;                    /* 0: mock data */
	struct corpus_record *corpus; /* in the order of the list, then those that left it */
};

/* Read-only once open. */
struct data {
	const struct train_config *c;
	struct corpora *corpora; /* NULL: mock data */
	/* of each of them; no sums: NULL */
	char (*fingerprint)[SUMS_FINGERPRINT];
	struct sums **sums;
	char (*mask)[SUMS_FINGERPRINT]; /* of the mask of each; empty: none */
	bool masked;                    /* any has one */
	struct err *why; /* while opening: how the tokens of each differ from its checksums */
	int host_rank, host_size; /* this rank's place among those of its host */
	int num_sets;
	struct set *set;
	struct data_record record;
	struct blend_kept *kept; /* [corpora of the training list]; NULL: none */
	/* [stages of the schedule]: the sample of the run with which each begins; NULL: there is
	 * none */
	int64_t *stage_first;
	int num_gone;
	/* of the record: corpora of earlier lists that are not in this one */
	const struct corpus_record **gone;
	struct sample_options options;
	/* on rank 0, by the corpora's notes: 1: bos was prepended to documents, 0: it was not;
	 * STATE_NONE: not known of all, or not the same */
	int64_t bos;
};

/* The training list, and the fingerprint of one of its corpora. */
const struct path_list *data_train_list(const struct data *d);
const char *data_corpus_fingerprint(const struct data *d, int k);
const char *data_corpus_mask(const struct data *d, int k); /* of its mask; empty: none */
/* Samples of a micro batch of a split. */
int64_t data_micro_batch(const struct data *d, enum split which);
/* The samples of one micro batch of training on every data rank. */
int64_t data_group(const struct data *d);

/* contents.c: fingerprint and checksums of every corpus, from its index and a few of its blocks,
 * and all bytes of masks, which the ranks of a host share. What is wrong with them is told by the
 * next call. */
void contents_examine(struct data *d, struct pool *pool);
/* Collective: fails on all ranks unless all have the same corpora and weights, and the blocks are
 * those of the checksums; *differ: the ranks have different data, all of them whole. Rank 0 notes
 * which corpora have no checksums. */
int contents_agree(struct data *d, struct comm *world, bool *differ, struct err *e);

/* data_record.c: reads d->record from the checkpoint of a resumed run. */
int data_record_read(struct data *d, struct err *e);
/* Decides how the order continues, and sets the start of the training set and kept. -1: the data
 * changed, and no option says how to continue. */
int data_record_resolve(struct data *d, struct err *e);
/* Call after the training set is opened: true when orders of corpora differ from the checkpoint's.
 * say: prints a note for each. */
bool data_record_reordered(const struct data *d, bool say);
/* From the checkpoint on, every corpus continues in its earlier order; a schedule continues where
 * it is. */
void data_record_keep(struct data *d);
void data_record_release(struct data *d);
/* Rank 0's: how many tokens of each corpus of training counted up to the checkpoint that the run
 * begins with; -1: it does not say. Returns -1 with a reason when it cannot be read. */
int data_record_trained(const struct data *d, int64_t *out, struct err *e);

/* data_report.c: the corpora of each set, before the first step. */
void data_report(const struct data *d);

#endif
