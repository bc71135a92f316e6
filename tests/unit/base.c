/* base.c - tests of lib/base: options, hashes, random numbers, UTF-8, JSON, strings */
#include "lib/base/dtype.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/map.h"
#include "lib/base/opt.h"
#include "lib/base/outfile.h"
#include "lib/base/pool.h"
#include "lib/base/rng.h"
#include "lib/base/utf8.h"
#include "tests/check.h"

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <unistd.h>

struct config {
	int64_t micro_batch_size;
	double lr;
	bool bf16, fusion;
	const char *load;
	int style;
	struct opt_list data_path;
};

static const char *const styles[] = { "cosine", "linear", NULL };

static const struct opt table[] = {
	{ .name = "micro-batch-size",
	    .type = OPT_INT,
	    .off = offsetof(struct config, micro_batch_size),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .help = "samples" },
	{ .name = "lr",
	    .type = OPT_NUMBER,
	    .off = offsetof(struct config, lr),
	    .min = 0,
	    .max = INFINITY,
	    .help = "rate" },
	{ .name = "bf16", .type = OPT_FLAG, .off = offsetof(struct config, bf16), .help = "bf16" },
	{ .name = "no-fusion",
	    .type = OPT_UNFLAG,
	    .off = offsetof(struct config, fusion),
	    .help = "fusion off" },
	{ .name = "load",
	    .letter = 'l',
	    .type = OPT_STRING,
	    .off = offsetof(struct config, load),
	    .unit = "DIR",
	    .help = "where" },
	{ .name = "lr-decay-style",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct config, style),
	    .choices = styles,
	    .def = "cosine",
	    .help = "shape" },
	{ .name = "data-path",
	    .type = OPT_LIST,
	    .off = offsetof(struct config, data_path),
	    .help = "data" },
	{ .name = "use-mcore-models", .type = OPT_NOTE, .help = "there is one model code" },
	{ .name = "chunk-size", .type = OPT_NOTE, .max = 1, .unit = "N", .help = "by bytes" },
	{ .name = "worker-counts", .type = OPT_NOTE, .max = 2, .help = "not measured" },
	{ .name = "partitions", .type = OPT_NOTE, .def = "1", .help = "one run, one dataset" },
	OPT_END,
};

static const struct opt_foreign foreign[] = {
	{ "deepspeed", FOREIGN_NOTE, OPT_MANY, .why = "no launcher" },
	{ "fp8-format", FOREIGN_MATHS, 0, .why = "not built yet" },
	{ "init-std", FOREIGN_SAME, 1, .values = "@lr", .why = "as the rate" },
	{ "lazy", FOREIGN_NOTE, OPT_MAYBE, .why = "no launcher" },
	{ "model-parallel", FOREIGN_ALIAS, 1, .to = "--micro-batch-size $ --bf16" },
	{ "num-experts", FOREIGN_MATHS, 1, .why = "not built yet" },
	{ "partitions", FOREIGN_LACKS, 1, .why = "one run, one dataset" },
	{ "retro", FOREIGN_SCOPE, 1, .why = "out of scope" },
	{ "softmax", FOREIGN_SAME, 1, .values = "1; *x*=--load $", .why = "no sinks" },
	{ "workers", FOREIGN_NOTE, 1, .why = "no workers" },
};
static const struct opt_word other_words[] = { { "learning-rate", "lr" }, { NULL, NULL } };
static const struct opt_foreigners foreigners = { foreign, sizeof foreign / sizeof *foreign,
	other_words };

/* Parses words into c; returns opt_argv's result. */
static int
parse(struct opt_parse *p, struct config *c, int argc, const char **argv, struct err *e)
{
	static char *copy[64];
	char **av = copy;

	memset(c, 0, sizeof *c);
	c->fusion = true;
	for (int i = 0; i < argc; i++)
		copy[i] = mem_strdup(argv[i]);
	opt_begin(p, table, c);
	p->foreign = &foreigners;
	p->no_operands = argc > 0 && !strcmp(argv[argc - 1], "stray") ? "no operands" : NULL;
	return opt_argv(p, &argc, &av, e);
}

