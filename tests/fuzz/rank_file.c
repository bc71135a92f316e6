/* rank_file.c - fuzz target: any bytes as a rank file or a JSON list of tokens; what opens must give
 * every text back */
#include "lib/token/tokenizer.h"
#include "tests/fuzz/input.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] = "abc <|endoftext|></s> \xe3\x81\x82\xff 123 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
	struct tokenizer_spec spec = { .type = "TikTokenizer", .tiktoken_pattern = "cl100k", .vocab_size = 2000 };
	static struct input file;
	struct tokenizer *t;
	struct err e;

	spec.model = input_file(&file, data, size);
	t = tokenizer_open(&spec, &e);
	if (t) {
		struct tokenizer_worker *w = tokenizer_worker_new(t);
		struct token_ids ids = { 0 };
		struct str back = { 0 };

		if (tokenizer_encode(w, text, sizeof text - 1, &ids, &e) < 0 ||
		    tokenizer_decode(w, ids.id, ids.count, false, &back, &e) < 0 ||
		    back.len != sizeof text - 1 || memcmp(back.buf, text, back.len) != 0)
			abort();
		str_release(&back);
		token_ids_release(&ids);
		tokenizer_worker_free(w);
	}
	tokenizer_close(t);
	return 0;
}
