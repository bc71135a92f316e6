/*
 * hooks.h - what a run has done with its checkpoints once they are there
 *
 * An export to a Hugging Face directory every so many steps, and a command after each save. Both
 * are processes of their own, in a session of their own, at low priority, without the run's
 * descriptors and without what tells a process that mpirun has started it; no rank waits for them,
 * and they outlive the run. What they print goes to SAVE/hooks.log, since a run whose standard
 * error they held open would seem not to end. One of each kind runs at a time: when a checkpoint is
 * there before it has ended, the newest waits, and one that waited until then is left out. All
 * functions are for rank 0 and take NULL, of a run without hooks.
 */
#ifndef TRAIN_STATE_HOOKS_H
#define TRAIN_STATE_HOOKS_H

#include "train/config/train_config.h"

enum { HOOKS_READ = 4 };

struct hooks;

/* *out is NULL where the options ask for none. -1 with the reason when the exporter is not beside
 * this program. */
int hooks_open(const struct train_config *c, struct hooks **out, struct err *e);
/* A checkpoint is there: begins what is due. */
void hooks_saved(struct hooks *h, int64_t iteration);
/* Notes what has ended, and begins what waits. Between steps. */
void hooks_poll(struct hooks *h);
/* The iterations that are being read, or will be; returns how many. */
int hooks_read(const struct hooks *h, int64_t iteration[HOOKS_READ]);
/* At the end of the run: what waits begins at once. */
void hooks_close(struct hooks *h);

#endif
