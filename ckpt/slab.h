/*
 * slab.h - boxes of parameters, cut into parts that are read at once
 *
 * A slab is a few MiB, so memory does not grow with the tensors, and a thread can read the next
 * one while the last is written, compared or counted (lib/base/relay.h). Few enough for buffers to
 * stay in a processor's cache, and whole blocks of checksums in every type.
 */
#ifndef CKPT_SLAB_H
#define CKPT_SLAB_H

#include "lib/ckpt/source.h"

enum { SLAB_ELEMENTS = 1 << 21 };

struct slabs {
	struct source_part *item;
	int64_t count, cap;
	int64_t largest; /* elements of the largest */
};

/* Appends the box of `whole`, in row-major order: each slab is one box of at most `most` elements,
 * or of SLAB_ELEMENTS. */
void slabs_cut(struct slabs *w, const struct source_part *whole, int64_t most);
void slabs_add(struct slabs *w, const struct source_part *whole);
void slabs_release(struct slabs *w);

#endif
