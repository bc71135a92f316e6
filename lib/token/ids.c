/* ids.c - a growing array of token ids */
#include "lib/base/mem.h"
#include "lib/token/ids.h"

#include <stdlib.h>
#include <string.h>

/* Doubles, so that appending one by one is linear. */
void
token_ids_reserve(struct token_ids *l, size_t extra)
{
	if (l->count + extra <= l->cap)
		return;
	l->cap = 2 * l->cap > l->count + extra ? 2 * l->cap : l->count + extra + 64;
	l->id = mem_realloc(l->id, l->cap, sizeof *l->id);
}

/* Doubles the room when it is full; cannot fail. */
void
token_ids_add(struct token_ids *l, uint32_t id)
{
	token_ids_pass(l, 0);
	token_ids_reserve(l, 1);
	l->id[l->count++] = id;
}

/* Keeps the memory. */
void
token_ids_pass(struct token_ids *l, size_t keep)
{
	if (!l->pass || l->count < TOKEN_IDS_PART)
		return;
	l->pass(l->ctx, l->id, l->count - keep);
	memmove(l->id, l->id + l->count - keep, keep * sizeof *l->id);
	l->count = keep;
}

/* The list is empty afterwards and may be reused; its `pass` stays set. */
void
token_ids_release(struct token_ids *l)
{
	free(l->id);
	l->id = NULL;
	l->count = l->cap = 0;
}
