/*
 * expressions.c - compiled scanners against PCRE2, on random expressions and random text
 *
 *   expressions [COUNT]
 *
 * COUNT steps or sequences of steps are drawn, half of them from the parts of known tokenizers'
 * expressions, so that many have windows and others nearly do. The reference cuts by regex.h, step
 * after step, each piece by itself. Many random expressions have no scanner, most of them because
 * they match nothing; the rest are counted.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/token/pretok_impl.h"
#include "lib/token/regex.h"
#include "tests/check.h"

#include <stdbool.h>

enum { COUNT = 2000, TEXTS = 20, TEXT_MAX = 600, STEPS = 3, ENDS = 512 };

#define CASED(c) \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" \
	"+" c "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}" \
	"\\p{M}]*" c

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))

static const char *const sets[] = { "\\p{L}", "\\p{N}", "\\s", "\\S", "[^\\s\\p{L}\\p{N}]",
	"[\\r\\n]", "[a-c]", "[^a]", "\\p{Lu}", "[\\p{L}\\p{M}]", "\\p{Han}", "[\\p{P}\\p{S}]", ".",
	"[^\\r\\n\\p{L}\\p{N}]", "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
	"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]", "[一-龥぀-ヿ]", "\\P{L}", "[^(\\s|[.,!?…。，、।])]",
	"\\p{Hangul}", "[\\x{61}-\\x{63}\\-1]", "\\d" };
static const char *const letters[] = { "a", "b", "s", " ", "'", "1", "\\.", "é", "日", "\\n" };
static const char *const others[] = { "(?i:'s|'t|'re|'ll)", "(?!\\S)", "(?=\\s)", "(?!a)", "$",
	"(?i:[sdmt]|ve)", "(?!\\s|b)", "(?=[a-c])", "\\z" };
static const char *const times[] = { "?", "*", "+", "{1,3}", "{2}", "{2,}", "+?", "*?", "??",
	"{1,3}?" };
static const char *const possessive[] = { "?+", "*+", "++" };

static const char *
one_of(struct mt19937 *rng, const char *const *list, size_t count)
{
	return list[mt19937_interval(rng, count - 1)];
}

/* Appends a random expression. */
static void
add_expression(struct mt19937 *rng, struct str *out, int depth)
{
	size_t alternatives = 1 + mt19937_interval(rng, depth ? 1 : 4);

	for (size_t i = 0; i < alternatives; i++) {
		size_t parts = 1 + mt19937_interval(rng, 2);

		str_adds(out, i ? "|" : "");
		for (size_t k = 0; k < parts; k++) {
			uint64_t kind = mt19937_interval(rng, 19);

			if (kind == 0 && depth < 2) {
				str_adds(out, "(?:");
				add_expression(rng, out, depth + 1);
				str_adds(out, ")");
			} else if (kind <= 2) {
				str_adds(out, one_of(rng, others, COUNT_OF(others)));
				continue;
			} else if (kind <= 6) {
				str_adds(out, one_of(rng, letters, COUNT_OF(letters)));
			} else {
				str_adds(out, one_of(rng, sets, COUNT_OF(sets)));
				if (kind == 7)
					str_adds(
					    out, one_of(rng, possessive, COUNT_OF(possessive)));
				if (kind == 7)
					continue;
			}
			if (mt19937_interval(rng, 2))
				str_adds(out, one_of(rng, times, COUNT_OF(times)));
		}
	}
}

/* Characters of every kind, the same in all versions of Unicode. */
static size_t
random_text(struct mt19937 *rng, unsigned char *s)
{
	static const uint32_t points[] = { ' ', ' ', '\n', '\r', '\t', '\'', 's', 't', 'l', 'v',
		'e', 'r', 'd', 'a', 'b', 'c', 'A', 'S', 'T', '1', '2', '3', '.', ',', '(', '|', '-',
		0, 0x7f, 0x85, 0xa0, 0x17f, 0xe9, 0xc9, 0x1c5, 0x2b0, 0x301, 0x663, 0x2028, 0x200b,
		0x3000, 0x3001, 0x3042, 0x30fb, 0x65e5, 0x9fa5, 0x4e00, 0xac00, 0x1100, 0xe000,
		0x1f600, 0x20000, 0x10400 };
	static const char ascii[] = "abcs '1t. \nreASD/!,(\t2 ";
	size_t max = mt19937_interval(rng, mt19937_interval(rng, 3) ? 40 : TEXT_MAX - 20), n = 0;
	bool plain = mt19937_interval(rng, 1);

	while (n < max) {
		uint32_t cp = plain && mt19937_interval(rng, 30)
		    ? (uint32_t)ascii[mt19937_interval(rng, sizeof ascii - 2)]
		    : points[mt19937_interval(rng, COUNT_OF(points) - 1)];
		size_t run = mt19937_interval(rng, 5) ? 1 : 1 + mt19937_interval(rng, 3);

		for (; run > 0; run--)
			n += (size_t)utf8_encode(cp, s + n);
	}
	return n;
}

