/*
 * tasks.h - questions whose answers a model is asked to rate, as JSON Lines
 *
 * A line is an object with "task", "id" and "type", and the members of its type:
 *
 *   multiple_choice        "context", or "contexts", one a choice; "continuations", one a
 *                          choice, as they follow; "choices", the same bare; "gold", the number of
 *                          the right one, or a list of numbers
 *   loglikelihood          "context", "continuation"
 *   loglikelihood_rolling  "text", and perhaps "bytes" and "words", which divide
 *
 * Another member, which may be a misspelt one, is an error. Source: the requests of
 * lm-evaluation-harness 0.4.13 (lm_eval/api/task.py).
 */
#ifndef DATA_TASKS_H
#define DATA_TASKS_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

enum task_type { TASK_MULTIPLE_CHOICE, TASK_LOGLIKELIHOOD, TASK_ROLLING, TASK_TYPES };

/* UTF-8; NULs allowed. */
struct task_text {
	const char *text;
	size_t len;
};

/* How likely the continuation is after the context. */
struct task_pair {
	struct task_text context, continuation;
};

struct task_item {
	const char *file; /* and line, from 1: where it stands */
	int64_t line;
	int task;           /* its number among the tasks */
	const char *id;     /* as JSON */
	int64_t first_pair; /* its number among the pairs of all items */
	int64_t num_pairs;
	struct task_pair *pair;   /* of a rolling one the text, without a context */
	struct task_text *choice; /* [num_pairs], of multiple choice alone */
	int64_t *gold, num_gold;
	int64_t bytes, words; /* of a rolling one */
};

/* Its items have one type. */
struct task {
	const char *name; /* without blanks */
	enum task_type type;
};

struct tasks {
	struct task_item *item; /* in the order of the files */
	int64_t count, num_pairs;
	struct task *task; /* in the order of their first items */
	int num_tasks;
	struct mem_pool pool; /* holds all that they point to */
};

/* Adds the items of a file's text; path stays the caller's. -1 with a reason that begins with file
 * and line. Zeroed tasks are empty; tasks_release frees also after a failure. */
int tasks_add(struct tasks *t, const char *path, const char *text, size_t len, struct err *e);
/* When all are there: what concerns a task as a whole. -1 with the task. */
int tasks_check(const struct tasks *t, struct err *e);
void tasks_release(struct tasks *t);

#endif
