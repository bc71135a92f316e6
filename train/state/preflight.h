/* preflight.h - whether this run can save, before its first step */
#ifndef TRAIN_STATE_PREFLIGHT_H
#define TRAIN_STATE_PREFLIGHT_H

#include "train/config/train_config.h"
#include "train/engine/engine.h"

/* Collective, after --save was claimed: every rank writes, syncs and renames a file there and reads
 * those of others; nothing of it stays. -1 on all ranks, with the reason on rank 0, when that
 * fails or a checkpoint's file would pass the limit of this process. A file system that is too
 * full now is a warning: there may be room by the first save. */
int preflight(struct engine *e, const struct train_config *c, struct err *err);

#endif
