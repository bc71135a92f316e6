/*
 * explain.h - --explain: what becomes of another program's launch
 */
#ifndef TRAIN_RUN_EXPLAIN_H
#define TRAIN_RUN_EXPLAIN_H

#include "train/config/train_config.h"

/* Reads what the operands name and prints the command for mtrain, or writes an option file, with a
 * table. Returns the exit status: 0 accepted as it is, 1 something is refused or not known, 2 the
 * script could not be read. */
int train_explain(const struct train_config *c);

#endif
