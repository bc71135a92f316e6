/* token.c - properties of the tokenizers: decode(encode(x)) = x for any bytes; linear and heap
 * merging agree */
#include "lib/base/mem.h"
#include "lib/token/bpe/bpe_impl.h"
#include "lib/token/tokenizer.h"
#include "tests/check.h"
#include "tests/tiny_bpe.h"

#include <unistd.h>

enum { ROUNDS = 2000, TEXT_MAX = 300 };

/* Random bytes, random letters of a small set, or random characters, in turn. */
static size_t
random_text(struct mt19937 *rng, int round, unsigned char *out)
{
	static const char special[] = "<|endoftext|>";
	size_t n = mt19937_interval(rng, TEXT_MAX - 16), i = 0;

	while (i < n) {
		uint32_t cp;

		switch (round % 4) {
		case 0: out[i++] = (unsigned char)mt19937_next(rng); break;
		case 1: out[i++] = (unsigned char)"abcd '\n"[mt19937_interval(rng, 6)]; break;
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

/* For any text, with special strings matched or not, by a worker whose cache is full of other
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
		CHECK(tokenizer_decode(w, &ids, false, &back, &e) == 0);
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

/* Searching for the minimum and the heap give the same result. */
static void
test_methods(const struct tiny_bpe *tiny, struct mt19937 *rng)
{
	struct bpe_token token[TINY_TOKENS];
	struct bpe_merge merge[TINY_MERGES];
	struct bpe_spec spec = {
		.token = token, .num_tokens = TINY_TOKENS, .merge = merge, .num_merges = TINY_MERGES
	};
	struct bpe_scratch scratch = { 0 };
	struct err e = { "" };
	struct bpe *b;

	for (int i = 0; i < TINY_TOKENS; i++)
		token[i] = (struct bpe_token){ tiny->bytes[i], (uint32_t)tiny->len[i] };
	for (int i = 0; i < TINY_MERGES; i++)
		merge[i] = (struct bpe_merge){ (uint32_t)tiny->left[256 + i],
			(uint32_t)tiny->right[256 + i] };
	b = bpe_new(&spec, NULL, &e);
	CHECK_STR(e.msg, "");
	for (int round = 0; b && round < 5 * ROUNDS; round++) {
		uint32_t linear[BPE_LINEAR_MAX], heap[BPE_LINEAR_MAX], width[BPE_LINEAR_MAX];
		unsigned char piece[TEXT_MAX];
		size_t n = random_text(rng, round, piece), a, h;

		n = n < BPE_LINEAR_MAX ? n : BPE_LINEAR_MAX;
		for (size_t i = 0; i < n; i++)
			linear[i] = heap[i] = b->byte_id[piece[i]];
		a = bpe_merge_linear(b, linear, n);
		h = n ? bpe_merge_heap(b, &scratch, heap, width, n) : 0;
		CHECK(a == h && !memcmp(linear, heap, a * sizeof *linear));
	}
	bpe_scratch_release(&scratch);
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
