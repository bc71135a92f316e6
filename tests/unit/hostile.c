/*
 * hostile.c - small tokenizer files that would take hours, or more memory than the machine has
 *
 * Each file is opened and, where opening must succeed, a text is encoded, within bounds of the time
 * of a processor and of memory, which must stay in proportion to the size of an accepted file.
 */
#include "lib/base/mem.h"
#include "lib/token/tokenizer.h"
#include "tests/check.h"
#include "tests/fuzz/input.h"

#include <sys/resource.h>

enum { MEMORY = 1 << 20, SECONDS = 20, UNITS = 256 }; /* MEMORY in KiB */

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"
#define DOUBLE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}"

/* The reason for refusing a tokenizer file and a text, or "". */
static const char *
outcome(const char *type, const struct str *file, const char *text, struct err *e)
{
	static struct input memory;
	struct tokenizer_spec spec = { .type = type,
		.model = input_file(&memory, file->buf, file->len) };
	struct tokenizer *t = tokenizer_open(&spec, e);
	struct tokenizer_worker *w = t ? tokenizer_worker_new(t) : NULL;
	struct token_ids ids = { 0 };
	const char *why = e->msg;

	if (t && tokenizer_encode(w, text, strlen(text), &ids, e) == 0)
		why = "";
	token_ids_release(&ids);
	tokenizer_worker_free(w);
	tokenizer_close(t);
	return !t && strchr(why, ':') ? strchr(why, ':') + 2 : why;
}

/* What becomes of a tokenizer.json with one more member; the file is released. */
static const char *
outcome_with(struct str *member, struct err *e)
{
	struct str file = { 0 };
	const char *why;

	str_addf(&file, "{" MODEL ",%s}", member->buf);
	why = outcome("HuggingFaceTokenizer", &file, "aaaa bb", e);
	str_release(&file);
	str_release(member);
	return why;
}

static void
json_is(struct str *member, const char *want)
{
	struct err e;

	CHECK_STR(outcome_with(member, &e), want);
}

/* head, n times body with commas between, tail. */
static struct str
repeated(const char *head, const char *body, int n, const char *tail)
{
	struct str s = { 0 };

	str_adds(&s, head);
	for (int i = 0; i < n; i++)
		str_addf(&s, "%s%s", i ? "," : "", body);
	str_adds(&s, tail);
	return s;
}

static void
test_template(void)
{
	struct str s = repeated("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{"
				"\"Sequence\":{\"id\":\"A\"}},",
		       "{\"SpecialToken\":{\"id\":\"a\"}}", 4000,
		       "],\"special_tokens\":{\"a\":{\"ids\":["),
		   ids;

	ids = repeated(s.buf, "0", 4000, "]}}}");
	json_is(&ids, "post_processor 'TemplateProcessing': more than 4096 tokens");
	str_release(&s);
	s = repeated("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[",
	    "{\"SpecialToken\":{\"id\":\"a\"}}", 5000,
	    "],\"special_tokens\":{\"a\":{\"ids\":[0]}}}");
	json_is(&s, "post_processor 'TemplateProcessing': more than 4096 entries in \"single\"");
	s = repeated("{\"type\":\"TemplateProcessing\","
		     "\"single\":[{\"SpecialToken\":{\"id\":\"a\"}},{\"Sequence\":{\"id\":\"A\"}}],"
		     "\"special_tokens\":{\"a\":{\"ids\":[",
	    "0", 2000, "]}}}");
	ids =
	    repeated("\"post_processor\":{\"type\":\"Sequence\",\"processors\":[", s.buf, 3, "]}");
	json_is(&ids, "post_processor 'TemplateProcessing': more than 4096 tokens");
	str_release(&s);
	s = repeated("\"post_processor\":{\"type\":\"Sequence\",\"processors\":[",
	    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"a\"}},{"
	    "\"Sequence\":{\"id\":\"A\"}}],"
	    "\"special_tokens\":{\"a\":{\"ids\":[0]}}}",
	    5000, "]}");
	json_is(&s, "post_processor: more than 128 steps");
}

