/* hf.c - tests of the parts of a tokenizer.json: patterns, forms, normalizer, pre-tokenizer, added
 * tokens, decoder */
#include "lib/base/base64.h"
#include "lib/base/mem.h"
#include "lib/token/alphabet.h"
#include "lib/token/hf/added.h"
#include "lib/token/hf/decoder.h"
#include "lib/token/hf/normalize.h"
#include "lib/token/names.h"
#include "lib/token/split.h"
#include "tests/check.h"

#include <time.h>

static struct json *
parse(const char *text)
{
	struct err e = { "" };
	struct json *j = json_parse(text, strlen(text), "test", &e);

	CHECK_STR(j ? "" : e.msg, "");
	return j;
}

static void
test_base64(void)
{
	static const struct {
		const char *text, *bytes;
		int64_t len;
	} cases[] = {
		{ "", "", 0 },
		{ "AA==", "\0", 1 },
		{ "Zm8=", "fo", 2 },
		{ "Zm9v", "foo", 3 },
		{ "+/+/AA==", "\xfb\xff\xbf\0", 4 },
		{ "A", "", -1 },
		{ "A===", "", -1 },
		{ "AA=A", "", -1 },
		{ "AA A", "", -1 },
		{ "AA==AAAA", "", -1 },
	};
	unsigned char out[16];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHECK(base64_decode(cases[i].text, strlen(cases[i].text), out) == cases[i].len);
		CHECK(cases[i].len <= 0 || !memcmp(out, cases[i].bytes, (size_t)cases[i].len));
	}
}

/* Many names at once give the same as one by one; every third is unknown. */
static void
test_names(void)
{
	enum { COUNT = 1000 };
	static char text[COUNT][8];
	static struct name ask[COUNT];
	struct names n;

	names_init(&n, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		int len = snprintf(text[i], sizeof text[i], "t%u", i * 7);

		ask[i] = (struct name){ text[i], (uint32_t)len, 0 };
		CHECK(i % 3 == 0 || names_add(&n, text[i], (size_t)len, i) == -1);
	}
	names_find_all(&n, ask, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		CHECK(ask[i].id == (i % 3 ? i : UINT32_MAX));
		CHECK(names_find(&n, text[i], ask[i].len) == (i % 3 ? (int64_t)i : -1));
	}
	CHECK(names_add(&n, "t7", 2, 5) == 1);
	names_release(&n);
}

static void
test_alphabet(void)
{
	struct alphabet a;
	struct str all = { 0 };
	char bytes[256], back[512];

	for (int i = 0; i < 256; i++)
		bytes[i] = (char)i;
	alphabet_init(&a);
	alphabet_encode(&a, bytes, 256, &all);
	CHECK(alphabet_decode(&a, all.buf, all.len, back) == 256 && !memcmp(bytes, back, 256));
	CHECK_STR(a.utf8[' '], "\xc4\xa0");
	CHECK_STR(a.utf8['\n'], "\xc4\x8a");
	CHECK(alphabet_decode(&a, "a b", 3, back) == -1);
	str_release(&all);
}

/* Every match in brackets. */
static void
matches(const char *pattern, const char *text, const char *want)
{
	struct regex_scratch *x = regex_scratch_new();
	struct regex_walk w = { .s = text, .n = strlen(text) };
	struct err e = { "" };
	struct regex *r = regex_new(pattern, strlen(pattern), &e);
	struct str s = { 0 };
	size_t done = 0;

	CHECK_STR(r ? "" : e.msg, "");
	while (r && regex_next(r, x, &w, &e) > 0) {
		str_add(&s, text + done, w.start - done);
		str_addf(&s, "[%.*s]", (int)(w.end - w.start), text + w.start);
		done = w.end;
	}
	str_adds(&s, text + done);
	CHECK_STR(s.buf, want);
	str_release(&s);
	regex_free(r);
	regex_scratch_free(x);
}

