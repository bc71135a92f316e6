/*
 * added.c - finding special strings in a text
 *
 * Aho and Corasick's automaton (CACM 18, 1975), extended to leftmost-longest: after a match the
 * search continues while the automaton is still inside a string that began no later. Edges are
 * sorted arrays, since there may be tens of thousands of strings. Most of a text is skipped without
 * the automaton: by memchr when the strings begin with few different bytes, as they usually do
 * ('<', '['), else by a table.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/hf/added.h"
#include "lib/token/unicode.h"
#include "lib/token/unicode_sets.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct node {
	/* a trie while it is built; child is the first edge afterwards */
	uint32_t child, sibling;
	uint32_t fail;
	uint32_t depth;
	uint32_t token;  /* the string that ends here, or NONE */
	uint32_t output; /* nearest node on the fail path, this one included, where a string ends */
	uint16_t edges;
	unsigned char byte; /* of the edge to this node */
};

struct edge {
	unsigned char byte;
	uint32_t node;
};

struct added {
	struct added_token *token; /* without the texts */
	struct node *node;         /* 0 is the root */
	struct edge *edge;
	uint32_t root[256]; /* the root's edges; 0: none */
	unsigned char first[ADDED_FIRST];
	int num_first; /* 0: too many */
	uint32_t num_nodes;
	uint32_t empty; /* the token that matches between all bytes, or NONE */
};

/* The child by a byte, created if it is missing. */
static uint32_t
child(struct added *a, uint32_t parent, unsigned char byte)
{
	uint32_t c = a->node[parent].child;

	while (c != NONE && a->node[c].byte != byte)
		c = a->node[c].sibling;
	if (c != NONE)
		return c;
	c = a->num_nodes++;
	a->node[c] = (struct node){ NONE, a->node[parent].child, 0, a->node[parent].depth + 1, NONE,
		NONE, 0, byte };
	a->node[parent].child = c;
	return c;
}

/* By byte, for bisection. */
static int
compare_edges(const void *x, const void *y)
{
	return ((const struct edge *)x)->byte - ((const struct edge *)y)->byte;
}

/* The next state of the automaton, by bisection of the edges of each node on the way to the
 * root. */
static uint32_t
go(const struct added *a, uint32_t n, unsigned char byte)
{
	for (; n != 0; n = a->node[n].fail) {
		const struct edge *edge = a->edge + a->node[n].child;
		size_t low = 0, high = a->node[n].edges;

		while (low < high) {
			size_t middle = (low + high) / 2;

			if (edge[middle].byte == byte)
				return edge[middle].node;
			if (edge[middle].byte < byte)
				low = middle + 1;
			else
				high = middle;
		}
	}
	return a->root[byte];
}

/* Breadth first, so that a node's fail link is ready before its children need it. Each list of
 * children becomes sorted edges. */
static void
link_nodes(struct added *a)
{
	uint32_t *queue = mem_alloc(a->num_nodes, sizeof *queue), head = 0, tail = 1, used = 0;

	queue[0] = 0;
	while (head < tail) {
		uint32_t n = queue[head++], first = used;
		struct node *node = &a->node[n];

		for (uint32_t c = node->child; c != NONE; c = a->node[c].sibling)
			a->edge[used++] = (struct edge){ a->node[c].byte, c };
		node->child = first;
		node->edges = (uint16_t)(used - first);
		qsort(a->edge + first, node->edges, sizeof *a->edge, compare_edges);
		for (uint32_t i = first; i < used; i++) {
			const struct edge *edge = &a->edge[i];
			struct node *to = &a->node[edge->node];

			if (n == 0)
				a->root[edge->byte] = edge->node;
			to->fail = n == 0 ? 0 : go(a, node->fail, edge->byte);
			to->output = to->token != NONE ? edge->node : a->node[to->fail].output;
			queue[tail++] = edge->node;
		}
	}
	free(queue);
}

/* All texts together must be below 4 GiB, as the file that they come from is. Of two tokens with
 * the same text the first one counts. */
