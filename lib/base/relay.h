/*
 * relay.h - two threads pass a row of buffers on: one fills the next while the other empties the
 * last
 *
 * For copies that wait for a disk on both sides. Buffers are emptied in order, by the thread that
 * called relay_run; fill runs in another, and alone may touch what it reads from.
 */
#ifndef BASE_RELAY_H
#define BASE_RELAY_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct relay {
	int64_t count; /* buffers to pass on */
	size_t bytes;  /* of the largest; up to RELAY_BUFFERS are allocated */
	int (*fill)(void *ctx, int64_t i, void *buffer, struct err *e);
	int (*empty)(void *ctx, int64_t i, const void *buffer, struct err *e);
	void *ctx;
};

enum { RELAY_BUFFERS = 3 };

/* Returns when all is done; -1 with the reason of the first call that failed, after which none
 * begins. If no thread can be created, the calls take turns. */
int relay_run(const struct relay *r, struct err *e);

#endif
