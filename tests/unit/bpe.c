/* bpe.c - tests of lib/token/bpe and lib/token/pretok */
#include "lib/token/bpe.h"
#include "lib/token/pretok.h"
#include "tests/check.h"

/* Bytes are their own ids; "ab" 256, "bc" 257, "aa" 258, "aaaa" 259, "abc" 260. */
static struct bpe *
small(void)
{
	uint32_t byte_id[256];
	struct bpe *b;

	for (uint32_t i = 0; i < 256; i++)
		byte_id[i] = i;
	b = bpe_new(byte_id, 5);
	CHECK(bpe_add(b, 'b', 'c', 0, 257) && bpe_add(b, 'a', 'b', 1, 256) &&
	    bpe_add(b, 'a', 'a', 2, 258));
	CHECK(bpe_add(b, 258, 258, 3, 259) && bpe_add(b, 'a', 257, 4, 260));
	CHECK(!bpe_add(b, 'a', 'b', 9, 1));
	return b;
}

static void
expect(const struct bpe *b, const char *piece, const char *want)
{
	struct bpe_worker *w = bpe_worker_new();
	struct token_ids ids = { 0 };
	struct str s = { 0 };

	/* Twice: the second time from the cache. */
	for (int turn = 0; turn < 2; turn++) {
		ids.count = 0;
		str_clear(&s);
		bpe_encode(b, w, (const unsigned char *)piece, strlen(piece), &ids);
		for (size_t i = 0; i < ids.count; i++)
			str_addf(&s, "%s%lld", i ? " " : "", (long long)ids.id[i]);
		CHECK_STR(s.len ? s.buf : "", want);
	}
	str_release(&s);
	token_ids_release(&ids);
	bpe_worker_free(w);
}

static void
test_merges(void)
{
	struct bpe *b = small();

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
	bpe_free(b);
}

/* A million equal letters take n log n steps. */
static void
test_long_run(void)
{
	enum { N = 1000000 };
	unsigned char *piece = malloc(N);
	struct bpe *b = small();
	struct bpe_worker *w = bpe_worker_new();
	struct token_ids ids = { 0 };

	memset(piece, 'a', N);
	bpe_encode(b, w, piece, N, &ids);
	CHECK(ids.count == N / 4 && ids.id[0] == 259 && ids.id[N / 4 - 1] == 259);
	token_ids_release(&ids);
	bpe_worker_free(w);
	bpe_free(b);
	free(piece);
}

/* Cuts a text with '|' between pieces. */
static void
cut(const char *text, const char *want)
{
	struct pretok *p = pretok_new();
	struct str s = { 0 };
	size_t n = strlen(text);

	for (size_t pos = 0, end; pos < n; pos = end) {
		end = pretok_gpt2(p, (const unsigned char *)text, n, pos);
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
	cut("e\xcc\x81" "a", "e|\xcc\x81|a");
	cut("a\xc2\xa0" "b", "a|\xc2\xa0|b");
	cut("a\xe3\x80\x80\xe3\x80\x80" "b", "a|\xe3\x80\x80|\xe3\x80\x80|b");
	cut("a\xe2\x80\x8b" "b", "a|\xe2\x80\x8b|b");
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
	test_long_run();
	test_gpt2_rules();
	return check_done();
}
