/* sentence.c - tests of tok/sentence: each rule of its header, and that only white space is ever
 * dropped */
#include "lib/base/str.h"
#include "tests/check.h"
#include "tok/sentence.h"

#include <stdint.h>
#include <string.h>

/* The sentences of a text, separated by bars. */
static void
cut(const char *text, size_t len, bool keep, struct str *out)
{
	struct sentence_walk w = { text, text + len, keep };
	const char *s;
	size_t n;

	while (sentence_next(&w, &s, &n)) {
		str_adds(out, out->len ? "|" : "");
		str_add(out, s, n);
	}
	CHECK(w.p == w.end);
}

static void
expect(const char *text, const char *want)
{
	struct str out = { 0 };

	str_adds(&out, "");
	cut(text, strlen(text), false, &out);
	CHECK_STR(out.buf, want);
	str_release(&out);
}

static void
test_latin(void)
{
	expect("", "");
	expect(" \n\t ", "");
	expect("One", "One");
	expect("  One. Two!  Three?\tFour ", "One.|Two!|Three?|Four");
	expect("Really?! Yes... No.", "Really?!|Yes...|No.");
	expect("wait... what", "wait... what");
	expect(
	    "He paid 3.50 at example.com today. Then", "He paid 3.50 at example.com today.|Then");
	expect("\"Stop!\" he said. \"Go.\" (He went.) [Yes.] End",
	    "\"Stop!\" he said.|\"Go.\"|(He went.)|[Yes.]|End");
	expect("C\u2019est fini \u00bb. \u00ab Oui. \u00bb Bien",
	    "C\u2019est fini \u00bb.|\u00ab Oui.|\u00bb Bien");
	expect("Yes\u2026 No", "Yes\u2026|No");
	expect("\u041e\u043d. \u041e\u043d\u0430. \u043e\u043d",
	    "\u041e\u043d.|\u041e\u043d\u0430.|\u043e\u043d");
	expect("One.Two", "One.Two");
	expect("etc. and so on", "etc. and so on");
}

static void
test_words(void)
{
	expect("Mr. Fox met Dr. No. They", "Mr. Fox met Dr. No. They");
	expect("see Fig. 3 and vol. II. Next", "see Fig. 3 and vol. II.|Next");
	expect("MR. FOX came", "MR. FOX came");
	expect("J. R. R. Tolkien wrote", "J. R. R. Tolkien wrote");
	expect("in the U.S. Army, e.g. There", "in the U.S. Army, e.g. There");
	expect("1. First 2. Second", "1. First 2.|Second");
	expect("In 1999. Then", "In 1999.|Then");
	expect("Who is Mr.? Nobody", "Who is Mr.?|Nobody");
	expect("caf\u00e9. \u00c9t\u00e9", "caf\u00e9.|\u00c9t\u00e9");
}

static void
test_wide(void)
{
	expect("\u72ac\u304c\u8d70\u3063\u305f\u3002\u732b\u3082\uff01",
	    "\u72ac\u304c\u8d70\u3063\u305f\u3002|\u732b\u3082\uff01");
	expect("\u300c\u901f\u3044\u3002\u300d\u3068\u8a00\u3063\u305f\u3002",
	    "\u300c\u901f\u3044\u3002\u300d|\u3068\u8a00\u3063\u305f\u3002");
	expect("\u672c\u5f53\uff1f\uff01\u306f\u3044", "\u672c\u5f53\uff1f\uff01|\u306f\u3044");
	expect("\u305d\u3046\u304b\u2026\u6b21", "\u305d\u3046\u304b\u2026\u6b21");
	expect("a\uff0eb\uff61c", "a\uff0e|b\uff61|c");
}

static void
test_lines(void)
{
	struct str out = { 0 };

	expect("a title\n\nText goes on\nhere.\n \t\nEnd", "a title|Text goes on\nhere.|End");
	cut("One.\n\n Two.  Three.\n", 20, true, &out);
	CHECK_STR(out.buf, "One.\n\n|Two.|Three.\n");
	str_release(&out);
}

/* All bytes except white space appear once and in order, for any text, also one truncated within a
 * character. */
static void
test_nothing_lost(void)
{
	static const char piece[][8] = { ".", "! ", "\n", " ", "Mr.", "a", "B", "\u3002", "\u2026",
		"\u300d", "\"", "1", "U.S.", "\xe3", "\x80", "\0" };
	uint32_t state = 1;

	for (int round = 0; round < 20000; round++) {
		struct str text = { 0 }, out = { 0 };
		size_t i = 0;

		for (int k = 0; k < 24; k++) {
			const char *p;

			state = state * 1664525 + 1013904223;
			p = piece[state >> 28];
			str_add(&text, p, *p ? strlen(p) : 1);
		}
		cut(text.buf, text.len, round & 1, &out);
		for (size_t k = 0; k < text.len; k++) {
			if (strchr(" \n", text.buf[k]) && text.buf[k])
				continue;
			while (i < out.len &&
			    (out.buf[i] == '|' || out.buf[i] == ' ' || out.buf[i] == '\n'))
				i++;
			if (i == out.len || out.buf[i++] != text.buf[k])
				CHECK(!"a byte was lost");
		}
		str_release(&text);
		str_release(&out);
	}
}

int
main(void)
{
	test_latin();
	test_words();
	test_wide();
	test_lines();
	test_nothing_lost();
	return check_done();
}
