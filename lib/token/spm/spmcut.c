/*
 * spmcut.c - cutting normalised text into units
 *
 * The places to test are a bit mask of a block of 64 bytes, so that letters cost almost nothing; at
 * each place one or two bits tell whether two characters are ever neighbours in a piece.
 */
#include "lib/base/mem.h"
#include "lib/token/spm/spmcut.h"

#include <stdlib.h>
#include <string.h>

enum { SHIFT_MOST = 64 - 12, SHIFT_LEAST = 64 - 25, BITS_A_PAIR = 8 };

/* --- building --- */

/* The position of a pair's bit. */
static uint64_t
pair_bit(const struct spmcut *c, uint32_t a, uint32_t b)
{
	return ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u >> c->shift;
}

/* A character of a piece in its normalised form. */
static uint32_t
normalised(const struct spmodel *m, uint32_t cp)
{
	return cp == SPM_MARK && m->normalizer.escape_whitespaces ? SPM_BLANK : cp;
}

/* Enters all neighbours in a piece. */
static void
add_pairs(struct spmcut *c, const struct spmodel *m, const struct sp_piece *p)
{
	const unsigned char *s = (const unsigned char *)p->text;
	uint32_t before = 0;

	for (size_t i = 0, len; i < p->len; i += len) {
		uint32_t cp = normalised(m, spm_character(s + i, &len));
		uint64_t bit = pair_bit(c, before, cp);

		if (i > 0)
			c->pair[bit / 64] |= 1ull << bit % 64;
		before = cp;
	}
}

/* Enters a symbol into the trie, with blanks as bytes 0x20. A symbol that itself contains a blank
 * never matches when blanks are escaped. */
static void
add_symbol(struct spmcut *c, const struct spmodel *m, int id)
{
	const struct sp_piece *p = &m->piece[id];
	const unsigned char *s = (const unsigned char *)p->text;
	uint32_t at = TRIE_ROOT;
	size_t n = 0;

	if (m->normalizer.escape_whitespaces && memchr(s, SPM_BLANK, p->len))
		return;
	for (size_t i = 0, len; i < p->len; i += len) {
		bool blank = normalised(m, spm_character(s + i, &len)) == SPM_BLANK;

		if (i == 0)
			c->symbol_first[blank ? SPM_BLANK : s[0]] = true;
		for (size_t k = 0; k < (blank ? 1 : len); k++, n++)
			at = trie_add(&c->symbols, at, blank ? SPM_BLANK : s[i + k]);
	}
	c->symbols.node[at].value = id;
	c->symbol_max = c->symbol_max > n ? c->symbol_max : n;
}

/* True when a piece may contain a, b. */
static bool
joined(const struct spmcut *c, uint32_t a, uint32_t b)
{
	uint64_t bit = pair_bit(c, a, b);

	if (c->words)
		return b != SPM_BLANK;
	return c->pair[bit / 64] >> bit % 64 & 1;
}

/*
 * A user-defined symbol takes no part in merges; in a unigram model it is a piece like any other.
 * Letters and digits of ASCII and the later bytes of a character are skipped, if no symbol to be
 * cut out begins with them; the cuts at ASCII bytes are found here for all their neighbours.
 */
