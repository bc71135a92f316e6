/* bpe.c - tests of lib/token/bpe and lib/token/pretok */
#include "lib/base/str.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/pretok.h"
#include "tests/check.h"

/* Bytes are their own ids; "ab" 256, "bc" 257, "aa" 258, "aaaa" 259, "abc" 260, "wxyz" 261, which
 * no merge makes. */
static unsigned char byte[256];
static struct bpe_token tokens[262] = {
	[256] = { (const unsigned char *)"ab", 2 },
	[257] = { (const unsigned char *)"bc", 2 },
	[258] = { (const unsigned char *)"aa", 2 },
	[259] = { (const unsigned char *)"aaaa", 4 },
	[260] = { (const unsigned char *)"abc", 3 },
	[261] = { (const unsigned char *)"wxyz", 4 },
};
static const struct bpe_merge merges[] = { { 'b', 'c' }, { 'a', 'b' }, { 'a', 'a' }, { 258, 258 },
	{ 'a', 257 } };

static struct bpe *
small(bool whole_piece)
{
	struct bpe_spec spec = { .token = tokens,
		.num_tokens = 262,
		.merge = merges,
		.num_merges = 5,
		.whole_piece = whole_piece };
	struct err e = { "" };
	struct bpe *b;

	for (int i = 0; i < 256; i++) {
		byte[i] = (unsigned char)i;
		tokens[i] = (struct bpe_token){ &byte[i], 1 };
	}
	b = bpe_new(&spec, NULL, &e);
	CHECK_STR(e.msg, "");
	return b;
}

static void
expect(const struct bpe *b, const char *piece, const char *want)
{
	struct bpe_worker *w = bpe_worker_new(b);
	struct token_ids ids = { 0 };
	struct str s = { 0 };

	/* Twice: the second time from the cache. */
	for (int turn = 0; turn < 2; turn++) {
		ids.count = 0;
		str_clear(&s);
		bpe_encode_piece(w, (const unsigned char *)piece, strlen(piece), &ids);
		for (size_t i = 0; i < ids.count; i++)
			str_addf(&s, "%s%u", i ? " " : "", ids.id[i]);
		CHECK_STR(s.len ? s.buf : "", want);
	}
	str_release(&s);
	token_ids_release(&ids);
	bpe_worker_free(w);
}

static void
test_merges(void)
{
	struct bpe *b = small(false);

	expect(b, "", "");
	expect(b, "a", "97");
	expect(b, "abc", "260");
	expect(b, "ab", "256");
	expect(b, "aab", "97 256");
	expect(b, "aaa", "258 97");
	expect(b, "aaaaa", "259 97");
	expect(b, "xyz", "120 121 122");
	expect(
	    b, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "259 259 259 259 259 259 259 259 259 256");
	expect(b, "wxyz", "119 120 121 122");
	bpe_free(b);
	b = small(true);
	expect(b, "wxyz", "261");
	expect(b, "wxyza", "119 120 121 122 97");
	bpe_free(b);
}

static void
refuse(struct bpe_spec spec, size_t bad, const char *why)
{
	struct err e = { "" };
	size_t at = 99;

	CHECK(!bpe_new(&spec, &at, &e) && at == bad);
	CHECK_STR(e.msg, why);
}

static void
test_find(void)
{
	struct bpe_spec spec = { .token = tokens, .num_tokens = 262, .symbols = true };
	struct err e;
	struct bpe *b = bpe_new(&spec, NULL, &e);

	CHECK(bpe_find(b, (const unsigned char *)"abc", 3) == 260 &&
	    bpe_find(b, (const unsigned char *)"abcd", 4) == -1);
	bpe_free(b);
}

/* A pair that is listed twice has its later rank: in the table of two bytes, and in that of
 * tokens, where a join of two tokens is in the way once it comes first. */
static void
test_pair_twice(void)
{
	struct bpe_merge list[] = { { 'a', 'b' }, { 'b', 'c' }, { 256, 'c' }, { 'a', 'b' } };
	struct bpe_spec spec = {
		.token = tokens, .num_tokens = 262, .merge = list, .num_merges = 3
	};
	struct err e = { "" };
	struct bpe *b = bpe_new(&spec, NULL, &e);

	expect(b, "abc", "260");
	bpe_free(b);
	spec.num_merges = 4;
	b = bpe_new(&spec, NULL, &e);
	expect(b, "abc", "97 257");
	expect(b, "abxab", "256 120 256");
	bpe_free(b);
}

static void
test_refused(void)
{
	struct bpe_merge no_join[] = { { 'b', 'c' }, { 'c', 'b' } }, no_text[] = { { 'b', 262 } };
	struct bpe_token twice[] = { tokens['a'], tokens['b'], tokens['a'] }, same[262];
	struct bpe_spec spec = {
		.token = tokens, .num_tokens = 262, .merge = no_join, .num_merges = 2
	};

	refuse(spec, 1, "the join is not in the vocabulary");
	spec.merge = no_text;
	spec.num_merges = 1;
	refuse(spec, 0, "a part has no text");
	spec.num_tokens = 255;
	refuse(spec, 1, "no token for byte 0xff");
	spec.token = twice;
	spec.num_tokens = 3;
	spec.ranks = true;
	refuse(spec, 1, "ids 0 and 2 have the same bytes");
	memcpy(same, tokens, sizeof same);
	same[261] = same[256];
	refuse((struct bpe_spec){ .token = same,
		   .num_tokens = 262,
		   .merge = merges,
		   .num_merges = 5,
		   .whole_piece = true },
	    5, "ids 256 and 261 have the same bytes");
}

