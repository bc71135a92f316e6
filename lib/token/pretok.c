/*
 * pretok.c - cutting text into the pieces that BPE merges, a character at a time
 *
 * A row per expression holds the differences; each shared alternative is a function, and they are
 * tried in order at the current position. pretok_ends (pretok_block.c) finds the same ends from bit
 * masks of a block of text and falls back to this file where masks do not suffice.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/pretok.h"
#include "lib/token/pretok_impl.h"
#include "lib/token/unicode.h"

#include <stdlib.h>
#include <string.h>

#define LETTERS (BIT(CLASS_UPPER) | BIT(CLASS_LOWER) | BIT(CLASS_LETTER))
#define MARK BIT(CLASS_MARK)
#define NOT_OTHERS (LETTERS | BIT(CLASS_NUMBER) | BIT(CLASS_SPACE) | BIT(CLASS_NEWLINE))

static const struct pretok_rules rules[PRETOK_SCANNERS] = {
	[PRETOK_GPT2] = { CONTRACTION_LOWER, LETTERS, .digits = SIZE_MAX },
	[PRETOK_CL100K] = { CONTRACTION_ANY, LETTERS, .digits = 3, .newlines = true },
	[PRETOK_CL100K_TAIL] = { CONTRACTION_ANY, LETTERS, .digits = 3, .newlines = true,
	    .tail = true },
	[PRETOK_QWEN2] = { CONTRACTION_ANY, LETTERS, .digits = 1, .newlines = true },
	[PRETOK_QWEN35] = { CONTRACTION_ANY, LETTERS | MARK, .digits = 1, .newlines = true },
	[PRETOK_O200K] = { CONTRACTION_ANY, LETTERS, .digits = 3, .newlines = true, .cased = true },
	[PRETOK_TIKTOKEN_V1] = { CONTRACTION_NONE, LETTERS, .digits = 1, .newlines = true },
	[PRETOK_TIKTOKEN_V2] = { CONTRACTION_NONE, LETTERS, .digits = 1, .newlines = true,
	    .cased = true },
};

#define RE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define RE_WHITE "|\\s+(?!\\S)|\\s+"
#define RE_PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define RE_UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define RE_LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define RE_OTHERS "| ?[^\\s\\p{L}\\p{N}]+"
#define RE_O200K(c) \
	RE_PREFIX RE_UPPERS "*" RE_LOWERS "+" c "|" RE_PREFIX RE_UPPERS "+" RE_LOWERS "*" c

/* The same expression with possessive quantifiers, or with its parts factored out, counts as
 * another spelling. Sources: openai/tiktoken openai_public.py (several versions), the
 * tokenizer.json of each model, Megatron-LM's tiktoken_tokenizer.py. */
