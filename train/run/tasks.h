/* tasks.h - what the model makes of tasks: --eval-tasks */
#ifndef TRAIN_RUN_TASKS_H
#define TRAIN_RUN_TASKS_H

#include "train/data/task_requests.h"
#include "train/engine/engine.h"
#include "train/report/metrics.h"

/* Collective: rates all requests with the weights as they are; nothing of the run changes. answers
 * has a place for each pair, and is the same on all ranks. */
void tasks_answer(struct engine *e, struct task_requests *r, struct task_answer *answers);
/* Rank 0's: a log line and metrics for each task. */
void tasks_report(
    const struct tasks *t, const struct task_answer *answers, int64_t iteration, struct metrics *m);
/* Writes the file of --eval-tasks-output whole, a line for each item. */
int tasks_write(
    const struct tasks *t, const struct task_answer *answers, const char *path, struct err *err);

#endif
