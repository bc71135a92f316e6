/*
 * unigram.c - the Unigram model of a tokenizer.json
 *
 * The search is Viterbi's, as in spmuni.c, over a trie of characters; only the sums differ. There
 * the library's floats decide ties, here everything is double, and every token of the vocabulary is
 * a piece: the unknown one and the bytes too.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/spm/spmtext.h"
#include "lib/token/trie.h"
#include "lib/token/unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP = 1 << 20 }; /* places that a worker keeps from one piece to the next */

#define NONE UINT32_MAX
#define UNK_PENALTY 10.0

struct unigram {
	struct code_map symbol; /* 1, 2, ... of the characters of pieces */
	struct trie trie;       /* value: id */
	double *score, unk_score;
	uint32_t *symbols;     /* of a piece, by id */
	uint32_t byte_id[256]; /* NONE: there is none */
	int64_t unk;
	bool byte_fallback;
};

/* The best path to a place. */
struct place {
	double score;
	uint32_t id, symbols; /* of its last piece; 0 symbols: no path yet */
};

struct unigram_worker {
	const struct unigram *model;
	struct place *place;
	uint32_t *symbol; /* of the text; then the path, from the end */
	size_t cap;
};

/* --- building --- */

/* The character at s, of at least one byte. */
static size_t
character(const char *s, size_t n, uint32_t *cp)
{
	int len = utf8_decode((const unsigned char *)s, n, cp);

	if (len == 0)
		*cp = 0xfffd;
	return len ? (size_t)len : 1;
}

/* Enters a piece, with new symbols for new characters. */
static void
add_piece(struct unigram *m, const struct name *t, uint32_t id, uint32_t *num_symbols)
{
	uint32_t at = TRIE_ROOT, cp;

	m->symbols[id] = 0;
	for (size_t i = 0; i < t->len; m->symbols[id]++) {
		uint32_t symbol;

		i += character(t->bytes + i, t->len - i, &cp);
		symbol = code_map_get(&m->symbol, cp);
		if (symbol == 0) {
			symbol = (*num_symbols)++;
			code_map_set(&m->symbol, cp, symbol);
		}
		at = trie_add(&m->trie, at, symbol);
	}
	if (t->len)
		m->trie.node[at].value = (int32_t)id;
}

/* All pieces into a trie of so many nodes. */
static void
fill_trie(struct unigram *m, const struct unigram_spec *spec, uint32_t nodes)
{
	uint32_t num_symbols = 1;

	trie_release(&m->trie);
	trie_init(&m->trie, nodes);
	code_map_release(&m->symbol);
	code_map_init(&m->symbol);
	for (size_t i = 0; i < spec->num_tokens && !m->trie.full; i++)
		if (spec->token[i].bytes)
			add_piece(m, &spec->token[i], (uint32_t)i, &num_symbols);
}

/* The token that the whole text is, or NONE. */
static uint32_t
find_piece(const struct unigram *m, const char *s, size_t n)
{
	uint32_t at = TRIE_ROOT, cp;

	for (size_t i = 0; i < n && (i == 0 || at != TRIE_NONE);) {
		i += character(s + i, n - i, &cp);
		at = trie_child(&m->trie, at, code_map_get(&m->symbol, cp));
	}
	return at != TRIE_NONE && m->trie.node[at].value >= 0 ? (uint32_t)m->trie.node[at].value
							      : NONE;
}

/* Bytes bound the number of nodes; usually half of them is enough. */
struct unigram *
unigram_new(const struct unigram_spec *spec)
{
	struct unigram *m = mem_zalloc(1, sizeof *m);
	double least = INFINITY;
	uint32_t bytes = 0;

	m->unk = spec->unk;
	m->byte_fallback = spec->byte_fallback;
	m->score = mem_alloc(spec->num_tokens, sizeof *m->score);
	m->symbols = mem_zalloc(spec->num_tokens, sizeof *m->symbols);
	for (size_t i = 0; i < spec->num_tokens; i++) {
		m->score[i] = spec->score[i];
		bytes += spec->token[i].len;
		if (spec->token[i].bytes)
			least = fmin(least, spec->score[i]);
	}
	m->unk_score = least - UNK_PENALTY;
	fill_trie(m, spec, bytes / 2);
	if (m->trie.full)
		fill_trie(m, spec, bytes);
	for (unsigned b = 0; b < 256; b++) {
		char name[8];
		int len = snprintf(name, sizeof name, "<0x%02X>", b);

		m->byte_id[b] = find_piece(m, name, (size_t)len);
	}
	return m;
}

/* Workers must be gone. */
void
unigram_free(struct unigram *m)
{
	if (!m)
		return;
	code_map_release(&m->symbol);
	trie_release(&m->trie);
	free(m->score);
	free(m->symbols);
	free(m);
}

