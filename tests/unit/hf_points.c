/*
 * hf_points.c - components of a tokenizer.json give the reference's answer for every code point
 *
 * tests/golden/hf/points.tsv has each component and the CRC-32 of the reference's results for all
 * code points except surrogates: of pre-tokenizers for the code point between two letters, as
 * "piece|piece|..." and a line feed; of normalizers for the code point alone. classes.tsv has
 * expressions and the checksum of the text that their matches leave of all code points, 1024 at a
 * time; pairs.tsv has first and second code points, and the checksum of the normal forms of all
 * pairs.
 */
#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "lib/token/split.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static int num_scanners; /* expressions of classes.tsv that have one */

struct machine {
	struct normalizer normalizer;
	struct normal_scratch normal;
	struct splitter splitter;
	struct split_scratch split;
	struct str line;
};

static int
collect(void *ctx, const struct span *piece, struct err *e)
{
	struct str *line = ctx;

	(void)e;
	str_adds(line, line->len ? "|" : "");
	str_add(line, piece->s, piece->n);
	return 0;
}

/* Text after the last step's scanner is split by the model. */
static int
answer(struct machine *m, bool normalizes, uint32_t cp)
{
	char text[8] = "A";
	size_t n = (size_t)utf8_encode(cp, (unsigned char *)text + 1);
	struct span s = { normalizes ? text + 1 : text, normalizes ? n : n + 2, 0 };
	struct err e;

	text[n + 1] = 'b';
	str_clear(&m->line);
	if (!normalizes)
		return splitter_run(
		    &m->splitter, &m->split, &s, &(struct split_sink){ collect, &m->line }, &e);
	if (normalizer_run(&m->normalizer, &m->normal, &s, &e) < 0)
		return -1;
	str_add(&m->line, s.s, s.n);
	return 0;
}

static void
test_component(const char *text, const char *want)
{
	struct err e = { "" };
	struct json *j = json_parse(text, strlen(text), "points.tsv", &e);
	bool normalizes =
	    strstr(text, "\"Strip") || strstr(text, "\"Lower") || strstr(text, "\"NF");
	struct machine m = { .normal.regex = regex_scratch_new() };
	uLong crc = 0;
	char got[16];
	int rc = 0;

	m.split.regex = m.normal.regex;
	CHECK_STR(j ? "" : e.msg, "");
	CHECK((normalizes ? normalizer_parse(&m.normalizer, json_root(j), &e)
			  : splitter_parse(&m.splitter, json_root(j), &e)) == 0);
	for (uint32_t cp = 0; cp < 0x110000 && rc == 0; cp++) {
		if (cp >= 0xd800 && cp < 0xe000)
			continue;
		rc = answer(&m, normalizes, cp);
		str_addc(&m.line, '\n');
		crc = crc32(crc, (const unsigned char *)m.line.buf, (uInt)m.line.len);
	}
	snprintf(got, sizeof got, "%08lx", crc);
	CHECK(rc == 0);
	CHECK_STR(got, want);
	normalizer_release(&m.normalizer);
	splitter_release(&m.splitter);
	normal_scratch_release(&m.normal);
	split_scratch_release(&m.split);
	regex_scratch_free(m.normal.regex);
	str_release(&m.line);
	json_free(j);
}

/* True when a scanner, if there is one, ends the piece where PCRE2 does. */
static bool
same_end(const struct pretok *p, const struct str *text, size_t from, size_t end)
{
	return !p || from == end ||
	    pretok_next(p, (const unsigned char *)text->buf, text->len, from) == end;
}

/* The text that the matches of an expression leave of each 1024 code points; the scanner of the
 * expression has the same matches. */
