/*
 * symbols.c - the BPE model of a tokenizer.json whose symbols are characters
 *
 * Where there is no pre-tokenizer a piece is a whole document. It may be cut before every U+2581
 * that follows another character when no merge makes a token with one inside, since nothing then
 * joins across the cut. The resulting words are kept in a bounded cache, which is exact because the
 * ids of a word depend only on its bytes. Tokens that continue a word are stored without their
 * prefix, and the others after a byte that never occurs in UTF-8, so that the bytes of a merged
 * token are the concatenated bytes of its parts, with or without a prefix.
 */
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	CACHE_SETS = 1 << 15, /* of two slots of 64 bytes: 4 MiB per worker */
	CACHE_KEY = 27,       /* bytes of the longest cached word */
	CACHE_IDS = 9,
	DIRECT = 0x10000, /* characters whose tokens are found by index */
};

#define NONE UINT32_MAX
#define MARK '\xff'         /* before a token that begins a word, when there is a prefix */
#define WORD "\xe2\x96\x81" /* U+2581 */

struct symbols {
	struct mem_pool pool; /* texts of tokens that differ from the file */
	struct bpe_token *token;
	struct bpe *bpe;
	uint32_t direct[DIRECT], byte_id[256];
	char *prefix, *suffix;
	size_t prefix_len, suffix_len;
	int64_t unk;
	bool fuse_unk, byte_fallback, whole_piece, cut;
};

struct slot {
	unsigned char key[CACHE_KEY], len;
	uint32_t id[CACHE_IDS]; /* NONE after the last */
};

struct symbols_worker {
	const struct symbols *model;
	struct bpe_worker *bpe;
	struct slot *cache; /* sets of two */
	struct token_ids ids;
	struct str text;
};

/* A token's text in the form used for merging. */
static struct bpe_token
merged_text(struct symbols *m, const struct name *t)
{
	char *out;

	if (!t->bytes || !m->prefix_len)
		return (struct bpe_token){ (const unsigned char *)t->bytes, t->len };
	if (t->len >= m->prefix_len && !memcmp(t->bytes, m->prefix, m->prefix_len))
		return (struct bpe_token){ (const unsigned char *)t->bytes + m->prefix_len,
			t->len - (uint32_t)m->prefix_len };
	out = mem_pool_alloc(&m->pool, (size_t)t->len + 1, 1);
	out[0] = MARK;
	memcpy(out + 1, t->bytes, t->len);
	return (struct bpe_token){ (const unsigned char *)out, t->len + 1 };
}

/* True when it is exactly U+2581. */
static bool
only_marks(const struct bpe_token *t)
{
	for (uint32_t i = 0; i < t->len; i += 3)
		if (t->len - i < 3 || memcmp(t->bytes + i, WORD, 3) != 0)
			return false;
	return true;
}

/* True when documents may be cut into words. A word's first character must be a token, or unknowns
 * on both sides of a cut could become one; and two U+2581 could join where the character between
 * them is dropped, which happens to those without a token when there is no unknown. */
static bool
can_cut(const struct symbols *m, const struct symbols_spec *spec)
{
	bool drops = false;

	for (int b = 0; m->unk < 0 && b < 256; b++)
		drops |= m->byte_id[b] == NONE;
	if (m->prefix_len || m->suffix_len || m->whole_piece || m->direct[0x2581] == NONE)
		return false;
	for (size_t i = 0; i < spec->num_merges; i++) {
		const struct bpe_token *left = &m->token[spec->merge[i].left];
		const struct bpe_token *right = &m->token[spec->merge[i].right];

		if (right->len >= 3 && !memcmp(right->bytes, WORD, 3) &&
		    (drops || !only_marks(left)))
			return false;
	}
	return true;
}

/* Tokens that are found without hashing: single characters and bytes. */
static void
find_direct(struct symbols *m, size_t num_tokens)
{
	memset(m->direct, 0xff, sizeof m->direct);
	memset(m->byte_id, 0xff, sizeof m->byte_id);
	for (size_t i = 0; i < num_tokens; i++) {
		const struct bpe_token *t = &m->token[i];
		uint32_t cp;

		if (t->bytes && t->len > 0 && utf8_decode(t->bytes, t->len, &cp) == (int)t->len &&
		    cp < DIRECT)
			m->direct[cp] = (uint32_t)i;
	}
	for (unsigned b = 0; m->byte_fallback && b < 256; b++) {
		char name[9] = { MARK };
		int len = snprintf(name + 1, 8, "<0x%02X>", b);
		bool marked = m->prefix_len > 0;
		int64_t id =
		    bpe_find(m->bpe, (unsigned char *)name + !marked, (size_t)len + marked);

		if (id >= 0)
			m->byte_id[b] = (uint32_t)id;
	}
}