void
spmcut_init(struct spmcut *c, const struct spmodel *m)
{
	bool merges = m->model == SP_BPE || m->model == SP_CHAR;
	size_t total = 0, symbols = 0;

	memset(c, 0, sizeof *c);
	c->words = m->model == SP_WORD;
	for (int i = 0; i < m->count; i++) {
		total += m->piece[i].len;
		symbols += m->piece[i].type == SP_USER_DEFINED && merges ? m->piece[i].len : 0;
	}
	for (c->shift = SHIFT_MOST; c->shift > SHIFT_LEAST; c->shift--)
		if ((1ull << (64 - c->shift)) / BITS_A_PAIR >= total)
			break;
	c->pair = mem_zalloc_large((1ull << (64 - c->shift)) / 64, sizeof *c->pair);
	trie_init(&c->symbols, (uint32_t)symbols);
	for (int i = 0; i < m->count; i++) {
		enum sp_type type = m->piece[i].type;

		if (type == SP_USER_DEFINED && merges)
			add_symbol(c, m, i);
		else if (type == SP_NORMAL || type == SP_UNUSED || type == SP_USER_DEFINED)
			add_pairs(c, m, &m->piece[i]);
	}
	for (int b = 0; b < 256; b++) {
		bool quiet = (b >= '0' && b <= '9') || (b >= 'A' && b <= 'Z') ||
		    (b >= 'a' && b <= 'z') || (b >= 0x80 && b < 0xc0);

		c->look.in[b] = c->words ? b == SPM_BLANK : !quiet || c->symbol_first[b];
	}
	byte_set_close(&c->look);
	for (uint32_t a = 0; a < 128; a++)
		for (uint32_t b = 0; b < 128; b++) {
			if (joined(c, a, b))
				continue;
			c->before[b][a / 64] |= 1ull << a % 64;
			if (!c->look.in[b])
				c->after[a][b / 64] |= 1ull << b % 64;
		}
}

/* A struct of zeroes is allowed. */
void
spmcut_release(struct spmcut *c)
{
	free(c->pair);
	trie_release(&c->symbols);
}

/* --- cutting --- */

/* One call of spmcut_next. */
struct cutting {
	const struct spmcut *c;
	const unsigned char *bytes;
	size_t len;
	size_t known; /* no cut after this is certain */
	size_t start; /* of the unit that is open */
	size_t at;    /* everything before it is finished */
	struct spm_unit *out;
	size_t count, max;
	bool done;
};

/* Closes the open unit at x, if it is not empty. */
static void
cut(struct cutting *k, size_t x)
{
	if (x > k->known || k->count == k->max) {
		k->done = true;
		return;
	}
	if (x > k->start)
		k->out[k->count++] = (struct spm_unit){ (uint32_t)(x - k->start), 0 };
	k->start = x;
}

/* Makes units of the longest user-defined symbol at q and of the text before it; false when q is
 * not at a symbol. */
static bool
cut_symbol(struct cutting *k, size_t q)
{
	const struct trie *t = &k->c->symbols;
	uint32_t at = TRIE_ROOT;
	size_t len = 0;
	int id = -1;

	for (size_t i = q; i < k->len; i++) {
		at = trie_child(t, at, k->bytes[i]);
		if (at == TRIE_NONE)
			break;
		if (t->node[at].value >= 0) {
			id = t->node[at].value;
			len = i + 1 - q;
		}
	}
	if (id < 0)
		return false;
	cut(k, q);
	if (!k->done && q + len <= k->known && k->count < k->max) {
		k->out[k->count++] = (struct spm_unit){ (uint32_t)len, (uint32_t)id + 1 };
		k->start = k->at = q + len;
	} else {
		k->done = true;
	}
	return true;
}

/* The character before q, which is at least one byte into the unit. */
static uint32_t
before(const unsigned char *bytes, size_t q)
{
	size_t len;

	if (q >= 3 && (bytes[q - 3] & 0xf0) == 0xe0)
		q -= 3;
	else
		for (q--; (bytes[q] & 0xc0) == 0x80;)
			q--;
	return spm_character(bytes + q, &len);
}

/* Tests the place before the character at q, and the one after it if the next character is not
 * tested itself. */
static void
look(struct cutting *k, size_t q)
{
	const struct spmcut *c = k->c;
	size_t len;
	uint32_t cp = spm_character(k->bytes + q, &len);

	if (c->symbol_first[k->bytes[q]] && cut_symbol(k, q))
		return;
	k->at = q + len;
	if (q > k->start && !joined(c, before(k->bytes, q), cp))
		cut(k, q);
	q += len;
	if (!k->done && q < k->len && !c->look.in[k->bytes[q]] && !joined(c, cp, k->bytes[q]))
		cut(k, q);
}