static void
refused_pattern(const char *pattern, const char *why)
{
	struct err e = { "" };
	struct regex *r = regex_new(pattern, strlen(pattern), &e);

	CHECK(!r && strstr(e.msg, why));
	regex_free(r);
}

static void
test_patterns(void)
{
	matches("a+", "baab", "b[aa]b");
	matches("x*", "ax", "[]a[x]");
	matches("\\s",
	    "a\xe1\xa0\x8e\xc2\x85"
	    "b",
	    "a\xe1\xa0\x8e[\xc2\x85]b");
	matches("[^\\s]+", "a\xe1\xa0\x8e b", "[a\xe1\xa0\x8e] [b]");
	matches("[^\\S\\n]+", " \n ", "[ ]\n[ ]");
	matches("\\w+", "e\xcc\x81\xc2\xb2 \xe2\x91\xa0", "[e\xcc\x81\xc2\xb2] \xe2\x91\xa0");
	matches("[\\w]+", "e\xcc\x81\xc2\xb2", "[e\xcc\x81]\xc2\xb2");
	matches("\\bb", "ab b", "ab [b]");
	matches("^a$", "a\na", "[a]\n[a]");
	matches("[]a]+", "a]b", "[a]]b");
	matches("\\p{Han}+", "a\xe6\xbc\xa2\xe5\xad\x97", "a[\xe6\xbc\xa2\xe5\xad\x97]");
	matches("\\p{Letter}\\p{^L}", "a1b", "[a1]b");
	matches("[[:space:]x]+", "a x\xe1\xa0\x8e", "a[ x]\xe1\xa0\x8e");
	matches("(?i:'s)", "it'S", "it['S]");
	refused_pattern("a{1,3}+", "interval");
	matches(" ?[^(\\s|[.,]x)]+", "ab, (c|d x.e", "[ab], ([c]|[d] x.[e]");
	refused_pattern("[a[^b]]", "set inside a set");
	refused_pattern("[a-[b]]", "set inside a set");
	refused_pattern("[[b]-z]", "set inside a set");
	refused_pattern("[a-z&&b]", "intersection");
	refused_pattern("[\\B]", "'\\B' inside a set");
	refused_pattern("[a\\P{L}-z]", "beginning of a range");
	refused_pattern("[[:alpha:]]", "'[:alpha:]' is not supported");
	refused_pattern("\\pL", "without a name");
	refused_pattern("\\p{Alphabetic}", "unknown property");
	refused_pattern("(?i:x[\\p{L}])", "ignores case");
	matches("(?i:x)[\\p{Lu}^]+", "xA^a", "[xA^]a");
	matches("(?m:a.)", "a\n", "[a\n]");
	matches("[^\\P{L}x-z]+|[\\P{L}^]", "abx1", "[ab]x[1]");
	refused_pattern("(", "missing closing parenthesis");
	refused_pattern("a\\", "backslash");
}

/* A pattern that needs exponentially many steps gives up with a reason. */
static void
test_limits(void)
{
	static const char pattern[] = "(a+)+(?<=b)c";
	struct regex_scratch *x = regex_scratch_new();
	struct err e = { "" };
	struct regex *r = regex_new(pattern, sizeof pattern - 1, &e);
	char *text = mem_alloc(64, 1);
	struct regex_walk w = { .s = text, .n = 64 };

	memset(text, 'a', 63);
	text[63] = 'c';
	CHECK(r && regex_next(r, x, &w, &e) < 0 &&
	    strstr(e.msg, "a regular expression gave up at byte 0"));
	free(text);
	regex_free(r);
	regex_scratch_free(x);
}

static void
normal(const char *json, const char *text, const char *want)
{
	struct json *j = parse(json);
	struct normal_scratch x = { .regex = regex_scratch_new() };
	struct normalizer z = { 0 };
	struct span s = { text, strlen(text), true };
	struct err e = { "" };
	struct str got = { 0 };

	if (normalizer_parse(&z, json_root(j), &e) < 0 || normalizer_run(&z, &x, &s, &e) < 0)
		str_adds(&got, e.msg);
	else
		str_add(&got, s.s, s.n);
	CHECK_STR(got.buf, want);
	str_release(&got);
	normalizer_release(&z);
	normal_scratch_release(&x);
	regex_scratch_free(x.regex);
	json_free(j);
}

