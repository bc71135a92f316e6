/* jsonl.c - tests of tok/jsonl, tok/input and tok/pipeline */
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "tests/check.h"
#include "tests/jsonl_oracle.h"
#include "tok/files.h"
#include "tok/input.h"
#include "tok/jsonl.h"
#include "tok/pipeline.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static const char *key_names[] = { "text", "title" };

/* Whether the walk has a next string, and it is this one. */
static bool
next_is(struct jsonl *j, const char *want, size_t len)
{
	struct jsonl_text t;

	return jsonl_next(j, &t) && t.len == len && !memcmp(t.bytes, want, len);
}

/* Class, detail and first text of a line with one wanted member. */
static void
expect(const char *line, size_t len, enum jsonl_class class, const char *want)
{
	struct jsonl *j = jsonl_new(&(struct opt_list){ 1, key_names }, INT64_MAX);
	enum jsonl_class got = jsonl_parse(j, line, len);

	CHECK_STR(jsonl_class_name[got], jsonl_class_name[class]);
	if (got == JSONL_OK) {
		jsonl_walk(j, 0);
		CHECK(next_is(j, want, strlen(want)) && !next_is(j, "", 0));
	} else if (got != JSONL_BLANK) {
		CHECK_STR(jsonl_detail(j), want);
	}
	jsonl_free(j);
}

static void
ok(const char *line, const char *want)
{
	expect(line, strlen(line), JSONL_OK, want);
}

static void
bad(enum jsonl_class class, const char *line, const char *want)
{
	expect(line, strlen(line), class, want);
}

static void
test_good_lines(void)
{
	ok("{\"text\":\"x\"}", "x");
	ok(" \t{ \"a\" : [1, {\"text\":\"no\"}, null] , \"text\" : \"yes\" } \r", "yes");
	ok("{\"text\":\"first\",\"text\":\"last\"}", "last");
	ok("{\"text\":\"\\ud800\",\"text\":\"last\"}", "last");
	ok("{\"text\":7,\"text\":\"last\"}", "last");
	ok("{\"te\\u0078t\":\"escaped name\"}", "escaped name");
	ok("{\"a\":NaN,\"b\":-Infinity,\"c\":Infinity,\"d\":-0.5e+10,\"e\":"
	   "123456789012345678901234567890,\"text\":\"n\"}",
	    "n");
	ok("{\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t");
	ok("{\"text\":\"\\u3042\\ud83d\\ude00\\u00e9\"}", "\xe3\x81\x82\xf0\x9f\x98\x80\xc3\xa9");
	ok("{\"other\":\"\\ud800\",\"text\":\"x\"}", "x");
	ok("{\"text\":\"\"}", "");
	ok("{\"text\":\"\x7f long enough to need more than eight bytes at a time\"}",
	    "\x7f long enough to need more than eight bytes at a time");
	bad(JSONL_BLANK, "", "");
	bad(JSONL_BLANK, " \t\r", "");
}

