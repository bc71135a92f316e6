/*
 * data.h - the batches of a run: a pure function of options, seed and consumed samples
 *
 * A run has sets of samples: the splits of lib/data/blend.h, and with --multiple-validation-sets
 * one for each further validation corpus. Sample number C0 + m (b D) + j b + i of a set is sample i
 * of micro batch m on data rank j of the step that starts at C0 (with --dataloader-type cyclic: of
 * what the sampler puts there), so the data does not depend on the layout. All tensor, context and
 * pipeline ranks of one data rank read the same samples, and each context rank has the rows of its
 * own positions of them.
 *
 *   data_open.c     opening: who builds the index maps, which sets there are, agreement of ranks
 *   contents.c      what the corpora contain: the same on all ranks, and what their checksums say
 *   audit.c         the same of all their blocks, while the run trains
 *   data_record.c   what checkpoints record of the data, and what a change of the data between save
 *                   and resume means
 *   data_report.c   reports for people
 *   corpus_log.c    what the corpora have given so far, and their losses
 */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include "train/config/train_config.h"
#include "train/engine/engine.h"
#include "train/report/metrics.h"

struct data;

/* Collective. Opens what the run needs; rank 0 prints a report. Fails on all ranks; rank 0 has the
 * reason, and *status, unless it is NULL, is what to exit with. c outlives it. */
struct data *data_open(
    const struct train_config *c, struct comm *world, int *status, struct err *e);
void data_close(struct data *d);
/* Numbers of sets: those of enum split, then further validation sets. */
struct data_set {
	enum split which;
	const char *name; /* of one of several validation sets, else NULL */
	int64_t count;    /* samples there are; 0: the set is absent */
	int64_t batches;  /* batches of an evaluation; the last may be partly masked */
};
int data_num_sets(const struct data *d);
void data_set(const struct data *d, int set, struct data_set *out);

/* Whether there may be tokens of training that its loss does not count. */
bool data_masks(const struct data *d);

/* The samples that training had consumed when the present order began. */
int64_t data_start(const struct data *d);

/* A micro batch: the samples that a data rank reads of a set when all ranks have read `consumed`
 * samples of the run, or of the evaluation, and the part of them that a context rank holds. */
struct data_place {
	int set;
	int64_t consumed;
	int rank, context;
};
/* Reads batches; a reader is for one thread at a time, and there may be any number of readers. */
struct data_reader;
struct data_reader *data_reader_new(const struct data *d);
void data_reader_free(struct data_reader *r);
/*
 * Reads a micro batch into the caller's arrays; samples after the last one of an evaluation are
 * fully masked. Returns the weight of the tokens of its rows that the loss counts, one each but
 * with --loss-per document, or -1 with a reason that names dataset and
 * document when a token is not in the vocabulary.
 */
double data_batch(
    struct data_reader *r, const struct data_place *at, const struct batch *out, struct err *e);
/* The numbers of its samples in the set, as many as a micro batch of it has; -1: after the last
 * one. */
int data_samples(struct data_reader *r, const struct data_place *at, int64_t *out, struct err *e);

/* The share of `count` samples of training from `first` on that is no padding, where they are
 * packed and read in order; else 0. */
double data_fill(const struct data *d, int64_t first, int64_t count);

/* Lines for a checkpoint's state.conf; counts and trained are those of corpus_log. */
void data_state(
    const struct data *d, const int64_t *counts, const int64_t *trained, struct str *out);
/* The stage of a schedule, from 1 on, that sample `sample` of training is of; 0: there are none. */
int data_stage(const struct data *d, int64_t sample);

/* --- data_report.c ---------------------------------------------------------------------------- */

/* A note for each corpus of training: how much of it was consumed, and how many tokens counted
 * (-1: not known). Rank 0's, at saves and at the end. */
void data_note_consumed(const struct data *d, const int64_t *counts, const int64_t *trained);
/* Rank 0's: a note where a step that ends before sample `end` of training ends a stage. */
void data_note_stage(const struct data *d, int64_t first, int64_t end);

#endif