/* The same for an ASCII byte after another: two bits, and no branch. */
static inline void
look_fast(struct cutting *k, size_t q)
{
	unsigned c = k->bytes[q], a = k->bytes[q - 1], b = k->bytes[q + 1];
	size_t yes = k->c->before[c][a / 64] >> a % 64 & 1;

	k->out[k->count] = (struct spm_unit){ (uint32_t)(q - k->start), 0 };
	k->count += yes;
	k->start = yes ? q : k->start;
	yes = k->c->after[c][b / 64] >> b % 64 & 1;
	k->out[k->count] = (struct spm_unit){ (uint32_t)(q + 1 - k->start), 0 };
	k->count += yes;
	k->start = yes ? q + 1 : k->start;
}

/* True when a character of three bytes begins with it. */
static inline bool
three(unsigned char byte)
{
	return (byte & 0xf0) == 0xe0;
}

/* A character of three bytes, by its bytes. */
static inline uint32_t
of_three(const unsigned char *p)
{
	return (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
}

/* The same for characters of three bytes: q is one after another, and not before ASCII. */
static inline void
look_three(struct cutting *k, size_t q)
{
	const unsigned char *p = k->bytes + q;
	uint64_t bit = pair_bit(k->c, of_three(p - 3), of_three(p));
	size_t yes = ~k->c->pair[bit / 64] >> bit % 64 & 1;

	k->out[k->count] = (struct spm_unit){ (uint32_t)(q - k->start), 0 };
	k->count += yes;
	k->start = yes ? q : k->start;
}

/* Tests the places of one block that is complete and has no symbols to cut out. */
static void
look_through_known(struct cutting *k, size_t block)
{
	struct cutting x = *k;

	for (uint64_t mask = byte_set_find(&x.c->look, x.bytes + block); mask; mask &= mask - 1) {
		size_t q = block + (size_t)__builtin_ctzll(mask);

		if (q > x.start && (x.bytes[q] | x.bytes[q - 1]) < 0x80)
			look_fast(&x, q);
		else if (q > x.start + 2 && three(x.bytes[q]) && three(x.bytes[q - 3]) &&
		    x.bytes[q + 3] >= 0x80)
			look_three(&x, q);
		else
			look(&x, q);
	}
	*k = x;
	k->at = block + BYTE_BLOCK;
}

/* Tests the places of one block. Places inside a symbol that was cut out are skipped. */
static void
look_through(struct cutting *k, size_t block)
{
	uint64_t mask = byte_set_find(&k->c->look, k->bytes + block);

	while (mask && !k->done) {
		size_t q = block + (size_t)__builtin_ctzll(mask);

		mask &= mask - 1;
		if (q >= k->len) {
			k->at = k->len;
			return;
		}
		if (q >= k->at)
			look(k, q);
	}
	if (!k->done && k->at < block + BYTE_BLOCK)
		k->at = block + BYTE_BLOCK;
}

/*
 * Before the text's end is known, blanks at the end may still be dropped, and a user-defined symbol
 * may become longer.
 */
static size_t
known_end(const struct spmcut *c, const unsigned char *bytes, size_t from, size_t len)
{
	size_t end = len;

	if (len - from <= c->symbol_max)
		return from;
	while (end > from && bytes[end - 1] == SPM_BLANK)
		end--;
	return end < len - c->symbol_max ? end : len - c->symbol_max;
}

/* Units in order and without gaps. */
size_t
spmcut_next(const struct spmcut *c, const unsigned char *bytes, size_t *from, size_t len,
    bool final, struct spm_unit *out, size_t max)
{
	struct cutting k = { .c = c,
		.bytes = bytes,
		.len = len,
		.start = *from,
		.at = *from,
		.out = out,
		.max = max };

	k.known = final ? len : known_end(c, bytes, *from, len);
	k.done = k.known == *from;
	while (!k.done && k.at < len) {
		/* One more byte than the block, and a character that begins in it. */
		if (k.known > k.at + BYTE_BLOCK + 4 && c->symbol_max == 0) {
			if (k.max - k.count < UNITS_MIN)
				break;
			look_through_known(&k, k.at);
		} else {
			look_through(&k, k.at);
		}
	}
	if (final && !k.done && k.at >= len)
		cut(&k, len);
	*from = k.start;
	return k.count;
}
