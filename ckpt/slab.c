/* slab.c - boxes of parameters, cut into parts that are read at once */
#include "ckpt/slab.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"

#include <stdlib.h>

/* A range of elements is a few boxes. */
void
slabs_cut(struct slabs *w, const struct source_part *whole, int64_t most)
{
	int64_t total = slice_elements(&whole->slice);

	for (int64_t at = 0, step; at < total; at += step) {
		struct slice slice[SLICE_FLAT_MAX];
		int n;

		step = total - at < most ? total - at : most;
		n = slice_flat(&whole->slice, at, step, slice);
		if (w->count + n > w->cap) {
			w->cap = 2 * (w->count + n);
			w->item = mem_realloc(w->item, (size_t)w->cap, sizeof *w->item);
		}
		for (int i = 0; i < n; i++) {
			w->item[w->count] = *whole;
			w->item[w->count++].slice = slice[i];
			w->largest = int64_max(w->largest, slice_elements(&slice[i]));
		}
	}
}

void
slabs_add(struct slabs *w, const struct source_part *whole)
{
	slabs_cut(w, whole, SLAB_ELEMENTS);
}

void
slabs_release(struct slabs *w)
{
	free(w->item);
	*w = (struct slabs){ 0 };
}