static void
test_options(void)
{
	struct opt_parse p;
	struct config c;
	struct err e;
	const char *good[] = { "--micro_batch_size", "4", "--lr=1e-4", "--bf16", "--no-fusion",
		"-l", "dir one", "--lr-decay-style", "linear", "--data-path", "0.3", "a", "0.7",
		"b", "--use-mcore-models" };
	struct {
		const char *word[3];
		int n;
		const char *reason;
	} bad[] = {
		{ { "--micro-batch-size", "0" }, 2,
		    "--micro-batch-size 0: must be from 1 to 1000000" },
		{ { "--lr", "-1" }, 2, "--lr -1: must be at least 0" },
		{ { "--lr", "x" }, 2, "--lr x: not a number" },
		{ { "--lr-decay-style", "step" }, 2,
		    "--lr-decay-style step: must be one of cosine, linear" },
		{ { "--lodd", "x" }, 2, "unknown option '--lodd'; the nearest is '--load'" },
		{ { "--load" }, 1, "--load: needs a value: DIR" },
		{ { "--load", "--lr", "1" }, 3, "--load: needs a value: DIR" },
		{ { "--load", "-l", "1" }, 3, "--load: needs a value: DIR" },
		{ { "--model-parallel" }, 1, "--model-parallel: needs a value" },
		{ { "--model-parallel", "0" }, 2,
		    "--model-parallel: --micro-batch-size 0: must be from 1 to 1000000" },
		{ { "--num-experts", "8", "--fp8-format" }, 3,
		    "--num-experts, --fp8-format: not built yet" },
		{ { "--softmax", "2" }, 2, "--softmax 2: no sinks; accepted: 1" },
		{ { "--init-std", "2", "--lr=3" }, 3,
		    "--init-std 2: as the rate; accepted: the value of --lr" },
		{ { "--learning_rate", "1" }, 2,
		    "unknown option '--learning_rate'; here it is '--lr'" },
		{ { "--softmas", "1" }, 2,
		    "unknown option '--softmas'; the nearest is '--softmax'" },
		{ { "--micro-b", "1" }, 2,
		    "unknown option '--micro-b'; the nearest is '--micro-batch-size'" },
		{ { "--micro-batch-size", "1__0" }, 2, "--micro-batch-size 1__0: not an integer" },
		{ { "--micro-batch-size", "_1" }, 2, "--micro-batch-size _1: not an integer" },
		{ { "--lr", "1_" }, 2, "--lr 1_: not a number" },
		{ { "--partitions" }, 1, "--partitions: needs a value: 1" },
		{ { "--partitions", "2", "file" }, 3, "--partitions: one run, one dataset" },
		{ { "--partitions=2" }, 1, "--partitions: one run, one dataset" },
	};
	const char *only[] = { "--partitions", "1", "file", "--partitions=1" };

	CHECK(parse(&p, &c, 15, good, &e) == 0);
	CHECK(c.micro_batch_size == 4 && c.lr == 1e-4 && c.bf16 && !c.fusion && c.style == 1);
	CHECK_STR(c.load, "dir one");
	CHECK(c.data_path.count == 4);
	CHECK(opt_given(&p, "lr") && p.notes.len > 0);
	opt_release(&p);
	CHECK(parse(&p, &c, 4, only, &e) == 0 && p.notes.len == 0);
	CHECK(opt_text(&p, "f", "partitions 1\n", false, &e) == 0);
	CHECK(opt_text(&p, "f", "partitions 1 2\n", false, &e) < 0);
	opt_release(&p);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(parse(&p, &c, bad[i].n, bad[i].word, &e) < 0);
		CHECK_STR(e.msg, bad[i].reason);
		opt_release(&p);
	}
}

/* Options of other programs that a run takes: the same as ours, or without effect. */
static void
test_foreign(void)
{
	const char *words_in[] = { "--model-parallel=1_0", "--softmax", "1.0", "--lr", "2",
		"--deepspeed", "a", "b", "--init-std", "2_0e-1", "--deepspeed",
		"--use-mcore-models", "--softmax=axb", "--data-path", "1 2_0 3", "x y",
		"--lr-decay-style", "LINEAR" };
	struct opt_parse p;
	struct config c;
	struct err e;

	CHECK(parse(&p, &c, 18, words_in, &e) == 0);
	CHECK(c.micro_batch_size == 10 && c.bf16 && c.style == 1 && c.lr == 2);
	CHECK_STR(c.load, "axb");
	CHECK(c.data_path.count == 4);
	CHECK_STR(c.data_path.item[1], "2_0");
	CHECK_STR(c.data_path.item[3], "x y");
	CHECK(opt_foreign_given(&p, "softmax") && !opt_foreign_given(&p, "retro"));
	CHECK_STR(p.notes.buf,
	    "--model-parallel 1_0: is --micro-batch-size 1_0 --bf16 here\n"
	    "--softmax axb: is --load axb here\n"
	    "without effect here: --softmax, --init-std (has this value here), --deepspeed (no "
	    "launcher), --use-mcore-models (there is one model code)\n");
	opt_release(&p);
	CHECK(opt_foreign_find(&foreigners, "fp8_format") == &foreign[1]);
	CHECK(!opt_foreign_find(&foreigners, "fp8") && !opt_foreign_find(NULL, "fp8-format"));
}