#define PREPEND(text) "{\"type\":\"Prepend\",\"prepend\":\"" text "\"}"

static void
test_normalizers(void)
{
	normal("null", "aB", "aB");
	normal("{\"type\":\"NFC\"}", "e\xcc\x81 \xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
	    "\xc3\xa9 \xea\xb0\x81");
	normal(
	    "{\"type\":\"NFC\"}", "\xe2\x84\xab\xe3\x81\x8b\xe3\x82\x99", "\xc3\x85\xe3\x81\x8c");
	normal("{\"type\":\"NFC\"}", "a\xcc\xa7\xcc\x81 a\xcc\x81\xcc\xa7",
	    "\xc3\xa1\xcc\xa7 \xc3\xa1\xcc\xa7");
	normal("{\"type\":\"NFD\"}", "\xc3\xa9\xea\xb0\x81",
	    "e\xcc\x81\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
	normal("{\"type\":\"NFKC\"}", "\xef\xac\x81\xc2\xbd\xef\xbd\xb6\xef\xbe\x9e",
	    "fi1\xe2\x81\x84"
	    "2\xe3\x82\xac");
	normal("{\"type\":\"NFKD\"}", "\xe2\x84\xab", "A\xcc\x8a");
	normal("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{"
	       "\"Regex\":\"^\"},\"content\":\" \"},{\"type\":\"Strip\"}]}",
	    "ab",
	    "a normalizer inserts text before the first character, where tokenizers fails in "
	    "the 'Strip' after it");
	normal("{\"type\":\"Lowercase\"}", "A\xc4\xb0\xce\xa3", "ai\xcc\x87\xcf\x83");
	normal("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
	    " \xe3\x80\x80 a b\n", "a b");
	normal("{\"type\":\"Strip\",\"strip_left\":false}", " a ", " a");
	normal("{\"type\":\"Strip\"}", "  ", "");
	normal(PREPEND("_"), "a", "_a");
	normal("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{"
	       "\"Regex\":\" {2,}\"},"
	       "\"content\":\" "
	       "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"\"}]}",
	    "a   b abab", "a b ");
	/* A trie in which "A" becomes "a". */
	normal("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"not base 64\"}", "",
	    "normalizer 'Precompiled': \"precompiled_charsmap\" is not base 64");
	normal("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}", "",
	    "normalizer 'Precompiled': precompiled_charsmap: the size of its trie does not fit its "
	    "length");
	normal("{\"type\":\"BertNormalizer\"}", "", "normalizer 'BertNormalizer' is not supported");
	normal("{\"type\":\"Sequence\",\"normalizers\":[null,{\"type\":\"Sequence\","
	       "\"normalizers\":[" PREPEND("b") "]}," PREPEND("a") "]}",
	    "c", "abc");
	normal(
	    "{\"type\":\"Sequence\"}", "", "normalizer 'Sequence': \"normalizers\" must be a list");
	normal("{\"type\":1}", "", "\"type\" must be a string");
	normal("[]", "", "normalizer '' is not supported");
	normal("{\"type\":\"Prepend\"}", "", "normalizer 'Prepend': \"prepend\" must be a string");
	normal("{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"Regex\":\"(\"}}", "",
	    "normalizer 'Replace': \"pattern\": missing closing parenthesis, at byte 1 of '('");
}

/* A long run of marks takes time n log n. */
static void
test_many_marks(void)
{
	enum { N = 300000 };
	struct form *f = form_new(FORM_NFC);
	struct form_scratch x = { 0 };
	struct str text = { 0 }, out = { 0 };

	str_addc(&text, 'q');
	for (int i = 0; i < N; i++)
		str_adds(&text, i % 2 ? "\xcc\x81" : "\xcc\xa7");
	CHECK(form_apply(f, &x, text.buf, text.len, &out) && out.len == text.len);
	CHECK(out.len > 4 && !memcmp(out.buf + 1, "\xcc\xa7\xcc\xa7", 4));
	CHECK(!form_apply(f, &x, "abc\xe6\xbc\xa2\xc3\xa9", 8, &out));
	str_release(&text);
	str_release(&out);
	form_scratch_release(&x);
	form_free(f);
}

/* Pieces with '|' between them. */
static int
collect(void *ctx, const struct span *piece, struct err *e)
{
	struct str *s = ctx;

	(void)e;
	str_addf(s, "%s%.*s", s->len ? "|" : "", (int)piece->n, piece->s);
	return 0;
}

static void
pieces(const char *json, const char *text, const char *want)
{
	struct json *j = parse(json);
	struct split_scratch x = { .regex = regex_scratch_new() };
	struct splitter p = { 0 };
	struct str got = { 0 };
	struct span s = { text, strlen(text), true };
	struct err e = { "" };

	str_reserve(&got, 1);
	got.buf[0] = '\0';
	if (splitter_parse(&p, json_root(j), &e) < 0 ||
	    splitter_run(&p, &x, &s, &(struct split_sink){ collect, &got }, &e) < 0)
		str_adds(&got, e.msg);
	CHECK_STR(got.buf, want);
	str_release(&got);
	splitter_release(&p);
	split_scratch_release(&x);
	regex_scratch_free(x.regex);
	json_free(j);
}

#define SPLIT(pattern, behavior, invert) \
	"{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior \
	"\",\"invert\":" invert "}"
#define DASH "{\"String\":\"-\"}"
#define METASPACE "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\""

static void
test_splits(void)
{
	pieces("null", "a b", "a b");
	pieces(SPLIT(DASH, "Isolated", "false"), "a--b-", "a|-|-|b|-");
	pieces(SPLIT(DASH, "Removed", "false"), "-a--b-", "a|b");
	pieces(SPLIT(DASH, "Removed", "true"), "-a--b-", "-|-|-|-");
	pieces(SPLIT(DASH, "MergedWithPrevious", "false"), "-a--b", "-|a-|-|b");
	pieces(SPLIT(DASH, "MergedWithNext", "false"), "a--b-", "a|-|-b|-");
	pieces(SPLIT(DASH, "Contiguous", "false"), "a--b", "a|--|b");
	pieces(SPLIT("{\"Regex\":\"[a-c]+\"}", "MergedWithNext", "true"), "1ab2c", "1ab|2c");
	pieces("{\"type\":\"Digits\",\"individual_digits\":true}", "a12\xc2\xbd", "a|1|2|\xc2\xbd");
	pieces("{\"type\":\"Digits\",\"individual_digits\":false}", "a12b", "a|12|b");
	pieces(METASPACE "always\"}", "a b  c", "_a|_b|_|_c");
	pieces(METASPACE "never\"}", "a b", "a|_b");
	pieces(METASPACE "first\",\"split\":false}", "a b", "_a_b");
	pieces(METASPACE "always\"}", " a", "_a");
	pieces("{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT(
		   DASH, "Removed", "false") "," METASPACE "first\"}]}",
	    "a-b c", "_a|b|_c");
	pieces("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},{\"type\":"
	       "\"ByteLevel\"}]}",
	    "a1", " a| 1");
	pieces("{\"type\":\"UnicodeScripts\"}", "a",
	    "pre_tokenizer 'UnicodeScripts' is not supported");
	pieces("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":"
	       "\"Digits\"}]}",
	    "a1 \xc2\xb2",
	    "\xc4\xa0"
	    "a|1|\xc4\xa0\xc3\x82|\xc2\xb2");
	pieces("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":"
	       "\"ByteLevel\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":false},{\"type\":"
	       "\"ByteLevel\",\"add_prefix_space\":false}]}",
	    "a",
	    "\xc3\x84\xc5\x82\xc3\x83\xc4\xa6\xc3\x85\xc4\xa4"
	    "a");
	pieces(SPLIT(DASH, "Sideways", "false"), "a",
	    "pre_tokenizer 'Split': behavior 'Sideways' is not supported");
}

