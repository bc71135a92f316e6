/* mute.h - an operation that does not say what it reads and writes */
#ifndef TRAIN_OP_MUTE_H
#define TRAIN_OP_MUTE_H

#include "train/op/call.h"

struct mute {
	struct tensor x;
};

#endif

#ifdef OPERATION
OPERATION(mute, mute)
#endif
