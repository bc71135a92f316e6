/* export.c - SentencePiece models as tokenizer.json, GPT-2's files, shard sizes */
#include "export/hf.h"
#include "export/tokenizer.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/safetensors.h"
#include "lib/token/spm/spmodel.h"
#include "tests/check.h"
#include "tests/made_checkpoint.h"
#include "tests/sized_model.h"

#include <unistd.h>

/* Appends a piece to a ModelProto. */
static void
add_piece(struct str *s, const char *text, float score, int type)
{
	size_t n = strlen(text);
	char head[] = { 0x0a, (char)(n + 9), 0x0a, (char)n },
	     tail[] = { 0x15, 0, 0, 0, 0, 0x18, (char)type };

	memcpy(tail + 1, &score, 4);
	str_add(s, head, sizeof head);
	str_add(s, text, n);
	str_add(s, tail, sizeof tail);
}

/* A model of a few pieces: kind 1 unigram, 2 BPE; with a compiled normalisation of four bytes and
 * extra blanks removed. */
static void
make_model(struct str *s, int kind)
{
	char trainer[] = { 0x12, 2, 0x18, (char)kind },
	     normalizer[] = { 0x1a, 6, 0x12, 4, 'c', 'm', 'a', 'p' };

	add_piece(s, "<unk>", 0, SP_UNKNOWN);
	add_piece(s, "<s>", 0, SP_CONTROL);
	add_piece(s, "</s>", 0, SP_CONTROL);
	add_piece(s, "<USER>", 0, SP_USER_DEFINED);
	add_piece(s, "ab", -0.0f, SP_NORMAL);
	add_piece(s, "abc", -1, SP_NORMAL);
	add_piece(s, "bc", -2.1f, SP_NORMAL);
	add_piece(s, "a", -3, SP_NORMAL);
	add_piece(s, "b", -4, SP_NORMAL);
	add_piece(s, "c", -5, SP_NORMAL);
	str_add(s, trainer, sizeof trainer);
	str_add(s, normalizer, sizeof normalizer);
}

/* The reader accepts valid models and gives a reason for refusing others. */
static void
test_spmodel(void)
{
	struct str s = { 0 };
	struct spmodel m;
	struct err e;

	make_model(&s, 2);
	CHECK(spmodel_parse(&m, s.buf, s.len, "t.model", &e) == 0);
	CHECK(m.count == 10 && m.model == SP_BPE && m.unk == 0 && m.bos == 1 && m.eos == 2 &&
	    m.pad == -1);
	CHECK(m.normalizer.add_dummy_prefix && m.normalizer.remove_extra_whitespaces &&
	    !m.byte_fallback && m.normalizer.charsmap_len == 4);
	CHECK(spmodel_find(&m, "bc", 2) == 6 && spmodel_find(&m, "b", 1) == 8 &&
	    spmodel_find(&m, "bcd", 3) == -1);
	spmodel_release(&m);
	/* Truncated anywhere it is not a model, or a smaller one; nothing beyond the end is
	 * read. */
	for (size_t n = 0; n < s.len; n++) {
		char *cut = mem_alloc(n ? n : 1, 1);

		memcpy(cut, s.buf, n);
		spmodel_parse(&m, cut, n, "t.model", &e);
		spmodel_release(&m);
		free(cut);
	}
	add_piece(&s, "ab", 0, SP_NORMAL);
	CHECK(spmodel_parse(&m, s.buf, s.len, "t.model", &e) < 0);
	CHECK_STR(e.msg, "t.model: piece 'ab' occurs twice");
	spmodel_release(&m);
	CHECK(spmodel_parse(&m, "", 0, "t.model", &e) < 0);
	CHECK_STR(e.msg, "t.model: not a SentencePiece model: it has no pieces");
	spmodel_release(&m);
	CHECK(spmodel_parse(&m, "\x0a\xff", 2, "t.model", &e) < 0);
	CHECK_STR(
	    e.msg, "t.model: not a SentencePiece model: the protobuf message is broken at byte 0");
	spmodel_release(&m);
	str_release(&s);
}

