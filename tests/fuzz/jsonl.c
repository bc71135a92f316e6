/* jsonl.c - fuzz target: any bytes as lines of JSON */
#include "tok/jsonl.h"
#include "lib/base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *names[] = { "text", "title" };
	struct jsonl *j = jsonl_new(&(struct opt_list){ 1 + (size & 1), names });

	for (size_t pos = 0; pos <= size;) {
		const uint8_t *end = pos < size ? memchr(data + pos, '\n', size - pos) : NULL;
		size_t len = end ? (size_t)(end - data) - pos : size - pos, count;

		/* Wanted text is well-formed UTF-8, whatever the line was. */
		if (jsonl_parse(j, (const char *)data + pos, len) == JSONL_OK) {
			const struct jsonl_text *t = jsonl_value(j, 0, &count);

			for (size_t i = 0; i < count; i++)
				if (utf8_check((const unsigned char *)t[i].bytes, t[i].len) !=
				    t[i].len)
					abort();
		}
		pos += len + 1;
	}
	jsonl_free(j);
	return 0;
}