/* An option without effect takes the words that it takes elsewhere, and no other. */
static void
test_words(void)
{
	static const struct {
		const char *word[4];
		int n;
		const char *reason; /* NULL: nothing is wrong */
	} lines[] = {
		{ { "--deepspeed", "stray" }, 2, NULL },
		{ { "--lazy", "stray" }, 2, NULL },
		{ { "--lazy", "1", "stray" }, 3, "'stray': no operands" },
		{ { "--workers", "stray" }, 2, NULL },
		{ { "--workers", "-5" }, 2, NULL },
		{ { "--workers", "4", "stray" }, 3, "one value" },
		{ { "--workers", "--bf16" }, 2, "--workers: needs a value" },
		{ { "--workers" }, 1, "--workers: needs a value" },
		{ { "--fp8-format", "stray" }, 2, "no value" },
		{ { "--chunk-size", "stray" }, 2, NULL },
		{ { "--chunk-size", "4", "stray" }, 3, "one value" },
		{ { "--chunk-size" }, 1, "--chunk-size: needs a value: N" },
		{ { "--worker-counts", "4", "stray" }, 3, NULL },
		{ { "--use-mcore-models", "stray" }, 2, "no value" },
		{ { "--use-mcore-models=1" }, 1, "--use-mcore-models: takes no value" },
	};

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		struct opt_parse p;
		struct config c;
		struct err e = { "" };
		int rc = parse(&p, &c, lines[i].n, (const char **)lines[i].word, &e);

		CHECK((rc < 0) == (lines[i].reason != NULL));
		if (rc < 0 && !strstr(e.msg, lines[i].reason ? lines[i].reason : e.msg))
			CHECK_STR(e.msg, lines[i].reason);
		opt_release(&p);
	}
}

/* A later value wins over one that was out of range, not over one that is no number. */
static void
test_later(void)
{
	const char *range[] = { "--micro-batch-size", "0", "--lr", "-1", "--micro-batch-size=2",
		"--lr", "1" };
	const char *wrong[] = { "--lr", "x", "--lr", "1" };
	struct opt_parse p;
	struct config c;
	struct err e;

	CHECK(parse(&p, &c, 7, range, &e) == 0);
	CHECK(c.micro_batch_size == 2 && c.lr == 1 && !opt_bad(&p, "lr"));
	opt_release(&p);
	CHECK(parse(&p, &c, 4, wrong, &e) < 0);
	CHECK_STR(e.msg, "--lr x: not a number");
	opt_release(&p);
}

/* Seven faults of seven kinds are seven lines, in the order of the command line; what follows from
 * one of them is none. */
static void
test_answer(void)
{
	const char *faults[] = { "--lodd", "x", "y", "--lr", "nought", "--load",
		"--micro-batch-size", "0", "--retro", "1", "--num-experts", "8", "--fp8-format",
		"--no-fusion", "stray" };
	static const char *const want[] = { "8 options cannot be used as given:",
		"unknown option '--lodd'; the nearest is '--load'", "--lr nought: not a number",
		"--load: needs a value: DIR", "--micro-batch-size 0: must be from 1 to 1000000",
		"--retro: out of scope", "--num-experts, --fp8-format: not built yet",
		"'stray': no operands, after --no-fusion, which takes no value",
		"needed: --data-path (or --mock), --lr-decay-style" };
	struct opt_parse p;
	struct config c;
	struct err e, rule;
	struct str all = { 0 };

	CHECK(parse(&p, &c, 15, faults, &e) < 0);
	CHECK(c.lr == 0 && !c.load && p.errors->count == 8);
	CHECK(opt_bad(&p, "lr") && !opt_bad(&p, "bf16"));
	err_set(&rule, "--lr 0: must be less than --micro-batch-size 0");
	CHECK(opt_rule(&p, -1, &rule) == -1 && p.errors->count == 8);
	opt_needed(&p, "data-path", "or --mock");
	opt_needed(&p, "lr-decay-style", NULL);
	opt_needed(&p, "lr", NULL);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++)
		str_addf(&all, "%s%c", want[i], ERR_LINE);
	all.buf[all.len - 1] = '\0';
	CHECK(opt_answer(&p, &e) < 0);
	CHECK_STR(e.msg, all.buf);
	str_release(&all);
	opt_release(&p);
}