static void
test_bad_lines(void)
{
	bad(JSONL_SYNTAX, "{\"text\":\"x", "unterminated string at byte 11");
	bad(JSONL_SYNTAX, "{\"text\":\"x\"", "the line ends too early at byte 12");
	bad(JSONL_SYNTAX, "{\"text\":\"x\"}]", "text after the value at byte 13");
	bad(JSONL_SYNTAX, "{\"text\":\"x\",}", "no member name at byte 13");
	bad(JSONL_SYNTAX, "{\"text\":\"a\tb\"}", "control character in a string at byte 11");
	bad(JSONL_SYNTAX, "{\"text\":\"\\x\"}", "unknown escape at byte 10");
	bad(JSONL_SYNTAX, "{\"text\":\"\\u12", "\\u without four hexadecimal digits at byte 10");
	bad(JSONL_SYNTAX, "{\"text\" \"x\"}", "no ':' at byte 9");
	bad(JSONL_SYNTAX, "{\"text\":}", "no value at byte 9");
	bad(JSONL_SYNTAX, "{\"a\":01,\"text\":\"x\"}", "no ',' or '}' at byte 7");
	bad(JSONL_SYNTAX, "{\"a\":1.,\"text\":\"x\"}", "no digit after the point at byte 8");
	bad(JSONL_SYNTAX, "{\"a\":1e,\"text\":\"x\"}", "no digit in the exponent at byte 8");
	bad(JSONL_SYNTAX, "{\"a\":[1 2],\"text\":\"x\"}", "no ',' or ']' at byte 9");
	bad(JSONL_SYNTAX, "{\"a\":nul,\"text\":\"x\"}", "no value at byte 6");
	bad(JSONL_SYNTAX, "4x", "text after the value at byte 2");
	expect("{\"text\":\"x\"}\0", 13, JSONL_SYNTAX, "text after the value at byte 13");
	bad(JSONL_NOT_OBJECT, "[\"text\"]", "the line is an array at byte 1");
	bad(JSONL_MISSING_KEY, "{}", "no member 'text' in the object at byte 1");
	bad(JSONL_WRONG_TYPE, "{\"text\":false}",
	    "'text' is a boolean, not a string or a list of strings, at byte 9");
	bad(JSONL_WRONG_TYPE, "{\"text\":[\"a\",1]}",
	    "'text' is a list with other things in it, not a string or a list of strings, at byte "
	    "14");
	bad(JSONL_LONE_SURROGATE, "{\"text\":\"\\ude00\\ud83d\"}",
	    "'text' has an unpaired surrogate escape at byte 10");
	bad(JSONL_LONE_SURROGATE, "{\"text\":[\"a\",\"\\ud83d\"]}",
	    "'text' has an unpaired surrogate escape at byte 15");
	bad(JSONL_BAD_UTF8, "{\"o\":\"\xff\",\"text\":\"x\"}", "malformed UTF-8 at byte 7");
	bad(JSONL_BOM, "\xef\xbb\xbf{\"text\":\"x\"}",
	    "byte order mark inside the file, at byte 1");
}

/* Nesting is limited, at any length of the line. */
static void
test_depth(void)
{
	struct str s = { 0 };

	str_adds(&s, "{\"a\":");
	for (int i = 0; i < 100000; i++)
		str_addc(&s, '[');
	expect(s.buf, s.len, JSONL_SYNTAX, "more than 512 levels at byte 518");
	str_release(&s);
}

/* Lists and several members. */
static void
test_members(void)
{
	static const char line[] = "{\"title\":\"t\\u0000u\",\"text\":[\"a\",\"\",\"b\\nc\"]}";
	static const char twice[] = "{\"title\":[\"y\"],\"title\":\"x\",\"text\":[]}";
	struct jsonl *j = jsonl_new(&(struct opt_list){ 2, key_names }, INT64_MAX);

	CHECK(!next_is(j, "", 0));
	CHECK(jsonl_parse(j, line, sizeof line - 1) == JSONL_OK && !next_is(j, "", 0));
	for (int times = 0; times < 2; times++) {
		jsonl_walk(j, 0);
		CHECK(next_is(j, "a", 1) && next_is(j, "", 0) && next_is(j, "b\nc", 3) &&
		    !next_is(j, "", 0));
		jsonl_walk(j, 1);
		CHECK(next_is(j, "t\0u", 3) && !next_is(j, "", 0));
	}
	/* the last of two members counts, a list or not */
	CHECK(jsonl_parse(j, twice, sizeof twice - 1) == JSONL_OK);
	jsonl_walk(j, 0);
	CHECK(!next_is(j, "", 0));
	jsonl_walk(j, 1);
	CHECK(next_is(j, "x", 1) && !next_is(j, "", 0));
	CHECK(jsonl_parse(j, "{\"text\":\"x\"}", 12) == JSONL_MISSING_KEY);
	CHECK_STR(jsonl_detail(j), "no member 'title' in the object at byte 1");
	jsonl_free(j);
}