/* A million equal letters take n log n steps. */
static void
test_long_run(void)
{
	enum { N = 1000000 };
	unsigned char *piece = malloc(N);
	struct bpe *b = small(false);
	struct bpe_worker *w = bpe_worker_new(b);
	struct token_ids ids = { 0 };

	memset(piece, 'a', N);
	bpe_encode_piece(w, piece, N, &ids);
	CHECK(ids.count == N / 4 && ids.id[0] == 259 && ids.id[N / 4 - 1] == 259);
	token_ids_release(&ids);
	bpe_worker_free(w);
	bpe_free(b);
	free(piece);
}

/* A piece of 20 to 139 letters, different for each number. */
static size_t
numbered_piece(uint32_t number, unsigned char piece[140])
{
	size_t n = 20 + number % 120;

	for (size_t i = 0; i < n; i++) {
		number = number * 1664525 + 1013904223;
		piece[i] = "abcd"[number >> 30];
	}
	return n;
}

/* More long pieces than the cache has room for: the latest are known, the first are forgotten, and
 * all have the ids that merging alone gives. */
static void
test_many_long(void)
{
	enum { COUNT = 24000 };
	static const uint32_t back[] = { 0, 0, 3, COUNT / 2 };
	struct bpe *b = small(false);
	struct bpe_worker *w = bpe_worker_new(b);
	struct token_ids ids = { 0 };
	size_t wrong = 0;

	for (uint32_t i = 0; i < COUNT; i++)
		for (size_t k = 0; k < sizeof back / sizeof *back && back[k] <= i; k++) {
			unsigned char piece[140];
			uint32_t want[140];
			size_t n = numbered_piece(i - back[k], piece);

			for (size_t j = 0; j < n; j++)
				want[j] = piece[j];
			n = bpe_merge(w, want, n);
			ids.count = 0;
			bpe_encode_piece(w, piece, numbered_piece(i - back[k], piece), &ids);
			wrong += ids.count != n || memcmp(ids.id, want, n * sizeof *want) != 0;
		}
	CHECK(wrong == 0);
	token_ids_release(&ids);
	bpe_worker_free(w);
	bpe_free(b);
}

/* Splits a text, with '|' between pieces. */
static void
cut(const char *text, const char *want)
{
	struct pretok *p = pretok_new(PRETOK_GPT2);
	struct str s = { 0 };
	size_t n = strlen(text);

	for (size_t pos = 0, end; pos < n; pos = end) {
		end = pretok_next(p, (const unsigned char *)text, n, pos);
		CHECK(end > pos && end <= n);
		str_addf(&s, "%s%.*s", pos ? "|" : "", (int)(end - pos), text + pos);
	}
	CHECK_STR(s.buf, want);
	str_release(&s);
	pretok_free(p);
}

static void
test_gpt2_rules(void)
{
	cut("Hello world, it's 2024!", "Hello| world|,| it|'s| 2024|!");
	cut("we'll they've I'd I'm you're 'S", "we|'ll| they|'ve| I|'d| I|'m| you|'re| '|S");
	cut("a  b", "a| | b");
	cut("a \n b", "a| \n| b");
	cut("a\tb\n", "a|\t|b|\n");
	cut("end  ", "end|  ");
	cut("x \t", "x| \t");
	cut("don''t", "don|''|t");
	cut("'", "'");
	cut("abc123,;", "abc|123|,;");
	/* a combining mark is not a letter; U+00A0 and U+3000 are white space; U+200B is not */
	cut("e\xcc\x81"
	    "a",
	    "e|\xcc\x81|a");
	cut("a\xc2\xa0"
	    "b",
	    "a|\xc2\xa0|b");
	cut("a\xe3\x80\x80\xe3\x80\x80"
	    "b",
	    "a|\xe3\x80\x80|\xe3\x80\x80|b");
	cut("a\xe2\x80\x8b"
	    "b",
	    "a|\xe2\x80\x8b|b");
	cut("\xe6\x97\xa5\xe6\x9c\xac\xe3\x80\x82\xe3\x81\xa7\xe3\x81\x99",
	    "\xe6\x97\xa5\xe6\x9c\xac|\xe3\x80\x82|\xe3\x81\xa7\xe3\x81\x99");
	/* malformed bytes are of class other, one by one */
	cut("a\xff\xfe!b", "a|\xff\xfe!|b");
	cut(" \xc3", " \xc3");
}

int
main(void)
{
	test_merges();
	test_find();
	test_pair_twice();
	test_refused();
	test_long_run();
	test_many_long();
	test_gpt2_rules();
	return check_done();
}
