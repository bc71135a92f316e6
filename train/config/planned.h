/*
 * planned.h - a plan for machines that have the files which are not here
 */
#ifndef TRAIN_CONFIG_PLANNED_H
#define TRAIN_CONFIG_PLANNED_H

#include "train/config/train_config.h"

/* The vocabulary of a plan whose tokenizer is not here. */
enum { PLANNED_VOCABULARY = 1 << 15 };
/* Whether a file of the tokenizer is not here, which is noted. */
bool planned_without_tokenizer(struct train_config *c);
/* Opens the datasets that are here, and notes what is not. */
int planned_data(struct train_config *c, struct err *e);

#endif