/* A rule is told at the place of the first option that it names; at most 40 lines are. */
static void
test_rules(void)
{
	const char *few[] = { "--lr", "1", "--bogus", "--bf16" };
	const char *many[50];
	char word[50][16];
	struct opt_parse p;
	struct config c;
	struct err e, rule;

	CHECK(parse(&p, &c, 4, few, &e) < 0);
	err_set(&rule, "--lr 1: excludes --bf16");
	opt_rule(&p, -1, &rule);
	opt_rule(&p, 0, &rule);
	CHECK(opt_answer(&p, &e) < 0 && strstr(e.msg, ":\036--lr 1: excludes --bf16\036unknown"));
	opt_release(&p);
	for (int i = 0; i < 50; i++) {
		snprintf(word[i], sizeof word[i], "--%d", 1000000 + i);
		word[i][2] = 'q';
		many[i] = word[i];
	}
	CHECK(parse(&p, &c, 50, many, &e) < 0);
	CHECK(!strncmp(e.msg, "50 options cannot", 17) && strstr(e.msg, "\036and 10 more"));
	opt_release(&p);
}

/* dump, read, dump is a fixed point; the command line wins over a file. */
static void
test_option_file(void)
{
	struct opt_parse p, q;
	struct config c, d;
	struct err e;
	struct str one = { 0 }, two = { 0 };
	const char *words[] = { "--lr", "0.1", "--load", "a \"b\" #c\\", "--data-path", "x", "y z",
		"--no-fusion" };

	CHECK(parse(&p, &c, 8, words, &e) == 0);
	opt_dump(&p, false, &one);
	CHECK(parse(&q, &d, 0, NULL, &e) == 0);
	CHECK(opt_text(&q, "dump", one.buf, false, &e) == 0);
	opt_dump(&q, false, &two);
	CHECK_STR(one.buf, two.buf);
	CHECK(opt_text(&q, "f", "lr 2\nbogus 1\n", false, &e) < 0);
	CHECK_STR(e.msg, "f:2: unknown option '--bogus'; --help lists the options");
	CHECK(opt_text(&q, "f", "lr = 3 # comment\n", true, &e) == 0 && d.lr == 2.0);
	str_release(&one);
	str_release(&two);
	opt_release(&p);
	opt_release(&q);
}

static void
test_hashes(void)
{
	static const char *const bad[] = { "", "0123456789abcde", "0123456789abcdeF",
		" 123456789abcdef", "0x23456789abcdef" };
	char hex[33];
	const char *end;
	uint64_t sum;

	hash_md5_hex("", 0, hex);
	CHECK_STR(hex, "d41d8cd98f00b204e9800998ecf8427e");
	hash_md5_hex(
	    "12345678901234567890123456789012345678901234567890123456789012345678901234567890", 80,
	    hex);
	CHECK_STR(hex, "57edf4a22be3c955ac49da2e2107b67a");
	CHECK(hash_crc32c("123456789", 9) == 0xe3069283u);
	CHECK(hash_xxh3("", 0) == 0x2d06800538d394c2ull);
	CHECK(hash_xxh3_seeded("word", 4, 0) == hash_xxh3("word", 4));
	CHECK(hash_xxh3_seeded("word", 4, 1) != hash_xxh3("word", 4));
	CHECK_STR(hash_text(0x1d06800538d394c2ull, hex), "1d06800538d394c2");
	CHECK(hash_read(hex, &sum) == hex + 16 && sum == 0x1d06800538d394c2ull);
	CHECK_STR(hash_text(10, hex), "000000000000000a");
	end = hash_read("fffffffffffffff0a", &sum);
	CHECK(end && sum == UINT64_MAX - 15);
	CHECK_STR(end ? end : "", "a");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(!hash_read(bad[i], &sum));
}

static void
test_rng(void)
{
	/* Known answers of Random123's kat_vectors, philox4x32 10. */
	uint32_t zero[4] = { 0 }, ones[4] = { ~0u, ~0u, ~0u, ~0u }, out[4];
	double a[8], b[5], sum = 0, sq = 0, z;
	struct mt19937 m;

	rng_philox(0, zero, out);
	CHECK(out[0] == 0x6627e8d5u && out[1] == 0xe169c58du && out[2] == 0xbc57ac4cu &&
	    out[3] == 0x9b00dbd8u);
	rng_philox(~0ull, ones, out);
	CHECK(out[0] == 0x408f276du && out[1] == 0x41c83b0eu && out[2] == 0xa20bc7c6u &&
	    out[3] == 0x6d5451fdu);
	rng_normal(7, 0, 8, 1, 2, a);
	rng_normal(7, 3, 5, 1, 2, b);
	CHECK(memcmp(a + 3, b, sizeof b) == 0);
	for (int i = 0; i < 100000; i++) {
		rng_normal(1, (uint64_t)i, 1, 3, 0, &z);
		sum += z;
		sq += z * z;
	}
	CHECK(fabs(sum / 1e5) < 0.01 && fabs(sq / 1e5 - 1) < 0.02);
	mt19937_seed(&m, 1234);
	CHECK(mt19937_next(&m) == 822569775u && mt19937_next(&m) == 2137449171u);
}