/* tokenizer.json is JSON and contains this text. */
static void
test_sentencepiece(const char *dir, int kind, const char *const *parts)
{
	struct str s = { 0 }, config = { 0 };
	struct tokenizer_files t;
	char path[200];
	struct err e = { "" };
	struct json *j;

	make_model(&s, kind);
	snprintf(path, sizeof path, "%s/t.model", dir);
	CHECK(outfile_write(path, s.buf, s.len, &e) == 0);
	CHECK(export_sentencepiece(&t, path, -1, &e) == 0);
	CHECK(t.tokens == 10 && t.id[SPECIAL_BOS] == 1 && t.id[SPECIAL_PAD] == -1 && t.adds_bos);
	j = json_parse(t.json.buf, t.json.len, "tokenizer.json", &e);
	CHECK(j != NULL);
	json_free(j);
	for (; *parts; parts++) {
		CHECK(strstr(t.json.buf, *parts) != NULL);
		if (!strstr(t.json.buf, *parts))
			fprintf(stderr, "not found: %s\n", *parts);
	}
	tokenizer_write_config(&t, 32, &config);
	j = json_parse(config.buf, config.len, "tokenizer_config.json", &e);
	CHECK(j != NULL);
	json_free(j);
	str_release(&config);
	tokenizer_write_special(&t, &config);
	CHECK_STR(config.buf,
	    "{\n  \"bos_token\": \"<s>\",\n  \"eos_token\": \"</s>\",\n  \"unk_token\": "
	    "\"<unk>\"\n}\n");
	str_release(&config);
	str_release(&s);
	tokenizer_release(&t);
}

/* Writes both files; returns the reason for refusing them, or "". */
static const char *
gpt2(const char *dir, const char *vocab, const char *merges, struct tokenizer_files *t,
    struct err *e)
{
	char v[200], m[200];

	e->msg[0] = '\0';
	snprintf(v, sizeof v, "%s/vocab.json", dir);
	snprintf(m, sizeof m, "%s/merges.txt", dir);
	CHECK(outfile_write(v, vocab, strlen(vocab), e) == 0 &&
	    outfile_write(m, merges, strlen(merges), e) == 0);
	tokenizer_gpt2_files(t, v, m, e);
	return strncmp(e->msg, dir, strlen(dir)) ? e->msg : e->msg + strlen(dir) + 1;
}

/* GPT-2's files, valid and invalid. */
static void
test_gpt2(const char *dir)
{
	struct tokenizer_files t;
	struct err e;

	CHECK_STR(gpt2(dir, "{\"a\":0,\"\\u0120\":1,\"<|endoftext|>\":2}",
		      "#version: 0.2\na \xc4\xa0\n", &t, &e),
	    "");
	CHECK(t.tokens == 3 && t.id[SPECIAL_EOS] == 2 && !t.adds_bos);
	CHECK(strstr(t.json.buf,
		  "\"vocab\":{\"a\":0,\"\xc4\xa0\":1,\"<|endoftext|>\":2},\"merges\":[\"a "
		  "\xc4\xa0\"]}}\n") != NULL);
	tokenizer_release(&t);
	CHECK_STR(gpt2(dir, "{\"a\":0,\"b\":2}", "a b\n", &t, &e),
	    "vocab.json: token 'b': ids must be the numbers from 0 to 1, each once");
	tokenizer_release(&t);
	CHECK_STR(gpt2(dir, "{\"a\":0,\"b\":1}", "a b\na b c\n", &t, &e),
	    "merges.txt:2: not two symbols separated by one blank");
	tokenizer_release(&t);
	CHECK_STR(
	    gpt2(dir, "[]", "a b\n", &t, &e), "vocab.json: not a JSON object of tokens and ids");
	tokenizer_release(&t);
	CHECK_STR(gpt2(dir, "{\"a\":0}", "#version: 0.2\n", &t, &e), "merges.txt: no merges");
	tokenizer_release(&t);
}

/* Sizes in every unit. */
static void
test_sizes(void)
{
	struct err e;

	CHECK(export_size("50GB", &e) == 50000000000u &&
	    export_size("5GiB", &e) == (uint64_t)5 << 30);
	CHECK(export_size("300000", &e) == 300000 && export_size("1B", &e) == 1);
	CHECK(export_size("0GB", &e) == 0 && export_size("-1", &e) == 0 &&
	    export_size("5 GB", &e) == 0);
	CHECK(export_size("99999999999TB", &e) == 0);
	CHECK_STR(e.msg, "--max-shard-size 99999999999TB: not a size such as 50GB, 5GiB or 300000");
}

/* --- an export compared with its source ------------------------------------------------------- */

/* What a check says, and how many lines. */
static int
check_lines(const struct export_options *o, struct str *lines)
{
	struct str notes = { 0 }, what = { 0 };
	struct err e;
	int n;

	str_clear(lines);
	n = export_check(o, lines, &notes, &what, &e);
	str_release(&notes);
	str_release(&what);
	return n;
}

