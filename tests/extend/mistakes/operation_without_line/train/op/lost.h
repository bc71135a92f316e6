/* lost.h - an operation that no list has */
#ifndef TRAIN_OP_LOST_H
#define TRAIN_OP_LOST_H

#include "train/op/call.h"

struct lost {
	struct tensor x;
};

#endif

#ifdef OPERATION
OPERATION(lost, lost)
#endif