static void
test_utf8(void)
{
	const char *bad[] = { "\xff", "\xe3\x81", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
		"abcdefgh\x80" };
	unsigned char out[4];
	uint32_t cp, back;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(utf8_check((const unsigned char *)bad[i], strlen(bad[i])) < strlen(bad[i]));
	for (cp = 0; cp < 0x110000; cp += cp == 0xd7ff ? 0x801 : 1) {
		int n = utf8_encode(cp, out);

		if (utf8_decode(out, (size_t)n, &back) != n || back != cp)
			break;
	}
	CHECK(cp >= 0x110000);
}

static void
test_json(void)
{
	const char *text = "{\"a\": 1, \"b\": [true, null, -2.5, \"x\\u0000\\n\"], \"a\": 3}";
	struct err e;
	struct json *j = json_parse(text, strlen(text), "t", &e);
	const struct json_value *b;
	int64_t a;

	CHECK(j != NULL);
	CHECK(json_int(json_root(j), "a", 0, &a, &e) == 0 && a == 3);
	CHECK(json_root(j)->len == 3);
	b = json_get(json_root(j), "b");
	CHECK(b && b->type == JSON_ARRAY && b->len == 4 && b->item[2].number == -2.5 &&
	    b->item[3].len == 3);
	CHECK(json_int(json_root(j), "b", 0, &a, &e) < 0);
	CHECK(json_number(json_get(json_root(j), "a")) == 3 && json_number(&b->item[2]) == -2.5);
	json_free(j);
	CHECK(
	    json_parse("{\"a\":}", 6, "t", &e) == NULL && !strncmp(e.msg, "t: not valid JSON", 17));
}

/* Any number is legal; one outside 64 bits is not an integer, and one above all doubles is the
 * largest double. */
static void
test_json_numbers(void)
{
	const char *text = "{\"max\": 1000000000000000019884624838656, \"id\": "
			   "9223372036854775807, \"u\": 18446744073709551615,"
			   " \"far\": [1e400, -1E+400], \"s\": \"\\\"1e400, "
			   "99999999999999999999\", \"old\": -9223372036854775809}";
	const char *bad[] = { "[01e400]", "[1.]", "[-]", "[1e400, 2.e5]", "[1e400, 1e]", "[+1]",
		"[99999999999999999999" };
	struct err e;
	struct json *j = json_parse(text, strlen(text), "t", &e);
	const struct json_value *root = json_root(j), *far = json_get(root, "far");
	int64_t n;
	double d;

	CHECK(j && json_int(root, "max", 0, &n, &e) < 0 &&
	    !strcmp(e.msg, "\"max\" must be an integer"));
	CHECK(json_double(root, "max", 0, &d, &e) == 0 && d == 1e30);
	CHECK(json_int(root, "id", 0, &n, &e) == 0 && n == INT64_MAX);
	CHECK(json_get(root, "u")->number == 0x1p64 && json_get(root, "old")->number == -0x1p63);
	CHECK(far->item[0].number == DBL_MAX && far->item[1].number == -DBL_MAX);
	CHECK(!strcmp(json_get(root, "s")->string, "\"1e400, 99999999999999999999"));
	json_free(j);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(json_parse(bad[i], strlen(bad[i]), "t", &e) == NULL);
}

static void
test_dtype(void)
{
	double d = 1.0 + 0x1p-8 + 0x1p-40, back;
	uint16_t h;

	CHECK(dtype_bf16_from_f32(1.0f + 0x1p-8f) == 0x3f80);
	dtype_convert(&h, DTYPE_BF16, &d, DTYPE_F64, 1);
	CHECK(h == 0x3f81);
	dtype_convert(&back, DTYPE_F64, &h, DTYPE_BF16, 1);
	CHECK(back == 1.0 + 0x1p-7);
	CHECK(dtype_f16_from_f32(65520.0f) == 0x7c00 && dtype_f16_from_f32(65519.0f) == 0x7bff);
	for (uint32_t u = 0; u < 0x10000; u++) {
		float f = dtype_f32_from_f16((uint16_t)u);

		if (f == f && dtype_f16_from_f32(f) != u)
			CHECK(!"f16 round trip");
	}
	CHECK(dtype_from_name("bfloat16") == DTYPE_BF16 && dtype_from_name("x") == DTYPE_NONE);
}

