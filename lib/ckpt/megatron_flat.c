/* megatron_flat.c - the layouts of flat buffers */
#include "lib/base/int64.h"
#include "lib/ckpt/megatron_flat.h"
#include "lib/model/layout.h"

/* Elements are aligned to 64 since the end of 2023, when communication got faster by it. */
static const int64_t aligns[] = { 64, 1 };
/* What the end of a bucket is padded to besides the number of its shards; 1: cut off. */
static const int64_t pads[] = { 1, 128, 1 << 16 };
enum {
	ALIGNS = sizeof aligns / sizeof *aligns,
	PADS = sizeof pads / sizeof *pads,
	SIZES = 4,
	ALONE = 2,
	/* The size of a bucket that has none, by the number of data ranks. */
	LEAST = 40000000,
	PER_RANK = 1000000,
};

/* A buffer in the making: where its bucket began, and how much is in it. */
struct cursor {
	int64_t base, used;
};

static void
close_bucket(struct cursor *c, const struct megatron_flat_rule *r)
{
	c->base += int64_div_up(c->used, r->pad) * r->pad;
	c->used = 0;
}

int64_t
megatron_flat(const struct megatron_flat_rule *r, const struct megatron_flat_tensor *t, int count,
    int64_t *start)
{
	struct cursor c = { 0, 0 };

	for (int i = 0; i < count; i++) {
		bool alone = r->tied_alone && t[i].tied;

		c.used = int64_div_up(c.used, r->align) * r->align;
		if (alone && c.used > 0)
			close_bucket(&c, r);
		start[i] = c.base + c.used;
		c.used += t[i].elements;
		if (alone || (r->bucket && c.used >= r->bucket))
			close_bucket(&c, r);
	}
	close_bucket(&c, r);
	return c.base;
}

/* Most often one bucket holds all, as without --overlap-grad-reduce, after the first stage and
 * after its first chunk. */
bool
megatron_flat_try(const struct megatron_flat_run *run, int i, struct megatron_flat_rule *out)
{
	const int64_t sizes[SIZES] = { 0, run->bucket_size,
		int64_max(LEAST, PER_RANK * run->data_ranks),
		int64_max(LEAST, PER_RANK * run->data_ranks / run->context_ranks) };
	int64_t pad = pads[i / SIZES / ALONE / ALIGNS % PADS];

	*out = (struct megatron_flat_rule){
		.bucket = sizes[i % SIZES],
		.tied_alone = i / SIZES % ALONE == 0,
		.align = aligns[i / SIZES / ALONE % ALIGNS],
		.pad = pad == 1 ? 1 : layout_lcm(run->shards, pad),
	};
	return i < SIZES * ALONE * ALIGNS * PADS;
}
