/*
 * pretok_block.c - cutting text 64 bytes at a time
 *
 * A window begins at the start of a piece, so the text before it does not matter. Its bytes become
 * masks of classes, and shifts of the masks give the starts of pieces: where the class changes,
 * except where a space or another prefix joins the word after it, and so on, with one line below
 * per alternative of the expressions. Only starts that the bytes of the window determine are
 * accepted; the last of them begins the next window. A window without one - it begins with a
 * character outside ASCII, or with a long piece, or the text ends - is left to the tables.
 */
#include "lib/token/pretok_impl.h"

#include <string.h>

/* A window: masks of its first `valid` bytes, which are ASCII and not alien. */
struct window {
	const unsigned char *s;
	struct simd_masks m;
	uint64_t letter, other, run;
	unsigned valid;
};

/* The first n bits. */
static inline uint64_t
first_bits(unsigned n)
{
	return n < 64 ? ((uint64_t)1 << n) - 1 : UINT64_MAX;
}

/* The first set bit; 64 when there is none. */
static inline unsigned
lowest(uint64_t m)
{
	return m ? (unsigned)__builtin_ctzll(m) : 64;
}

/* Clears the bytes after the window's end, and those from the first one on that it does without. */
static inline void
window_open(struct window *w, const struct pretok_rules *r, enum pretok_form form,
    const unsigned char *s, size_t left)
{
	unsigned char few[SIMD_BLOCK] = { 0 };
	uint64_t keep;

	w->s = s;
	w->valid = left < SIMD_BLOCK ? (unsigned)left : SIMD_BLOCK;
	if (left < SIMD_BLOCK) {
		memcpy(few, s, left);
		s = few;
	}
	w->m = simd_classify(s);
	if (r->aliens)
		w->m.high |= simd_find(&r->alien, s);
	if (w->m.high && lowest(w->m.high) < w->valid)
		w->valid = lowest(w->m.high);
	keep = first_bits(w->valid);
	w->m.upper &= keep;
	w->m.lower &= keep;
	w->m.digit &= keep;
	w->m.white &= keep;
	w->run = form == FORM_RUNS ? simd_find(&r->run, s) & keep : 0;
	w->letter = w->m.letter & keep;
	w->other = keep & ~(w->letter | w->m.digit | w->m.white);
	w->m.space &= keep;
	w->m.newline &= keep;
	w->m.apostrophe &= keep;
}