/* The leading bytes of the result that come from the first character of the text. */
static void
origin(const char *json, const char *text, size_t want)
{
	struct json *j = parse(json);
	struct normal_scratch x = { .regex = regex_scratch_new() };
	struct normalizer z = { 0 };
	struct span s = { text, strlen(text), 1 };
	struct err e = { "" };

	while (((unsigned char)text[s.first] & 0xc0) == 0x80)
		s.first++;
	CHECK(normalizer_parse(&z, json_root(j), &e) == 0 && normalizer_run(&z, &x, &s, &e) == 0);
	if (s.first != want)
		printf("%s of '%s': %zu, not %zu\n", json, text, s.first, want);
	CHECK(s.first == want);
	normalizer_release(&z);
	normal_scratch_release(&x);
	regex_scratch_free(x.regex);
	json_free(j);
}

#define ONE(type) "{\"type\":\"" type "\"}"
#define TWO(a, b) "{\"type\":\"Sequence\",\"normalizers\":[" a "," b "]}"
#define REPLACE(regex, by) \
	"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" regex "\"},\"content\":\"" by "\"}"

/* Offsets are those of tokenizers 0.23.3. */
static void
test_origin(void)
{
	origin("null", "\xc3\xa9", 2);
	origin(ONE("NFD"),
	    "\xc3\xa9\xcc\xa3"
	    "a",
	    1);
	origin(ONE("NFC"),
	    "e\xcc\xa3\xcc\x81"
	    "a",
	    3);
	origin(ONE("NFC"),
	    "e\xcc\x81\xcc\xa3"
	    "a",
	    3);
	origin(ONE("NFKD"),
	    "\xef\xb7\xba"
	    "a",
	    33);
	origin(ONE("NFD"),
	    "\xe1\xb9\xa9"
	    "b",
	    5);
	origin(REPLACE("^", "_"), "Ab", 2);
	origin(REPLACE("A", "xy"), "Ab", 2);
	origin(REPLACE("Ab", "xy"), "Abc", 0);
	origin(REPLACE("Ab", ""), "Abc", 0);
	origin(REPLACE("^ ", "_"), "  b", 1);
	origin(REPLACE("b", "_"), "ab", 1);
	origin(REPLACE("x", "_"), "ab", 1);
	origin(REPLACE("(?<=a)", "_"), "ab", 2);
	origin(TWO(PREPEND("_"), REPLACE("_a", "xyz")), "ab", 3);
	origin(PREPEND("__"),
	    "\xc3\xa9"
	    "a",
	    4);
	origin(PREPEND(""), "ab", 1);
	origin(TWO(ONE("Strip"), PREPEND("")), " ab", 1);
	origin(TWO(ONE("Strip"), PREPEND("_")), " ab", 0);
	origin(ONE("Strip"), " ab", 0);
	origin(ONE("StripAccents"),
	    "\xcc\x81"
	    "a",
	    0);
	origin(TWO(ONE("NFD"), ONE("StripAccents")),
	    "\xc3\xa9"
	    "a",
	    1);
	origin(ONE("Lowercase"),
	    "\xc4\xb0"
	    "a",
	    3);
	origin(TWO(ONE("NFD"), REPLACE("e", "")),
	    "\xc3\xa9"
	    "b",
	    2);
}

