/*
 * flash.cu - tiled attention on tensor cores: which shapes it serves, and the kernels for each
 * width
 */
#include "train/cuda/attention/attn.cuh"

/* clang-format off */
#define WIDTH(D)                                                                                   \
	void flash_forward_##D(struct stream *, const struct attn *, enum dtype);                  \
	void flash_backward_##D(struct stream *, const struct attn *, enum dtype);
WIDTH(64) WIDTH(80) WIDTH(96) WIDTH(128)
    /* clang-format on */

    /* Narrowest first. */
    static const struct {
	int width;
	void (*forward)(struct stream *, const struct attn *, enum dtype);
	void (*backward)(struct stream *, const struct attn *, enum dtype);
} widths[] = {
	{ 64, flash_forward_64, flash_backward_64 },
	{ 80, flash_forward_80, flash_backward_80 },
	{ 96, flash_forward_96, flash_backward_96 },
	{ 128, flash_forward_128, flash_backward_128 },
};

/* The kernels that a head fits; -1 when it is too wide. */
static int
choose(int head_dim)
{
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		if (head_dim <= widths[i].width)
			return (int)i;
	return -1;
}

/* The shared memory of the backward pass, which needs the most: two tiles of as many rows as its
 * warps have, four of 64, and statistics. */
int64_t
flash_attention_shared(int head_dim)
{
	int i = choose(head_dim), rows = head_dim > 96 ? 128 : 64;

	return i < 0 ? -1 : (2 * rows + 256) * (2 * widths[i].width + 16) + 1536;
}

/* The caller has asked flash_attention_shared and checked types and alignment. */
void
flash_attention_fwd(struct stream *st, const struct attention *t)
{
	struct attn a = attn_of(t);

	widths[choose(t->head_dim)].forward(st, &a, t->q.dtype);
	cu_launched(st, "attention_fwd");
}

/* delta is scratch: filled here, read by the kernels after. */
void
flash_attention_bwd(struct stream *st, const struct attention_grad *t)
{
	struct attn a = attn_grad_of(t);

	widths[choose(t->fwd.head_dim)].backward(st, &a, t->fwd.q.dtype);
	cu_launched(st, "attention_bwd");
}
