/* jsonl.c - fuzz target: any bytes as lines of JSON, read by the scanner and by a slow reader that
 * shares nothing with it */
#include "tests/jsonl_oracle.h"
#include "tok/jsonl.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *names[] = { "text", "title" };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int keys = 1 + (size & 1);
	struct jsonl *j = jsonl_new(&(struct opt_list){ keys, names }, INT64_MAX);

	for (size_t pos = 0; pos <= size;) {
		const uint8_t *end = pos < size ? memchr(data + pos, '\n', size - pos) : NULL;
		size_t len = end ? (size_t)(end - data) - pos : size - pos;

		if (!oracle_agrees(j, names, keys, (const char *)data + pos, len)) {
			fprintf(stderr, "%.*s\n", (int)len, (const char *)data + pos);
			abort();
		}
		pos += len + 1;
	}
	jsonl_free(j);
	return 0;
}
