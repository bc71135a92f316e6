/* gpt2_vocab.c - fuzz target: any bytes as vocab.json and merges.txt, divided by a NUL; what opens
 * must round-trip */
#include "lib/base/io.h"
#include "lib/token/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] =
	    "abc <|endoftext|> \xe3\x81\x82\xff aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t len = nul ? (size_t)(nul - data) : size;
	char vocab[64], merges[64];
	struct tokenizer *t;
	struct err e;

	snprintf(vocab, sizeof vocab, "/tmp/fuzz-vocab.%ld", (long)getpid());
	snprintf(merges, sizeof merges, "/tmp/fuzz-merges.%ld", (long)getpid());
	if (io_write_file(vocab, data, len, &e) < 0 ||
	    io_write_file(merges, nul ? nul + 1 : data, nul ? size - len - 1 : 0, &e) < 0)
		abort();
	t = tokenizer_open(&(struct tokenizer_spec){ .vocab = vocab, .merges = merges }, &e);
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
	unlink(vocab);
	unlink(merges);
	return 0;
}