/* What lies between two neighbours in fp16 goes to the nearer one, halfway to the even one. */
static void
test_f16_rounding(void)
{
	const uint32_t nan_bits = 0xffc02000;
	float nan;

	for (uint32_t u = 0; u < 0x7bff; u++) {
		float a = dtype_f32_from_f16((uint16_t)u),
		      b = dtype_f32_from_f16((uint16_t)(u + 1)), middle = (a + b) / 2;
		bool right = dtype_f16_from_f32(middle) == u + u % 2 &&
		    dtype_f16_from_f32(nextafterf(middle, 0)) == u &&
		    dtype_f16_from_f32(nextafterf(middle, b)) == u + 1 &&
		    dtype_f16_from_f32(-middle) == (0x8000 | (u + u % 2));

		if (!right)
			CHECK(!"f16 rounding");
	}
	memcpy(&nan, &nan_bits, 4);
	CHECK(dtype_f16_from_f32(nan) == 0xfe01);
	CHECK(dtype_f16_from_f32(-INFINITY) == 0xfc00 && dtype_f16_from_f32(1e30f) == 0x7c00);
}

/* A double goes to the nearer neighbour, however close to their middle it is, and counts as lost
 * where it becomes 0 or infinite. */
static void
test_doubles(void)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	static const double largest[] = { 0x1.fffffep127, 0x1.fep127, 65504 },
			    least[] = { 0x1p-149, 0x1p-133, 0x1p-24 };

	for (int t = 0; t < 3; t++)
		for (uint32_t u = 0; u < 0x7f00; u++) {
			uint32_t bits = u << 16 | (types[t] == DTYPE_F32 ? u : 0);
			double a = 0, b = 0, x[4], y[4];
			unsigned char stored[16];
			struct dtype_lost lost;

			if (types[t] != DTYPE_F32)
				bits = u;
			memcpy(stored, &bits, sizeof bits);
			dtype_convert(&a, DTYPE_F64, stored, types[t], 1);
			bits++;
			memcpy(stored, &bits, sizeof bits);
			dtype_convert(&b, DTYPE_F64, stored, types[t], 1);
			if (!isfinite(a) || !isfinite(b))
				continue;
			x[0] = (a + b) / 2;
			x[1] = nextafter(x[0], 0);
			x[2] = nextafter(x[0], b);
			x[3] = -x[2];
			dtype_convert(stored, types[t], x, DTYPE_F64, 4);
			dtype_convert(y, DTYPE_F64, stored, types[t], 4);
			lost = dtype_count_lost((struct dtype_array){ x, DTYPE_F64 },
			    (struct dtype_array){ stored, types[t] }, 4);
			if (y[0] != (bits % 2 ? a : b) || y[1] != a || y[2] != b || y[3] != -b ||
			    lost.overflows || lost.underflows != (a == 0 ? 2 : 0))
				CHECK(!"rounding of a double");
		}
	for (int t = 0; t < 3; t++) {
		double x[] = { 2 * largest[t], -largest[t], least[t], least[t] / 4, -1e-320,
			INFINITY, NAN, 0 };
		char stored[32];
		struct dtype_lost lost;

		dtype_convert(stored, types[t], x, DTYPE_F64, 8);
		lost = dtype_count_lost((struct dtype_array){ x, DTYPE_F64 },
		    (struct dtype_array){ stored, types[t] }, 8);
		CHECK(lost.overflows == 1 && lost.underflows == 2);
	}
}

/* A weight and its remainder make the float that they came from; of ties, one way only. */
static void
test_low_bits(void)
{
	static const uint32_t lows[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };

	for (uint32_t high = 0; high < 0x10000; high++)
		for (size_t i = 0; i < sizeof lows / sizeof *lows; i++) {
			uint32_t bits = high << 16 | lows[i], joined;
			float x, y;

			memcpy(&x, &bits, sizeof x);
			if (!isfinite(x) || !isfinite(dtype_f32_from_bf16(dtype_bf16_from_f32(x))))
				continue;
			y = dtype_f32_from_parts(
			    dtype_bf16_from_f32(x), dtype_low_bits_from_f32(x));
			memcpy(&joined, &y, sizeof joined);
			CHECK(joined == bits - (lows[i] == 0x8000 && high % 2 == 0));
			CHECK(dtype_bf16_from_f32(y) == dtype_bf16_from_f32(x));
		}
}