static void
test_class(const char *pattern, const char *want)
{
	struct regex_scratch *scratch = regex_scratch_new();
	struct err e = { "" };
	struct regex *r = regex_new(pattern, strlen(pattern), &e);
	struct pretok_step step = { .regex = pattern, .len = strlen(pattern) };
	struct pretok *p = pretok_compile(&step, 1, &(struct err){ "" });
	bool same = true;
	struct str text = { 0 }, left = { 0 };
	uLong crc = 0;
	char got[16];

	CHECK_STR(r ? "" : e.msg, "");
	for (uint32_t start = 0; r && start < 0x110000; start += 1024) {
		struct regex_walk w = { 0 };
		size_t done = 0;

		str_clear(&text);
		str_clear(&left);
		for (uint32_t cp = start; cp < start + 1024 && (start < 0xd800 || start >= 0xe000);
		     cp++) {
			unsigned char bytes[4];

			str_add(&text, bytes, (size_t)utf8_encode(cp, bytes));
		}
		w.s = text.buf;
		w.n = text.len;
		for (int more = text.len > 0; more; done = w.end) {
			more = regex_next(r, scratch, &w, &e) > 0;
			w.end = more ? w.end : w.n;
			w.start = more ? w.start : w.n;
			same &=
			    same_end(p, &text, done, w.start) && same_end(p, &text, w.start, w.end);
			if (w.start > done) {
				str_add(&left, text.buf + done, w.start - done);
				str_addc(&left, '|');
			}
		}
		str_addc(&left, '\n');
		crc = crc32(crc, (const unsigned char *)left.buf, (uInt)left.len);
	}
	snprintf(got, sizeof got, "%08lx", crc);
	if (strcmp(got, want) || !same)
		printf("%s\n", pattern);
	CHECK_STR(got, want);
	CHECK(same);
	num_scanners += p != NULL;
	pretok_free(p);
	regex_free(r);
	regex_scratch_free(scratch);
	str_release(&text);
	str_release(&left);
}

/* The code points of a line, in base 16. */
static size_t
read_points(FILE *f, uint32_t *out, size_t cap)
{
	char *line = NULL, *s;
	size_t room = 0, n = 0;

	if (getline(&line, &room, f) > 0)
		for (s = line; *s && *s != '\n' && n < cap;)
			out[n++] = (uint32_t)strtoul(s, &s, 16);
	free(line);
	return n;
}

/* The normal forms of each first code point's pairs, each followed by a bar, then a line feed. */
static unsigned long
sum_pairs(enum form_kind kind, uint32_t (*points)[4096], const size_t *count)
{
	struct form *f = form_new(kind);
	struct form_scratch x = { 0 };
	struct str in = { 0 }, out = { 0 };
	uLong crc = 0;

	for (size_t a = 0; a < count[0]; a++) {
		str_clear(&in);
		str_clear(&out);
		for (size_t b = 0; b < count[1]; b++) {
			unsigned char bytes[4];

			str_add(&in, bytes, (size_t)utf8_encode(points[0][a], bytes));
			str_add(&in, bytes, (size_t)utf8_encode(points[1][b], bytes));
			str_addc(&in, '|');
		}
		if (!form_apply(f, &x, in.buf, in.len, &out))
			str_add(&out, in.buf, in.len);
		str_addc(&out, '\n');
		crc = crc32(crc, (const unsigned char *)out.buf, (uInt)out.len);
	}
	form_scratch_release(&x);
	form_free(f);
	str_release(&in);
	str_release(&out);
	return crc;
}

static void
test_pairs(void)
{
	static const char *const names[FORM_KINDS] = { "NFC", "NFD", "NFKC", "NFKD" };
	static uint32_t points[2][4096];
	FILE *f = fopen("tests/golden/hf/pairs.tsv", "r");
	size_t count[2] = { 0 };

	CHECK(f != NULL);
	for (int i = 0; f && i < 2; i++)
		count[i] = read_points(f, points[i], 4096);
	CHECK(count[0] > 1000 && count[1] > 900);
	for (int i = 0; f && i < FORM_KINDS; i++) {
		char name[8], want[16], got[16];

		CHECK(fscanf(f, "%7s %15s", name, want) == 2);
		CHECK_STR(name, names[i]);
		snprintf(got, sizeof got, "%08lx", sum_pairs((enum form_kind)i, points, count));
		CHECK_STR(got, want);
	}
	if (f)
		fclose(f);
}

/* A file of lines "what, tab, checksum": returns how many. */
static int
each_line(const char *path, void (*test)(const char *what, const char *want))
{
	FILE *f = fopen(path, "r");
	char *line = NULL, *tab;
	size_t cap = 0;
	int count = 0;

	CHECK(f != NULL);
	while (f && getline(&line, &cap, f) > 0 && (tab = strchr(line, '\t'))) {
		*tab = tab[9] = '\0';
		test(line, tab + 1);
		count++;
	}
	free(line);
	if (f)
		fclose(f);
	return count;
}

int
main(void)
{
	CHECK(each_line("tests/golden/hf/points.tsv", test_component) == 13);
	CHECK(each_line("tests/golden/hf/classes.tsv", test_class) > 100);
	CHECK(num_scanners > 100);
	test_pairs();
	return check_done();
}
