/* table.c - open addressing, at most half full */
#include "plan/table.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = TABLE_KEY * sizeof(int), FIRST_SLOTS = 1024 };

/* FNV-1a, of numbers in the place of bytes. */
static unsigned
hash(const int key[TABLE_KEY])
{
	unsigned h = 2166136261u;

	for (int i = 0; i < TABLE_KEY; i++)
		h = (h ^ (unsigned)key[i]) * 16777619u;
	return h ^ h >> 15;
}

/* The slot that has a key, or the free one for it; their number is a power of two. */
static void **
find(const struct table *t, const int key[TABLE_KEY])
{
	unsigned mask = (unsigned)t->num_slots - 1, i = hash(key) & mask;

	while (t->slot[i] && memcmp(t->slot[i], key, KEY_BYTES) != 0)
		i = (i + 1) & mask;
	return &t->slot[i];
}

static void
grow(struct table *t)
{
	struct table more = *t;

	more.num_slots = t->num_slots ? 2 * t->num_slots : FIRST_SLOTS;
	more.slot = mem_zalloc((size_t)more.num_slots, sizeof *more.slot);
	for (int i = 0; i < t->num_slots; i++)
		if (t->slot[i])
			*find(&more, t->slot[i]) = t->slot[i];
	free(t->slot);
	*t = more;
}

void *
table_get(struct table *t, const int key[TABLE_KEY])
{
	void **slot;

	if (2 * t->count >= t->num_slots)
		grow(t);
	slot = find(t, key);
	if (!*slot) {
		*slot = mem_zalloc(1, t->size);
		memcpy(*slot, key, KEY_BYTES);
		t->count++;
	}
	return *slot;
}

void
table_release(struct table *t)
{
	for (int i = 0; i < t->num_slots; i++)
		free(t->slot[i]);
	free(t->slot);
	t->slot = NULL;
	t->num_slots = t->count = 0;
}
