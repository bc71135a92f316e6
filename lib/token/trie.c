/*
 * trie.c - building a trie
 *
 * The table never grows, as nodes are known by their slots: it is made for the number of symbols in
 * all keys, of which the nodes are at most as many.
 */
#include "lib/token/trie.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* At least twice as many slots as nodes; the root's counts as full. */
void
trie_init(struct trie *t, uint32_t symbols)
{
	uint32_t size = 16;

	t->shift = 60;
	while (size / 2 < symbols + 1) {
		size *= 2;
		t->shift--;
	}
	t->mask = size - 1;
	t->node = mem_zalloc(size, sizeof *t->node);
	t->node[TRIE_ROOT] = (struct trie_node){ .parent = UINT32_MAX, .value = -1 };
}

/* A trie of zeros is fine too. */
void
trie_release(struct trie *t)
{
	free(t->node);
	memset(t, 0, sizeof *t);
}

/* The new node takes the first empty slot of the search. */
uint32_t
trie_add(struct trie *t, uint32_t node, uint32_t symbol)
{
	uint32_t i = trie_slot(t, node, symbol);

	for (; t->node[i].parent; i = (i + 1) & t->mask)
		if (t->node[i].parent == node + 1 && t->node[i].symbol == symbol)
			return i;
	t->node[node].children |= 1ull << (symbol & 63);
	t->node[i] = (struct trie_node){ .parent = node + 1, .symbol = symbol, .value = -1 };
	return i;
}
