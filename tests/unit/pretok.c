/*
 * pretok.c - the scanners against the regular expressions, run by PCRE2
 *
 * Random strings of three kinds: code points of every class, the few characters that the rules
 * mention, and, for the masks, long ASCII with occasional other characters. Code points with
 * another class in PCRE2's Unicode tables, which are of another version, are left out.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/token/pretok_impl.h"
#include "lib/token/unicode.h"
#include "tests/check.h"

#include <pcre2.h>
#include <stdbool.h>

enum { STRINGS = 100000, TEXT_MAX = 400, ENDS = 256 };

struct known {
	enum pretok_scanner scanner;
	const char *regex;
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS_O200K(c) \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" \
	"+" c "|" \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" \
	"*" c "|"

static const struct known expressions[] = {
	{ PRETOK_GPT2,
	    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
	{ PRETOK_GPT2,
	    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| "
	    "?[^\\s\\p{L}\\p{N}]++|\\s++$|\\s+(?!\\S)|\\s" },
	{ PRETOK_GPT2,
	    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" },
	{ PRETOK_CL100K,
	    CONTRACTIONS
	    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
	    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
	{ PRETOK_CL100K,
	    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}|"
	    " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
	    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
	{ PRETOK_CL100K_TAIL,
	    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
	    "?[^\\s\\p{L}\\p{N}]++"
	    "[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s" },
	{ PRETOK_QWEN2,
	    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
			 "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
	{ PRETOK_QWEN35,
	    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
			 " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
	{ PRETOK_O200K,
	    WORDS_O200K(CONTRACTIONS "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"
					  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
	{ PRETOK_TIKTOKEN_V1,
	    "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
	    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+" },
	{ PRETOK_TIKTOKEN_V2,
	    WORDS_O200K(
		"") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" },
};

struct oracle {
	pcre2_code *code;
	pcre2_match_data *match;
};

static struct oracle
oracle_new(const char *regex)
{
	struct oracle o;
	PCRE2_SIZE at;
	int error;

	o.code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
	    PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &at, NULL);
	CHECK(o.code != NULL);
	pcre2_jit_compile(o.code, PCRE2_JIT_COMPLETE);
	o.match = pcre2_match_data_create(1, NULL);
	return o;
}

static void
oracle_free(struct oracle *o)
{
	pcre2_match_data_free(o->match);
	pcre2_code_free(o->code);
}

/* The end of the match at pos, or pos. */
static size_t
oracle_next(const struct oracle *o, const unsigned char *s, size_t n, size_t pos)
{
	if (pcre2_match(o->code, s, n, pos, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, o->match, NULL) <
	    1)
		return pos;
	return pcre2_get_ovector_pointer(o->match)[1];
}

/* The alphabet of random strings: code points by class, where both tables agree. */
static uint32_t *agreed[UNICODE_CLASSES];
static size_t num_agreed[UNICODE_CLASSES];

static void
find_agreed(void)
{
	static const char *const class_regex[UNICODE_CLASSES] = { "[^\\p{L}\\p{M}\\p{N}\\s]",
		"[\\p{Lu}\\p{Lt}]", "\\p{Ll}", "[\\p{Lm}\\p{Lo}]", "\\p{M}", "\\p{N}", "\\s" };
	struct oracle o[UNICODE_CLASSES];
	size_t differ = 0;

	for (int c = 0; c < UNICODE_CLASSES; c++) {
		o[c] = oracle_new(class_regex[c]);
		agreed[c] = mem_alloc(UNICODE_CODE_POINTS, sizeof *agreed[c]);
	}
	for (uint32_t cp = 0; cp < UNICODE_CODE_POINTS; cp++) {
		enum unicode_class c = unicode_class(cp);
		unsigned char s[4];
		size_t n;

		if (cp >= 0xd800 && cp <= 0xdfff)
			continue;
		n = (size_t)utf8_encode(cp, s);
		if (oracle_next(&o[c], s, n, 0) == n)
			agreed[c][num_agreed[c]++] = cp;
		else
			differ++;
	}
	/* Unicode 15.0 to 16.0 assigned 10,301 characters; U+180E is white space to PCRE2 alone. */
	CHECK(differ < 11000);
	CHECK(num_agreed[CLASS_SPACE] == 25 && num_agreed[CLASS_UPPER] > 1800 &&
	    num_agreed[CLASS_MARK] > 2400);
	CHECK(unicode_class(0x110000) == CLASS_OTHER && unicode_class(UINT32_MAX) == CLASS_OTHER);
	for (int c = 0; c < UNICODE_CLASSES; c++)
		oracle_free(&o[c]);
}

