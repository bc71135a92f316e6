/* adapter.c - fuzz target: an adapter of PEFT. Up to the first zero byte the input is its config,
 * and what follows its tensors; whatever is read has pairs of one rank and finite factors. */
#include "ckpt/adapter.h"
#include "lib/base/outfile.h"
#include "tests/fuzz/input.h"

#include <math.h>

static void
put(const char *dir, const char *name, const void *bytes, size_t size)
{
	char path[INPUT_DIR + 40];
	struct err e;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (outfile_write(path, bytes, size, &e) < 0)
		abort();
}

static void
check(struct adapter *a)
{
	for (int i = 0; i < adapter_count(a); i++) {
		const struct adapter_change *c = adapter_at(a, i);

		if (c->a.dtype != DTYPE_NONE &&
		    (c->a.ndim != 2 || c->b.ndim != 2 || c->a.shape[0] != c->b.shape[1] ||
			!isfinite(c->scale)))
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char dir[INPUT_DIR];
	const struct adapter_rule rule = { false };
	const uint8_t *end = size ? memchr(data, 0, size) : NULL;
	size_t config = end ? (size_t)(end - data) : size;
	struct adapter *a;
	struct err e;

	if (!*dir) {
		input_small_pages();
		input_dir(dir);
	}
	put(dir, "adapter_config.json", data, config);
	put(dir, "adapter_model.safetensors", end ? end + 1 : data, end ? size - config - 1 : 0);
	a = adapter_open(dir, &rule, &e);
	if (a)
		check(a);
	adapter_close(a);
	return 0;
}