/* The first byte of a tensor of the export in its file, and how many it has. */
static uint64_t
find_bytes(const char *path, const char *name, uint64_t *bytes)
{
	struct err e;
	struct safetensors *s = safetensors_open(path, &e);
	const struct safetensors_entry *t = safetensors_find(s, name);
	uint64_t at = t->offset;

	*bytes = t->bytes;
	safetensors_close(s);
	return at;
}

/* One bit after the other, anywhere in the weights. */
static void
test_bits(const struct export_options *o, char *file, size_t first, size_t len)
{
	struct str lines = { 0 };
	struct mt19937 rng;
	struct err e;

	mt19937_seed(&rng, (uint32_t)check_seed());
	for (int i = 0; i < 100; i++) {
		size_t at = first + (size_t)mt19937_interval(&rng, len - first - 1);
		char bit = (char)(1 << mt19937_interval(&rng, 7));

		file[at] = (char)(file[at] ^ bit);
		CHECK(outfile_write("hf/model.safetensors", file, len, &e) == 0);
		file[at] = (char)(file[at] ^ bit);
		CHECK(check_lines(o, &lines) == 1);
		CHECK(strstr(lines.buf, ": 1 of "));
	}
	str_release(&lines);
}

/* Heads 0 and 1 of a projection of queries change places. */
static void
test_heads(const struct export_options *o, char *file, size_t len)
{
	static const char name[] = "model.layers.1.self_attn.q_proj.weight";
	uint64_t bytes, at = find_bytes("hf/model.safetensors", name, &bytes);
	struct str lines = { 0 };
	char head[128];
	struct err e;

	CHECK(bytes == 4 * sizeof head);
	memcpy(head, file + at, sizeof head);
	memcpy(file + at, file + at + sizeof head, sizeof head);
	memcpy(file + at + sizeof head, head, sizeof head);
	CHECK(outfile_write("hf/model.safetensors", file, len, &e) == 0);
	CHECK(check_lines(o, &lines) == 1);
	CHECK_STR(lines.buf,
	    "hf: tensor 'model.layers.1.self_attn.q_proj.weight': 128 of 256 elements of "
	    "'decoder.layers.1.self_attention.linear_q.weight' differ\n");
	str_release(&lines);
}

static void
test_check(const char *dir)
{
	struct model_config c = sized_llama((struct model_sizes){ 2, 16, 4, 2, 24, 32, 131 });
	struct made_checkpoint m = {
		.save = "ck", .config = &c, .iteration = 7, .dtype = DTYPE_BF16, .seed = 3
	};
	struct export_options o = {
		.src = "ck", .dst = "hf", .dtype = DTYPE_NONE, .max_shard_bytes = 1 << 30
	};
	struct str notes = { 0 }, lines = { 0 };
	uint64_t bytes;
	char *file;
	size_t len;
	struct err e;

	CHECK(chdir(dir) == 0 && made_write(&m, &e) == 0);
	CHECK(export_hf(&o, &notes, &notes, &e) == 0);
	o.check = true;
	CHECK(check_lines(&o, &lines) == 0);
	CHECK(io_read_file("hf/model.safetensors", 0, &file, &len, &e) == 0);
	/* the first tensor of the file */
	test_bits(&o, file,
	    (size_t)find_bytes("hf/model.safetensors", "model.embed_tokens.weight", &bytes), len);
	test_heads(&o, file, len);
	free(file);
	str_release(&notes);
	str_release(&lines);
}

int
main(void)
{
	static const char *const bpe[] = {
		"\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",",
		"{\"id\":3,\"content\":\"<USER>\",\"single_word\":false,"
		"\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":false}]",
		"\"precompiled_charsmap\":\"Y21hcA==\"",
		"\"pre_tokenizer\":null",
		"\"merges\":[\"a b\",\"ab c\",\"a bc\",\"b c\"]",
		NULL,
	};
	static const char *const unigram[] = {
		"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\","
		"\"prepend_scheme\":\"always\","
		"\"split\":true}",
		"\"unk_id\":0",
		"[\"bc\",-2.0999999046325684]",
		"\"byte_fallback\":false}}",
		NULL,
	};
	char dir[] = "/tmp/mikoshi-export-XXXXXX";

	CHECK(mkdtemp(dir) != NULL);
	test_spmodel();
	test_sentencepiece(dir, 2, bpe);
	test_sentencepiece(dir, 1, unigram);
	test_gpt2(dir);
	test_sizes();
	test_check(dir);
	CHECK(chdir("/") == 0);
	io_remove_tree(dir, NULL);
	return check_done();
}