/* One character of the kind that the round makes. */
static uint32_t
random_character(struct mt19937 *rng, int kind)
{
	static const uint32_t telling[] = { ' ', ' ', '\n', '\r', '\t', '\'', 's', 'T', 'l', 'v',
		'E', 'r', 'd', 'A', 'b', '1', '2', '/', '!', '.', 0x17f, 0xa0, 0x3000, 0x301,
		0x4e00, 0xe9, 0xc9, 0x1c5, 0x2b0, 0x663, 0x1f600, 0x85 };
	static const char ascii[] = "abcdeABCrelvstmd 0123456789'\n\r\t/.,!  ";
	enum unicode_class c;

	switch (kind) {
	case 0:
		c = (enum unicode_class)mt19937_interval(rng, UNICODE_CLASSES - 1);
		return agreed[c][mt19937_interval(rng, num_agreed[c] - 1)];
	case 1: return telling[mt19937_interval(rng, sizeof telling / sizeof *telling - 1)];
	default:
		return mt19937_interval(rng, 50)
		    ? (uint32_t)ascii[mt19937_interval(rng, sizeof ascii - 2)]
		    : random_character(rng, kind - 2);
	}
}

static size_t
random_text(struct mt19937 *rng, int round, unsigned char *s)
{
	size_t max = mt19937_interval(rng, round % 16 ? 40 : TEXT_MAX - 8), n = 0;

	while (n < max) {
		uint32_t cp = random_character(rng, round % 4);
		/* runs, so that their rules apply */
		size_t times = mt19937_interval(rng, 7) ? 1 : 1 + mt19937_interval(rng, 4);

		for (; times > 0 && n < max; times--)
			n += (size_t)utf8_encode(cp, s + n);
	}
	return n;
}

/* All pieces of one text, by the expression, one by one and by blocks. */
static bool
same_pieces(const struct oracle *o, const struct pretok *p, const unsigned char *s, size_t n)
{
	struct pretok_text t = { s, n, 0 };
	uint32_t end[ENDS];
	size_t pos = 0, count;

	while ((count = pretok_ends(p, &t, end, ENDS)) > 0)
		for (size_t i = 0; i < count; pos = end[i++])
			if (oracle_next(o, s, n, pos) != end[i] ||
			    pretok_next(p, s, n, pos) != end[i])
				return false;
	return pos == n && t.pos == n;
}

static void
test_expression(const struct known *x, struct mt19937 *rng)
{
	struct oracle o = oracle_new(x->regex);
	struct pretok *p = pretok_new(x->scanner);
	unsigned char s[TEXT_MAX];

	CHECK(pretok_find(x->regex, strlen(x->regex)) == x->scanner);
	for (int round = 0; round < STRINGS; round++) {
		size_t n = random_text(rng, round, s);
		bool same = same_pieces(&o, p, s, n);

		CHECK(same);
		if (!same) {
			fprintf(stderr, "expression %s, text '%.*s'\n", x->regex, (int)n,
			    (const char *)s);
			break;
		}
	}
	pretok_free(p);
	oracle_free(&o);
}

/* Bytes that are not UTF-8: no oracle defines the result, but both ways of splitting must agree and
 * end. */
static void
test_malformed(struct mt19937 *rng)
{
	for (int k = 0; k < PRETOK_SCANNERS; k++) {
		struct pretok *p = pretok_new((enum pretok_scanner)k);

		for (int round = 0; round < STRINGS / 10; round++) {
			unsigned char s[TEXT_MAX];
			size_t n = random_text(rng, round, s), pos = 0, count;
			struct pretok_text t = { s, n, 0 };
			uint32_t end[ENDS];

			for (size_t i = 0; i < n; i += 1 + mt19937_interval(rng, 20))
				s[i] = (unsigned char)mt19937_next(rng);
			while ((count = pretok_ends(p, &t, end, ENDS)) > 0)
				for (size_t i = 0; i < count; pos = end[i++])
					CHECK(pretok_next(p, s, n, pos) == end[i] && end[i] > pos);
			CHECK(pos == n);
		}
		pretok_free(p);
	}
}

static void
test_find(void)
{
	const char *other = "\\p{L}+", *gpt2 = expressions[0].regex;

	CHECK(
	    pretok_find(other, strlen(other)) == PRETOK_NONE && pretok_find("", 0) == PRETOK_NONE);
	CHECK(pretok_find(gpt2, strlen(gpt2) - 1) == PRETOK_NONE);
}

/* Steps that are one scanner, ended by NULL, and the reason where they are not. */
struct steps {
	const char *step[3], *why;
};

#define KIMI_WORD(a, b) \
	"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]" a \
	"[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]" b CONTRACTIONS "?"