/* The bytes of the contraction at the apostrophe, or 0; `any` ignores case. */
static inline unsigned
contraction_len(const unsigned char *s, unsigned fold)
{
	unsigned a = s[1] | fold, b = s[2] | fold;

	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return 2;
	return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/*
 * Enters contractions. In o200k's expressions one joins the word before it; in all others it begins
 * where a piece would and is a piece. Either way its letters start no piece, and the text after it
 * does. An apostrophe too near to the end shortens the window.
 */
static inline uint64_t
contractions(struct window *w, const struct pretok_rules *r, uint64_t starts)
{
	uint64_t at = w->m.apostrophe & first_bits(w->valid) & (r->cased ? w->letter << 1 : starts);
	unsigned fold = r->contraction == CONTRACTION_ANY ? 0x20 : 0, end = 0;

	for (; at; at &= at - 1) {
		unsigned i = lowest(at), len;

		if (i + 3 >= w->valid) {
			w->valid = i + !r->cased;
			break;
		}
		len = contraction_len(w->s + i, fold);
		/* Of two in a row o200k's word takes the first; the second is a word of its own. */
		if (len == 0 || (r->cased && end == i && end > 0))
			continue;
		end = i + len;
		starts &= ~(first_bits(end) & ~first_bits(i + !r->cased));
		starts |= (uint64_t)1 << end;
	}
	return starts;
}

/* GPT-2: a space joins whatever follows it. */
static inline uint64_t
starts_gpt2(const struct window *w)
{
	uint64_t l = w->letter, d = w->m.digit, o = w->other, s = w->m.white;
	uint64_t change = (l & ~(l << 1)) | (d & ~(d << 1)) | (o & ~(o << 1));

	/* white space starts with its run, and its last character is separate when something
	 * follows */
	return (change & ~(w->m.space << 1)) | (s & ~(s << 1)) | (s & ~(s >> 1));
}

/* What is between two runs is a piece, but its last space may belong to the run after it. */
static inline uint64_t
starts_runs(const struct window *w, const struct pretok_rules *r)
{
	uint64_t run = w->run & ~(w->run << 1), space = r->joins ? w->m.space : 0;
	uint64_t between = first_bits(w->valid) & ~w->run;

	return (run & ~(space << 1)) | (space & run >> 1) | (between & ~(between << 1));
}

/* Digits in groups of 1 or 3, counted from the beginning of their run. */
static inline uint64_t
starts_digits(uint64_t d, size_t group)
{
	uint64_t first = d & ~(d << 1), all = first;

	if (group == 1)
		return d;
	while ((first = first << 3 & d & d << 1 & d << 2))
		all |= first;
	return all;
}

/* The starts of the stretches after the last line end of each run of white space. */
static inline uint64_t
starts_after_newline(uint64_t white, uint64_t newline)
{
	uint64_t blank = white & ~newline, at = blank & newline << 1, starts = 0;

	for (; at; at &= at - 1) {
		/* the carry runs to the end of the stretch */
		uint64_t end = (at & -at) + blank;

		end &= ~blank & -(at & -at);
		if (!(end & -end & newline))
			starts |= at & -at;
	}
	return starts;
}

/* o200k's line ends after others may have slashes among them: too rare for masks. */
static inline void
clip_at_slash(struct window *w, uint64_t at)
{
	for (; at; at &= at - 1)
		if (w->s[lowest(at)] == '/') {
			w->valid = lowest(at);
			return;
		}
}

/*
 * The newer expressions: one character other than a letter, digit or line end joins the letters
 * after it unless it belongs to another piece, as after a space or next to another such character;
 * line ends join the others before them.
 */
static inline uint64_t
starts_newer(struct window *w, const struct pretok_rules *r)
{
	uint64_t l = w->letter, o = w->other, n = w->m.newline, taken = n & ~(n + (n & o << 1));
	uint64_t s = w->m.white & ~taken, blank = s & ~n,
		 alone = o & ~(o << 1) & ~(w->m.space << 1);
	uint64_t word = l & ~(l << 1) & ~(blank << 1) & ~(alone << 1);

	if (r->cased)
		word |= w->m.upper & w->m.lower << 1;
	if (r->slashes)
		clip_at_slash(w, taken << 1 & o);
	return word | alone | starts_digits(w->m.digit, r->digits) | (s & ~(s << 1)) |
	    (blank & ~((r->apart ? s | w->m.digit : s) >> 1)) | starts_after_newline(s, n & ~taken);
}

/* White space that the window cuts off is undecided from its beginning on. */
static inline unsigned
decided(const struct window *w)
{
	uint64_t tail = w->m.white << (64 - w->valid);

	if (!(tail >> 63))
		return w->valid;
	return ~tail ? w->valid - (unsigned)__builtin_clzll(~tail) + 1 : 1;
}

/* The certain starts after the first byte of the window at s. */
__attribute__((always_inline)) static inline uint64_t
window_starts(
    const struct pretok_rules *r, enum pretok_form form, const unsigned char *s, size_t left)
{
	struct window w;
	uint64_t starts;

	window_open(&w, r, form, s, left);
	if (w.valid < 2)
		return 0;
	if (form == FORM_RUNS)
		return starts_runs(&w, r) & ~(uint64_t)1;
	starts = form == FORM_NEWER ? starts_newer(&w, r) : starts_gpt2(&w);
	if (w.valid < 2)
		return 0;
	w.valid = decided(&w);
	if (r->contraction != CONTRACTION_NONE && w.m.apostrophe)
		starts = contractions(&w, r, starts | 1);
	return starts & first_bits(w.valid) & ~(uint64_t)1;
}

/* Writes the positions of the bits, at most 63, and some extra values after them, so that the
 * loop's end is easier to predict. end has room for 64. */
static inline size_t
put(uint32_t *end, size_t base, uint64_t m)
{
	size_t n = (size_t)__builtin_popcountll(m);

	for (size_t i = 0; i < n; i += 16)
		for (size_t k = i; k < i + 16; k++, m &= m - 1)
			end[k] = (uint32_t)base + (uint32_t)__builtin_ctzll(m | (uint64_t)1 << 63);
	return n;
}

/* Uses windows while they give starts, and the tables where they do not. form, from the rules, is a
 * constant in each copy of the loop, so that no copy makes masks it does not need; this is why the
 * copies are forced. */
__attribute__((always_inline)) static inline size_t
cut(const struct pretok *p, enum pretok_form form, struct pretok_text *t, uint32_t *end, size_t cap)
{
	size_t count = 0;

	while (count + PRETOK_BLOCK <= cap && t->pos < t->n) {
		uint64_t starts = t->s[t->pos] < 0x80
		    ? window_starts(&p->rules, form, t->s + t->pos, t->n - t->pos)
		    : 0;

		if (starts) {
			count += put(end + count, t->pos, starts);
			/* the last of them, kept in a register: the next window waits for it */
			t->pos += 63 - (size_t)__builtin_clzll(starts);
			continue;
		}
		count += pretok_scan_foreign(p, t, end + count, cap - count);
	}
	return count;
}

/* A copy for each form. */
size_t
pretok_ends(const struct pretok *p, struct pretok_text *t, uint32_t *end, size_t cap)
{
	if (!p->windows)
		return pretok_scan(p, t, end, cap);
	switch (p->rules.form) {
	case FORM_NEWER: return cut(p, FORM_NEWER, t, end, cap);
	case FORM_RUNS: return cut(p, FORM_RUNS, t, end, cap);
	default: return cut(p, FORM_GPT2, t, end, cap);
	}
}