/* Matches as their ids in brackets. */
static void
cut(const struct added_token *token, size_t count, const char *text, const char *want)
{
	struct added *a = added_new(token, count);
	struct added_walk w = { .s = text, .n = strlen(text) };
	struct str s = { 0 };
	enum added_result found;
	struct err e;

	do {
		found = added_next(a, &w, &e);
		if (found == ADDED_FAILED) {
			str_adds(&s, e.msg);
			break;
		}
		str_addf(&s, "%.*s%s", (int)(w.end - w.start), text + w.start,
		    found == ADDED_CUT ? "|" : "");
		if (found == ADDED_TOKEN)
			str_addf(&s, "[%u]", w.id);
	} while (found);
	CHECK_STR(s.buf, want);
	str_release(&s);
	added_free(a);
}

static void
test_added(void)
{
	static const struct added_token t[] = {
		{ "<a>", 3, 1, false, false, false, false },
		{ "<a><b>", 6, 2, false, false, false, false },
		{ "word", 4, 3, true, false, false, false },
		{ "[l]", 3, 4, false, true, false, false },
		{ "[r]", 3, 5, false, false, true, false },
		{ "[s]", 3, 6, false, false, false, true },
		{ "bcde", 4, 7, false, false, false, false },
		{ "cd", 2, 8, false, false, false, false },
		{ "a\nb", 3, 9, false, false, false, false },
	};
	enum { N = sizeof t / sizeof *t };

	cut(t, N, "x<a><b><a>y", "x[2][1]y");
	cut(t, N, "<a><<a", "[1]<<a");
	cut(t, N, "word words a-word sword word_ word\xcc\x81",
	    "[3] words a-[3] sword word_ word\xcc\x81");
	cut(t, N, "a  [l] b", "a[4] b");
	cut(t, N,
	    "a [r] \xe3\x80\x80"
	    "b",
	    "a [5]b");
	cut(t, N, "[r]  [l]x", "[5][4]x");
	cut(t, N, "[s]<a>", "[s][1]");
	cut(t, N, "bcdf bcde abcd", "b[8]f [7] ab[8]");
	cut(t, N, "a\nb", "[9]");
	cut(t, 1, "plain", "plain");
	cut(t, 0, "plain", "plain");
}