#define KIMI_WORDS "\\p{Han}+|" KIMI_WORD("*", "+") "|" KIMI_WORD("+", "*")
#define WHITE "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define CL100K \
	CONTRACTIONS \
	"|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE
#define HANGUL "\\p{Hangul}+|" CL100K
#define DEEPSEEK \
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" \
	"[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" WHITE

static const struct steps steps[] = {
	{ { KIMI_WORDS WHITE } },
	{ { "\\p{N}{1,3}", "[a-z]+", "\\s?\\p{L}+|[^\\s\\p{N}]" } },
	{ { "\\p{N}{1,3}", "\\p{N}+|\\p{L}" } },
	{ { "a+b|\\s" }, "matches may be searched for without bound" },
	{ { "\\s+$" }, "matches may be searched for without bound" },
	{ { "a?" }, "an expression that matches nothing at byte 2 has no scanner" },
	{ { "(a)\\1" }, "this escape at byte 5 has no scanner" },
	{ { "[[:alpha:]]" }, "'[:' at byte 2 has no scanner" },
	{ { "ab", "c" }, "step 1 cuts at more than characters of a set" },
	{ { "\\p{N}{1,3}", "\\p{N}{1,2}", "a" }, "step 2 cuts the pieces of an earlier one" },
	{ { "\\p{N}{1,3}", "1" }, "the last step cuts the pieces of an earlier one" },
};

static struct pretok *
compile(const struct steps *x, struct err *e)
{
	struct pretok_step step[3] = { 0 };
	int count = 0;

	for (; count < 3 && x->step[count]; count++)
		step[count] =
		    (struct pretok_step){ .regex = x->step[count], .len = strlen(x->step[count]) };
	return pretok_compile(step, count, e);
}

/* Long runs in which a search from each place to the end would take hours. */
static void
test_compile(void)
{
	static const char *const unit[] = { "A", " ", "\n  ", "'",
		"\xe6\x97\xa5"
		"A",
		"\xcc\x81"
		"A",
		"1a" };
	enum { REPEAT = 300000 };

	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		struct err e = { "" };
		struct pretok *p = compile(&steps[i], &e);

		CHECK((p != NULL) == (steps[i].why == NULL));
		CHECK_STR(p ? "" : e.msg, p ? "" : steps[i].why ? steps[i].why : "");
		for (size_t k = 0; p && k < sizeof unit / sizeof *unit; k++) {
			struct str text = { 0 };
			struct pretok_text t = { 0 };
			uint32_t end[ENDS];

			for (int times = 0; times < REPEAT; times++)
				str_adds(&text, unit[k]);
			t.s = (const unsigned char *)text.buf;
			t.n = text.len;
			while (pretok_ends(p, &t, end, ENDS) > 0)
				;
			CHECK(t.pos == t.n);
			str_release(&text);
		}
		pretok_free(p);
	}
}

/* Expressions of other tokenizers and, where they nearly are of a form, what differs. */
static const struct {
	struct steps steps;
	bool windows;
} like_known[] = {
	{ { { HANGUL } }, true },
	{ { { "\\p{Han}+", "[\\p{Hiragana}\\p{Katakana}]+", CL100K } }, true },
	{ { { KIMI_WORDS "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE } }, true },
	{ { { KIMI_WORDS WHITE } }, false }, /* without numbers and others */
	{ { { "\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK } }, true },
	{ { { DEEPSEEK } }, false }, /* without numbers */
	{ { { " ?[^(\\s|[.,!?…。，、।۔،])]+" } }, true },
	{ { { "\\p{L}+" } }, true },
	{ { { "\\p{L}+|11" } }, false },          /* not every 1 is a match */
	{ { { "[.!]", " ?[^\\s.,]+" } }, false }, /* some are pieces one by one */
	{ { { "\\p{N}+", " ?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+" } }, false },
};

static void
test_windows(void)
{
	for (size_t i = 0; i < sizeof like_known / sizeof *like_known; i++) {
		struct err e = { "" };
		struct pretok *p = compile(&like_known[i].steps, &e);

		CHECK_STR(e.msg, "");
		if (p && p->windows != like_known[i].windows)
			fprintf(stderr, "%s\n", like_known[i].steps.step[0]);
		CHECK(p && p->windows == like_known[i].windows);
		pretok_free(p);
	}
}

int
main(void)
{
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)check_seed());
	find_agreed();
	test_find();
	test_compile();
	test_windows();
	for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
		test_expression(&expressions[i], &rng);
	test_malformed(&rng);
	for (int c = 0; c < UNICODE_CLASSES; c++)
		free(agreed[c]);
	return check_done();
}
