/* gpt2_vocab.c - fuzz target: any bytes as vocab.json and merges.txt, separated by a NUL; a
 * tokenizer that opens must round-trip */
#include "tests/fuzz/round_trip.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] =
	    "abc <|endoftext|> \xe3\x81\x82\xff aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
	size_t len = nul ? (size_t)(nul - data) : size;
	static struct input vocab, merges;

	round_trip(
	    &(struct tokenizer_spec){ .vocab = input_file(&vocab, data, len),
		.merges = input_file(&merges, nul ? nul + 1 : data, nul ? size - len - 1 : 0) },
	    text, sizeof text - 1);
	return 0;
}