/* A step of a small random generator. */
static uint32_t
random_step(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* Changes a few bytes of good lines, mostly to bytes of JSON's syntax, and compares with the
 * oracle. */
static void
test_oracle(void)
{
	static const char *const seeds[] = {
		"{\"id\": 17, \"text\": \"some words that are longer than one block of the "
		"scanner, and "
		"\\u3042 \\ud83d\\ude00\"}",
		"{\"meta\": {\"text\": [1, -2.5e+3, true]}, \"title\": [\"a\", \"\"], \"text\": "
		"\"x\\n\\\"y\\\\\"}",
		"{\"te\\u0078t\": \"\xe3\x81\x82\xe3\x81\x84\xe3\x81\x86\xf0\x9f\x98\x80"
		" text\", \"text\":[\"b\", \"\\ud800\"] ,\"n\" :null}",
	};
	static const char likely[] = "\"\"\\\\{}[]:,u0dDe\x80\xe3\xff \n\t\x1f";
	uint64_t state = 42;
	struct jsonl *j = jsonl_new(&(struct opt_list){ 2, key_names }, INT64_MAX);
	int differences = 0;

	for (int i = 0; i < 300000; i++) {
		const char *seed = seeds[random_step(&state) % 3];
		size_t len = strlen(seed);
		char line[256];

		memcpy(line, seed, len);
		for (uint32_t k = random_step(&state) % 4; k > 0; k--) {
			size_t at = random_step(&state) % len;

			if (random_step(&state) % 4)
				line[at] = likely[random_step(&state) % (sizeof likely - 1)];
			else
				memmove(line + at, line + at + 1, --len - at);
		}
		differences += !oracle_agrees(j, key_names, 2, line, len);
	}
	CHECK(differences == 0);
	jsonl_free(j);
}

/* Reads all lines of some files in small batches, as "file:offset:text|", with "long" for those of
 * more than max_line bytes. */
static void
all_lines(struct input_list *files, int64_t max_line, struct str *out, struct err *e)
{
	struct input *in = input_new(files, max_line, -1);
	struct batch b = { 0 };
	int64_t end = 0;
	int rc;

	while ((rc = input_next(in, 1, &b, e)) > 0) {
		const char *line;
		size_t pos = 0, len;

		CHECK(max_line == INT64_MAX || b.offset == 0 || end == 0 || b.offset == end);
		CHECK(max_line == INT64_MAX || b.text.len <= (size_t)max_line + (1 << 17));
		end = b.offset + b.bytes;

		while (batch_line(&b, &pos, &line, &len))
			str_addf(out, "%s:%lld:%.*s|", input_file_name(&files->item[b.file]),
			    (long long)(b.offset + (line - b.text.buf)),
			    (int64_t)len > max_line ? 4 : (int)len,
			    (int64_t)len > max_line ? "long" : line);
	}
	str_addf(out, "%d", rc);
	str_release(&b.text);
	input_free(in);
}

/* The same for all parts of N, one after the other. */
static void
all_parts(
    const struct opt_list *names, int64_t count, int64_t max_line, struct str *out, struct err *e)
{
	for (int64_t i = 1; i <= count; i++) {
		struct mem_pool pool = { 0 };
		struct input_list files;

		const struct files_request r = { .names = names, .part = { i, count } };

		CHECK(files_open(&r, &files, &pool, e) == 0);
		all_lines(&files, max_line, out, e);
		CHECK(out->buf[--out->len] == '0');
		mem_pool_release(&pool);
	}
	str_addc(out, '0');
}

static void
test_input(void)
{
	static const char text[] = "\xef\xbb\xbf"
				   "a\nb\n\nlast";
	static const char want[] =
	    "p:3:a|p:5:b|p:7:|p:8:last|g:0:one|g:4:two|g:8:one|g:12:two|z:0:x|z:2:y|0";
	const char *names[] = { "p", "g", "z", "empty" };
	struct input_file cut = { .name = "cut", .end = -1 };
	struct input_file middle[] = { { .name = "p", .end = -1 }, { .name = "p", .end = -1 },
		{ .name = "g", .end = -1 } };
	unsigned char packed[256];
	char dir[] = "/tmp/jsonl.XXXXXX";
	struct str out = { 0 };
	struct err e = { "" };
	z_stream g = { 0 };
	size_t n;

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	CHECK(outfile_write("p", text, sizeof text - 1, &e) == 0 &&
	    outfile_write("empty", "", 0, &e) == 0);
	CHECK(deflateInit2(&g, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	g.next_in = (unsigned char *)"one\ntwo\n";
	g.avail_in = 8;
	g.next_out = packed;
	g.avail_out = 128;
	CHECK(deflate(&g, Z_FINISH) == Z_STREAM_END);
	n = 128 - g.avail_out;
	deflateEnd(&g);
	memcpy(packed + n, packed, n);
	CHECK(outfile_write("g", packed, 2 * n, &e) == 0 &&
	    outfile_write("cut", packed, n - 9, &e) == 0);
	n = ZSTD_compress(packed, sizeof packed, "x\ny", 3, 1);
	CHECK(outfile_write("z", packed, n, &e) == 0);
	all_parts(&(struct opt_list){ 4, names }, 1, INT64_MAX, &out, &e);
	CHECK_STR(out.buf, want);
	for (int64_t parts = 2; parts < 80; parts++) {
		str_clear(&out);
		all_parts(&(struct opt_list){ 4, names }, parts, INT64_MAX, &out, &e);
		CHECK_STR(out.buf, want);
	}
	CHECK(input_count_lines("p", 8, &e) == 3 && input_is_compressed("z", &e) == 1 &&
	    input_is_compressed("p", &e) == 0);
	str_clear(&out);
	all_lines(&(struct input_list){ &cut, 1 }, INT64_MAX, &out, &e);
	CHECK_STR(e.msg, "cut: truncated: the compressed data ends too early");
	for (int64_t i = 0; i < 3; i++) {
		struct input *in = input_new(&(struct input_list){ &middle[i], 1 }, INT64_MAX, -1);
		struct batch b = { 0 };

		input_seek(in, 0, 5 + 2 * (i == 1) + 3 * (i == 2));
		CHECK(
		    input_next(in, 1, &b, &e) == 1 && b.offset == 5 + 2 * (i == 1) + 3 * (i == 2));
		CHECK_STR(b.text.buf, i == 2 ? "one\ntwo\n" : i == 1 ? "\n" : "b\n\n");
		str_release(&b.text);
		input_free(in);
	}
	str_release(&out);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
}

enum {
	LONG_TEXT = 70000, /* bytes of a document that are too many */
	BLOCK = 1 << 16    /* that are read at once */
};

/* Documents of text, as "name:offset:text|", in the files that a request means. */
static void
all_text(const char *name, const char *separator, int64_t max_line, struct str *out)
{
	const struct files_request r = { .names = &(struct opt_list){ 1, &name },
		.separator = separator };
	struct mem_pool pool = { 0 };
	struct input_list files;
	struct err e = { "" };

	str_clear(out);
	CHECK(files_open(&r, &files, &pool, &e) == 0);
	all_lines(&files, max_line, out, &e);
	CHECK_STR(e.msg, "");
	mem_pool_release(&pool);
}

static void
want_document(struct str *want, const struct str *text, size_t begin, size_t end)
{
	str_addf(want, "t.txt:%zu:", begin);
	if (end - begin > LONG_TEXT)
		str_adds(want, "long");
	else
		str_add(want, text->buf + begin, end - begin);
	str_addc(want, '|');
}

/* Documents of random lines end at separators wherever these lie in the blocks that are read. */
static void
test_long_text(void)
{
	static const char *const lines[] = { "---\n", "---\r\n", "----\n", "--\n", "a\n", "\n",
		" ---\n" };
	struct str text = { 0 }, want = { 0 }, out = { 0 };
	size_t begin = 0;
	struct err e;

	srand(1);
	while (want.len < 400000) {
		const char *line = lines[rand() % (rand() % 50 ? 7 : 2)];
		size_t n;

		if (rand() % 5000 == 0)
			for (int i = rand() % 90000; i > 0; i--)
				str_adds(&text, "bc\n");
		n = text.len;
		str_adds(&text, line);
		if (line != lines[0] && line != lines[1])
			continue;
		want_document(&want, &text, begin, n);
		begin = text.len;
	}
	str_adds(&text, "end\n");
	want_document(&want, &text, begin, text.len);
	str_adds(&want, "0");
	str_adds(&text, "---");
	CHECK(outfile_write("t.txt", text.buf, text.len, &e) == 0);
	all_text("t.txt", "---", LONG_TEXT, &out);
	CHECK(out.len == want.len && !memcmp(out.buf, want.buf, out.len));
	for (int k = 0; k < 7; k++) {
		str_clear(&text);
		str_clear(&want);
		str_reserve(&text, 2 * BLOCK);
		memset(text.buf, 'a', 2 * BLOCK);
		text.len = (size_t)(2 * BLOCK - k);
		str_adds(&text, "\n---\nrest");
		CHECK(outfile_write("t.txt", text.buf, text.len, &e) == 0);
		str_addf(&want, "t.txt:0:long|t.txt:%zu:rest|0", text.len - 4);
		all_text("t.txt", "---", 4, &out);
		CHECK_STR(out.buf, want.buf);
	}
	str_release(&text);
	str_release(&want);
	str_release(&out);
}

/* The format is that of the name; directories are their files in the order of bytes. */
static void
test_text(void)
{
	char dir[] = "/tmp/jsonl.XXXXXX";
	struct str out = { 0 };
	struct err e = { "" };

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	CHECK(io_mkdir_p("d/b/c", &e) == 0 && io_mkdir_p("d/.git", &e) == 0);
	CHECK(outfile_write("d/b/c/x.md", "\n", 1, &e) == 0 &&
	    outfile_write("d/a.txt", "one\ntwo\n", 8, &e) == 0 &&
	    outfile_write("d/Z", "l\nm", 3, &e) == 0 &&
	    outfile_write("d/.git/y.txt", "no", 2, &e) == 0 &&
	    outfile_write("d/b.txt", "", 0, &e) == 0);
	all_text("d", NULL, INT64_MAX, &out);
	CHECK_STR(out.buf, "d/Z:0:l|d/Z:2:m|d/a.txt:0:one\ntwo\n|d/b/c/x.md:0:\n|0");
	all_text("d/a.*", "one", INT64_MAX, &out);
	CHECK_STR(out.buf, "d/a.txt:0:|d/a.txt:4:two\n|0");
	all_text("d/", "two", 2, &out);
	CHECK_STR(out.buf, "d/Z:0:l|d/Z:2:m|d/a.txt:0:long|d/b/c/x.md:0:\n|0");
	test_long_text();
	str_release(&out);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
}

/* Long lines are cut off anywhere in the file, the same in every part; the lines between them stay
 * whole. */
static void
test_long_lines(void)
{
	static const char want[] =
	    "l:0:long|l:300001:b|l:300003:|l:300004:long|l:300010:four|l:300015:long|0";
	const char *names[] = { "l" };
	char dir[] = "/tmp/jsonl.XXXXXX", *text = mem_alloc(500014, 1);
	struct str out = { 0 };
	struct err e = { "" };

	memset(text, 'a', 500014);
	memcpy(text + 300000, "\nb\n\nfives\nfour\n", 15);
	CHECK(mkdtemp(dir) && chdir(dir) == 0 && outfile_write("l", text, 500014, &e) == 0);
	for (int64_t parts = 1; parts < 12; parts++) {
		str_clear(&out);
		all_parts(&(struct opt_list){ 1, names }, parts, 4, &out, &e);
		CHECK_STR(out.buf, want);
	}
	str_release(&out);
	free(text);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
}

struct numbers {
	int next, end, expect, fail_at;
};

static int
number_read(void *ctx, void *slot, struct err *e)
{
	struct numbers *n = ctx;

	(void)e;
	if (n->next == n->end)
		return 0;
	*(int *)slot = n->next++;
	return 1;
}

static void
number_work(void *ctx, int worker, void *slot)
{
	(void)ctx, (void)worker;
	*(int *)slot *= 3;
}

static int
number_write(void *ctx, void *slot, struct err *e)
{
	struct numbers *n = ctx;

	if (n->expect == n->fail_at)
		return err_set(e, "stopped at %d", n->expect);
	CHECK(*(int *)slot == 3 * n->expect);
	n->expect++;
	return 0;
}

static void
number_stop(void *ctx)
{
	(void)ctx;
}

static void
test_pipeline(void)
{
	for (int workers = 1; workers <= 4; workers++) {
		int value[5];
		void *slot[5] = { &value[0], &value[1], &value[2], &value[3], &value[4] };
		struct numbers n = { 0, 1000, 0, -1 };
		struct pipeline p = { &n, slot, 5, workers, number_read, number_work, number_write,
			number_stop };
		struct err e;

		CHECK(line_pipeline_run(&p, &e) == 0 && n.expect == 1000);
		n = (struct numbers){ 0, 1000, 0, 70 };
		CHECK(line_pipeline_run(&p, &e) == -1 && n.next < 80);
		CHECK_STR(e.msg, "stopped at 70");
	}
}

int
main(void)
{
	test_good_lines();
	test_bad_lines();
	test_depth();
	test_members();
	test_oracle();
	test_input();
	test_text();
	test_long_lines();
	test_pipeline();
	return check_done();
}
