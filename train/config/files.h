/*
 * files.h - the files that a run reads
 */
#ifndef TRAIN_CONFIG_FILES_H
#define TRAIN_CONFIG_FILES_H

#include "train/config/train_config.h"

/* That the files of a run exist, and that one option names its data. A dry run notes what is not
 * here, since it plans for machines that have the files. */
int train_check_files(struct train_config *c, struct err *e);
/* Tasks are evaluated, and there are no data to evaluate beside them. */
bool train_tasks_alone(const struct train_config *c);

#endif
