/*
 * sentence.c - a text cut into sentences by rule
 *
 * Each byte is read once; only marks that may end a sentence are examined further. All marks
 * outside ASCII are three bytes of UTF-8, which keeps the tables plain strings.
 */
#include "tok/sentence.h"

#include <string.h>

/* Words that a full stop shortens and that rarely end a sentence; compared without case, sorted. */
static const char *const abbreviations[] = {
	"adj",
	"adm",
	"al",
	"approx",
	"apr",
	"art",
	"assn",
	"aug",
	"ave",
	"bldg",
	"blvd",
	"brig",
	"bros",
	"ca",
	"capt",
	"cf",
	"ch",
	"cmdr",
	"col",
	"corp",
	"cpl",
	"dec",
	"dept",
	"det",
	"dr",
	"ed",
	"eds",
	"eq",
	"eqs",
	"esp",
	"esq",
	"est",
	"ex",
	"feb",
	"fig",
	"figs",
	"fr",
	"fri",
	"ft",
	"gen",
	"gov",
	"hon",
	"hr",
	"ibid",
	"inc",
	"jan",
	"jr",
	"jul",
	"jun",
	"lt",
	"ltd",
	"maj",
	"mar",
	"max",
	"messrs",
	"mfg",
	"min",
	"mlle",
	"mme",
	"mon",
	"mr",
	"mrs",
	"ms",
	"msgr",
	"mt",
	"no",
	"nos",
	"nov",
	"nr",
	"oct",
	"op",
	"orig",
	"pp",
	"pres",
	"prof",
	"prop",
	"pt",
	"pvt",
	"ref",
	"refs",
	"rep",
	"rev",
	"sat",
	"sec",
	"sen",
	"sep",
	"sept",
	"sgt",
	"sr",
	"st",
	"str",
	"supt",
	"tel",
	"thu",
	"tue",
	"univ",
	"var",
	"viz",
	"vol",
	"vols",
	"vs",
	"wed",
};

enum {
	NUM_ABBREVIATIONS = sizeof abbreviations / sizeof *abbreviations,
	ABBREVIATION_MAX = 7,
	WIDE = 3
};

/* True when the three bytes at p are one of the marks of a list. */
static bool
one_of(const char *p, const char *end, const char *marks)
{
	if (end - p < WIDE || (unsigned char)*p < 0xe2)
		return false;
	for (; *marks; marks += WIDE)
		if (!memcmp(p, marks, WIDE))
			return true;
	return false;
}

/* Rule 1. */
static bool
is_wide_stop(const char *p, const char *end)
{
	return one_of(p, end, "\u3002\uff01\uff0e\uff1f\uff61");
}

/* Rule 2: the bytes of the mark at p, 0 when there is none. */
static size_t
narrow_stop(const char *p, const char *end)
{
	if (*p == '.' || *p == '!' || *p == '?')
		return 1;
	return one_of(p, end, "\u2026") ? WIDE : 0;
}

/* Rule 4: the bytes of what follows a mark and belongs to it. */
static size_t
closer(const char *p, const char *end)
{
	if (p < end && strchr("\"')]}", *p) && *p)
		return 1;
	if (end - p >= 2 && !memcmp(p, "\u00bb", 2))
		return 2;
	return one_of(p, end,
		   "\u2019\u201d\u300d\u300f\u3011\u3015\u3009\u300b\uff09\uff3d\uff5d\uff63")
	    ? WIDE
	    : 0;
}

/* The white space that may stand between sentences. */
static bool
is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* ASCII alone: the rules are for English. */
static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ASCII alone, whatever the locale. */
static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* True when a word is in the table. */
static bool
is_abbreviation(const char *word, size_t n)
{
	char lower[ABBREVIATION_MAX + 1];

	if (n > ABBREVIATION_MAX)
		return false;
	for (size_t i = 0; i < n; i++)
		lower[i] = (char)(word[i] | 0x20);
	lower[n] = '\0';
	for (int i = 0; i < NUM_ABBREVIATIONS; i++)
		if (!strcmp(lower, abbreviations[i]))
			return true;
	return false;
}

/* Rule 3: true when the single full stop at p belongs to the word before it. begin is the first
 * byte of the sentence. */
static bool
belongs_to_word(const char *begin, const char *p)
{
	const char *word = p, *digits = p;
	bool dotted = true; /* every letter but the first has a full stop before it */

	while (word > begin && (is_letter(word[-1]) || word[-1] == '.'))
		word--;
	for (const char *q = word; q < p; q++)
		dotted = dotted && (q - word) % 2 == (*q == '.');
	if (word > begin && (unsigned char)word[-1] >= 0x80)
		return false; /* the tail of a word of another script */
	if (word < p)
		return (dotted && (p - word) % 2 == 1) || is_abbreviation(word, (size_t)(p - word));
	while (digits > begin && is_digit(digits[-1]))
		digits--;
	return digits == begin && digits < p;
}

/* Takes further marks and closers after the mark that ends at p. */
static const char *
take_closers(const char *p, const char *end)
{
	while (p < end) {
		size_t n = closer(p, end);

		n = n ? n : is_wide_stop(p, end) ? WIDE : narrow_stop(p, end);
		if (n == 0)
			break;
		p += n;
	}
	return p;
}

/* True when a narrow mark, with all that belongs to it up to p, ends a sentence. */
static bool
is_followed_by_start(const char *p, const char *end)
{
	if (p == end || !is_space(*p))
		return false;
	while (p < end && is_space(*p))
		p++;
	return p < end && !(*p >= 'a' && *p <= 'z');
}

/* Rule 5: true when a blank line follows the line feed at p. */
static bool
is_blank_line(const char *p, const char *end)
{
	for (p++; p < end && is_space(*p); p++)
		if (*p == '\n')
			return true;
	return false;
}

/* Where the sentence that begins at `begin` ends. */
static const char *
find_end(const char *begin, const char *end)
{
	for (const char *p = begin; p < end;) {
		size_t n = narrow_stop(p, end);
		const char *after;

		if (*p == '\n' && is_blank_line(p, end))
			return p;
		if (is_wide_stop(p, end))
			return take_closers(p + WIDE, end);
		if (n == 0) {
			p++;
			continue;
		}
		after = take_closers(p + n, end);
		if (is_followed_by_start(after, end) &&
		    !(*p == '.' && after == p + 1 && belongs_to_word(begin, p)))
			return after;
		p = after;
	}
	return end;
}

/* Skips white space; a sentence that keeps its line feeds takes the white space up to the last of
 * them. */
bool
sentence_next(struct sentence_walk *w, const char **text, size_t *len)
{
	const char *begin = w->p, *stop;

	while (begin < w->end && is_space(*begin))
		begin++;
	if (begin == w->end) {
		w->p = w->end;
		return false;
	}
	stop = find_end(begin, w->end);
	while (stop > begin && is_space(stop[-1]))
		stop--;
	w->p = stop;
	while (w->keep_newlines && w->p < w->end && is_space(*w->p)) {
		w->p++;
		stop = w->p[-1] == '\n' ? w->p : stop;
	}
	*text = begin;
	*len = (size_t)(stop - begin);
	return true;
}