/* At any address, aligned or not. */
static void
test_nonfinite(void)
{
	static const enum dtype types[] = { DTYPE_F64, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
	const double values[] = { 0, -1e-9, INFINITY, 60000, -INFINITY, 1, NAN, 2 };
	static unsigned char many[140000];

	for (size_t i = 0; i < 4; i++) {
		char bytes[65];

		dtype_convert(bytes + 1, types[i], values, DTYPE_F64, 8);
		CHECK(dtype_count_nonfinite(bytes + 1, types[i], 8) == 3);
		CHECK(dtype_count_nonfinite(bytes + 1, types[i], 2) == 0);
	}
	CHECK(dtype_count_nonfinite("\377\377\377\377", DTYPE_U8, 4) == 0);
	memset(many, 0xff, sizeof many);
	CHECK(dtype_count_nonfinite(many, DTYPE_BF16, 70000) == 70000);
	CHECK(dtype_count_nonfinite(many, DTYPE_F32, 35000) == 35000);
}

/* Numbers are compared, not their bits. */
static void
test_same(void)
{
	const float a[] = { 0.0f, 1.0f, NAN }, b[] = { -0.0f, 1.0f, -NAN },
		    c[] = { 0.0f, 1.5f, NAN };

	CHECK(dtype_same(a, b, DTYPE_F32, 3) && dtype_same(a, a, DTYPE_F32, 3));
	CHECK(!dtype_same(a, c, DTYPE_F32, 3) && dtype_same(a, c, DTYPE_F32, 1));
	CHECK(!dtype_same(a + 1, a + 2, DTYPE_F32, 1));
}

static void
add(void *ctx, int i)
{
	((int *)ctx)[i] += i;
}

static void
test_pool(void)
{
	struct pool *p = pool_new(3);
	int a[100] = { 0 }, wrong = 0;

	for (int round = 0; round < 200; round++)
		pool_run(p, 100, add, a);
	for (int i = 0; i < 100; i++)
		wrong += a[i] != 200 * i;
	CHECK(wrong == 0);
	pool_free(p);
}

static void
test_files(void)
{
	char dir[] = "/tmp/mikoshi-base-XXXXXX", path[64], *text;
	struct err e;
	size_t n;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/a/b", dir);
	CHECK(io_mkdir_p(path, &e) == 0 && io_is_dir(path));
	snprintf(path, sizeof path, "%s/f", dir);
	CHECK(outfile_write(path, "hello", 5, &e) == 0);
	CHECK(io_read_file(path, 0, &text, &n, &e) == 0 && n == 5 && !strcmp(text, "hello"));
	free(text);
	CHECK(io_read_file(path, 4, &text, &n, &e) < 0);
	CHECK(outfile_write("/dev/full/x", "a", 1, &e) < 0);
	CHECK(io_remove_tree(dir, &e) == 0 && !io_exists(dir));
}

/* Sizes around those at which the buffer grows; zeroes follow the end, which parsers may read. */
static void
test_file_sizes(void)
{
	static const size_t sizes[] = { 0, 1, 65471, 65472, 65473, 65535, 65536, 65537, 300000 };
	char path[] = "/tmp/mikoshi-size-XXXXXX", zeroes[IO_PADDING] = { 0 }, *text, *back;
	int fd = mkstemp(path);
	struct err e;
	size_t n;

	CHECK(fd >= 0);
	text = malloc(300000);
	memset(text, 'x', 300000);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, text, sizes[i], 0) == (ssize_t)sizes[i]);
		CHECK(io_read_file(path, 0, &back, &n, &e) == 0 && n == sizes[i]);
		CHECK(!memcmp(back, text, n) && !memcmp(back + n, zeroes, IO_PADDING));
		free(back);
	}
	CHECK(io_read_file(path, 299999, &back, &n, &e) < 0);
	CHECK(
	    io_read_file("/proc/self/status", 0, &back, &n, &e) == 0 && n > 0 && strlen(back) == n);
	free(back);
	free(text);
	close(fd);
	unlink(path);
}

/* As many whole escapes as fit. */
static void
test_escape(void)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "plain \\ ü", "plain \\ ü" },
		{ "a\nb\tc\rd", "a\\nb\\tc\\rd" },
		{ "\x1b[2J\x7f", "\\x1b[2J\\x7f" },
		{ "\xc2\x85\xc2\x9b\xc2\xa0", "\\u0085\\u009b\xc2\xa0" },
		{ "\xff\xc2", "\\xff\\xc2" },
		{ "\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6\xe2\x82\xac",
		    "\\u2028\\u202e\\u2066\xe2\x82\xac" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
	};
	char out[64];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		CHECK(utf8_escape(row[i].text, strlen(row[i].text), out, sizeof out) ==
		    strlen(row[i].want));
		CHECK_STR(out, row[i].want);
	}
	CHECK(utf8_escape("a\0b", 3, out, sizeof out) == 6 && !strcmp(out, "a\\x00b"));
	CHECK(utf8_escape("ab\n", 3, out, 4) == 2 && !strcmp(out, "ab"));
	CHECK(utf8_escape("ab\n", 3, out, 5) == 4 && !strcmp(out, "ab\\n"));
}

