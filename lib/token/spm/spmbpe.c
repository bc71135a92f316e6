/*
 * spmbpe.c - merging by score
 *
 * Loading enters every way to cut a piece into two symbols into one hash table of pairs, so that
 * encoding compares numbers and never strings. The rank of a pair is the score of the resulting
 * piece, as an integer in reverse order.
 *
 * Units of up to SHORT symbols search an array for the least rank at every step. Longer ones use a
 * heap of (rank, position), for a stretch of the unit at a time (window.h): a stale entry differs
 * from the present rank of its position.
 */
#include "lib/base/mem.h"
#include "lib/token/spm/spmbpe.h"

#include <stdlib.h>
#include <string.h>

enum {
	SHORT = 48,
	SHORT_BYTES = 4 * SHORT, /* longer units are not tested for being short */
	FILTER_BITS = 3,         /* 8 bits of the filter per slot */
};

#define NO_RANK UINT32_MAX

/* A symbol of a long text. */
struct spm_node {
	uint32_t symbol, before, after; /* positions; NO_NODE at the ends */
	uint32_t rank, merged;          /* of the pair with the next; NO_RANK: none */
};

#define NO_NODE UINT32_MAX

/* The blank mark is three bytes of UTF-8, if blanks stand for it. */
void
spm_unknown_add(
    const struct spm_unknown *u, const unsigned char *p, size_t len, struct token_ids *out)
{
	static const unsigned char mark[] = "\xe2\x96\x81";

	if (!u->bytes) {
		if (out->count == 0 || out->id[out->count - 1] != u->unk)
			token_ids_add(out, u->unk);
		return;
	}
	if (u->marks && *p == SPM_BLANK) {
		p = mark;
		len = 3;
	}
	for (size_t i = 0; i < len; i++)
		token_ids_add(out, u->byte[p[i]]);
}

/* --- building --- */

/* The state of building. */
struct building {
	struct spmbpe *b;
	struct spm_pair *list;
	size_t count, cap;
	uint64_t *hash; /* for each byte of the piece, of the bytes before it */
	uint64_t *power;
	size_t longest;
};

/* True when merging can form this piece. With escaped blanks no text has a blank. */
static bool
merges(const struct spmodel *m, const struct sp_piece *p)
{
	return (p->type == SP_NORMAL || p->type == SP_UNUSED) &&
	    !(m->normalizer.escape_whitespaces && memchr(p->text, SPM_BLANK, p->len));
}

/* Bytes of a piece in normalised text. */
static uint32_t
normalised_bytes(const struct spmodel *m, const struct sp_piece *p)
{
	uint32_t n = 0;

	for (size_t i = 0, len; i < p->len; i += len) {
		uint32_t cp = spm_character((const unsigned char *)p->text + i, &len);

		n += cp == SPM_MARK && m->normalizer.escape_whitespaces ? 1 : (uint32_t)len;
	}
	return n;
}

/* A character of a piece gets its own symbol when it is not itself a piece. */
static void
add_character(struct spmbpe *b, uint32_t cp, size_t len)
{
	bool mark = cp == SPM_MARK && b->model->normalizer.escape_whitespaces;

	cp = mark ? SPM_BLANK : cp;
	if (code_map_get(&b->symbol, cp))
		return;
	code_map_set(&b->symbol, cp, b->num_symbols);
	b->bytes = mem_realloc(b->bytes, (size_t)b->num_symbols + 1, sizeof *b->bytes);
	b->bytes[b->num_symbols++] = mark ? 1 : (uint32_t)len;
}

/* Pieces of one character first, so that no character of them gets a second symbol. */
static void
number_symbols(struct spmbpe *b)
{
	const struct spmodel *m = b->model;

	b->num_symbols = (uint32_t)m->count + 1;
	b->bytes = mem_zalloc(b->num_symbols, sizeof *b->bytes);
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < m->count; i++) {
			const struct sp_piece *p = &m->piece[i];
			const unsigned char *s = (const unsigned char *)p->text;
			size_t len;
			uint32_t cp = spm_character(s, &len);

			if (!merges(m, p))
				continue;
			b->bytes[i + 1] = normalised_bytes(m, p);
			if (turn == 0 && len == p->len) {
				bool mark = cp == SPM_MARK && m->normalizer.escape_whitespaces;

				code_map_set(&b->symbol, mark ? SPM_BLANK : cp, (uint32_t)i + 1);
			}
			for (size_t k = 0; turn == 1 && len < p->len && k < p->len; k += len)
				add_character(b, spm_character(s + k, &len), len);
		}
}

