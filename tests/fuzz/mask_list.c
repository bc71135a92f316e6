/* mask_list.c - fuzz target: any bytes as a list of documents, or as a table of them; numbers are
 * from 0 on */
#include "shard/mask_list.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const corpus[] = { NULL, "a" };

	for (int k = 0; k < 2; k++) {
		struct mask_list l;
		struct err e;

		if (mask_list_parse((const char *)data, size, "list", corpus[k], &l, &e) == 0)
			for (int64_t i = 0; i < l.count; i++)
				if (l.span[i].document < 0 || l.span[i].first < 0 ||
				    l.span[i].count < -1)
					abort();
		free(l.span);
	}
	return 0;
}
