/* loop.h - the step loop: train, evaluate, save, stop */
#ifndef TRAIN_RUN_LOOP_H
#define TRAIN_RUN_LOOP_H

struct run;

/* Trains to the end or to a request to stop. Returns the exit status. */
int loop_train(struct run *r);
/* Evaluates the validation and test splits, where there are any, at the run's state and reports
 * them. Returns the exit status. */
int loop_evaluate(struct run *r);

#endif
