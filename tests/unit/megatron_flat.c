/* megatron_flat.c - tests of lib/ckpt/megatron_flat: starts in flat buffers, by hand */
#include "lib/ckpt/megatron_flat.h"
#include "tests/check.h"

#include <stddef.h>

enum { MOST = 8 };

/* Elements in the order of the buffer; a negative number is a tied table. */
static const struct {
	struct megatron_flat_rule rule;
	int count;
	int64_t elements[MOST], start[MOST], length;
} cases[] = {
	/* one bucket: every start is a multiple of 64 */
	{ { 0, 64, false, 1 }, 3, { 16, 100, 8 }, { 0, 64, 192 }, 200 },
	{ { 0, 1, false, 1 }, 3, { 16, 100, 8 }, { 0, 16, 116 }, 124 },
	/* it closes as soon as it has 100, gaps included; what pads its end is cut off */
	{ { 100, 64, false, 1 }, 4, { 16, 40, 8, 8 }, { 0, 64, 104, 168 }, 176 },
	/* or kept */
	{ { 100, 64, false, 128 }, 4, { 16, 40, 8, 8 }, { 0, 64, 128, 192 }, 256 },
	/* a tied table is alone, and what it closes has the gap before it */
	{ { 0, 64, true, 1 }, 3, { 16, -32, 8 }, { 0, 64, 96 }, 104 },
	{ { 0, 64, true, 1 }, 2, { -32, 8 }, { 0, 32 }, 40 },
	{ { 0, 64, false, 1 }, 3, { 16, -32, 8 }, { 0, 64, 128 }, 136 },
	{ { 0, 64, false, 1 }, 0, { 0 }, { 0 }, 0 },
};

static void
test_starts(void)
{
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct megatron_flat_tensor t[MOST];
		int64_t start[MOST];

		for (int i = 0; i < cases[k].count; i++) {
			int64_t n = cases[k].elements[i];

			t[i] = (struct megatron_flat_tensor){ n < 0 ? -n : n, n < 0 };
		}
		CHECK(megatron_flat(&cases[k].rule, t, cases[k].count, start) == cases[k].length);
		for (int i = 0; i < cases[k].count; i++)
			CHECK(start[i] == cases[k].start[i]);
	}
}

/* The usual rule comes first; the size of the options and the default are among them. */
static void
test_tries(void)
{
	const struct megatron_flat_run run = {
		.data_ranks = 96, .shards = 48, .context_ranks = 2, .bucket_size = 3000
	};
	struct megatron_flat_rule r;
	bool given = false, usual = false, replicas = false, padded = false;
	int n = 0;

	for (; megatron_flat_try(&run, n, &r); n++) {
		if (n == 0)
			CHECK(r.bucket == 0 && r.align == 64 && r.tied_alone && r.pad == 1);
		given |= r.bucket == 3000;
		usual |= r.bucket == 96000000;
		replicas |= r.bucket == 48000000;
		padded |= r.pad == 384;
	}
	CHECK(n > 0 && given && usual && replicas && padded);
}

int
main(void)
{
	test_starts();
	test_tries();
	return check_done();
}