/* The symbol of bytes [i, k) of a piece, or 0. */
static uint32_t
part_symbol(const struct building *x, const struct sp_piece *p, size_t i, size_t k)
{
	const struct spmodel *m = x->b->model;
	const unsigned char *s = (const unsigned char *)p->text + i;
	size_t len;
	uint32_t cp = spm_character(s, &len);
	int id;

	if (len == k - i)
		return code_map_get(&x->b->symbol,
		    cp == SPM_MARK && m->normalizer.escape_whitespaces ? SPM_BLANK : cp);
	id = spmodel_find_hashed(m, x->hash[k] - x->hash[i] * x->power[k - i], p->text + i, k - i);
	return id >= 0 && merges(m, &m->piece[id]) ? (uint32_t)id + 1 : 0;
}

/* Enters every way to cut a piece into two symbols. Larger scores have smaller ranks, equal ones
 * equal ranks; -0 equals 0. */
static void
add_cuts(struct building *x, int id)
{
	const struct sp_piece *p = &x->b->model->piece[id];
	float score = p->score + 0.0f;
	uint32_t rank;

	memcpy(&rank, &score, sizeof rank);
	rank = rank & 1u << 31 ? rank : 0x7fffffff - rank;
	for (size_t i = 0; i < p->len; i++)
		x->hash[i + 1] = spmodel_hash_step(x->hash[i], (unsigned char)p->text[i]);
	for (size_t i = 1; i < p->len; i++) {
		uint32_t left, right;

		if ((p->text[i] & 0xc0) == 0x80)
			continue;
		left = part_symbol(x, p, 0, i);
		right = left ? part_symbol(x, p, i, p->len) : 0;
		if (!right)
			continue;
		if (x->count == x->cap) {
			x->cap = x->cap ? 2 * x->cap : 1024;
			x->list = mem_realloc(x->list, x->cap, sizeof *x->list);
		}
		x->list[x->count++] =
		    (struct spm_pair){ (uint64_t)left << 32 | right, (uint32_t)id + 1, rank };
	}
	x->b->unused |= p->type == SP_UNUSED;
}

/* Its first bits give the slot where the search for a pair begins, and a few more the bit of the
 * filter. */
static inline uint64_t
pair_hash(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u;
}

/* Moves the list to the table, half of which stays empty. One more slot at the end is always
 * empty. */
static void
fill_table(struct spmbpe *b, const struct spm_pair *list, size_t count)
{
	uint32_t size = 16;

	b->shift = 60;
	while (size < 2 * count) {
		size *= 2;
		b->shift--;
	}
	b->mask = size - 1;
	b->pair = mem_zalloc_large((size_t)size + 1, sizeof *b->pair);
	b->filter = mem_zalloc(((size_t)size << FILTER_BITS) / 64 + 1, sizeof *b->filter);
	for (size_t k = 0; k < count; k++) {
		uint64_t hash = pair_hash(list[k].key), bit = hash >> (b->shift - FILTER_BITS);
		uint32_t i = (uint32_t)(hash >> b->shift);

		while (b->pair[i].key)
			i = (i + 1) & b->mask;
		b->pair[i] = list[k];
		b->filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
	}
}

/* The hashes of all parts of a piece follow from those of its prefixes and the powers of the
 * base. */
void
spmbpe_init(struct spmbpe *b, const struct spmodel *m)
{
	struct building x = { .b = b };

	memset(b, 0, sizeof *b);
	b->model = m;
	code_map_init(&b->symbol);
	number_symbols(b);
	for (int i = 0; i < m->count; i++)
		x.longest = m->piece[i].len > x.longest ? m->piece[i].len : x.longest;
	b->widest = x.longest > 1 ? x.longest : 1;
	x.hash = mem_zalloc(x.longest + 1, sizeof *x.hash);
	x.power = mem_zalloc(x.longest + 1, sizeof *x.power);
	x.power[0] = 1;
	for (size_t i = 1; i <= x.longest; i++)
		x.power[i] = x.power[i - 1] * SPMODEL_HASH_BASE;
	for (int i = 0; m->model == SP_BPE && i < m->count; i++)
		if (merges(m, &m->piece[i]))
			add_cuts(&x, i);
	fill_table(b, x.list, x.count);
	free(x.list);
	free(x.hash);
	free(x.power);
}

