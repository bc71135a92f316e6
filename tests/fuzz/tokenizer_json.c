/* tokenizer_json.c - fuzz target: any bytes as a tokenizer.json; a tokenizer that opens must encode
 * and decode */
#include "lib/token/tokenizer.h"
#include "tests/fuzz/input.h"

/* All ids must be in the vocabulary and decode to text. An error is also allowed, since an
 * expression may give up. */
static void
run(const struct tokenizer *t, struct tokenizer_worker *w, const char *text, size_t len)
{
	struct token_ids ids = { 0 };
	struct str back = { 0 };
	struct err e;

	if (tokenizer_encode(w, text, len, &ids, &e) == 0) {
		for (size_t i = 0; i < ids.count; i++)
			if (ids.id[i] >= tokenizer_vocab_size(t))
				abort();
		if (tokenizer_decode(w, &ids, true, &back, &e) < 0)
			abort();
	}
	str_release(&back);
	token_ids_release(&ids);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] =
	    "abc <s>\xe3\x81\x82\xe3\x81\x8b\xe3\x82\x99 1\xc2\xbd\r\n  Hello-World \xe2\x96\x81 "
	    "e\xcc\x81<x> it's aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static struct input file;
	struct tokenizer_spec spec = { .type = "HuggingFaceTokenizer" };
	struct tokenizer *t;
	struct err e;

	spec.model = input_file(&file, data, size);
	t = tokenizer_open(&spec, &e);
	if (t) {
		struct tokenizer_worker *w = tokenizer_worker_new(t);

		run(t, w, text, sizeof text - 1);
		run(t, w, "\xff\xc3", 2);
		run(t, w, "", 0);
		for (int64_t i = 0; i < tokenizer_vocab_size(t); i++)
			if (tokenizer_piece_at(t, i).len > size)
				abort();
		tokenizer_worker_free(w);
	}
	tokenizer_close(t);
	return 0;
}