static const struct {
	enum pretok_scanner scanner;
	const char *regex;
} known[] = {
	{ PRETOK_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+" RE_OTHERS RE_WHITE },
	{ PRETOK_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?[\\p{L}]+| ?[\\p{N}]+" RE_OTHERS RE_WHITE },
	{ PRETOK_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+" RE_OTHERS RE_WHITE },
	{ PRETOK_GPT2,
	    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++" RE_OTHERS "+|\\s++$|\\s+(?!\\S)|\\s" },
	{ PRETOK_CL100K,
	    RE_CONTRACTIONS "|" RE_PREFIX "\\p{L}+|\\p{N}{1,3}" RE_OTHERS
			    "[\\r\\n]*|\\s*[\\r\\n]+" RE_WHITE },
	{ PRETOK_CL100K,
	    "'(?i:[sdmt]|ll|ve|re)|" RE_PREFIX "+\\p{L}+|\\p{N}{1,3}" RE_OTHERS
	    "+[\\r\\n]*|\\s*[\\r\\n]" RE_WHITE },
	{ PRETOK_CL100K_TAIL,
	    "'(?i:[sdmt]|ll|ve|re)|" RE_PREFIX "+\\p{L}++|\\p{N}{1,3}+" RE_OTHERS
	    "+[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
	{ PRETOK_QWEN2,
	    RE_CONTRACTIONS "|" RE_PREFIX "\\p{L}+|\\p{N}" RE_OTHERS
			    "[\\r\\n]*|\\s*[\\r\\n]+" RE_WHITE },
	{ PRETOK_QWEN35,
	    RE_CONTRACTIONS "|" RE_PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
			    "[\\r\\n]*|\\s*[\\r\\n]+" RE_WHITE },
	{ PRETOK_O200K,
	    RE_O200K(RE_CONTRACTIONS "?") "|\\p{N}{1,3}" RE_OTHERS
					  "[\\r\\n/]*|\\s*[\\r\\n]+" RE_WHITE },
	{ PRETOK_TIKTOKEN_V1,
	    RE_PREFIX "+\\p{L}+|\\p{N}" RE_OTHERS "+[\\r\\n]*|\\s*[\\r\\n]" RE_WHITE },
	{ PRETOK_TIKTOKEN_V2,
	    RE_O200K("") "|\\p{N}" RE_OTHERS "[\\r\\n/]*|\\s*[\\r\\n]+" RE_WHITE },
};

/* Byte for byte: an expression that is only equivalent is left to a general engine. */
enum pretok_scanner
pretok_find(const char *regex, size_t len)
{
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i].regex) == len && !memcmp(known[i].regex, regex, len))
			return known[i].scanner;
	return PRETOK_NONE;
}

/* Only the pages of the table that a text touches occupy a cache. */
struct pretok *
pretok_new(enum pretok_scanner scanner)
{
	struct pretok *p = mem_zalloc_whole(1, sizeof *p);

	p->rules = rules[scanner];
	p->rules.others = (BIT(NUM_CLASSES) - 1) & ~(p->rules.letters | NOT_OTHERS);
	unicode_spread(p->class);
	p->class['\n'] = p->class['\r'] = CLASS_NEWLINE;
	return p;
}

/* NULL is fine. */
void
pretok_free(struct pretok *p)
{
	free(p);
}

/* The character at pos < n: its class as one bit, and its length in bytes. */
static inline unsigned
char_at(const struct pretok *p, const unsigned char *s, size_t n, size_t pos, size_t *len)
{
	uint32_t cp = s[pos];
	int m;

	*len = 1;
	if (cp < 0x80)
		return BIT(p->class[cp]);
	/* most non-ASCII characters have three bytes; E0 and ED have malformed ones */
	if (cp > 0xe0 && cp < 0xed && n - pos >= 3 && (s[pos + 1] & 0xc0) == 0x80 &&
	    (s[pos + 2] & 0xc0) == 0x80) {
		*len = 3;
		return BIT(
		    p->class[(cp & 0xf) << 12 | (s[pos + 1] & 0x3fu) << 6 | (s[pos + 2] & 0x3fu)]);
	}
	m = utf8_decode(s + pos, n - pos, &cp);
	if (m == 0)
		return BIT(CLASS_OTHER);
	*len = (size_t)m;
	return BIT(p->class[cp]);
}

/* The end of the longest run of characters of a set, at most max of them. */
static inline size_t
run(const struct pretok *p, const struct pretok_text *t, size_t pos, unsigned set, size_t max)
{
	size_t len;

	for (; max > 0 && pos < t->n && char_at(p, t->s, t->n, pos, &len) & set; pos += len)
		max--;
	return pos;
}

/*
 * The end of a contraction at pos, or pos: an apostrophe and one of s t m d re ve ll. Without case
 * U+017F, the long s, is an s too: simple case folding, as the engines do it.
 */
static size_t
contraction(const struct pretok *p, const struct pretok_text *t, size_t pos)
{
	const unsigned char *s = t->s + pos + 1;
	size_t left = t->n - pos - (pos < t->n);
	unsigned fold = p->rules.contraction == CONTRACTION_ANY ? 0x20 : 0, a, b;

	if (p->rules.contraction == CONTRACTION_NONE || left == 0 || t->s[pos] != '\'')
		return pos;
	a = s[0] | fold;
	if (a == 's' || a == 't' || a == 'm' || a == 'd')
		return pos + 2;
	if (left < 2)
		return pos;
	b = s[1] | fold;
	if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ||
	    (fold && s[0] == 0xc5 && s[1] == 0xbf))
		return pos + 3;
	return pos;
}

/*
 * The end of white space that begins at pos. In the newer expressions a run with a line end goes up
 * to its last line end; otherwise the last character of a run is left for the next piece, unless it
 * is the only one or the text ends.
 */
static size_t
white(const struct pretok *p, const struct pretok_text *t, size_t pos)
{
	size_t end = pos, last = pos, line_end = pos, len;
	unsigned c;

	while (end < t->n && (c = char_at(p, t->s, t->n, end, &len)) & WHITES) {
		last = end;
		end += len;
		if (c == BIT(CLASS_NEWLINE))
			line_end = end;
	}
	if (p->rules.tail && end == t->n)
		return end;
	if (p->rules.newlines && line_end > pos)
		return line_end;
	return end == t->n || last == pos ? end : last;
}

/* GPT-2: an optional space, then letters, numbers or others. */
static size_t
gpt2(const struct pretok *p, const struct pretok_text *t, size_t pos)
{
	size_t at = pos + (t->s[pos] == ' ' && pos + 1 < t->n);
	size_t len;
	unsigned c = at < t->n ? char_at(p, t->s, t->n, at, &len) : 0;

	if (c & WHITES)
		return white(p, t, pos);
	return run(p, t, at,
	    c & p->rules.letters         ? p->rules.letters
		: c == BIT(CLASS_NUMBER) ? c
					 : p->rules.others,
	    SIZE_MAX);
}

/*
 * o200k's words from their first character on: capitals, then at least one small letter, where
 * marks and letters without case are both. Without a small letter after the capitals the expression
 * backtracks to the last character that can be one. Returns at when there is no match.
 */
static size_t
small_word(const struct pretok *p, const struct pretok_text *t, size_t at)
{
	size_t pos = at, end = at, len = 0;
	unsigned c = 0;

	for (; pos < t->n && (c = char_at(p, t->s, t->n, pos, &len)) & UPPERS; pos += len)
		if (c & LOWERS)
			end = pos + len;
	return pos < t->n && c == BIT(CLASS_LOWER) ? run(p, t, pos, LOWERS, SIZE_MAX) : end;
}

/* Both forms of o200k's words, each first with the prefix of len bytes and then without it; pos
 * when there is none. */
static size_t
cased_word(const struct pretok *p, const struct pretok_text *t, size_t pos, size_t prefix)
{
	size_t end = small_word(p, t, pos + prefix);

	if (end > pos + prefix)
		return end;
	end = prefix ? small_word(p, t, pos) : pos;
	if (end > pos)
		return end;
	end = run(p, t, pos + prefix, UPPERS, SIZE_MAX);
	return end > pos + prefix ? end : pos;
}

/* A word with an optional character before it that is not a letter, number or line end; pos when
 * none begins here. */
static size_t
word(const struct pretok *p, const struct pretok_text *t, size_t pos)
{
	size_t len, end;
	unsigned c = char_at(p, t->s, t->n, pos, &len);
	size_t prefix = c & (LETTERS | BIT(CLASS_NUMBER) | BIT(CLASS_NEWLINE)) ? 0 : len;

	if (p->rules.cased) {
		end = cased_word(p, t, pos, prefix);
		return end > pos ? contraction(p, t, end) : pos;
	}
	end = run(p, t, pos + prefix, p->rules.letters, SIZE_MAX);
	if (end > pos + prefix)
		return end;
	return c & p->rules.letters ? run(p, t, pos, p->rules.letters, SIZE_MAX) : pos;
}

/* An optional space, others, and the line ends after them; pos when none begin here. */
static size_t
others(const struct pretok *p, const struct pretok_text *t, size_t pos)
{
	size_t at = pos + (t->s[pos] == ' ');
	size_t end = run(p, t, at, p->rules.others, SIZE_MAX);

	if (end == at)
		return pos;
	while (end < t->n &&
	    (t->s[end] == '\r' || t->s[end] == '\n' || (t->s[end] == '/' && p->rules.cased)))
		end++;
	return end;
}

/* Tries the alternatives of the expression in order. */
size_t
pretok_next(const struct pretok *p, const unsigned char *s, size_t n, size_t pos)
{
	struct pretok_text t = { s, n, pos };
	size_t end = p->rules.cased ? pos : contraction(p, &t, pos);

	if (end > pos)
		return end;
	if (!p->rules.newlines)
		return gpt2(p, &t, pos);
	end = word(p, &t, pos);
	if (end == pos)
		end = run(p, &t, pos, BIT(CLASS_NUMBER), p->rules.digits);
	if (end == pos)
		end = others(p, &t, pos);
	return end > pos ? end : white(p, &t, pos);
}
