/*
 * returns.c - models that mtok train makes by default: decoding returns any text
 *
 * Bytes that are not UTF-8 are repaired first, as no JSON text has them, and U+2581 is left out:
 * the models write it for a blank. Words as pieces are no part of it.
 */
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "lib/base/utf8.h"
#include "lib/token/tokenizer.h"
#include "tests/check.h"
#include "tok/options.h"
#include "tok/train.h"

#include <unistd.h>

enum { TEXTS = 4000, TEXT_MAX = 60 };

static struct mt19937 rng;

static uint32_t
below(uint32_t n)
{
	return (uint32_t)mt19937_interval(&rng, n - 1);
}

/* Mostly what the models know and blanks of all kinds, and among it any character and any byte. */
static void
add_part(struct str *s)
{
	static const char *const known[] = { "the ", "cat", " sat", "on", "  ", "\n", "\n\n", "\t",
		"\r\n", " \n ", "\xe7\x8c\xab", "\xe3\x81\x8c", "<s>", "</s>", "<0x0A>", "<unk>",
		"1", "\xc2\xa0", "\xe3\x80\x80", "\xef\xbb\xbf", "\xef\xbc\xa1", "e\xcc\x81" };
	unsigned char bytes[4];

	switch (below(4)) {
	case 0: str_addc(s, (char)below(256)); break;
	case 1: str_add(s, bytes, (size_t)utf8_encode(0x20 + below(0xd000), bytes)); break;
	default: str_adds(s, known[below(sizeof known / sizeof *known)]);
	}
}

static void
make_text(struct str *s)
{
	static const char blank[] = "\xe2\x96\x81";
	struct str raw = { 0 };
	char *at;

	str_clear(s);
	for (uint32_t n = below(TEXT_MAX); n > 0; n--)
		add_part(&raw);
	utf8_repair(raw.buf ? raw.buf : "", raw.len, s);
	while (s->len && (at = memmem(s->buf, s->len, blank, 3)))
		memset(at, '.', 3);
	str_release(&raw);
}

static void
train(const char *type)
{
	char *words[] = { "--model-type", (char *)type, "--vocab-size", "310", "--soft-vocab-limit",
		"--force", "-o", "m.model", "--input", "t.jsonl", NULL },
	     **argv = words;
	int argc = sizeof words / sizeof *words - 1;
	struct train_config c;
	struct train_counts n = { 0 };
	struct opt_parse p;
	struct err e = { "" };

	opt_begin(&p, train_opts, &c);
	CHECK(opt_argv(&p, &argc, &argv, &e) == 0);
	tokenizer_train_defaults(&c, opt_given(&p, "normalization-rule-name"));
	CHECK(tokenizer_train_check(&c, &e) == 0 && tokenizer_train_run(&c, &n, &e) == 0);
	CHECK_STR(e.msg, "");
	opt_release(&p);
}

static void
test_texts(void)
{
	struct err e = { "" };
	struct tokenizer *t = tokenizer_open(&(struct tokenizer_spec){ .model = "m.model" }, &e);
	struct tokenizer_worker *w = t ? tokenizer_worker_new(t) : NULL;
	struct token_ids ids = { 0 };
	struct str text = { 0 }, back = { 0 };

	CHECK(t);
	for (int i = 0; t && i < TEXTS; i++) {
		make_text(&text);
		ids.count = 0;
		str_clear(&back);
		CHECK(tokenizer_encode(w, text.buf ? text.buf : "", text.len, &ids, &e) == 0 &&
		    tokenizer_decode(w, &ids, false, &back, &e) == 0);
		CHECK(back.len == text.len && (!text.len || !memcmp(back.buf, text.buf, text.len)));
	}
	str_release(&text);
	str_release(&back);
	token_ids_release(&ids);
	tokenizer_worker_free(w);
	tokenizer_close(t);
}

int
main(void)
{
	static const char *const types[] = { "unigram", "bpe", "char" };
	char dir[] = "/tmp/returns.XXXXXX";
	struct str lines = { 0 };
	struct err e;

	mt19937_seed(&rng, (uint32_t)check_seed());
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	for (int i = 0; i < 200; i++)
		str_addf(&lines,
		    "{\"text\": \"the cat  sat on %d mats\\n\xe7\x8c\xab\xe3\x81\x8c %d\"}\n", i,
		    i * i);
	CHECK(outfile_write("t.jsonl", lines.buf, lines.len, &e) == 0);
	for (int i = 0; i < 3; i++) {
		train(types[i]);
		test_texts();
	}
	str_release(&lines);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
	return check_done();
}
