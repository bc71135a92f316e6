/* token.c - properties of the tokenizers: decode(encode(x)) = x for any bytes; linear and heap
 * merging agree */
#include "lib/base/mem.h"
#include "lib/token/bpe.h"
#include "lib/token/tokenizer.h"
#include "tests/check.h"
#include "tests/tiny_bpe.h"

#include <unistd.h>

enum { ROUNDS = 2000, TEXT_MAX = 300 };

/* Random bytes, random letters of a small set, or random characters, by turns. */
static size_t
random_text(struct mt19937 *rng, int round, unsigned char *out)
{
	static const char special[] = "<|endoftext|>";
	size_t n = mt19937_interval(rng, TEXT_MAX - 16), i = 0;

	while (i < n) {
		uint32_t cp;

		switch (round % 4) {
		case 0:
			out[i++] = (unsigned char)mt19937_next(rng);
			break;
		case 1:
			out[i++] = (unsigned char)"abcd '\n"[mt19937_interval(rng, 6)];
			break;
		case 2:
			cp = (uint32_t)mt19937_interval(rng, 0x10ffff);
			if (cp < 0xd800 || cp > 0xdfff)
				i += (size_t)utf8_encode(cp, out + i);
			break;
		default:
			out[i++] = (unsigned char)('a' + mt19937_interval(rng, 3));
			if (mt19937_interval(rng, 60) == 0 && i + sizeof special < n) {
				memcpy(out + i, special, sizeof special - 1);
				i += sizeof special - 1;
			}
		}
	}
	return i;
}

/* Whatever the text, with special strings matched or not, by a worker whose cache is full of other
 * texts. */
static void
test_round_trip(const struct tokenizer *t, struct mt19937 *rng)
{
	struct tokenizer_worker *w = tokenizer_worker_new(t), *fresh;
	struct token_ids ids = { 0 }, again = { 0 };
	unsigned char text[TEXT_MAX];
	struct str back = { 0 };
	struct err e = { "" };

	for (int round = 0; round < ROUNDS; round++) {
		size_t n = random_text(rng, round, text);

		ids.count = again.count = 0;
		str_clear(&back);
		CHECK(tokenizer_encode(w, (const char *)text, n, &ids, &e) == 0);
		CHECK(tokenizer_decode(w, ids.id, ids.count, false, &back, &e) == 0);
		CHECK(back.len == n && (n == 0 || !memcmp(back.buf, text, n)));
		if (round % 100)
			continue;
		fresh = tokenizer_worker_new(t);
		CHECK(tokenizer_encode(fresh, (const char *)text, n, &again, &e) == 0);
		CHECK(again.count == ids.count &&
		    !memcmp(again.id, ids.id, ids.count * sizeof *ids.id));
		tokenizer_worker_free(fresh);
	}
	str_release(&back);
	token_ids_release(&ids);
	token_ids_release(&again);
	tokenizer_worker_free(w);
}

static void
test_methods(const struct tiny_bpe *tiny, struct mt19937 *rng)
{
	uint32_t byte_id[256], linear[BPE_LINEAR_MAX], heap[BPE_LINEAR_MAX];
	struct bpe_worker *w = bpe_worker_new();
	struct bpe *b;

	for (uint32_t i = 0; i < 256; i++)
		byte_id[i] = i;
	b = bpe_new(byte_id, TINY_MERGES);
	/* Distinct pairs may join to one token only when their bytes are the same, which tiny_make
	 * excludes. */
	for (int i = 256; i < tiny->count; i++)
		CHECK(bpe_add(b, (uint32_t)tiny->left[i], (uint32_t)tiny->right[i],
		    (uint32_t)i - 256, (uint32_t)i));
	for (int round = 0; round < 5 * ROUNDS; round++) {
		unsigned char piece[TEXT_MAX];
		size_t n = random_text(rng, round, piece), a, h;

		n = n < BPE_LINEAR_MAX ? n : BPE_LINEAR_MAX;
		a = bpe_merge_linear(b, piece, n, linear);
		h = bpe_merge_heap(b, w, piece, n, heap);
		CHECK(a == h && !memcmp(linear, heap, a * sizeof *linear));
	}
	bpe_worker_free(w);
	bpe_free(b);
}

int
main(void)
{
	struct tiny_bpe *tiny = mem_zalloc(1, sizeof *tiny);
	struct tokenizer_spec spec = { .vocab = "vocab.json", .merges = "merges.txt" };
	char dir[] = "/tmp/token.XXXXXX";
	struct mt19937 rng;
	struct err e = { "" };

	mt19937_seed(&rng, (uint32_t)check_seed());
	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	tiny_make(tiny, &rng);
	CHECK(tiny_write(tiny, "vocab.json", "merges.txt", &e) == 0);
	for (int as_text = 0; as_text < 2; as_text++) {
		struct tokenizer *t;

		spec.special_as_text = as_text;
		t = tokenizer_open(&spec, &e);
		CHECK_STR(t ? "" : e.msg, "");
		if (!t)
			break;
		CHECK(tokenizer_vocab_size(t) == TINY_TOKENS + 1 &&
		    tokenizer_special(t, TOKENIZER_EOS) == TINY_TOKENS);
		CHECK_STR(tokenizer_type(t), "GPT2BPETokenizer");
		test_round_trip(t, &rng);
		tokenizer_close(t);
	}
	test_methods(tiny, &rng);
	free(tiny);
	CHECK(chdir("/") == 0 && io_remove_tree(dir, &e) == 0);
	return check_done();
}
