/* saver.h - saves that run during training */
#ifndef TRAIN_STATE_SAVER_H
#define TRAIN_STATE_SAVER_H

#include "lib/base/lock.h"
#include "train/state/hooks.h"
#include "train/state/save.h"

/*
 * A save has three parts: each rank copies its pieces from the device, then writes its file, and
 * rank 0 commits the directory. In the background the copies run while the next step computes (the
 * update waits for them: engine.held), and a thread writes. Only saver_next and what calls it
 * communicate.
 */
struct saver;

/* background: false makes saver_start wait for the end. Memory for the copies is taken in the
 * background too. lock: that of --save, on rank 0; once it is lost no name changes there. NULL: no
 * lock. hooks are told of each checkpoint, and one that they read is not removed meanwhile. */
struct saver *saver_new(struct engine *e, const struct train_config *c, struct lock *lock,
    struct hooks *hooks, bool background);
void saver_free(struct saver *s); /* the saver is idle, or the run failed */
/* Seconds that the last save took, which has ended; 0: there was none, or s is NULL. */
double saver_seconds(const struct saver *s);
/* Collective: waits for the previous save, then begins one. -1 on every rank, with the reason on
 * rank 0; the previous checkpoint is intact. data, on rank 0: what state.conf says of the data. */
int saver_start(struct saver *s, const struct progress *p, const char *data, struct err *err);
bool saver_background(const struct saver *s); /* the same on every rank once a save has begun */
bool saver_ready(const struct saver
	*s); /* busy, and nothing to wait for on this rank: saver_next would not block */
/* Collective: the next part of a busy save. -1 as saver_start. */
int saver_next(struct saver *s, struct err *err);
/* Collective: all remaining parts. */
int saver_wait(struct saver *s, struct err *err);

#endif
