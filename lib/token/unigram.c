/*
 * unigram.c - the Unigram model of a tokenizer.json
 *
 * The search is Viterbi's, as in spmuni.c, over a trie of characters; only the sums differ. There
 * the library's floats decide ties; here everything is double, and every token of the vocabulary is
 * a piece, including the unknown one and the bytes.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/path.h"
#include "lib/token/spm/spmtext.h"
#include "lib/token/trie.h"
#include "lib/token/unigram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEP = 1 << 20 }; /* places that a worker keeps between pieces */

#define NONE UINT32_MAX
#define UNK_PENALTY 10.0

struct unigram {
	struct code_map symbol; /* 1, 2, ... of the characters of pieces */
	struct trie trie;       /* value: id */
	double *score, unk_score;
	uint32_t *symbols;     /* of a piece, by id */
	uint32_t longest;      /* symbols of the longest */
	uint32_t byte_id[256]; /* NONE: there is none */
	int64_t unk;
	bool byte_fallback;
};

/* The best path to a place. */
struct place {
	double score;
	uint32_t id, symbols; /* of its last token; 0 symbols: no path yet */
};

struct unigram_worker {
	const struct unigram *model;
	struct place *place;
	uint32_t *symbol; /* of the text; then the path, from the end */
	size_t cap;
	size_t stretch; /* longer pieces are searched in stretches of this many symbols */
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

/* Enters all pieces into a trie of that many nodes, with new symbols for new characters. */
static void
fill_trie(struct unigram *m, const struct unigram_spec *spec, uint32_t nodes)
{
	uint32_t num_symbols = 1;

	trie_release(&m->trie);
	trie_init(&m->trie, nodes);
	code_map_release(&m->symbol);
	code_map_init(&m->symbol);
	for (size_t id = 0; id < spec->num_tokens && !m->trie.full; id++) {
		const struct name *t = &spec->token[id];
		uint32_t at = TRIE_ROOT, symbol, cp;

		if (!t->bytes)
			continue;
		m->symbols[id] = 0;
		for (size_t i = 0; i < t->len; m->symbols[id]++) {
			i += character(t->bytes + i, t->len - i, &cp);
			symbol = code_map_get(&m->symbol, cp);
			if (symbol == 0) {
				symbol = num_symbols++;
				code_map_set(&m->symbol, cp, symbol);
			}
			at = trie_add(&m->trie, at, symbol);
		}
		if (m->symbols[id] > m->longest)
			m->longest = m->symbols[id];
		if (t->len)
			m->trie.node[at].value = (int32_t)id;
	}
}

/* The token equal to the whole text, or NONE. */
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
	m->longest = 1;
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

/* No worker may be left. */
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
	w->stretch = PATH_STRETCH;
	return w;
}

/* Frees only the arrays. */
static void
release_arrays(struct unigram_worker *w)
{
	free(w->place);
	free(w->symbol);
	w->place = NULL;
	w->symbol = NULL;
	w->cap = 0;
}

void
unigram_worker_free(struct unigram_worker *w)
{
	if (!w)
		return;
	release_arrays(w);
	free(w);
}

/* --- searching --- */

/* A piece, and how much of its path is already ids. */
struct encoding {
	struct unigram_worker *w;
	const char *piece;
	size_t len, at, done; /* bytes; those of tokens so far; those before the open run of
			       * unknowns */
	struct token_ids *out;
};

/* Makes room for that many symbols. */
static void
reserve(struct unigram_worker *w, size_t n)
{
	if (w->cap >= n)
		return;
	w->cap = n > 1024 ? n : 1024;
	w->symbol = mem_realloc(w->symbol, w->cap, sizeof *w->symbol);
	w->place = mem_realloc(w->place, w->cap + 1, sizeof *w->place);
}

/* Reads one symbol per character, at most n; returns their number and moves *at after them. */
static size_t
read_symbols(const struct encoding *x, uint32_t *symbol, size_t n, size_t *at)
{
	const struct unigram *m = x->w->model;
	size_t count = 0;
	uint32_t cp;

	for (; count < n && *at < x->len; count++) {
		*at += character(x->piece + *at, x->len - *at, &cp);
		symbol[count] = code_map_get(&m->symbol, cp);
	}
	return count;
}

