/* index_json.c - fuzz target: any bytes as the index of a sharded model; accepted file names have
 * no directory */
#include "lib/ckpt/hfdir.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hf_index x;
	struct err e;

	if (hf_index_parse(&x, (const char *)data, size, "fuzz", &e) == 0)
		for (int i = 0; i < x.count; i++)
			if (strchr(x.entry[i].file, '/') || x.entry[i].file[0] == '.' ||
			    !*x.entry[i].file)
				__builtin_trap();
	hf_index_release(&x);
	return 0;
}