static void
test_steps(void)
{
	struct str s = repeated("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
	    "{\"type\":\"NFKC\"}", 2000, "]}");

	json_is(&s, "normalizer: more than 128 steps");
	/* The tables of a normal form are made once for any number of steps. */
	s = repeated("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
	    "{\"type\":\"NFKC\"}", 128, "]}");
	json_is(&s, "");
	s = repeated("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[", DOUBLE, 40, "]}");
	json_is(&s, "the normalizer makes more than 65984 bytes of 7");
	s = repeated(
	    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[", "{\"type\":\"Fuse\"}", 200, "]}");
	json_is(&s, "decoder: more than 128 steps");
	s = repeated("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[", DOUBLE, 12, "]}");
	json_is(&s, "");
	s = repeated("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[", DOUBLE, 13, "]}");
	json_is(&s, "decoder 'Replace': the steps could make a token more than 4096 times longer");
}

/* Texts of the file that are inserted in many places. */
static void
test_long_texts(void)
{
	char *x = mem_alloc(500001, 1);
	struct str s = { 0 };

	memset(x, 'x', 500000);
	x[500000] = '\0';
	str_addf(&s, "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"%s\"}", x);
	json_is(&s, "pre_tokenizer 'Metaspace': \"replacement\" must be a character");
	str_addf(&s, "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"%s\"}", x);
	json_is(&s, "decoder 'Metaspace': \"replacement\" must be a character");
	str_addf(&s,
	    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\"},\"content\":\"%s\"}",
	    x);
	json_is(&s, "the normalizer makes more than 65984 bytes of 7");
	str_addf(&s,
	    "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"%.60000s\"},\"added_tokens\":[", x);
	for (int i = 0; i < 1000; i++)
		str_addf(&s, "%s{\"id\":%d,\"content\":\"<%d>\"}", i ? "," : "", 2 + i, i);
	str_adds(&s, "]");
	json_is(&s, "added token '<1>': the normalizer makes these more than 16 times longer");
	str_addf(&s,
	    "\"x\":{},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_"
	    "suffix\":\"%s\"}",
	    x);
	json_is(&s, "model: a prefix or suffix of more than 255 bytes");
	free(x);
}

/* Ids far above the number of tokens, and deep nesting. */
static void
test_numbers(void)
{
	struct str s = { 0 };
	struct err e;

	str_adds(
	    &s, "\"x\":0,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2147483647},\"merges\":[]}");
	json_is(&s, "the id of 'a' is 2147483647, but there are 1 tokens");
	str_adds(&s, "\"x\":0,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":65551},\"merges\":[]}");
	json_is(&s, "");
	str_adds(&s, "\"x\":");
	for (int i = 0; i < 100000; i++)
		str_addc(&s, '[');
	/* later releases of simdjson say the error's name before it */
	CHECK(strstr(outcome_with(&s, &e), "The JSON document was too deep"));
}

/* All merges have the same left part: inserting one must not walk over the others. */
static void
test_one_left(void)
{
	struct str file = { 0 };
	struct err e;

	str_adds(&file, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"_\":0");
	for (int i = 0; i < 100000; i++)
		str_addf(&file, ",\"%d\":%d,\"_%d\":%d", i, 2 * i + 1, i, 2 * i + 2);
	str_adds(&file, "},\"merges\":[\"_ 0\"");
	for (int i = 1; i < 100000; i++)
		str_addf(&file, ",\"_ %d\"", i);
	str_adds(&file, "]}}");
	CHECK_STR(outcome("HuggingFaceTokenizer", &file, "_1_2", &e), "");
	str_release(&file);
}

/* Tokens whose second halves cancel the hash of their first halves, if the hash starts from the
 * length. There are as many as in a published file, so that the pattern is recognised. */
static void
test_one_slot(void)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct str file = { 0 };
	struct err e;

	for (int i = 0; i < 256; i++)
		str_addf(&file, "%c%c== %d\n", digits[i >> 2], digits[(i & 3) << 4], i);
	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t half[2] = { i * 0x9e3779b97f4a7c15u, 0 }, h = 16 * 0x93cd3a2c8198e269u;
		const unsigned char *b = (const unsigned char *)half;

		h = (h ^ half[0]) * 0x9e3779b97f4a7c15u;
		half[1] = h ^ h >> 32;
		for (int k = 0; k < 15; k += 3)
			str_addf(&file, "%c%c%c%c", digits[b[k] >> 2],
			    digits[(b[k] & 3) << 4 | b[k + 1] >> 4],
			    digits[(b[k + 1] & 15) << 2 | b[k + 2] >> 6], digits[b[k + 2] & 63]);
		str_addf(&file, "%c%c== %d\n", digits[b[15] >> 2], digits[(b[15] & 3) << 4],
		    (int)i + 256);
	}
	CHECK_STR(outcome("TikTokenizer", &file, "aaaa", &e), "");
	str_release(&file);
}