/* The merges come first, because they determine whether documents may be cut. */
struct symbols *
symbols_new(const struct symbols_spec *spec, size_t *bad, struct err *e)
{
	struct symbols *m = mem_zalloc(1, sizeof *m);

	m->prefix = mem_strdup(spec->prefix);
	m->suffix = mem_strdup(spec->suffix);
	m->prefix_len = strlen(spec->prefix);
	m->suffix_len = strlen(spec->suffix);
	m->unk = spec->unk;
	m->fuse_unk = spec->fuse_unk;
	m->byte_fallback = spec->byte_fallback;
	m->whole_piece = spec->whole_piece;
	m->token = mem_alloc(spec->num_tokens, sizeof *m->token);
	for (size_t i = 0; i < spec->num_tokens; i++)
		m->token[i] = merged_text(m, &spec->token[i]);
	m->bpe = bpe_new(&(struct bpe_spec){ .token = m->token,
			     .num_tokens = spec->num_tokens,
			     .merge = spec->merge,
			     .num_merges = spec->num_merges,
			     .symbols = true },
	    bad, e);
	if (!m->bpe) {
		symbols_free(m);
		return NULL;
	}
	find_direct(m, spec->num_tokens);
	m->cut = can_cut(m, spec);
	return m;
}

/* No worker may be left. */
void
symbols_free(struct symbols *m)
{
	if (!m)
		return;
	bpe_free(m->bpe);
	mem_pool_release(&m->pool);
	free(m->token);
	free(m->prefix);
	free(m->suffix);
	free(m);
}

/* The cache starts empty: no word has length 0. */
struct symbols_worker *
symbols_worker_new(const struct symbols *m)
{
	struct symbols_worker *w = mem_zalloc(1, sizeof *w);

	w->model = m;
	w->bpe = bpe_worker_new(m->bpe);
	w->cache = mem_zalloc(2 * CACHE_SETS, sizeof *w->cache);
	return w;
}

/* NULL is fine. */
void
symbols_worker_free(struct symbols_worker *w)
{
	if (!w)
		return;
	bpe_worker_free(w->bpe);
	token_ids_release(&w->ids);
	str_release(&w->text);
	free(w->cache);
	free(w);
}

/* The state of converting a piece to symbols. */
struct spelling {
	struct symbols_worker *w;
	const char *piece;
	size_t len, at;        /* bytes, and those already converted */
	struct token_ids *ids; /* receives the symbols */
	bool unk;              /* an unknown is held back */
	struct token_ids *out; /* receives merged tokens, unless merging is done in ids */
};

/* Adds the tokens of the bytes, if all of them exist. */
static bool
add_bytes(struct spelling *s, const char *text, size_t len)
{
	const uint32_t *byte_id = s->w->model->byte_id;

	for (size_t i = 0; i < len; i++)
		if (byte_id[(unsigned char)text[i]] == NONE)
			return false;
	for (size_t i = 0; i < len; i++)
		token_ids_add(s->ids, byte_id[(unsigned char)text[i]]);
	return true;
}

/*
 * One character, with prefix and suffix. An unknown is held back until a token follows, and byte
 * tokens pass before it, as in the reference.
 */
static void
add_symbol(struct spelling *s, int64_t id, const char *text, size_t len)
{
	const struct symbols *m = s->w->model;

	if (id >= 0) {
		if (s->unk)
			token_ids_add(s->ids, (uint32_t)m->unk);
		s->unk = false;
		token_ids_add(s->ids, (uint32_t)id);
		return;
	}
	if ((m->byte_fallback && add_bytes(s, text, len)) || m->unk < 0)
		return;
	if (s->unk && !m->fuse_unk)
		token_ids_add(s->ids, (uint32_t)m->unk);
	s->unk = true;
}

/* The token of the next n bytes, a character of a piece with prefixes or suffixes. */
static void
add_affixed(struct spelling *s, size_t n)
{
	const struct symbols *m = s->w->model;
	struct str *text = &s->w->text;
	size_t skip;

	str_clear(text);
	str_addc(text, MARK);
	if (s->at > 0)
		str_add(text, m->prefix, m->prefix_len);
	str_add(text, s->piece + s->at, n);
	if (s->at + n == s->len)
		str_add(text, m->suffix, m->suffix_len);
	/* The looked-up text has the mark or lacks the prefix; the text that becomes bytes has the
	 * prefix. */
	skip = !m->prefix_len ? 1 : s->at > 0 ? 1 + m->prefix_len : 0;
	add_symbol(s, bpe_find(m->bpe, (unsigned char *)text->buf + skip, text->len - skip),
	    text->buf + 1, text->len - 1);
}

