/*
 * samples_walk.c - the rows of the sample index: where each sample begins and ends
 *
 * Row j is the place of token number j * seq_length, counted over the sequences in the order of the
 * document index. Their lengths are scattered over the .idx file, so nearly all of the time goes
 * into waiting for them: they are gathered into a table of 16 bits each, on large pages, and
 * fetched a block of positions ahead. Source: Megatron-LM core/datasets/helpers.cpp,
 * build_sample_idx.
 */
#include "lib/base/mem.h"
#include "lib/data/samples_impl.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, LONG = UINT16_MAX, FORGET = 4 << 20 };

struct row_walk {
	const struct samples *s;
	/* u16 per sequence of the split; LONG: see the dataset */
	struct index_map length;
	int64_t next_row;
	int64_t position, before; /* a sequence in the order, and the tokens before it */
	int64_t from;             /* position of the first one of the block */
	int64_t tokens[BLOCK];    /* their lengths */
};

/* The table of lengths takes 2 bytes per sequence until row_walk_free. */
struct row_walk *
row_walk_new(const struct samples *s)
{
	struct row_walk *w = mem_zalloc(1, sizeof *w);
	uint16_t *length = index_map_alloc(&w->length, DTYPE_U16, s->end - s->begin);

	for (int64_t i = s->begin; i < s->end; i++) {
		int64_t n = dataset_length(s->d, i);

		length[i - s->begin] = n < LONG ? (uint16_t)n : LONG;
		if (i % FORGET == 0)
			dataset_forget(s->d);
	}
	dataset_forget(s->d);
	w->s = s;
	w->from = -BLOCK;
	return w;
}

/* NULL is allowed. */
void
row_walk_free(struct row_walk *w)
{
	if (w)
		index_map_release(&w->length);
	free(w);
}

/* Gathers the lengths of the block that begins at a position: prefetches all of them, then reads
 * them. */
static void
fill_block(struct row_walk *w, int64_t from)
{
	const struct samples *s = w->s;
	const uint16_t *length = w->length.data;
	int64_t n = s->num_positions - from < BLOCK ? s->num_positions - from : BLOCK, id[BLOCK];

	index_map_copy(&s->document, from, n, id);
	for (int64_t i = 0; i < n; i++) {
		id[i] -= s->begin;
		__builtin_prefetch(length + id[i]);
	}
	for (int64_t i = 0; i < n; i++)
		w->tokens[i] =
		    length[id[i]] < LONG ? length[id[i]] : dataset_length(s->d, s->begin + id[i]);
	w->from = from;
}

/*
 * The end of sample j - 1 is its last token, number j * seq_length - (1 - extra); with the extra
 * token the next sample begins there, without it one token later. Only a kept partial sample ends
 * earlier: at the end of the last sequence.
 */
int
row_walk_next(struct row_walk *w, int64_t *position, int64_t *offset)
{
	const struct samples *s = w->s;
	int64_t skip = 1 - s->extra, token = w->next_row * s->seq_length - skip;
	int64_t at = w->position, before = w->before, n;

	if (w->next_row++ == 0) {
		*position = *offset = 0;
		return 0;
	}
	for (;; at++, before += n) {
		if (at >= w->from + BLOCK)
			fill_block(w, at);
		n = w->tokens[at - w->from];
		if (token < before + n || at + 1 == s->num_positions)
			break;
	}
	w->position = *position = at;
	w->before = before;
	if (token < before + n) {
		*offset = token - before + skip;
		return 0;
	}
	*offset = n - s->extra;
	return s->drop ? -1 : 0;
}