/* Offers a candidate for a place; returns whether it is the best so far. */
static bool
offer(struct place *p, double score, uint32_t id, uint32_t symbols)
{
	if (p->symbols && !(score > p->score))
		return false;
	*p = (struct place){ score, id, symbols };
	return true;
}

/* Finds the best paths through a part. An unknown character counts only where no piece equals that
 * character. */
static int
search(void *ctx, void *places, const struct path_part *part, struct err *e)
{
	const struct encoding *x = ctx;
	const struct unigram *m = x->w->model;
	const struct trie_node *node = m->trie.node;
	const uint32_t *symbol = x->w->symbol;
	struct place *place = places;

	if (part->carried == 0)
		place[0].score = 0;
	for (size_t i = part->carried ? part->carried : 1; i <= part->n; i++)
		place[i].symbols = 0;
	for (size_t i = 0; i < part->starts; i++) {
		double here = place[i].score;
		uint32_t at = trie_child(&m->trie, TRIE_ROOT, symbol[i]);

		if ((at == TRIE_NONE || node[at].value < 0) &&
		    offer(&place[i + 1], m->unk_score + here, (uint32_t)m->unk, 1) && m->unk < 0)
			return err_set(e,
			    "character %zu of a piece is unknown, and the model has no \"unk_id\"",
			    part->first + i + 1);
		for (size_t k = i + 1; at != TRIE_NONE; k++) {
			uint32_t id = (uint32_t)node[at].value;

			if (node[at].value >= 0)
				offer(&place[k], m->score[id] + here, id, m->symbols[id]);
			at = k < part->n ? trie_child(&m->trie, at, symbol[k]) : TRIE_NONE;
		}
	}
	return 0;
}

/* Emits a run of unknown characters: a token with the same text, its bytes, or the unknown
 * token. */
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

/* Emits the ids of the path's next token; unknowns wait for the end of their run. */
static void
add_token(struct encoding *x, const struct place *p)
{
	size_t start = x->at;
	uint32_t cp;

	for (uint32_t k = 0; k < p->symbols; k++)
		x->at += character(x->piece + x->at, x->len - x->at, &cp);
	if (p->id == (uint32_t)x->w->model->unk)
		return;
	if (start > x->done)
		add_unknown(x->w->model, x->piece + x->done, start - x->done, x->out);
	token_ids_add(x->out, p->id);
	x->done = x->at;
}

/* Path: the symbols of a part. */
static size_t
read_part(void *ctx, struct path_part *part)
{
	const struct encoding *x = ctx;
	uint32_t *symbol = x->w->symbol;
	size_t next = part->at, end, n = read_symbols(x, symbol, part->starts, &next);

	end = next;
	part->n = n + read_symbols(x, symbol + n, x->w->model->longest, &end);
	return next;
}

/* Path: symbols of the last token. */
static size_t
back(const void *ctx, const void *place, const struct path_part *part, size_t k)
{
	(void)ctx, (void)part;
	return ((const struct place *)place)[k].symbols;
}

/* Path: the next token. */
static void
put(void *ctx, const void *place, size_t k)
{
	add_token(ctx, (const struct place *)place + k);
}

/* A piece with many places is encoded in stretches. The path of another one is found from its end.
 * Memory for a very long piece is freed. */
int
unigram_encode(
    struct unigram_worker *w, const char *piece, size_t len, struct token_ids *out, struct err *e)
{
	struct encoding x = { .w = w, .piece = piece, .len = len, .out = out };
	size_t longest = w->model->longest, at = 0, n, first;
	int rc;

	if (len > w->stretch) {
		reserve(w, w->stretch + longest);
		rc = path_search(&(struct path_text){ .ctx = &x,
				     .longest = longest,
				     .place_bytes = sizeof(struct place),
				     .read = read_part,
				     .search = search,
				     .back = back,
				     .put = put },
		    w->stretch, e);
	} else {
		reserve(w, len);
		n = first = read_symbols(&x, w->symbol, len, &at);
		rc = search(&x, w->place, &(struct path_part){ .n = n, .starts = n }, e);
		for (size_t k = n; rc == 0 && k > 0; k -= w->place[k].symbols)
			w->symbol[--first] = (uint32_t)k;
		for (; first < n; first++)
			add_token(&x, &w->place[w->symbol[first]]);
	}
	if (rc == 0 && len > x.done)
		add_unknown(w->model, piece + x.done, len - x.done, out);
	if (w->cap > KEEP)
		release_arrays(w);
	return rc;
}