/* Appends a field of bytes to a protobuf message. */
static void
add_field(struct str *s, int number, const void *bytes, size_t len)
{
	size_t n = len;

	str_addc(s, (char)(number << 3 | 2));
	for (; n >= 0x80; n >>= 7)
		str_addc(s, (char)(n | 0x80));
	str_addc(s, (char)n);
	str_add(s, bytes, len);
}

/* A SentencePiece model with these rules of normalisation. */
static struct str
model(const uint32_t *unit, const char *pool, size_t pool_len)
{
	static const char unk[] = "\x0a\x05<unk>\x18\x02",
			  a[] = "\x0a\x01"
				"a\x15\0\0\x80\xbf";
	uint32_t bytes = UNITS * 4;
	struct str s = { 0 }, rules = { 0 }, spec = { 0 };

	str_add(&rules, (const char *)&bytes, 4);
	str_add(&rules, (const char *)unit, bytes);
	str_add(&rules, pool, pool_len);
	add_field(&spec, 2, rules.buf, rules.len);
	add_field(&s, 1, unk, sizeof unk - 1);
	add_field(&s, 1, a, sizeof a - 1);
	add_field(&s, 3, spec.buf, spec.len);
	str_release(&rules);
	str_release(&spec);
	return s;
}

/* Checks the result of opening the model, and releases it. */
static void
model_is(struct str file, const char *want)
{
	struct err e;

	CHECK_STR(outcome("SentencePieceTokenizer", &file, "aaaa bb", &e), want);
	str_release(&file);
}

/* Double arrays that are not trees, and replacements of unlimited length. */
static void
test_rules(void)
{
	uint32_t unit[UNITS];
	char *pool = mem_zalloc(200000, 1);

	/* Every byte follows every byte. */
	for (uint32_t i = 0; i < UNITS; i++)
		unit[i] = i << 10 | i;
	model_is(model(unit, "x", 2),
	    "its normalisation rules have keys of more than 1024 bytes or a cycle");
	/* Only 'a' follows 'a'. */
	memset(unit, 0, sizeof unit);
	unit[0] = 0;
	unit['a'] = 'a' << 10 | 'a';
	model_is(model(unit, "x", 2),
	    "its normalisation rules have keys of more than 1024 bytes or a cycle");
	/* 'a' becomes the beginning of the pool. */
	unit['a'] = (uint32_t)('a' ^ 'b') << 10 | 1u << 8 | 'a';
	unit['b'] = 1u << 31;
	memset(pool, 'x', 199999);
	model_is(model(unit, pool, 200000),
	    "its normalisation rules replace a character by 199999 bytes: must be at most 1024");
	pool[1024] = pool[2048] = '\0';
	model_is(model(unit, pool, 2049), "");
	free(pool);
}

int
main(void)
{
	const struct rlimit processor = { SECONDS, SECONDS };
	struct rusage used;

	CHECK(setrlimit(RLIMIT_CPU, &processor) == 0);
	test_template();
	test_steps();
	test_long_texts();
	test_numbers();
	test_one_left();
	test_one_slot();
	test_rules();
	CHECK(getrusage(RUSAGE_SELF, &used) == 0 && used.ru_maxrss < MEMORY);
	return check_done();
}
