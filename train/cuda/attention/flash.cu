/*
 * flash.cu - tiled attention on tensor cores: which shapes it serves, and the kernels for each
 * width
 */
#include "train/cuda/attention/flash_width.cuh"

/* Narrowest first. */
static const struct flash_width *const widths[] = { &flash_64, &flash_80, &flash_96, &flash_128,
	&flash_256 };

/* The kernels that a head fits; NULL when it is too wide. */
static const struct flash_width *
choose(int head_dim)
{
	for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
		if (head_dim <= widths[i]->columns)
			return widths[i];
	return NULL;
}

int64_t
flash_attention_shared(int head_dim, bool backward)
{
	const struct flash_width *w = choose(head_dim);

	return w ? w->pass[backward].shared : -1;
}

static int
widest(const struct attention *t)
{
	int e = attention_value_dim(t);

	return t->head_dim > e ? t->head_dim : e;
}

/* The caller has asked flash_attention_shared and checked types and alignment. */
void
flash_attention_fwd(struct stream *st, const struct attention *t)
{
	struct attn a = attn_of(t);

	choose(widest(t))->pass[0].run(st, &a, t->q.dtype);
	cu_launched(st, "attention_fwd");
}

/* delta is scratch: filled here, read by the kernels after. */
void
flash_attention_bwd(struct stream *st, const struct attention_grad *t)
{
	struct attn a = attn_grad_of(t);

	choose(widest(&t->fwd))->pass[1].run(st, &a, t->fwd.q.dtype);
	cu_launched(st, "attention_bwd");
}
