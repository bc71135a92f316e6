/*
 * paths.h - which corpora with which weights: the lists of --data-path and its relatives
 *
 * A list of words is "PREFIX ..." or "WEIGHT PREFIX WEIGHT PREFIX ...", as Megatron-LM reads it: an
 * odd number of words is prefixes; an even number is pairs when every other word, from the first
 * on, is a number, and prefixes when none is. Lists that Megatron-LM would misread are refused
 * here: numbers in only some of the pairs, weights that are not finite and above 0, or a number in
 * the place of a prefix. Source: Megatron-LM megatron/training/utils.py, get_blend_from_list and
 * get_blend_and_blend_per_split. Lists that change within a run are ours: stages.c.
 */
#ifndef DATA_PATHS_H
#define DATA_PATHS_H

#include "lib/base/err.h"
#include "lib/base/opt.h"

#include <stdbool.h>
#include <stdint.h>

enum split { SPLIT_TRAIN, SPLIT_VALID, SPLIT_TEST, SPLIT_COUNT };

extern const char *const split_name[SPLIT_COUNT]; /* "train", "valid", "test" */

struct path_list {
	int count;      /* 0: no list for this split */
	char **prefix;  /* without blanks around them */
	double *weight; /* as given; NULL: the list has none */
};

/* A stage of training: corpora with weights, none of them twice, from so many tokens on. */
struct data_stage {
	int64_t tokens;
	struct path_list list;
};

/* Where each split's samples come from. Zero-initialise; data_paths_release frees what it holds. */
struct data_paths {
	/* one list per split, each corpus whole; else list[SPLIT_TRAIN] serves all by --split */
	bool per_split;
	/* with stages list[SPLIT_TRAIN] has the corpora of all of them, in the order of first
	 * mention, without weights */
	struct path_list list[SPLIT_COUNT];
	int num_stages; /* of --data-schedule; 0: one list from the first token to the last */
	struct data_stage *stage;
};

/* The options as typed; an empty list or NULL is an option that was not given. */
struct path_options {
	struct opt_list data_path;               /* --data-path */
	struct opt_list split_path[SPLIT_COUNT]; /* --train-data-path and so on */
	const char *data_args_path; /* --data-args-path: a file of such words, between blanks */
	/* JSON: {"train": [..] or "..", "valid": .., "test": ..} */
	const char *per_split_data_args_path;
	const char *data_schedule; /* --data-schedule: the file of stages.c */
	/* the contents of that file, text_bytes long; NULL: it is read when needed */
	const char *text;
	size_t text_bytes;
};

/* Whether they name any data. */
bool path_options_any(const struct path_options *o);
/* The file that one of the options names; NULL: none does. */
const char *path_options_file(const struct path_options *o);
/* Reads the file that one of the options names, which may be a pipe, once and to its end; at most
 * 64 MiB. *text, which the caller frees, is NULL when no option names a file. */
int data_paths_load(const struct path_options *o, char **text, size_t *bytes, struct err *e);
/*
 * Reads the options that are given; none, or more than one kind, is an error that names the
 * options. The lists own their strings.
 */
int data_paths_read(const struct path_options *o, struct data_paths *out, struct err *e);
void data_paths_release(struct data_paths *p);
/* What to give in place of a prefix that has no files. */
const char *data_paths_advice(const char *prefix);
/* The list of a split, however it was given; its count is 0 when a per-split file omits the split.
 * Validation and test have the corpora of the first stage, so that their losses can be compared
 * over the whole run. */
const struct path_list *data_paths_list(const struct data_paths *p, enum split which);

/* One list of words; name ("--data-path", "FILE: train") begins every message. An empty list is an
 * error. */
int path_list_parse(
    int count, const char *const *word, const char *name, struct path_list *out, struct err *e);
void path_list_release(struct path_list *l);
/* The lines of --data-schedule into the stages and the training list of out, whose memory is out's
 * on failure too; path is for messages. */
int data_stages_parse(const char *text, const char *path, struct data_paths *out, struct err *e);
/*
 * What a checkpoint says of a schedule, on one line: of each stage the sample of the run with which
 * it begins, its first token, and its corpora as numbers of a list with their weights:
 * "0 0 0:0.7 1:0.3 | 400 12800 0:0.5 2:0.5".
 */
struct stage_record {
	int64_t first, tokens;
	int count;
	int *corpus;    /* [count], each below the number of corpora */
	double *weight; /* [count], finite and above 0 */
};
/* The caller frees *out, which has *count of them, by stage_records_free, after a failure too. */
int stage_records_parse(
    const char *text, int64_t corpora, struct stage_record **out, int *count, struct err *e);
void stage_records_free(struct stage_record *r, int count);
/* Of the stages of p that begin with these samples; free() it. */
char *stage_records_text(const struct data_paths *p, const int64_t *first);
/* The samples of seq_length tokens after which a stage may begin. */
int64_t data_stage_samples(const struct data_stage *s, int64_t seq_length);

#endif
