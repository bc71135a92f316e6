/*
 * trie.c - building a trie
 *
 * The table never grows, as nodes are known by their slots. The number of symbols in all keys
 * bounds that of the nodes, but keys share prefixes, so callers with many keys may try less room
 * first.
 */
#include "lib/base/mem.h"
#include "lib/token/trie.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* At least a quarter of the slots stays empty. */
void
trie_init(struct trie *t, uint32_t nodes)
{
	uint64_t size = 16;

	t->shift = 60;
	while (size / 4 * 3 < (uint64_t)nodes + 1) {
		size *= 2;
		t->shift--;
	}
	t->mask = (uint32_t)(size - 1);
	t->left = (uint32_t)(size / 4 * 3) - 1;
	t->full = false;
	t->node = mem_zalloc_large(size, sizeof *t->node);
	t->node[TRIE_ROOT] =
	    (struct trie_node){ .parent = UINT32_MAX, .value = -1, .score = -INFINITY };
}

/* A trie of zeroes is allowed. */
void
trie_release(struct trie *t)
{
	free(t->node);
	memset(t, 0, sizeof *t);
}

/* The new node takes the first empty slot of the search. Without room it returns the root. */
uint32_t
trie_add(struct trie *t, uint32_t node, uint32_t symbol)
{
	uint32_t i = trie_slot(t, node, symbol);

	for (; t->node[i].parent; i = (i + 1) & t->mask)
		if (t->node[i].parent == node + 1 && t->node[i].symbol == symbol)
			return i;
	if (t->left == 0) {
		t->full = true;
		return TRIE_ROOT;
	}
	t->left--;
	t->node[node].children |= 1ull << (symbol & 63);
	t->node[i] = (struct trie_node){
		.parent = node + 1, .symbol = symbol, .value = -1, .score = -INFINITY
	};
	return i;
}