struct added *
added_new(const struct added_token *token, size_t count)
{
	struct added *a;
	size_t bytes = 0;
	uint32_t empty = NONE;

	for (size_t i = 0; i < count; i++) {
		bytes += token[i].len;
		if (token[i].empty)
			empty = (uint32_t)i;
	}
	if (bytes == 0 && empty == NONE)
		return NULL;
	a = mem_zalloc(1, sizeof *a);
	a->empty = empty;
	a->token = mem_alloc(count, sizeof *a->token);
	a->node = mem_alloc(bytes + 1, sizeof *a->node);
	a->edge = mem_alloc(bytes + 1, sizeof *a->edge);
	a->node[0] = (struct node){ NONE, NONE, 0, 0, NONE, NONE, 0, 0 };
	a->num_nodes = 1;
	for (size_t i = 0; i < count; i++) {
		uint32_t n = 0;

		a->token[i] = token[i];
		a->token[i].text = NULL;
		for (size_t k = 0; k < token[i].len; k++)
			n = child(a, n, (unsigned char)token[i].text[k]);
		if (n != 0 && a->node[n].token == NONE)
			a->node[n].token = (uint32_t)i;
	}
	link_nodes(a);
	if (a->node[0].edges <= ADDED_FIRST)
		a->num_first = a->node[0].edges;
	for (int i = 0; i < a->num_first; i++)
		a->first[i] = a->edge[a->node[0].child + (uint32_t)i].byte;
	return a;
}

/* No thread may be using it. */
void
added_free(struct added *a)
{
	if (!a)
		return;
	free(a->token);
	free(a->node);
	free(a->edge);
	free(a);
}

/* The next place where a match can begin, or n. memchr's results are kept until they are passed, so
 * that a rare byte is not searched for repeatedly. */
static size_t
skip_to_first(const struct added *a, struct added_walk *w, size_t pos)
{
	const unsigned char *s = (const unsigned char *)w->s;
	size_t best = w->n;

	for (int i = 0; i < a->num_first; i++) {
		if (w->next[i] <= pos) {
			const unsigned char *hit = memchr(s + pos, a->first[i], w->n - pos);

			w->next[i] = hit ? (size_t)(hit - s) + 1 : w->n + 1;
		}
		best = w->next[i] - 1 < best ? w->next[i] - 1 : best;
	}
	if (a->num_first)
		return best;
	while (pos < w->n && !a->root[s[pos]])
		pos++;
	return pos;
}

/* The leftmost-longest match: its token, *start and *end; or NONE. */
static uint32_t
search(const struct added *a, struct added_walk *w, size_t *start, size_t *end)
{
	const unsigned char *s = (const unsigned char *)w->s;
	uint32_t state = 0, best = NONE;
	size_t n = w->n;

	for (size_t i = w->from; i < n; i++) {
		const struct node *out;

		if (state == 0) {
			if (best != NONE)
				return best;
			i = skip_to_first(a, w, i);
			if (i == n)
				break;
		}
		state = go(a, state, s[i]);
		if (best != NONE && i + 1 - a->node[state].depth > *start)
			return best;
		if (a->node[state].output == NONE)
			continue;
		out = &a->node[a->node[state].output];
		if (best == NONE || i + 1 - out->depth <= *start) {
			best = out->token;
			*start = i + 1 - out->depth;
			*end = i + 1;
		}
	}
	return best;
}

/* The character that ends at pos > 0; returns its length. */
static int
char_before(const char *s, size_t pos, uint32_t *cp)
{
	size_t i = pos - 1;

	while (i > 0 && pos - i < 4 && ((unsigned char)s[i] & 0xc0) == 0x80)
		i--;
	if (utf8_decode((const unsigned char *)s + i, pos - i, cp) == (int)(pos - i))
		return (int)(pos - i);
	*cp = 0;
	return 1;
}

/* The character at pos < n; a malformed byte is in no class. */
static int
char_after(const char *s, size_t n, size_t pos, uint32_t *cp)
{
	int len = utf8_decode((const unsigned char *)s + pos, n - pos, cp);

	if (len == 0)
		*cp = 0;
	return len ? len : 1;
}

/* True when a word character touches [start, end). */
static bool
inside_word(const struct added_walk *w, size_t start, size_t end)
{
	uint32_t cp;

	if (start > 0) {
		char_before(w->s, start, &cp);
		if (unicode_in(UNICODE_WORD, cp))
			return true;
	}
	if (end == w->n)
		return false;
	char_after(w->s, w->n, end, &cp);
	return unicode_in(UNICODE_WORD, cp);
}

