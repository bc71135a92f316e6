/*
 * task_requests.h - tasks as sequences of tokens, packed into samples
 *
 * What a model is asked of a pair is a request: tokens of which the last ones are rated. Requests
 * are packed by best fit, each from position 0 and seeing itself alone; the label of a row is the
 * next token of its request, so one of n tokens has n - 1 rows. The tokens are those of
 * lm-evaluation-harness 0.4.13 (TemplateLM._encode_pair and loglikelihood, lm_eval/api/model.py;
 * get_rolling_token_windows, lm_eval/utils.py): every rank has all of them.
 */
#ifndef TRAIN_DATA_TASK_REQUESTS_H
#define TRAIN_DATA_TASK_REQUESTS_H

#include "lib/data/packing.h"
#include "lib/data/tasks.h"
#include "train/config/train_config.h"
#include "train/data/deal.h"

struct task_request {
	int64_t pair;         /* of the tasks: a rolling one may have several requests, or none */
	int64_t first, count; /* tokens: where they begin in `id`, and how many, at least 2 */
	int64_t rated;        /* of them, the last */
	int64_t answer;       /* the number of the first of these among all that are rated */
	int64_t sample, at;   /* where its rows are */
};

struct task_requests {
	struct tasks tasks;
	struct task_request *item; /* in the order of the pairs */
	int64_t count, num_rated;
	struct token_ids id;
	struct packing packing; /* of item, into samples of --seq-length rows */
	struct sample one;      /* [seq_length] each: room to assemble one */
};

/* Collective: reads the files of --eval-tasks on rank 0; world NULL: this process alone. The
 * tokenizer must be open. -1 on all ranks, with a reason on rank 0 that begins with file and line
 * where one of them is wrong. */
int task_requests_open(
    struct task_requests *r, const struct train_config *c, struct comm *world, struct err *err);
void task_requests_release(struct task_requests *r);
/* Fills a micro batch from sample `first` on; after the last one there is padding. */
void task_requests_batch(
    struct task_requests *r, const struct deal *d, int64_t first, const struct batch *out);

#endif
