/*
 * uses.h - what a part of a run calls, so that a run on a backend without it does not begin
 *
 * Whatever may call an operation that not every backend has names in a list the operations that it
 * calls, ended by OP_END: struct optim_kind has one.
 */
#ifndef TRAIN_USES_H
#define TRAIN_USES_H

#include "train/ops.h"

#define OP_NUMBER(name, type) OP_##name,
enum op_number { OPS(OP_NUMBER, OP_NUMBER) OP_END };
#undef OP_NUMBER

/* The name of the first of the operations that the table does not have, or NULL. No list is an
 * empty one. */
const char *ops_lack(const struct ops *have, const enum op_number *uses);

#endif