/* The map of an address, while maps are opened and closed. */
static void
test_maps(void)
{
	char dir[] = "/tmp/mikoshi-maps-XXXXXX", path[3][64];
	struct map map[3];
	struct err e;

	CHECK(mkdtemp(dir) != NULL);
	for (int i = 0; i < 3; i++) {
		snprintf(path[i], sizeof path[i], "%s/%d", dir, i);
		CHECK(outfile_write(path[i], "abc", i < 2 ? 3 : 0, &e) == 0 &&
		    map_open(&map[i], path[i], &e) == 0);
	}
	for (int round = 0; round < 3; round++) {
		const unsigned char *base = map[0].base;

		CHECK_STR(map_file(map[0].base), path[0]);
		CHECK_STR(map_file(map[1].base + 2), path[1]);
		CHECK(!map_file(&e) && !map_file(NULL) && !map[2].base);
		map_close(&map[0]);
		CHECK(!map_file(base));
		CHECK(map_open(&map[0], path[0], &e) == 0);
	}
	for (int i = 0; i < 3; i++)
		map_close(&map[i]);
	CHECK(io_remove_tree(dir, &e) == 0);
}

/* Files that change while they are mapped: one is copied anew with its time, one stays, the others
 * are told. */
static void
test_map_changes(void)
{
	enum { COPIED, KEPT, CUT, WRITTEN, REPLACED, REMOVED, CLOSED, FILES };
	char dir[] = "/tmp/mikoshi-maps-XXXXXX", path[FILES][64], temp[64];
	struct map map[FILES];
	struct str text = { 0 }, want = { 0 };
	struct err e;
	FILE *f;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(temp, sizeof temp, "%s/temp", dir);
	for (int i = 0; i < FILES; i++) {
		snprintf(path[i], sizeof path[i], "%s/%d", dir, i);
		CHECK(outfile_write(path[i], "abcdef", 6, &e) == 0 &&
		    map_open(&map[i], path[i], &e) == 0);
	}
	map_changes(&text);
	CHECK(text.len == 0);
	CHECK(outfile_write(temp, "abcdef", 6, &e) == 0 &&
	    utimensat(AT_FDCWD, temp,
		(struct timespec[]){ map[COPIED].modified, map[COPIED].modified }, 0) == 0 &&
	    rename(temp, path[COPIED]) == 0);
	CHECK(truncate(path[CUT], 4) == 0);
	f = fopen(path[WRITTEN], "r+");
	CHECK(f && fputc('x', f) == 'x' && futimens(fileno(f), NULL) == 0 && fclose(f) == 0);
	CHECK(
	    utimensat(AT_FDCWD, path[WRITTEN], (struct timespec[2]){ { 1, 0 }, { 1, 0 } }, 0) == 0);
	CHECK(outfile_write(path[REPLACED], "abcdefg", 7, &e) == 0);
	CHECK(unlink(path[REMOVED]) == 0);
	map_close(&map[CLOSED]);
	CHECK(unlink(path[CLOSED]) == 0);
	map_changes(&text);
	str_addf(&want,
	    "%s: was cut while it was open, from 6 bytes to 4: what is read after them is "
	    "zeros, or ends the run\n",
	    path[CUT]);
	CHECK(strstr(text.buf, want.buf));
	str_clear(&want);
	str_addf(&want, "%s: was written to while it was open\n", path[WRITTEN]);
	CHECK(strstr(text.buf, want.buf));
	str_clear(&want);
	str_addf(&want,
	    "%s: was replaced while it was open: this run reads on in the old file, and "
	    "another would read the new one\n",
	    path[REPLACED]);
	CHECK(strstr(text.buf, want.buf));
	str_clear(&want);
	str_addf(&want,
	    "%s: cannot be seen any more (No such file or directory): this run reads on "
	    "in it\n",
	    path[REMOVED]);
	CHECK(strstr(text.buf, want.buf));
	CHECK(!strstr(text.buf, path[COPIED]) && !strstr(text.buf, path[KEPT]) &&
	    !strstr(text.buf, path[CLOSED]));
	for (int i = 0; i < CLOSED; i++)
		map_close(&map[i]);
	str_release(&text);
	str_release(&want);
	CHECK(io_remove_tree(dir, &e) == 0);
}

int
main(void)
{
	test_file_sizes();
	test_options();
	test_foreign();
	test_words();
	test_later();
	test_answer();
	test_rules();
	test_option_file();
	test_hashes();
	test_rng();
	test_utf8();
	test_escape();
	test_json();
	test_json_numbers();
	test_dtype();
	test_same();
	test_f16_rounding();
	test_doubles();
	test_low_bits();
	test_nonfinite();
	test_pool();
	test_files();
	test_maps();
	test_map_changes();
	return check_done();
}
