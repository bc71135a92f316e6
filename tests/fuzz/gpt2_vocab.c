/* gpt2_vocab.c - fuzz target: any bytes as vocab.json and merges.txt, divided by a NUL; what opens
 * must round-trip */
#include "lib/token/tokenizer.h"
#include "tests/fuzz/input.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] =
	    "abc <|endoftext|> \xe3\x81\x82\xff aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t len = nul ? (size_t)(nul - data) : size;
	static struct input vocab, merges;
	struct tokenizer *t;
	struct err e;

	t = tokenizer_open(&(struct tokenizer_spec){ .vocab = input_file(&vocab, data, len),
		.merges = input_file(&merges, nul ? nul + 1 : data, nul ? size - len - 1 : 0) }, &e);
	if (t) {
		struct tokenizer_worker *w = tokenizer_worker_new(t);
		struct token_ids ids = { 0 };
		struct str back = { 0 };

		if (tokenizer_encode(w, text, sizeof text - 1, &ids, &e) < 0 ||
		    tokenizer_decode(w, ids.id, ids.count, false, &back, &e) < 0 ||
		    back.len != sizeof text - 1 || memcmp(back.buf, text, back.len))
			abort();
		str_release(&back);
		token_ids_release(&ids);
		tokenizer_worker_free(w);
	}
	tokenizer_close(t);
	return 0;
}
