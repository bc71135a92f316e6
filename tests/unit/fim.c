/*
 * fim.c - samples that are rearranged, token for token as Megatron-LM's GPTFIMDataset does
 *
 * The tokenizer's ids are the bytes of the text; what the samples must be was made by that class
 * (megatron/training/datasets/fim_dataset.py of d98e8a64) with numpy's generator seeded alike.
 */
#include "lib/base/outfile.h"
#include "lib/base/utf8.h"
#include "lib/token/alphabet.h"
#include "lib/token/fim.h"
#include "tests/check.h"

#include <string.h>
#include <unistd.h>

enum { IDS_MAX = 64 };

/* Tokens beyond the bytes, from 256 on, and the letters that stand for them here. */
static const char *const special[] = { "<|endoftext|>", "<fim_prefix>", "<fim_middle>",
	"<fim_suffix>", "<fim_pad>", "<split>" };
static const char letters[] = "EPMS_F";

/* A tokenizer.json of byte-level BPE without merges. */
static struct tokenizer *
byte_tokenizer(void)
{
	char path[] = "/tmp/mikoshi-fim-XXXXXX.json";
	struct tokenizer_spec spec = { .model = path };
	struct str s = { 0 };
	struct tokenizer *t;
	struct alphabet a;
	struct err e = { "" };

	close(mkstemps(path, 5));
	alphabet_init(&a);
	str_adds(&s, "{\"version\": \"1.0\", \"added_tokens\": [");
	for (int i = 0; i < 6; i++)
		str_addf(&s,
		    "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": "
		    "false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
		    i ? ", " : "", 256 + i, special[i]);
	str_adds(&s,
	    "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
	    "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
	    "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\", "
	    "\"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}, "
	    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
	    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, "
	    "\"fuse_unk\": false, \"byte_fallback\": false, \"vocab\": {");
	for (int b = 0; b < 256; b++)
		str_addf(&s, "%s\"%s%s\": %d", b ? ", " : "", b == '"' || b == '\\' ? "\\" : "",
		    a.utf8[b], b);
	str_adds(&s, "}, \"merges\": []}}\n");
	CHECK(outfile_write(path, s.buf, s.len, &e) == 0);
	t = tokenizer_open(&spec, &e);
	CHECK_STR(t ? "" : e.msg, "");
	unlink(path);
	str_release(&s);
	return t;
}

/* Ids of text in which "<E>" and so on are tokens; returns how many. */
static int
read_ids(const char *text, int64_t out[IDS_MAX])
{
	int n = 0;

	for (size_t i = 0; text[i]; n++) {
		const char *letter = text[i] == '<' && text[i + 1] && text[i + 2] == '>'
		    ? strchr(letters, text[i + 1])
		    : NULL;

		out[n] = letter ? 256 + (letter - letters) : (unsigned char)text[i];
		i += letter ? 3 : 1;
	}
	return n;
}

static void
check_sample(const struct tokenizer *t, const struct fim_options *o, uint32_t seed,
    const char *want, uint64_t next)
{
	int64_t ids[IDS_MAX], expected[IDS_MAX];
	int n = read_ids(
	    "a = 1  # \xc3\xa9\nb = a + 2\n<E><E><f>x<F>y = \xe6\x97\xa5\xe6\x9c\xac\n<E>end", ids);
	struct mt19937 draws;
	struct err e = { "" };
	struct fim *f = fim_new(t, o, &e);

	CHECK(f);
	CHECK(n == 44 && read_ids(want, expected) >= n);
	mt19937_seed(&draws, seed);
	CHECK(fim_rearrange(f, &draws, ids, n, &e) == n);
	CHECK(!memcmp(ids, expected, (size_t)n * sizeof *ids));
	CHECK(mt19937_interval(&draws, 2147483646) == next);
	fim_free(f);
}

static struct fim_options
options(void)
{
	struct fim_options o = { .on = true, .rate = 1, .spm_rate = 0.5, .fragment_rate = -1 };

	o.token[FIM_PREFIX] = special[1];
	o.token[FIM_MIDDLE] = special[2];
	o.token[FIM_SUFFIX] = special[3];
	o.token[FIM_PAD] = special[4];
	o.token[FIM_EOD] = special[0];
	return o;
}

static void
test_golden(const struct tokenizer *t)
{
	struct fim_options o = options();

	check_sample(t, &o, 0,
	    "<P><S><M>a = 1  # \xc3\xa9\nb = a + 2\n<E><P><S>\xe6\x9c\xac\n<M><f>xy = \xe6\x97\xa5",
	    1646868794);
	check_sample(t, &o, 1,
	    "<P>a = 1  #<S> = a + 2\n<M> \xc3\xa9\nb<E><P><S><f>xy = \xe6\x97\xa5\xe6\x9c\xac\n<M>",
	    1487394068);
	o.rate = 0.5;
	o.fragment_rate = 0.75;
	o.token[FIM_SPLIT] = special[5];
	check_sample(t, &o, 0,
	    "<P><S><M>a = 1  # \xc3\xa9\nb = a + 2\n<E><P><f<S><M>>x<F><P>y "
	    "<S>\xe6\x97\xa5\xe6\x9c\xac",
	    1443447321);
	check_sample(t, &o, 2,
	    "a = 1  # \xc3\xa9\nb = a + 2\n<E><f>x<F>y = \xe6\x97\xa5\xe6\x9c\xac\n<E><P>en<S>",
	    1418777250);
}

/* A sample that has become shorter is filled; text with the prefix stays. */
static void
test_filling(const struct tokenizer *t)
{
	struct fim_options o = options();
	int64_t ids[] = { 256, 256, 256, 'a', 'b', 256, 256, 256 };
	struct mt19937 draws;
	struct err e = { "" };
	struct fim *f;

	o.no_prefix = "ab";
	f = fim_new(t, &o, &e);
	fim_draws(&draws, 1234, 0);
	CHECK(fim_rearrange(f, &draws, ids, 8, &e) == 6);
	CHECK(ids[0] == 'a' && ids[1] == 'b' && ids[2] == 256 && ids[3] == 257);
	CHECK(ids[6] == 260 && ids[7] == 260);
	fim_free(f);
}

/* Two samples have other random numbers, one sample always the same. */
static void
test_draws(void)
{
	struct mt19937 a, b;

	fim_draws(&a, 1234, 0);
	mt19937_seed(&b, 1234u + 0x9E3779B9u);
	CHECK(mt19937_next(&a) == mt19937_next(&b));
	fim_draws(&b, 1234, 1);
	CHECK(mt19937_next(&a) != mt19937_next(&b));
}

static void
test_absent(const struct tokenizer *t)
{
	struct fim_options o = options();
	struct err e = { "" };

	o.token[FIM_MIDDLE] = "<middle>";
	CHECK(!fim_new(t, &o, &e));
	CHECK_STR(e.msg,
	    "--fim-data: the tokenizer has no token '<middle>'; name one of its own with "
	    "--fim-middle-token");
}

static void
test_repair(void)
{
	struct str s = { 0 };

	utf8_repair("a\xe6\x97z\xf0\x9f\x98\xff\xed\xa0\x80", 11, &s);
	CHECK_STR(
	    s.buf, "a\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	str_release(&s);
}

int
main(void)
{
	struct tokenizer *t = byte_tokenizer();

	test_golden(t);
	test_filling(t);
	test_draws();
	test_absent(t);
	test_repair();
	tokenizer_close(t);
	return check_done();
}
