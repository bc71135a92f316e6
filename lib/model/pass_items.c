/*
 * pass_items.c - the list of a pass's items, and its segments
 */
#include "lib/model/pass_items.h"

#include "lib/base/mem.h"

#include <stdlib.h>

/* Blocks that are recomputed together run again before the backward pass of the last of them. */
static void
add_backward(struct pass_items *out, const struct memory_plan *m, const struct block_range *r)
{
	int kept = r->end; /* from this block on, nothing has to run again */

	for (int i = r->end; i-- > r->first;) {
		if (i < kept) {
			int number = m->block[i].recompute_chunk;

			kept = i + 1;
			while (number >= 0 && kept > r->first &&
			    m->block[kept - 1].recompute_chunk == number)
				kept--;
			for (int k = kept; k <= i; k++)
				out->item[out->num_items++] =
				    (struct pass_item){ ITEM_RECOMPUTE, k, k == kept, k == i };
			kept = kept > i ? i : kept;
		}
		out->item[out->num_items++] =
		    (struct pass_item){ .kind = ITEM_BACKWARD, .block = i };
	}
}

/* Whether something may happen between two items that follow each other: data ranks communicate, or
 * saved activations leave or come back. */
static bool
parted(const struct memory_plan *m, const struct pass_item *a, const struct pass_item *b)
{
	int from = m->block[a->block].layer, to = m->block[b->block].layer;

	if ((a->kind == ITEM_BACKWARD) != (b->kind == ITEM_BACKWARD) ||
	    m->block[a->block].activation_offload != m->block[b->block].activation_offload)
		return true;
	for (int k = 0; k < m->shards.num_buckets; k++)
		if (bucket_serves(&m->shards.bucket[k], from) !=
		    bucket_serves(&m->shards.bucket[k], to))
			return true;
	return false;
}

/* The end of a chunk's blocks without those after the first head. */
static int
first_end(const struct memory_plan *m, const struct block_range *r)
{
	int i = r->first;

	while (i < r->end && m->block[i].kind != &block_head)
		i++;
	return i < r->end ? i + 1 : i;
}

void
pass_items_init(struct pass_items *out, const struct memory_plan *m, int chunk, enum pass_kind kind)
{
	const struct block_range *r = &m->chunk[chunk];
	size_t most = 2 * (size_t)(r->end - r->first);
	int n, first = 0;

	*out = (struct pass_items){ .backward = kind == PASS_BACKWARD,
		.item = mem_alloc(most, sizeof *out->item),
		.segment = mem_alloc(most + 1, sizeof *out->segment) };
	if (out->backward)
		add_backward(out, m, r);
	else
		for (int i = r->first; i < (kind == PASS_FORWARD ? r->end : first_end(m, r)); i++)
			out->item[out->num_items++] =
			    (struct pass_item){ .kind = ITEM_FORWARD, .block = i };
	n = out->num_items;
	out->segment[out->num_segments++] = (struct segment){ 0, 0, n };
	for (int i = 1; i <= n; i++)
		if (i == n || parted(m, &out->item[i - 1], &out->item[i])) {
			out->segment[out->num_segments] =
			    (struct segment){ out->num_segments, first, i };
			out->num_segments++;
			first = i;
		}
}

void
pass_items_release(struct pass_items *m)
{
	free(m->item);
	free(m->segment);
}
