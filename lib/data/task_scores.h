/*
 * task_scores.h - what the answers of a model make of its tasks
 *
 *   multiple_choice        acc, acc_norm, acc_bytes: the share of items whose likeliest choice is
 *                          right, by its log-likelihood, and by that over the bare choice's
 *                          characters or bytes; of equal ones the first is taken
 *   loglikelihood          acc: the share of continuations of which each token was the likeliest;
 *                          perplexity: exp(-mean ll)
 *   loglikelihood_rolling  word_perplexity, byte_perplexity: exp(-sum ll / sum of words or bytes);
 *                          bits_per_byte
 *
 * Source: ConfigurableTask.process_results and the aggregations of lm-evaluation-harness 0.4.13
 * (lm_eval/api/task.py and metrics.py).
 */
#ifndef DATA_TASK_SCORES_H
#define DATA_TASK_SCORES_H

#include "lib/data/tasks.h"

/* Of a pair. */
struct task_answer {
	double ll;   /* the sum of log-probabilities of the continuation's tokens */
	bool greedy; /* each of them was the likeliest */
};

struct task_score {
	const char *metric;
	double value;
	double error; /* the standard error of a mean; NAN: it is none, or of one item */
};
enum { TASK_SCORES_MAX = 3 };

/* The choice that an item's answers make, by `acc`. answers: of all pairs. */
int64_t task_chosen(const struct task_item *item, const struct task_answer *answers);
/* Of one task; returns how many, and in *samples of how many items. */
int task_scores(const struct tasks *t, int task, const struct task_answer *answers,
    struct task_score out[TASK_SCORES_MAX], int64_t *samples);

#endif
