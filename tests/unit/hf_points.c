/*
 * hf_points.c - components of a tokenizer.json give the reference's answer for every code point
 *
 * tests/golden/hf/points.tsv has each component and the CRC-32 of what the reference makes of all code points but
 * surrogates: pre-tokenizers of one between two letters, as "piece|piece|..." and a line feed; normalizers of it alone.
 */
#include "lib/base/json.h"
#include "lib/base/utf8.h"
#include "lib/token/split.h"
#include "tests/check.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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

/* What is left of the last step's scanner is the model's to cut. */
static int
answer(struct machine *m, bool normalizes, uint32_t cp)
{
	char text[8] = "A";
	size_t n = (size_t)utf8_encode(cp, (unsigned char *)text + 1);
	struct span s = { normalizes ? text + 1 : text, normalizes ? n : n + 2, true };
	struct err e;

	text[n + 1] = 'b';
	str_clear(&m->line);
	if (!normalizes)
		return splitter_run(&m->splitter, &m->split, &s, &(struct split_sink){ collect, &m->line }, &e);
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
	bool normalizes = strstr(text, "\"Strip") || strstr(text, "\"Lower");
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

int
main(void)
{
	FILE *f = fopen("tests/golden/hf/points.tsv", "r");
	char *line = NULL, *tab;
	size_t cap = 0;
	int count = 0;

	CHECK(f != NULL);
	while (f && getline(&line, &cap, f) > 0 && (tab = strchr(line, '\t'))) {
		*tab = tab[9] = '\0';
		test_component(line, tab + 1);
		count++;
	}
	CHECK(count == 9);
	free(line);
	if (f)
		fclose(f);
	return check_done();
}