/* A struct of zeroes is allowed. */
void
spmbpe_release(struct spmbpe *b)
{
	code_map_release(&b->symbol);
	free(b->bytes);
	free(b->pair);
	free(b->filter);
}

/* The struct is empty afterwards and may be reused. */
void
spmbpe_worker_release(struct spmbpe_worker *w)
{
	window_release(&w->window);
	free(w->node);
	free(w->heap);
	free(w->split);
	memset(w, 0, sizeof *w);
}

/* The next text allocates what it needs. */
void
spmbpe_worker_trim(struct spmbpe_worker *w, size_t most)
{
	if (w->node_cap > most || w->heap_cap > most)
		spmbpe_worker_release(w);
}

/* --- merging --- */

/* The pair of two symbols, or an empty slot. Most pairs do not merge, and the filter, which fits a
 * near cache, usually shows it. Then the slot after the table is read, without a branch, because
 * the answer is unpredictable. The merge that made an unused piece is recorded. */
static inline const struct spm_pair *
pair_of(const struct spmbpe *b, struct spmbpe_worker *w, uint32_t left, uint32_t right)
{
	uint64_t key = (uint64_t)left << 32 | right, hash = pair_hash(key),
		 bit = hash >> (b->shift - FILTER_BITS);
	bool pass = b->filter[bit >> 6] >> (bit & 63) & 1;
	uint32_t i = pass ? (uint32_t)(hash >> b->shift) : b->mask + 1;
	const struct spm_pair *p;

	while (__builtin_expect(b->pair[i].key != key && b->pair[i].key != 0, 0))
		i = (i + 1) & b->mask;
	p = &b->pair[i];
	if (b->unused && p->key && b->model->piece[p->merged - 1].type == SP_UNUSED) {
		w->split[p->merged][0] = left;
		w->split[p->merged][1] = right;
	}
	return p;
}

/*
 * A short text while it merges. Symbols keep their places; a bit marks the live ones. A key is the
 * rank of the pair that begins at a place, above the place, so the least key is the next merge. Two
 * more places serve as neighbours at the ends of the text: their symbol is in no pair, so every
 * merge does the same work, which costs less than mispredicted branches.
 */
enum { PLACE_BITS = 6, BEFORE_ALL = SHORT, AFTER_ALL, PLACES };

#define NO_KEY UINT64_MAX

struct short_text {
	uint64_t key[PLACES], live;
	uint32_t symbol[PLACES], merged[PLACES];
};

/* Looks up the pair that begins at place i. */
static inline void
look_up(
    const struct spmbpe *b, struct spmbpe_worker *w, struct short_text *t, size_t i, size_t next)
{
	const struct spm_pair *p = pair_of(b, w, t->symbol[i], t->symbol[next]);

	t->key[i] = p->key ? (uint64_t)p->rank << PLACE_BITS | i : NO_KEY;
	t->merged[i] = p->merged;
}

static inline uint64_t
lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The least key of places below width, a multiple of eight. */
static inline uint64_t
least_key(const uint64_t *key, size_t width)
{
	uint64_t least = NO_KEY;

	for (const uint64_t *k = key; k < key + width; k += 8) {
		uint64_t a = lesser(lesser(k[0], k[1]), lesser(k[2], k[3]));
		uint64_t c = lesser(lesser(k[4], k[5]), lesser(k[6], k[7]));

		least = lesser(least, lesser(a, c));
	}
	return least;
}

