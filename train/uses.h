/*
 * uses.h - what a part of a run calls, so that a run on a backend without it does not begin
 *
 * Whatever may call an operation that not every backend has, or a call that not every transport
 * has, names in a list what it calls, ended by USES_END: struct optim_kind and struct layer_kind
 * have one.
 */
#ifndef TRAIN_USES_H
#define TRAIN_USES_H

#include "train/comm.h"
#include "train/ops.h"

enum use {
	USES_END,
#define OPERATION(name, type) OP_##name,
#include "train/ops_list.h"
	USES_CALLS, /* those after it are calls */
#define CALL(name, type) CALL_##name,
#include "train/comm_list.h"
};

/* -1 with a reason, which begins with the name of who uses them, where the backend lacks one of
 * them or the transport of its memory does. No list is an empty one. */
int uses_check(const enum use *uses, const struct backend *b, const char *who, struct err *e);

#endif
