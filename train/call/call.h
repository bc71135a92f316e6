/* call.h - what a call of a communicator tells of itself, for the log */
#ifndef TRAIN_CALL_CALL_H
#define TRAIN_CALL_CALL_H

#include "train/tensor.h"

struct event;

/* Each call has a describe_NAME that gives this from the ranks of the communicator and from its
 * arguments. */
struct comm_call {
	const char *kind; /* in words, for messages; static */
	size_t bytes;     /* of what this rank gives, or of the whole */
};

#endif
