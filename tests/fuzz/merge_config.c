/* merge_config.c - fuzz target: any bytes as a file of mergekit; texts end, and each model has its
 * directory */
#include "ckpt/merge_config.h"
#include "tests/fuzz/input.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input file;
	struct merge_config c;
	struct err e;

	if (merge_config_read(&c, input_file(&file, data, size), &e) == 0)
		for (int i = 0; i < c.count; i++)
			if (!c.model[i].path || !*c.model[i].path)
				abort();
	merge_config_release(&c);
	return 0;
}
