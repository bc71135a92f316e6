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

/* True when a match begins at pos < n. */
static bool
matches(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	uint32_t state = AUTOMATON_START, entry;
	size_t len;

	for (; pos < n; pos += len, state = entry & AUTOMATON_NEXT) {
		entry = p->automaton.row[state][class_at(p, s, n, pos, &len)];
		if (entry & AUTOMATON_MATCH || entry == AUTOMATON_DEAD)
			return entry & AUTOMATON_MATCH;
	}
	return p->automaton.row[state][AUTOMATON_END] & AUTOMATON_MATCH;
}

/* The end of the characters that no match takes, from pos < n on: they are one piece up to the next
 * match, or to another part of the text. */
static size_t
gap_end(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	size_t len;
	unsigned char gap = p->gap[class_at(p, s, n, pos, &len)];

	for (pos += len; pos < n; pos += len)
		if (p->gap[class_at(p, s, n, pos, &len)] != gap || matches(p, s, n, pos))
			break;
	return pos;
}

size_t
pretok_next(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	size_t end = match(p, s, n, pos);

	return end > pos ? end : gap_end(p, s, n, pos);
}

/* A run through the fast tables. */
struct scan {
	size_t pos, count, last; /* bytes read; pieces ended; where the last match did */
	uint32_t state;
};

/* Reads pairs of ASCII bytes while their entries are certain and cap has room. */
static inline void
scan_pairs(
    const struct pretok *p, const struct pretok_text *t, struct scan *x, uint32_t *end, size_t cap)
{
	size_t pos = x->pos, count = x->count, last = x->last;
	size_t most = (cap - count) / 2, left = (t->n - pos) / 2;
	const unsigned char *s = t->s;
	uint32_t row = x->state * p->square;

	for (size_t i = most < left ? most : left; i > 0; i--, pos += 2) {
		uint32_t entry = p->pair[row + p->first[s[pos]] + p->second[s[pos + 1]]];

		if (__builtin_expect((entry & PRETOK_SLOW) != 0, 0))
			break;
		end[count] = (uint32_t)pos;
		count += entry >> 31;
		end[count] = (uint32_t)pos + 1;
		count += entry >> 29 & 1;
		last = entry & PRETOK_MATCH ? pos : last;
		last = entry & PRETOK_SECOND_MATCH ? pos + 1 : last;
		row = entry & PRETOK_STATE;
	}
	x->pos = pos;
	x->count = count;
	x->last = last;
	x->state = row / p->square;
}

/* Ends the piece at its last match, which may be some characters back, or after those that no match
 * takes. */
static void
end_piece(const struct pretok *p, const struct pretok_text *t, struct scan *x, uint32_t *end)
{
	size_t start = x->count ? end[x->count - 1] : t->pos;

	x->pos = x->last > start ? x->last : gap_end(p, t->s, t->n, start);
	end[x->count++] = (uint32_t)x->pos;
	x->state = AUTOMATON_START;
}

/* Reads one character, or the end of the text. */
static inline void
scan_one(const struct pretok *p, const struct pretok_text *t, struct scan *x, uint32_t *end)
{
	unsigned class = AUTOMATON_END;
	uint32_t entry = PRETOK_SLOW;
	size_t len = 0;

	if (x->pos < t->n) {
		class = class_at(p, t->s, t->n, x->pos, &len);
		entry = p->fast[x->state][class];
	}
	if (entry & PRETOK_SLOW) {
		if (p->automaton.row[x->state][class] & AUTOMATON_MATCH)
			x->last = x->pos;
		end_piece(p, t, x, end);
		return;
	}
	end[x->count] = (uint32_t)x->pos;
	x->count += entry >> 31;
	if (entry & PRETOK_MATCH)
		x->last = x->pos;
	x->pos += len;
	x->state = entry & PRETOK_STATE;
}

/* At least one piece; the last one may end the text. Where pieces end is asked only after ASCII,
 * because it cannot be predicted elsewhere. */
size_t
pretok_scan_foreign(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap)
{
	struct scan x = { .pos = t->pos, .last = t->pos, .state = AUTOMATON_START };

	for (;;) {
		while (x.count < cap && x.pos < t->n && t->s[x.pos] >= 0x80)
			scan_one(p, t, &x, end);
		if (x.count == cap || (x.count && end[x.count - 1] == t->n))
			break;
		scan_one(p, t, &x, end);
		if (x.count && (end[x.count - 1] == t->n || t->s[end[x.count - 1]] < 0x80))
			break;
	}
	t->pos = end[x.count - 1];
	return x.count;
}

/* A piece that is cut off by cap is read again by the next call. */
size_t
pretok_scan(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap)
{
	struct scan x = { .pos = t->pos, .last = t->pos, .state = AUTOMATON_START };

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
