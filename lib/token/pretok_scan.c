/*
 * pretok_scan.c - cutting text by the tables of an automaton
 *
 * Most ends of pieces are certain when the character after them is read, and the automaton of the
 * next piece has then read it too. So text is a single run through one table, in which some entries
 * end a piece, two bytes of ASCII at a time and without a branch for the ends. Elsewhere - a match
 * that ended before the last character, characters that no match takes - the piece is searched for
 * from its beginning.
 */
#include "lib/base/utf8.h"
#include "lib/token/pretok_impl.h"

#define BROKEN 0xfffd

/* The class of the character at pos < n, and its length in bytes. A byte that is not UTF-8 is a
 * character. */
static inline unsigned
class_at(const struct pretok *p, const unsigned char *s, size_t n, size_t pos, size_t *len)
{
	uint32_t cp = s[pos];
	int m;

	*len = 1;
	if (cp < 0x80)
		return p->class[cp];
	/* most non-ASCII characters have three bytes; E0 and ED have malformed ones */
	if (cp > 0xe0 && cp < 0xed && n - pos >= 3 && (s[pos + 1] & 0xc0) == 0x80 &&
	    (s[pos + 2] & 0xc0) == 0x80) {
		*len = 3;
		return p
		    ->class[(cp & 0xf) << 12 | (s[pos + 1] & 0x3fu) << 6 | (s[pos + 2] & 0x3fu)];
	}
	m = utf8_decode(s + pos, n - pos, &cp);
	if (m == 0)
		return p->class[BROKEN];
	*len = (size_t)m;
	return p->class[cp];
}

/* The end of the match that begins at pos < n, or pos. */
static size_t
match(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	uint32_t state = AUTOMATON_START, entry;
	size_t end = pos, len;

	for (; pos < n; pos += len, state = entry & AUTOMATON_NEXT) {
		entry = p->automaton.row[state][class_at(p, s, n, pos, &len)];
		if (entry & AUTOMATON_MATCH)
			end = pos;
		if ((entry & AUTOMATON_NEXT) == AUTOMATON_DEAD)
			return end;
	}
	return p->automaton.row[state][AUTOMATON_END] & AUTOMATON_MATCH ? n : end;
}

/* Characters that no match takes are one piece up to the next match, or to another part of the
 * text. */
size_t
pretok_next(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	size_t end = match(p, s, n, pos), len;
	unsigned char gap;

	if (end > pos)
		return end;
	gap = p->gap[class_at(p, s, n, pos, &len)];
	for (pos += len; pos < n; pos += len)
		if (p->gap[class_at(p, s, n, pos, &len)] != gap || match(p, s, n, pos) > pos)
			break;
	return pos;
}

/* A run through the fast tables. */
struct scan {
	size_t pos, count; /* bytes read; pieces ended */
	uint32_t state;
};

/* Reads pairs of ASCII bytes while their entries are certain and cap has room. */
static inline void
scan_pairs(
    const struct pretok *p, const struct pretok_text *t, struct scan *x, uint32_t *end, size_t cap)
{
	size_t pos = x->pos, count = x->count, most = (cap - count) / 2, left = (t->n - pos) / 2;
	const unsigned char *s = t->s;
	uint32_t row = x->state * p->square;

	for (size_t i = most < left ? most : left; i > 0; i--, pos += 2) {
		uint32_t entry = p->pair[row + p->first[s[pos]] + p->second[s[pos + 1]]];

		if (__builtin_expect((entry & PRETOK_SLOW) != 0, 0))
			break;
		end[count] = (uint32_t)pos;
		count += entry >> 31;
		end[count] = (uint32_t)pos + 1;
		count += entry >> 30 & 1;
		row = entry & PRETOK_STATE;
	}
	x->pos = pos;
	x->count = count;
	x->state = row / p->square;
}

/* Reads one character, or the end of the text; or searches for the piece where no entry is
 * certain. */
static inline void
scan_one(const struct pretok *p, const struct pretok_text *t, struct scan *x, uint32_t *end)
{
	uint32_t entry;
	size_t len;

	if (x->pos == t->n) {
		entry = p->automaton.row[x->state][AUTOMATON_END] & AUTOMATON_MATCH ? PRETOK_END
										    : PRETOK_SLOW;
		len = 0;
	} else {
		entry = p->fast[x->state][class_at(p, t->s, t->n, x->pos, &len)];
	}
	if (entry & PRETOK_SLOW) {
		x->pos = pretok_next(p, t->s, t->n, x->count ? end[x->count - 1] : t->pos);
		end[x->count++] = (uint32_t)x->pos;
		x->state = AUTOMATON_START;
		return;
	}
	end[x->count] = (uint32_t)x->pos;
	x->count += entry >> 31;
	x->pos += len;
	x->state = entry & PRETOK_STATE;
}

/* A piece that is cut off by cap is read again by the next call. */
size_t
pretok_scan(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap)
{
	struct scan x = { t->pos, 0, AUTOMATON_START };

	while (x.count + PRETOK_BLOCK <= cap && (x.count == 0 ? t->pos : end[x.count - 1]) < t->n) {
		scan_pairs(p, t, &x, end, cap);
		do
			scan_one(p, t, &x, end);
		while (x.count < cap && x.pos < t->n && t->s[x.pos] >= 0x80);
	}
	if (x.count)
		t->pos = end[x.count - 1];
	return x.count;
}
