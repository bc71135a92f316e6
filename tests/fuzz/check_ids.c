/* check_ids.c - fuzz target: any bytes as the texts and ids of `mtok info --check` */
#include "tok/check.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The count is at most the lines; the bytes are a copy of this size, so that no other is read. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tokenizer_spec spec = { .type = "NullTokenizer", .vocab_size = 100 };
	struct err e;
	struct tokenizer *t = tokenizer_open(&spec, &e);
	char *copy = malloc(size ? size : 1);
	int64_t lines = 1, count;

	if (size)
		memcpy(copy, data, size);
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	count = check_lines(t, copy, size, "ids", &e);
	if (count == 0 || count > lines)
		abort();
	free(copy);
	tokenizer_close(t);
	return 0;
}
