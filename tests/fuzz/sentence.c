/* sentence.c - fuzz target: any bytes as a text that is split into sentences, which lie in it in
 * order */
#include "tok/sentence.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	for (int keep = 0; keep < 2 && size; keep++) {
		struct sentence_walk w = { text, text + size, keep };
		const char *s, *before = text;
		size_t len;

		while (sentence_next(&w, &s, &len)) {
			if (len == 0 || s < before || s + len > text + size || w.p < s + len)
				abort();
			before = s + len;
		}
	}
	return 0;
}