/* What the white space that a token takes leaves of the next one, and a token without text; the ids
 * are those of tokenizers 0.23.3. */
static void
test_added_overlap(void)
{
	static const struct added_token both = { " ", 1, 1, .lstrip = true, .rstrip = true },
					wide = { "A", 1, 2, .rstrip = true },
					left = { " ", 1, 3, .lstrip = true }, two = { "  ", 2, 4 },
					q = { "q", 1, 5 }, none = { "", 0, 6, .empty = true },
					none_left = { "", 0, 6, .empty = true, .lstrip = true },
					none_both = { "", 0, 6, .empty = true, .lstrip = true,
						.rstrip = true },
					none_word = { "", 0, 6, .empty = true,
						.single_word = true };
	const struct added_token set[][2] = { { both }, { wide, both }, { wide, left },
		{ wide, two }, { q, none }, { q, none_left }, { q, none_both }, { q, none_word } };

	cut(set[0], 1, "a    b", "a[1]b");
	cut(set[1], 2, "A   b  ", "[2]b[1]");
	cut(set[2], 2, "b A b", "b[3][2]b");
	cut(set[2], 2, "b A   b",
	    "b[3][2]an added token ends before the white space that the one before it has taken, "
	    "at "
	    "byte 4: tokenizers fails there");
	cut(set[3], 2, "A   b", "[2][4] b");
	cut(set[4], 2, "ab q  ab", "a|b| [5] | |a|b|");
	cut(set[4], 2, "", "");
	cut(set[5], 2, "ab q  ab", "a|b| [5][6][6]a|b|");
	cut(set[6], 2, "ab q  ab", "a|b[6][5][6]a|b|");
	cut(set[7], 2, "ab q  ab", "ab [5] | ab");
	cut(set[4], 2, "q\xc3\xa9",
	    "[5]an added token without text matches inside the character at byte 2: tokenizers "
	    "fails there");
}

/* A blank that strips white space after it matches everywhere in a run of blanks: the first match
 * covers the run, the others lie inside it. The time must not grow with the square of the run. */
