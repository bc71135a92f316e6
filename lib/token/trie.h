/*
 * trie.h - keys of symbols, walked a symbol at a time
 *
 * A node's number is its slot in one hash table whose key is (parent, symbol): adding needs no
 * sorting, so that a vocabulary of 250,000 pieces loads quickly. Every node has a 64-bit filter of
 * its children's symbols, so most walks end without a table access. Read-only once filled.
 */
#ifndef TOKEN_TRIE_H
#define TOKEN_TRIE_H

#include <stdbool.h>
#include <stdint.h>

enum { TRIE_ROOT = 0, TRIE_NONE = 0 };

struct trie_node {
	uint64_t children;       /* bit symbol % 64 */
	uint32_t parent, symbol; /* parent's number + 1; 0: the slot is empty */
	int32_t value;           /* -1: no key ends here */
	float score;             /* the caller's, with the value; -INFINITY where no key ends */
};

struct trie {
	struct trie_node *node; /* node 0 is the root */
	uint32_t mask, left;    /* left: nodes that may still be added */
	int shift;
	bool full; /* more was added than fits: rebuild it with more room */
};

/* Makes room for that many nodes besides the root. */
void trie_init(struct trie *t, uint32_t nodes);
void trie_release(struct trie *t);
/* The child, created if it is missing. */
uint32_t trie_add(struct trie *t, uint32_t node, uint32_t symbol);

/* Where the search for a child begins; slot 0 is the root's. */
static inline uint32_t
trie_slot(const struct trie *t, uint32_t node, uint32_t symbol)
{
	return (uint32_t)(((uint64_t)node << 32 | symbol) * 0x9e3779b97f4a7c15u >> t->shift);
}

/* The child of a node by a symbol, or TRIE_NONE. */
static inline uint32_t
trie_child(const struct trie *t, uint32_t node, uint32_t symbol)
{
	if (!(t->node[node].children >> (symbol & 63) & 1))
		return TRIE_NONE;
	for (uint32_t i = trie_slot(t, node, symbol);; i = (i + 1) & t->mask) {
		const struct trie_node *n = &t->node[i];

		if (n->parent == node + 1 && n->symbol == symbol)
			return i;
		if (n->parent == 0)
			return TRIE_NONE;
	}
}

#endif
