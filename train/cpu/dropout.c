/*
 * dropout.c - masks from counters, and the residual connection. Source: docs/math.md 2.9 and 3.1
 *
 * An element's mask is a function of the key, the step, the site and the element's number in the
 * whole model's tensor: sample, position and column, not the place in this rank's memory. So any
 * layout, any number of threads and the backward pass see the same mask. Philox gives four words
 * per counter; 24 bits of a word are the uniform number that is compared with p.
 */
#include "lib/base/rng.h"
#include "train/cpu/real.h"

/* A counter gives the words of four elements, so the block is drawn once for all of them that are
 * wanted. */
void
cpu_name(dropout_mask)(const struct dropout *d, uint64_t index, int64_t count, real *mask)
{
	real keep = (real)(1 / (1 - d->p));
	uint32_t word[4];

	for (int64_t i = 0; i < count; i++, index++) {
		if (i == 0 || index % 4 == 0) {
			uint64_t block = index / 4;
			uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), d->stream,
				d->step };

			rng_philox(d->key, counter, word);
		}
		mask[i] = (double)(word[index % 4] >> 8) * 0x1p-24 >= d->p ? keep : 0;
	}
}

/* x *= mask for the elements of a span of rows of a [T, h] tensor with the sample fastest: of the
 * number among all T, row % b is the sample, and row / b leads to the position. */
static void
drop_span(const struct dropout *d, const struct span *s, real *x)
{
	int64_t in_all = d->first_row + s->row, sample = d->first_sample + in_all % d->micro_batch,
		position = dropout_position(d, in_all);
	uint64_t row = (uint64_t)sample * (uint64_t)d->seq_length + (uint64_t)position;
	real mask[CPU_SPAN];

	cpu_name(dropout_mask)(
	    d, row * (uint64_t)d->width + (uint64_t)(d->first_column + s->first), s->count, mask);
	for (int64_t i = 0; i < s->count; i++)
		x[i] *= mask[i];
}

/* The sum is rounded once, at the end; y may be the residual. */
static void
residual_span(const void *ctx, const struct span *s)
{
	const struct residual *r = ctx;
	real x_buf[CPU_SPAN], residual_buf[CPU_SPAN], sum[CPU_SPAN];
	const real *x = span_load(&r->x, s, x_buf),
		   *residual = span_load(&r->residual, s, residual_buf);

	memcpy(sum, x, (size_t)s->count * sizeof *sum);
	if (r->drop.p > 0)
		drop_span(&r->drop, s, sum);
	for (int64_t i = 0; i < s->count; i++)
		sum[i] += residual[i];
	dtype_convert(span_address(&r->y, s), r->y.dtype, sum, REAL_DTYPE, s->count);
}

/* All [T, h]; without dropout no mask is drawn. The norm reads y as it was rounded. */
void
cpu_name(residual_fwd)(struct stream *st, const struct residual *r)
{
	ops_require(tensor_same_shape(&r->y, &r->x) && tensor_same_shape(&r->y, &r->residual));
	ops_require(!r->norm.weight.data ||
	    (r->norm.x.data == r->y.data && norm_heads(&r->norm.x, &r->norm.weight) == 1));
	cpu_spans(st, &r->y, residual_span, r);
	if (r->norm.weight.data)
		cpu_name(norm_fwd)(st, &r->norm);
}

/* Through a buffer, since dx may be dy. */
static void
backward_span(const void *ctx, const struct span *s)
{
	const struct dropout_grad *g = ctx;
	real buf[CPU_SPAN], dx[CPU_SPAN];

	memcpy(dx, span_load(&g->dy, s, buf), (size_t)s->count * sizeof *dx);
	if (g->drop.p > 0)
		drop_span(&g->drop, s, dx);
	dtype_convert(span_address(&g->dx, s), g->dx.dtype, dx, REAL_DTYPE, s->count);
}

/* Also the forward pass of an embedding's dropout, which is the same multiplication. */
void
cpu_name(dropout_bwd)(struct stream *st, const struct dropout_grad *g)
{
	ops_require(tensor_same_shape(&g->dx, &g->dy));
	cpu_spans(st, &g->dx, backward_span, g);
}