static void
test_blank_run(void)
{
	enum { BLANKS = 100000 };
	static const struct added_token t[] = { { " ", 1, 1, .rstrip = true },
		{ " ", 1, 1, .lstrip = true, .rstrip = true } };
	char *text = mem_alloc(BLANKS + 2, 1);
	clock_t start = clock();
	struct err e;

	memset(text, ' ', BLANKS + 2);
	text[0] = text[BLANKS + 1] = 'x';
	for (int i = 0; i < 2; i++) {
		struct added *a = added_new(&t[i], 1);
		struct added_walk w = { .s = text, .n = BLANKS + 2 };
		int found = 0;

		while (added_next(a, &w, &e)) {
			CHECK(w.end - w.start == (found == 0));
			found++;
		}
		CHECK(found == (i ? 1 : BLANKS) && w.start == BLANKS + 1 && w.end == BLANKS + 2);
		added_free(a);
	}
	CHECK(clock() - start < 5 * CLOCKS_PER_SEC);
	free(text);
}

/* Tokens are separated by '|'. */
static void
decoded(const char *json, const char *tokens, const char *want)
{
	struct json *j = parse(json);
	struct decoder_scratch x = { .regex = regex_scratch_new() };
	struct decoder d = { 0 };
	struct str got = { 0 };
	struct err e = { "" };

	str_reserve(&got, 1);
	got.buf[0] = '\0';
	decoder_begin(&x);
	for (const char *s = tokens; *s; s += strcspn(s, "|"), s += *s == '|')
		decoder_add(&x, s, strcspn(s, "|"));
	if (decoder_parse(&d, json_root(j), &e) < 0)
		str_adds(&got, e.msg);
	else
		decoder_run(&d, &x, &got);
	CHECK_STR(got.buf, want);
	str_release(&got);
	decoder_release(&d);
	decoder_scratch_release(&x);
	regex_scratch_free(x.regex);
	json_free(j);
}

static void
test_decoders(void)
{
	decoded("null", "a|b", "a b");
	decoded("{\"type\":\"ByteLevel\"}", "a| b", "a b");
	decoded("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
		"\"String\":\"_\"},"
		"\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
		"{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}",
	    "__a|_b|<0xE3>|<0x81>|<0x82>|<0xG0>", " a b\xe3\x81\x82<0xG0>");
	decoded("{\"type\":\"ByteFallback\"}", "<0xFF>|a",
	    "\xff"
	    "a");
	decoded(
	    "{\"type\":\"Strip\",\"content\":\"x\",\"start\":1,\"stop\":2}", "xxaxxx|xb", "xaxb");
	decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"always\"}",
	    "_a|_b_", "a b ");
	decoded("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false}",
	    "_a|_b", " a b");
	decoded("{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}", "a|b</w>|c</w>", "ab c");
	/* A string is replaced in any bytes, an expression only in text. */
	decoded("{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"}",
	    "_\xff_|_", " \xff  ");
	decoded("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"_\"},\"content\":\" \"}",
	    "_\xff_|_", "_\xff_ ");
	decoded("{\"type\":\"Strip\",\"content\":\"xy\"}", "",
	    "decoder 'Strip': \"content\" must be a character");
	decoded("{\"type\":\"Metaspace\",\"replacement\":\"\"}", "",
	    "decoder 'Metaspace': \"replacement\" must be a character");
	decoded("{\"type\":\"Metaspace\"}", "",
	    "decoder 'Metaspace': \"replacement\" must be a character");
	decoded(
	    "{\"type\":\"BPEDecoder\"}", "", "decoder 'BPEDecoder': \"suffix\" must be a string");
	decoded("{\"type\":\"WordPiece\"}", "", "decoder 'WordPiece' is not supported");
	decoded(
	    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteLevel\"}]}",
	    "", "decoder 'ByteLevel': ByteLevel must be the first step");
}

int
main(void)
{
	test_base64();
	test_names();
	test_alphabet();
	test_patterns();
	test_limits();
	test_normalizers();
	test_many_marks();
	test_splits();
	test_added();
	test_origin();
	test_added_overlap();
	test_blank_run();
	test_decoders();
	return check_done();
}