/* Converts characters to ids, before merging: as many as are wanted, or all remaining ones. */
static void
spell(void *ctx, struct token_ids *ids, size_t want)
{
	struct spelling *s = ctx;
	const struct symbols *m = s->w->model;
	size_t before = ids->count, len;

	s->ids = ids;
	for (; s->at < s->len && ids->count - before < want; s->at += len) {
		const char *text = s->piece + s->at;
		const unsigned char *u = (const unsigned char *)text;
		uint32_t cp = NONE;
		int n = utf8_decode(u, s->len - s->at, &cp);

		len = n ? (size_t)n : 1;
		if (m->prefix_len || m->suffix_len)
			add_affixed(s, len);
		else if (cp < DIRECT)
			add_symbol(
			    s, m->direct[cp] == NONE ? -1 : (int64_t)m->direct[cp], text, len);
		else
			add_symbol(s, bpe_find(m->bpe, u, len), text, len);
	}
	if (s->unk && s->at == s->len) {
		token_ids_add(ids, (uint32_t)m->unk);
		s->unk = false;
	}
}

/* Converts and merges; the ids stay in the worker. */
static void
merge(struct symbols_worker *w, const char *piece, size_t len)
{
	struct spelling s = { .w = w, .piece = piece, .len = len };

	w->ids.count = 0;
	spell(&s, &w->ids, SIZE_MAX);
	w->ids.count = bpe_merge(w->bpe, w->ids.id, w->ids.count);
}

/* Appends n ids. */
static void
append(struct token_ids *out, const uint32_t *id, size_t n)
{
	token_ids_pass(out, 0);
	token_ids_reserve(out, n);
	if (n)
		memcpy(out->id + out->count, id, n * sizeof *id);
	out->count += n;
}

/* Receives the ids of a long piece. */
static void
take(void *ctx, const uint32_t *id, size_t n)
{
	struct spelling *s = ctx;

	append(s->out, id, n);
}

/* A long word is converted and merged part by part, so that no list of all symbols is needed. An
 * empty word is never cached: the keys of empty slots have length 0. Of the two words of a set the
 * newer one is first. */
static void
encode_word(struct symbols_worker *w, const char *word, size_t len, struct token_ids *out)
{
	unsigned char key[CACHE_KEY + 1] = { 0 };
	struct slot *set;
	size_t n = 0;

	if (len > WINDOW_SIZE) {
		struct spelling s = { .w = w, .piece = word, .len = len, .out = out };

		bpe_merge_symbols(w->bpe, &(struct window_list){ spell, take, &s });
		return;
	}
	if (len > CACHE_KEY) {
		merge(w, word, len);
		append(out, w->ids.id, w->ids.count);
		return;
	}
	memcpy(key, word, len);
	key[CACHE_KEY] = (unsigned char)len;
	set = &w->cache[2 * (hash_xxh3(key, sizeof key) & (CACHE_SETS - 1))];
	for (int way = 0; way < 2; way++) {
		if (memcmp(&set[way], key, sizeof key) != 0)
			continue;
		while (n < CACHE_IDS && set[way].id[n] != NONE)
			n++;
		append(out, set[way].id, n);
		return;
	}
	merge(w, word, len);
	append(out, w->ids.id, w->ids.count);
	if (w->ids.count > CACHE_IDS)
		return;
	set[1] = set[0];
	memcpy(set, key, sizeof key);
	for (size_t i = 0; i < CACHE_IDS; i++)
		set->id[i] = i < w->ids.count ? w->ids.id[i] : NONE;
}

/* The end of the word that begins at pos: before the next U+2581 that follows something else. Words
 * are short, so a loop is faster than starting a search. */
static size_t
word_end(const char *s, size_t n, size_t pos)
{
	while (n - pos >= 3 && !memcmp(s + pos, WORD, 3))
		pos += 3;
	while (n - pos >= 3 && (s[pos] != WORD[0] || memcmp(s + pos, WORD, 3) != 0))
		pos++;
	return n - pos >= 3 ? pos : n;
}

/* The token equal to the whole piece, or -1. */
static int64_t
find_whole(struct symbols_worker *w, const char *piece, size_t len)
{
	const struct symbols *m = w->model;

	if (!m->prefix_len)
		return bpe_find(m->bpe, (const unsigned char *)piece, len);
	if (len >= m->prefix_len && !memcmp(piece, m->prefix, m->prefix_len))
		return bpe_find(
		    m->bpe, (const unsigned char *)piece + m->prefix_len, len - m->prefix_len);
	str_clear(&w->text);
	str_addc(&w->text, MARK);
	str_add(&w->text, piece, len);
	return bpe_find(m->bpe, (unsigned char *)w->text.buf, w->text.len);
}

/* A piece that may not be cut counts as one word. */
void
symbols_encode(struct symbols_worker *w, const char *piece, size_t len, struct token_ids *out)
{
	const struct symbols *m = w->model;
	int64_t whole = m->whole_piece ? find_whole(w, piece, len) : -1;

	if (whole >= 0) {
		token_ids_add(out, (uint32_t)whole);
		return;
	}
	for (size_t pos = 0, end; pos < len; pos = end) {
		end = m->cut ? word_end(piece, len, pos) : len;
		encode_word(w, piece + pos, end - pos, out);
	}
}
