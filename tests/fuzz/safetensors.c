/* safetensors.c - fuzz target: any bytes as a safetensors file; an accepted file is read completely
 */
#include "lib/base/hash.h"
#include "lib/ckpt/safetensors.h"
#include "tests/fuzz/input.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct input file;
	struct err e;
	struct safetensors *s = safetensors_open(input_file(&file, data, size), &e);

	for (int i = 0; s && i < safetensors_count(s); i++) {
		const struct safetensors_entry *t = safetensors_at(s, i);

		hash_xxh3(t->data, t->bytes);
		if (safetensors_find(s, t->name) != t)
			__builtin_trap();
	}
	safetensors_close(s);
	return 0;
}
