/* mask_list.c - fuzz target: any bytes as a list of documents; numbers are from 0 on */
#include "shard/mask_list.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mask_span *span = NULL;
	int64_t count;
	struct err e;

	if (mask_list_parse((const char *)data, size, "list", &span, &count, &e) == 0)
		for (int64_t i = 0; i < count; i++)
			if (span[i].document < 0 || span[i].first < 0 || span[i].count < -1)
				abort();
	free(span);
	return 0;
}
