/*
 * pieces.c - the share of distinct pieces in a text as it grows
 *
 *   pieces CORPUS.jsonl
 *
 * Splits the texts by GPT-2's expression and prints, each time their size has doubled and at the
 * end: MB, bytes per piece, the percentage of distinct pieces, and the percentage of pieces since
 * the previous line that are new. text.c is tuned by these figures to resemble web text.
 */
#include "lib/base/hash.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/token/pretok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_BITS = 25, ENDS = 256, FIRST_MB = 10 };

struct census {
	const struct pretok *pretok;
	uint64_t *slot; /* hashes of the pieces so far; 0: free */
	size_t pieces, distinct, bytes;
	size_t last_pieces, last_distinct, next;
};

/* Adds a new piece to the table, which is never full: a corpus that large is refused. */
static void
meet(struct census *c, const unsigned char *s, size_t len)
{
	uint64_t h = hash_xxh3(s, len) | 1;
	size_t i = (size_t)(h >> (64 - SLOT_BITS)), mask = ((size_t)1 << SLOT_BITS) - 1;

	c->pieces++;
	while (c->slot[i] && c->slot[i] != h)
		i = (i + 1) & mask;
	if (c->slot[i])
		return;
	if (++c->distinct > mask / 2) {
		fputs("pieces: the corpus is too large\n", stderr);
		exit(1);
	}
	c->slot[i] = h;
}

/* One line of the curve. */
static void
report(struct census *c)
{
	printf("%zu\t%.2f\t%.2f\t%.2f\n", c->bytes / 1000000, (double)c->bytes / (double)c->pieces,
	    100.0 * (double)c->distinct / (double)c->pieces,
	    100.0 * (double)(c->distinct - c->last_distinct) /
		(double)(c->pieces - c->last_pieces));
	c->last_pieces = c->pieces;
	c->last_distinct = c->distinct;
	c->next *= 2;
}

/* Counts the pieces of one document. */
static void
add(struct census *c, const char *text)
{
	struct pretok_text t = { (const unsigned char *)text, strlen(text), 0 };
	uint32_t end[ENDS];
	size_t from = 0, count;

	while ((count = pretok_ends(c->pretok, &t, end, ENDS)) > 0)
		for (size_t i = 0; i < count; from = end[i++])
			meet(c, t.s + from, end[i] - from);
	c->bytes += t.n;
	if (c->bytes >= c->next)
		report(c);
}

int
main(int argc, char **argv)
{
	struct pretok *p = pretok_new(PRETOK_GPT2);
	struct census c = { .pretok = p, .next = FIRST_MB * 1000000 };
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct err e;

	if (!f)
		return fputs("usage: pieces CORPUS.jsonl\n", stderr), 2;
	c.slot = mem_zalloc((size_t)1 << SLOT_BITS, sizeof *c.slot);
	while ((n = getline(&line, &cap, f)) > 0) {
		struct json *j = json_parse(line, (size_t)n, argv[1], &e);
		const char *text = NULL;

		if (!j || json_string(json_root(j), "text", NULL, &text, &e) < 0)
			return fprintf(stderr, "pieces: %s\n", e.msg), 1;
		if (text)
			add(&c, text);
		json_free(j);
	}
	if (c.pieces > c.last_pieces)
		report(&c);
	fclose(f);
	free(line);
	free(c.slot);
	pretok_free(p);
	return 0;
}
