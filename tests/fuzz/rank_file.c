/* rank_file.c - fuzz target: any bytes as a rank file or a JSON list of tokens; a tokenizer that
 * opens must round-trip every text */
#include "tests/fuzz/round_trip.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char text[] =
	    "abc <|endoftext|></s> \xe3\x81\x82\xff 123 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
	struct tokenizer_spec spec = {
		.type = "TikTokenizer", .tiktoken_pattern = "cl100k", .vocab_size = 2000
	};
	static struct input file;

	spec.model = input_file(&file, data, size);
	round_trip(&spec, text, sizeof text - 1);
	return 0;
}
