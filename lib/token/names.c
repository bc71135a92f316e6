/*
 * names.c - the strings of a vocabulary and their ids
 *
 * Used while a tokenizer is opened, where every merge looks up both parts, and afterwards by the
 * models whose symbols are characters.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/token/names.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32 };

/* The table is only as large as short searches require. */
void
names_init(struct names *n, size_t count)
{
	size_t size = 16;

	while (size < 2 * count)
		size *= 2;
	n->mask = size - 1;
	n->slot = mem_zalloc_whole(size, sizeof *n->slot);
}

/* The strings stay. A struct of zeroes is allowed. */
void
names_release(struct names *n)
{
	free(n->slot);
	memset(n, 0, sizeof *n);
}

/* Where the search for a string begins. It differs in every process, so that no file can be crafted
 * whose strings all collide. */
static size_t
first_place(const struct names *n, const char *s, size_t len)
{
	return hash_xxh3_seeded(s, len, (uintptr_t)n->slot) & n->mask;
}

/* The slot of a string, or the free one for it. */
static struct name *
place(const struct names *n, const char *s, size_t len, size_t i)
{
	while (n->slot[i].bytes && (n->slot[i].len != len || !mem_equal(n->slot[i].bytes, s, len)))
		i = (i + 1) & n->mask;
	return &n->slot[i];
}

/* Enters a string; returns the id that it had, or -1. */
static int64_t
add_at(struct names *n, const struct name *name, size_t i)
{
	struct name *p = place(n, name->bytes, name->len, i);

	if (p->bytes)
		return p->id;
	*p = *name;
	return -1;
}

/* A string keeps its first id. */
int64_t
names_add(struct names *n, const char *s, size_t len, uint32_t id)
{
	return add_at(n, &(struct name){ s, (uint32_t)len, id }, first_place(n, s, len));
}

/* Slots are prefetched a block ahead of their use. */
int
names_add_members(struct names *n, const struct json_value *vocab, struct err *e)
{
	size_t at[BLOCK];

	for (size_t done = 0, some; done < vocab->len; done += some) {
		const struct json_value *v = vocab->item + done;

		some = vocab->len - done < BLOCK ? vocab->len - done : BLOCK;
		for (size_t i = 0; i < some; i++) {
			at[i] = first_place(n, v[i].key, v[i].key_len);
			__builtin_prefetch(&n->slot[at[i]], 1);
		}
		for (size_t i = 0; i < some; i++) {
			const struct name name = { v[i].key, v[i].key_len, (uint32_t)v[i].integer };

			if (add_at(n, &name, at[i]) >= 0)
				return err_set(e, "token '%.40s' occurs twice", v[i].key);
		}
	}
	return 0;
}

/* Also for an empty table that was never filled. */
int64_t
names_find(const struct names *n, const char *s, size_t len)
{
	const struct name *p = n->slot ? place(n, s, len, first_place(n, s, len)) : NULL;

	return p && p->bytes ? (int64_t)p->id : -1;
}

/* The memory for a block of names is prefetched in two rounds: slots, then their strings. */
void
names_find_all(const struct names *n, struct name *name, size_t count)
{
	size_t at[BLOCK];

	for (size_t done = 0, some; done < count; done += some, name += some) {
		some = count - done < BLOCK ? count - done : BLOCK;
		for (size_t i = 0; i < some; i++) {
			at[i] = first_place(n, name[i].bytes, name[i].len);
			__builtin_prefetch(&n->slot[at[i]]);
		}
		for (size_t i = 0; i < some; i++)
			__builtin_prefetch(n->slot[at[i]].bytes);
		for (size_t i = 0; i < some; i++) {
			const struct name *p = place(n, name[i].bytes, name[i].len, at[i]);

			name[i].id = p->bytes ? p->id : UINT32_MAX;
		}
	}
}
