/*
 * window.h - boxes of parameters, cut into parts that are read at once
 *
 * A window is a few MiB, so memory does not grow with the tensors, and a thread can read the next
 * one while the last is written, compared or counted (lib/base/relay.h). Few enough for buffers to
 * stay in a processor's cache, and whole blocks of checksums in every type.
 */
#ifndef CKPT_WINDOW_H
#define CKPT_WINDOW_H

#include "lib/ckpt/source.h"

enum { WINDOW_ELEMENTS = 1 << 21 };

struct windows {
	struct source_part *item;
	int64_t count, cap;
};

/* Appends the box of `whole`, in row-major order: each window is one box of at most
 * WINDOW_ELEMENTS.
 */
void windows_add(struct windows *w, const struct source_part *whole);
void windows_release(struct windows *w);

#endif
