/* latent.c - keys and values of heads from what latents are projected up to. Source: docs/math.md
 * 2.10 */
#include "train/cpu/real.h"

/* Elements from a column of a row on. */
static char *
place(const struct tensor *t, int64_t row, int64_t column)
{
	return (char *)span_address(t, &(struct span){ row, column, 1 });
}

static void
copy(const struct tensor *to, int64_t to_column, const struct tensor *from, int64_t from_column,
    int64_t row, int64_t count)
{
	memcpy(place(to, row, to_column), place(from, row, from_column),
	    (size_t)count * dtype_size(to->dtype));
}

static void
forward_row(const void *ctx, int64_t row, void *scratch)
{
	const struct latent_heads *l = ctx;
	struct latent_widths w = latent_widths(&l->k, &l->v, &l->rope, l->num_heads);

	(void)scratch;
	for (int64_t head = 0; head < l->num_heads; head++) {
		int64_t from = head * (w.plain + w.value), to = head * (w.plain + w.rope);

		copy(&l->k, to, &l->kv, from, row, w.plain);
		copy(&l->k, to + w.plain, &l->rope, 0, row, w.rope);
		copy(&l->v, head * w.value, &l->kv, from + w.plain, row, w.value);
	}
}

void
cpu_name(latent_heads)(struct stream *st, const struct latent_heads *l)
{
	ops_require(latent_shapes_fit(&l->k, &l->v, &l->kv, &l->rope, l->num_heads));
	ops_require(
	    l->kv.dtype == l->k.dtype && l->kv.dtype == l->v.dtype && l->kv.dtype == l->rope.dtype);
	cpu_for(st, l->kv.shape[0], forward_row, l);
}

static void
backward_row(const void *ctx, int64_t row, void *scratch)
{
	const struct latent_heads_grad *l = ctx;
	struct latent_widths w = latent_widths(&l->dk, &l->dv, &l->drope, l->num_heads);
	struct span s = { row, 0, w.rope };
	real sum[CPU_HEAD_MAX] = { 0 }, buf[CPU_HEAD_MAX];

	(void)scratch;
	for (int64_t head = 0; head < l->num_heads; head++) {
		int64_t to = head * (w.plain + w.value), from = head * (w.plain + w.rope);
		const real *x;

		copy(&l->dkv, to, &l->dk, from, row, w.plain);
		copy(&l->dkv, to + w.plain, &l->dv, head * w.value, row, w.value);
		s.first = from + w.plain;
		x = span_load(&l->dk, &s, buf);
		for (int64_t i = 0; i < w.rope; i++)
			sum[i] += x[i];
	}
	s.first = 0;
	dtype_convert(span_address(&l->drope, &s), l->drope.dtype, sum, REAL_DTYPE, (size_t)w.rope);
}

void
cpu_name(latent_heads_grad)(struct stream *st, const struct latent_heads_grad *l)
{
	ops_require(latent_shapes_fit(&l->dk, &l->dv, &l->dkv, &l->drope, l->num_heads));
	ops_require(l->dkv.dtype == l->dk.dtype && l->dkv.dtype == l->dv.dtype);
	ops_require(l->drope.shape[1] <= CPU_HEAD_MAX);
	cpu_for(st, l->dkv.shape[0], backward_row, l);
}