/* Merges 0 < n <= SHORT symbols in place; returns how many are left. */
static size_t
merge_short(const struct spmbpe *b, struct spmbpe_worker *w, uint32_t *symbol, size_t n)
{
	size_t width = (n + 6) & ~(size_t)7, left = 0;
	struct short_text t;
	uint64_t least;

	memset(t.key, 0xff, sizeof t.key);
	memcpy(t.symbol, symbol, n * sizeof *symbol);
	t.symbol[BEFORE_ALL] = t.symbol[AFTER_ALL] = 0;
	t.live = UINT64_MAX >> (64 - n);
	for (size_t i = 0; i + 1 < n; i++)
		look_up(b, w, &t, i, i + 1);
	while ((least = least_key(t.key, width)) != NO_KEY) {
		size_t at = least & ((1 << PLACE_BITS) - 1), last, next;
		uint64_t before = t.live & (((uint64_t)1 << at) - 1), after = t.live >> at >> 1;

		last = before ? 63 - (size_t)__builtin_clzll(before) : BEFORE_ALL;
		t.key[at + 1 + (size_t)__builtin_ctzll(after)] = NO_KEY;
		after &= after - 1;
		t.live = before | (uint64_t)1 << at | after << at << 1;
		next = after ? at + 1 + (size_t)__builtin_ctzll(after) : AFTER_ALL;
		t.symbol[at] = t.merged[at];
		look_up(b, w, &t, last, at);
		look_up(b, w, &t, at, next);
	}
	for (uint64_t live = t.live; live; live &= live - 1)
		symbol[left++] = t.symbol[__builtin_ctzll(live)];
	return left;
}

/* Moves the entry at i down to where no child is smaller. */
static void
sift_down(uint64_t *heap, size_t n, size_t i)
{
	uint64_t x = heap[i];

	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		child += child + 1 < n && heap[child + 1] < heap[child];
		if (heap[child] >= x)
			break;
		heap[i] = heap[child];
	}
	heap[i] = x;
}

