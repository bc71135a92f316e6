/* sums.c - fuzz target of PREFIX.sum: the bytes, and then the same with their own checksum made
 * right, which no mutation would find */
#include "lib/base/hash.h"
#include "lib/data/sums.h"
#include "tests/fuzz/input.h"

/* Every sum of an accepted file is compared, with a value that it hardly has. */
static void
use(const uint8_t *bytes, size_t size)
{
	struct sums *s = sums_parse("x.sum", bytes, size, NULL);
	uint64_t bin_bytes;
	struct err e;

	if (!s)
		return;
	memcpy(&bin_bytes, bytes + 24, 8);
	for (int64_t i = 0; i < sums_count(bin_bytes); i++)
		if (sums_compare(s, i, 1, &e) == 0 && sums_compare(s, i, 2, &e) == 0)
			BUG("a block has two checksums");
	sums_close(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	uint64_t own;

	use(data, size);
	if (size >= 8) {
		memcpy(copy, data, size);
		own = hash_xxh3(copy, size - 8);
		memcpy(copy + size - 8, &own, 8);
		use(copy, size);
	}
	free(copy);
	return 0;
}