/* Steps by PCRE2, and the ends of the pieces. */
struct reference {
	struct regex *step[STEPS];
	struct regex_scratch *scratch;
	int count;
	unsigned char text[TEXT_MAX];
	size_t end[TEXT_MAX], ends;
};

/* Cuts a piece by a step and those after it; false when PCRE2 gives up. */
static bool
cut(struct reference *r, int step, size_t start, size_t end)
{
	struct regex_walk w = { .s = (const char *)r->text + start, .n = end - start };
	size_t done = 0;
	struct err e;
	int rc;

	if (start == end)
		return true;
	if (step == r->count || step == STEPS) {
		r->end[r->ends++] = end;
		return true;
	}
	while ((rc = regex_next(r->step[step], r->scratch, &w, &e)) > 0) {
		if (!cut(r, step + 1, start + done, start + w.start) ||
		    !cut(r, step + 1, start + w.start, start + w.end))
			return false;
		done = w.end;
	}
	return rc == 0 && cut(r, step + 1, start + done, end);
}

/* The scanner's pieces, by blocks of different sizes and one by one. */
static bool
same(const struct pretok *p, struct reference *r, struct mt19937 *rng, size_t n)
{
	const unsigned char *s = r->text;
	struct pretok_text t = { s, n, 0 };
	size_t at = 0, pos = 0, count;
	uint32_t end[ENDS];
	size_t cap = PRETOK_BLOCK + mt19937_interval(rng, ENDS - PRETOK_BLOCK);

	while ((count = pretok_ends(p, &t, end, cap)) > 0)
		for (size_t i = 0; i < count; pos = end[i++])
			if (at == r->ends || r->end[at++] != end[i] ||
			    pretok_next(p, s, n, pos) != end[i])
				return false;
	return pos == n && at == r->ends;
}

/* Compares on some texts. */
static void
compare(const struct pretok *p, struct reference *r, struct mt19937 *rng, const char *what)
{
	for (int i = 0; i < TEXTS; i++) {
		size_t n = random_text(rng, r->text);
		bool equal;

		r->ends = 0;
		if (!cut(r, 0, 0, n))
			continue;
		equal = same(p, r, rng, n);
		CHECK(equal);
		if (!equal) {
			fprintf(stderr, "%s on '%.*s'\n", what, (int)n, (const char *)r->text);
			return;
		}
	}
}

/* An expression from the parts of known ones. */
static void
add_relative(struct mt19937 *rng, struct str *out)
{
	static const char *const before[] = { "", "", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|",
		"'s|'t|'re|'ve|'m|'ll|'d|", "'(?i:[sdmt]|ll|ve|re)|", "(?i:'s|'t|'re|'ll)|" };
	static const char *const words[] = { "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", " ?\\p{L}+",
		"[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+", CASED(""),
		CASED("(?:'s|'t|'re|'ve|'m|'ll|'d)?"), CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?"),
		"\\p{Hangul}+|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+",
		"[!-/:-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+", "[a-z]+" };
	static const char *const numbers[] = { "|\\p{N}{1,3}", "|\\p{N}", "| ?\\p{N}+",
		"|\\p{N}{1,2}", "" };
	static const char *const rest[] = { "| ?[^\\s\\p{L}\\p{N}]+", "| ?[\\p{P}\\p{S}]+" };
	static const char *const lines[] = { "", "[\\r\\n]*|\\s*[\\r\\n]+",
		"[\\r\\n]*|\\s*[\\r\\n]+", "[\\r\\n/]*|\\s*[\\r\\n]+", "|\\s*[\\r\\n]+" };
	static const char *const white[] = { "|\\s+(?!\\S)|\\s+", "|\\s+(?!\\S)|\\s+",
		"|\\s+\\z|\\s+(?!\\S)|\\s", "|\\s+", "" };
	static const char *const runs[] = { " ?[^(\\s|[.,!?…。，、।])]+", "[^\\s,]+", " ?[a-z]+",
		"[\\p{L}\\p{N} ]+", " ?[^\\s]+", "[^a]+" };

	if (mt19937_interval(rng, 5) == 0) {
		str_adds(out, one_of(rng, runs, COUNT_OF(runs)));
		return;
	}
	str_adds(out, one_of(rng, before, COUNT_OF(before)));
	str_adds(out, one_of(rng, words, COUNT_OF(words)));
	str_adds(out, one_of(rng, numbers, COUNT_OF(numbers)));
	str_adds(out, one_of(rng, rest, COUNT_OF(rest)));
	str_adds(out, one_of(rng, lines, COUNT_OF(lines)));
	str_adds(out, one_of(rng, white, COUNT_OF(white)));
}