/* Its memory grows with the longest piece. */
struct unigram_worker *
unigram_worker_new(const struct unigram *m)
{
	struct unigram_worker *w = mem_zalloc(1, sizeof *w);

	w->model = m;
	return w;
}

/* The arrays go, the worker stays. */
static void
release_arrays(struct unigram_worker *w)
{
	free(w->place);
	free(w->symbol);
	w->place = NULL;
	w->symbol = NULL;
	w->cap = 0;
}

/* The model stays. */
void
unigram_worker_free(struct unigram_worker *w)
{
	if (!w)
		return;
	release_arrays(w);
	free(w);
}

/* --- searching --- */

/* One symbol a character; returns how many. */
static size_t
read_symbols(struct unigram_worker *w, const char *s, size_t bytes)
{
	size_t n = 0;
	uint32_t cp;

	if (w->cap < bytes) {
		w->cap = bytes > 1024 ? bytes : 1024;
		w->symbol = mem_realloc(w->symbol, w->cap, sizeof *w->symbol);
		w->place = mem_realloc(w->place, w->cap + 1, sizeof *w->place);
	}
	for (size_t i = 0; i < bytes;) {
		i += character(s + i, bytes - i, &cp);
		w->symbol[n++] = code_map_get(&w->model->symbol, cp);
	}
	return n;
}

/* A candidate for a place; returns whether it is the best so far. */
static bool
offer(struct place *p, double score, uint32_t id, uint32_t symbols)
{
	if (p->symbols && !(score > p->score))
		return false;
	*p = (struct place){ score, id, symbols };
	return true;
}

/* The best paths through n symbols. An unknown character counts only where no piece is that
 * character. */
static int
search(struct unigram_worker *w, size_t n, struct err *e)
{
	const struct unigram *m = w->model;
	const struct trie_node *node = m->trie.node;

	w->place[0].score = 0;
	for (size_t i = 1; i <= n; i++)
		w->place[i].symbols = 0;
	for (size_t i = 0; i < n; i++) {
		double here = w->place[i].score;
		uint32_t at = trie_child(&m->trie, TRIE_ROOT, w->symbol[i]);

		if ((at == TRIE_NONE || node[at].value < 0) &&
		    offer(&w->place[i + 1], m->unk_score + here, (uint32_t)m->unk, 1) && m->unk < 0)
			return err_set(e,
			    "character %zu of a piece is unknown, and the model has no \"unk_id\"",
			    i + 1);
		for (size_t k = i + 1; at != TRIE_NONE; k++) {
			uint32_t id = (uint32_t)node[at].value;

			if (node[at].value >= 0)
				offer(&w->place[k], m->score[id] + here, id, m->symbols[id]);
			at = k < n ? trie_child(&m->trie, at, w->symbol[k]) : TRIE_NONE;
		}
	}
	return 0;
}

/* A run of what the path has as unknown: a token by chance, its bytes, or the unknown token. */
static void
add_unknown(const struct unigram *m, const char *s, size_t n, struct token_ids *out)
{
	uint32_t id = find_piece(m, s, n);
	bool bytes = id == NONE && m->byte_fallback;

	for (size_t i = 0; i < n && bytes; i++)
		bytes = m->byte_id[(unsigned char)s[i]] != NONE;
	for (size_t i = 0; i < n && bytes; i++)
		token_ids_add(out, m->byte_id[(unsigned char)s[i]]);
	if (!bytes)
		token_ids_add(out, id == NONE ? (uint32_t)m->unk : id);
}

/* Appends the ids of the path through n symbols, which is found from its end. */
static void
add_path(struct unigram_worker *w, size_t n, const char *s, size_t bytes, struct token_ids *out)
{
	size_t first = n, done = 0;
	uint32_t cp;

	for (size_t k = n; k > 0; k -= w->place[k].symbols)
		w->symbol[--first] = (uint32_t)k;
	for (size_t at = 0; first < n; first++) {
		const struct place *p = &w->place[w->symbol[first]];
		size_t start = at;

		for (uint32_t k = 0; k < p->symbols; k++)
			at += character(s + at, bytes - at, &cp);
		if (p->id == (uint32_t)w->model->unk)
			continue;
		if (start > done)
			add_unknown(w->model, s + done, start - done, out);
		token_ids_add(out, p->id);
		done = at;
	}
	if (bytes > done)
		add_unknown(w->model, s + done, bytes - done, out);
}

/* A very long piece does not keep its memory. */
int
unigram_encode(
    struct unigram_worker *w, const char *piece, size_t len, struct token_ids *out, struct err *e)
{
	size_t n = read_symbols(w, piece, len);
	int rc = search(w, n, e);

	if (rc == 0)
		add_path(w, n, piece, len, out);
	if (w->cap > KEEP)
		release_arrays(w);
	return rc;
}