/* The heap has room: a merge removes one entry and adds at most two. */
static void
push(uint64_t *heap, size_t *n, uint64_t x)
{
	size_t i = (*n)++;

	for (; i > 0 && heap[(i - 1) / 2] > x; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = x;
}

/* Looks the pair of node i and the next up; true when it may merge. */
static bool
renew(const struct spmbpe *b, struct spmbpe_worker *w, uint32_t i)
{
	struct spm_node *x = &w->node[i];
	const struct spm_pair *p = x->after == NO_NODE
	    ? &b->pair[b->mask + 1]
	    : pair_of(b, w, x->symbol, w->node[x->after].symbol);

	x->rank = p->key ? p->rank : NO_RANK;
	x->merged = p->merged;
	return p->key != 0;
}

/* Links the nodes, and builds a heap of those whose pair may merge. */
static size_t
fill_heap(const struct spmbpe *b, struct spmbpe_worker *w, const uint32_t *symbol, size_t n)
{
	size_t entries = 0;

	if (w->node_cap < n) {
		w->node_cap = n;
		w->node = mem_realloc(w->node, n, sizeof *w->node);
	}
	if (w->heap_cap < 2 * n) {
		w->heap_cap = 2 * n;
		w->heap = mem_realloc(w->heap, 2 * n, sizeof *w->heap);
	}
	for (size_t i = 0; i < n; i++)
		w->node[i] = (struct spm_node){ symbol[i], i ? (uint32_t)i - 1 : NO_NODE,
			i + 1 < n ? (uint32_t)i + 1 : NO_NODE, NO_RANK, 0 };
	for (uint32_t i = 0; i < n; i++)
		if (renew(b, w, i))
			w->heap[entries++] = (uint64_t)w->node[i].rank << 32 | i;
	for (size_t i = entries / 2; i-- > 0;)
		sift_down(w->heap, entries, i);
	return entries;
}

/* The context of merging a stretch of a unit. */
struct merging {
	const struct spmbpe *b;
	struct spmbpe_worker *w;
};

/* Merges n symbols in place, as struct window_rule requires. A node joins the next one, which then
 * has no rank. */
static size_t
merge_long(void *ctx, uint32_t *symbol, uint32_t *width, size_t n)
{
	const struct merging *m = ctx;
	struct spmbpe_worker *w = m->w;
	size_t entries = fill_heap(m->b, w, symbol, n), left = 0;

	while (entries) {
		uint64_t top = w->heap[0];
		uint32_t i = (uint32_t)top;
		struct spm_node *x = &w->node[i];

		w->heap[0] = w->heap[--entries];
		if (entries)
			sift_down(w->heap, entries, 0);
		if (x->rank == NO_RANK || x->rank != top >> 32)
			continue;
		w->node[x->after].rank = NO_RANK;
		x->symbol = x->merged;
		x->after = w->node[x->after].after;
		if (x->after != NO_NODE)
			w->node[x->after].before = i;
		if (x->before != NO_NODE && renew(m->b, w, x->before))
			push(
			    w->heap, &entries, (uint64_t)w->node[x->before].rank << 32 | x->before);
		if (renew(m->b, w, i))
			push(w->heap, &entries, (uint64_t)x->rank << 32 | i);
	}
	for (uint32_t i = 0, next; i != NO_NODE; i = next) {
		next = w->node[i].after;
		width[left] = (next == NO_NODE ? (uint32_t)n : next) - i;
		symbol[left++] = w->node[i].symbol;
	}
	return left;
}

/* --- encoding --- */

/* Appends an id; an unused piece that was merged is split into its parts. */
static void
add_symbol(const struct spmbpe *b, const struct spmbpe_worker *w, const struct spm_unknown *u,
    uint32_t symbol, const unsigned char *p, struct token_ids *out)
{
	if (symbol == 0 || symbol > (uint32_t)b->model->count) {
		size_t len;

		spm_character(p, &len);
		spm_unknown_add(u, p, len, out);
	} else if (b->unused && b->model->piece[symbol - 1].type == SP_UNUSED &&
	    w->split[symbol][0]) {
		const uint32_t *part = w->split[symbol];

		add_symbol(b, w, u, part[0], p, out);
		add_symbol(b, w, u, part[1], p + b->bytes[part[0]], out);
	} else {
		token_ids_add(out, symbol - 1);
	}
}

/* The state of encoding a unit. */
struct encoding {
	const struct spmbpe *b;
	const struct spmbpe_worker *w;
	const struct spmbpe_unit *unit;
	size_t read, done; /* bytes converted to symbols, and to ids */
};

/* Reads one symbol per character, as many as are wanted. */
static void
read_symbols(void *ctx, struct token_ids *out, size_t want)
{
	struct encoding *x = ctx;
	size_t left = x->unit->len - x->read;

	token_ids_reserve(out, left < want ? left : want);
	for (size_t len; want-- > 0 && x->read < x->unit->len; x->read += len) {
		uint32_t cp = spm_character(x->unit->bytes + x->read, &len);

		out->id[out->count++] = code_map_get(&x->b->symbol, cp);
	}
}

/* Appends the ids of tokens, and passes them on early if the caller wants that. Symbol 0 stands for
 * any one character. */
static void
take_tokens(void *ctx, const uint32_t *symbol, size_t n)
{
	struct encoding *x = ctx;
	const struct spmbpe_unit *u = x->unit;

	for (size_t i = 0; i < n; i++) {
		const unsigned char *p = u->bytes + x->done;
		size_t len = x->b->bytes[symbol[i]];

		add_symbol(x->b, x->w, u->unknown, symbol[i], p, u->out);
		if (symbol[i] == 0)
			spm_character(p, &len);
		x->done += len;
	}
	if (u->flush)
		u->flush(u->ctx);
}

/* A stretch at a time, unless it is short: its characters are counted by reading them. */
void
spmbpe_encode(const struct spmbpe *b, struct spmbpe_worker *w, const struct spmbpe_unit *unit)
{
	struct encoding x = { .b = b, .w = w, .unit = unit };
	struct merging m = { b, w };
	uint32_t symbol[SHORT_BYTES];
	struct token_ids ids = { symbol, 0, SHORT_BYTES };

	if (b->unused && !w->split)
		w->split = mem_zalloc(b->num_symbols, sizeof *w->split);
	if (unit->len <= SHORT_BYTES)
		read_symbols(&x, &ids, SHORT_BYTES);
	if (unit->len <= SHORT_BYTES && ids.count <= SHORT) {
		take_tokens(&x, symbol, merge_short(b, w, symbol, ids.count));
		return;
	}
	x.read = 0;
	window_merge(&w->window, &(struct window_list){ read_symbols, take_tokens, &x },
	    &(struct window_rule){ merge_long, &m, b->widest }, WINDOW_SIZE);
}