/* The start of the white space that ends at pos, within the text not yet consumed. */
static size_t
strip_left(const struct added_walk *w, size_t pos)
{
	uint32_t cp;
	int len;

	while (pos > w->pos) {
		len = char_before(w->s, pos, &cp);
		if (unicode_class(cp) != CLASS_SPACE)
			break;
		pos -= (size_t)len;
	}
	return pos > w->pos ? pos : w->pos;
}

/* The end of the white space that begins at pos. White space scanned before is not scanned again:
 * in a run every blank may be a match. */
static size_t
strip_right(struct added_walk *w, size_t pos)
{
	uint32_t cp;
	int len;

	if (pos >= w->blank && pos < w->blank_end)
		return w->blank_end;
	w->blank = pos;
	while (pos < w->n) {
		len = char_after(w->s, w->n, pos, &cp);
		if (unicode_class(cp) != CLASS_SPACE)
			break;
		pos += (size_t)len;
	}
	w->blank_end = pos;
	return pos;
}

/* The longest token at a place, or the empty one: its token, and *end. */
static uint32_t
match_at(const struct added *a, const struct added_walk *w, size_t start, size_t *end)
{
	uint32_t state = 0, best = a->empty;

	*end = start;
	for (size_t i = start; i < w->n; i++) {
		state = go(a, state, (unsigned char)w->s[i]);
		if (a->node[state].depth != i + 1 - start)
			break;
		if (a->node[state].token == NONE)
			continue;
		best = a->node[state].token;
		*end = i + 1;
	}
	return best;
}

/* The next match where there is an empty token: it matches at every byte where no other one begins,
 * except directly after a match, as with the library of the reference (aho-corasick, FindIter). */
static uint32_t
search_with_empty(const struct added *a, struct added_walk *w, size_t *start, size_t *end)
{
	uint32_t hit = NONE;

	*start = w->from;
	if (*start <= w->n)
		hit = match_at(a, w, *start, end);
	if (hit != NONE && *start == *end && w->guard == *end + 1)
		hit = ++*start <= w->n ? match_at(a, w, *start, end) : NONE;
	w->guard = *end + 1;
	return hit;
}

/* True for a place inside a character, which only an empty match can have. */
static bool
inside_character(const struct added_walk *w, size_t pos)
{
	return pos < w->n && ((unsigned char)w->s[pos] & 0xc0) == 0x80;
}

/*
 * A skipped match is passed over whole, and the search continues after the string itself, not after
 * the white space that it took. Both follow the reference, where a string of white space may match
 * within what rstrip has taken; with lstrip nothing may be left of such a match, and then it gives
 * no id. Where the reference fails the text is an error.
 */
enum added_result
added_next(const struct added *a, struct added_walk *w, struct err *e)
{
	size_t start = 0, end = 0;
	uint32_t hit;

	while (a &&
	    (hit = a->empty == NONE ? search(a, w, &start, &end)
				    : search_with_empty(a, w, &start, &end)) != NONE) {
		const struct added_token *t = &a->token[hit];

		w->from = end;
		if (t->skip)
			continue;
		if (start == end && inside_character(w, start))
			return err_set(e,
			    "an added token without text matches inside the character at byte %zu: "
			    "tokenizers fails there",
			    start);
		if (t->single_word && inside_word(w, start, end))
			continue;
		if (t->lstrip)
			start = start > w->pos ? strip_left(w, start) : w->pos;
		if (t->rstrip)
			end = strip_right(w, end);
		if (start > end)
			return err_set(e,
			    "an added token ends before the white space that the one before it has "
			    "taken, at byte %zu: tokenizers fails there",
			    end);
		w->start = w->pos;
		w->end = start > w->pos ? start : w->pos;
		w->pos = end;
		w->id = t->id;
		if (start < end)
			return ADDED_TOKEN;
		if (w->start < w->end)
			return ADDED_CUT;
	}
	w->start = w->pos < w->n ? w->pos : w->n;
	w->end = w->n;
	w->pos = w->from = w->n;
	return ADDED_END;
}