/* Steps of the kind that are joined before a random last one. */
static void
draw(struct mt19937 *rng, struct str *step, int count)
{
	static const char *const numbers[] = { "\\p{N}{1,3}", "\\p{N}", "\\p{N}+", "[0-9]" };
	bool relative = mt19937_interval(rng, 1);
	static const char *const ends[] = { "", "+", "{1,3}" };

	for (int i = 0; i < count; i++) {
		str_clear(&step[i]);
		if (i + 1 == count && relative) {
			add_relative(rng, &step[i]);
			continue;
		}
		if (i + 1 == count) {
			add_expression(rng, &step[i], 0);
			continue;
		}
		if (relative && mt19937_interval(rng, 1)) {
			str_adds(&step[i], one_of(rng, numbers, COUNT_OF(numbers)));
			continue;
		}
		str_adds(&step[i], one_of(rng, sets, COUNT_OF(sets)));
		str_adds(&step[i], one_of(rng, ends, COUNT_OF(ends)));
	}
}

/* Scanners, and those of them with windows. */
struct counts {
	long scanners, windows;
};

/* One sequence of steps. */
static void
try(struct mt19937 *rng, struct reference *r, struct str *step, struct counts *counts)
{
	struct pretok_step steps[STEPS] = { 0 };
	struct str what = { 0 };
	struct pretok *p;
	struct err e;
	bool ok = true;

	r->count = 1 + (int)mt19937_interval(rng, STEPS - 1);
	draw(rng, step, r->count);
	for (int i = 0; i < r->count; i++) {
		steps[i].regex = step[i].buf;
		steps[i].len = step[i].len;
		str_addf(&what, "%s%s", i ? " then " : "", step[i].buf);
	}
	p = pretok_compile(steps, r->count, &e);
	for (int i = 0; i < r->count; i++) {
		r->step[i] = p ? regex_new(step[i].buf, step[i].len, &e) : NULL;
		ok &= r->step[i] != NULL;
	}
	if (p && ok)
		compare(p, r, rng, what.buf);
	for (int i = 0; i < r->count; i++)
		regex_free(r->step[i]);
	counts->scanners += p != NULL;
	counts->windows += p && p->windows;
	pretok_free(p);
	str_release(&what);
}

/* Intersections, which PCRE2 lacks, against the same sets written otherwise. */
static void
test_intersections(struct mt19937 *rng)
{
	static const char *const pairs[][2] = { { "[\\p{L}&&[^\\p{Han}]]+",
						    "(?:(?!\\p{Han})\\p{L})+" },
		{ "[a-zé&&\\p{L}&&[^b]]", "[ac-zé]" },
		{ "[^\\s&&[^\\n]]+", "[^\\x{20}\\t\\r\\x{85}\\x{a0}\\x{2028}\\x{3000}]+" } };
	struct reference r = { .scratch = regex_scratch_new(), .count = 1 };
	struct err e = { "" };

	for (size_t i = 0; i < COUNT_OF(pairs); i++) {
		struct pretok_step step = { .regex = pairs[i][0], .len = strlen(pairs[i][0]) };
		struct pretok *p = pretok_compile(&step, 1, &e);

		r.step[0] = regex_new(pairs[i][1], strlen(pairs[i][1]), &e);
		CHECK_STR(e.msg, "");
		if (p && r.step[0])
			compare(p, &r, rng, pairs[i][0]);
		pretok_free(p);
		regex_free(r.step[0]);
	}
	regex_scratch_free(r.scratch);
}

int
main(int argc, char **argv)
{
	long count = argc > 1 ? strtol(argv[1], NULL, 10) : COUNT;
	struct counts counts = { 0, 0 };
	struct reference r = { .scratch = regex_scratch_new() };
	struct str step[STEPS] = { { 0 } };
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)check_seed());
	for (long i = 0; i < count; i++)
		try(&rng, &r, step, &counts);
	printf("%ld of %ld have a scanner, %ld windows\n", counts.scanners, count, counts.windows);
	CHECK(counts.scanners > count / 6 && counts.windows > count / 40);
	test_intersections(&rng);
	for (int i = 0; i < STEPS; i++)
		str_release(&step[i]);
	regex_scratch_free(r.scratch);
	return check_done();
}
