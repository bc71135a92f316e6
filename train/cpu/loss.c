/*
 * loss.c - cross entropy and z-loss over the vocabulary columns held here. Source:
 * docs/math.md 2.8 and docs/parallelism.md 2.2
 *
 * A row's statistics are the maximum, the sum of exponentials below it and the label's logit; those
 * of all tensor ranks give the loss and the gradient. Logits [T, v/t] turn into their gradient in
 * place. valid_columns ends before the padding of the vocabulary, which is ignored throughout.
 * Statistics and losses are in real; the mask is F32.
 */
#include "train/cpu/real.h"

/* Of the columns of one rank, or of all. */
struct stats {
	real max, sum, label;
};

/* Column of row i's label here, or -1 when it is another rank's or padding. */
static int64_t
label_column(const struct xent *x, int64_t row)
{
	int64_t column = ((const int32_t *)x->labels.data)[row] - x->first_column;

	return column >= 0 && column < x->valid_columns ? column : -1;
}

/* The logits of a span, in buf where they have to be converted or capped. */
static const real *
load_logits(const struct xent *x, const struct span *s, real *buf)
{
	real *z = span_load(&x->logits, s, buf), c = (real)x->softcap;

	for (int64_t i = 0; c > 0 && i < s->count; i++)
		buf[i] = c * real_math(tanh)(z[i] / c);
	return c > 0 ? buf : z;
}

/* The next span of a row's valid columns; false after the last. Start with count 0 and first 0. */
static bool
next_span(const struct xent *x, struct span *s)
{
	s->first += s->count;
	s->count = int64_min(CPU_SPAN, x->valid_columns - s->first);
	return s->count > 0;
}

/* Of the valid columns here: the maximum first, so that no exponential overflows. Without any, -inf
 * and 0. */
static struct stats
row_stats(const struct xent *x, int64_t row)
{
	struct span s = { row, 0, 0 };
	struct stats t = { -(real)INFINITY, 0, 0 };
	real buf[CPU_SPAN], shifted[CPU_SPAN];
	int64_t label = label_column(x, row);

	while (next_span(x, &s))
		t.max = row_max(load_logits(x, &s, buf), s.count, t.max);
	s = (struct span){ row, 0, 0 };
	while (next_span(x, &s)) {
		const real *z = load_logits(x, &s, buf);

		for (int64_t i = 0; i < s.count; i++)
			shifted[i] = real_exp(z[i] - t.max);
		t.sum += row_sum(shifted, s.count);
	}
	if (label >= 0)
		t.label = *load_logits(x, &(struct span){ row, label, 1 }, buf);
	return t;
}

/* Stores a row's statistics for the other ranks. */
static void
stats_row(const struct xent *x, int64_t row)
{
	struct stats t = row_stats(x, row);
	real *out = real_at(&x->stats, 3 * row);

	out[0] = t.max;
	out[1] = t.sum;
	out[2] = t.label;
}

/* Of the whole vocabulary: the parts in their order, each sum brought to the common maximum. Only
 * the part that holds the label has something else than 0 there. */
static struct stats
combine(const struct xent *x, int64_t row)
{
	struct stats t = { -(real)INFINITY, 0, 0 };
	int64_t rows = x->logits.shape[0];

	for (int p = 0; p < x->parts; p++) {
		const real *part = real_at(&x->stats, 3 * (p * rows + row));

		t.max = part[0] > t.max ? part[0] : t.max;
		t.label += part[2];
	}
	for (int p = 0; p < x->parts; p++) {
		const real *part = real_at(&x->stats, 3 * (p * rows + row));

		t.sum += part[1] * real_exp(part[0] - t.max);
	}
	return t;
}

/* logits <- gradient: factor * softmax, less `weight` at the label, times the slope of capped
 * logits, zero in the padding. Padding is written as zero since the GEMMs after it read all
 * columns. */
static void
gradient_row(const struct xent *x, int64_t row, real max, const real factor[2])
{
	struct span s = { row, 0, 0 };
	real buf[CPU_SPAN], out[CPU_SPAN], c = (real)x->softcap;
	int64_t label = label_column(x, row);

	while (next_span(x, &s)) {
		const real *z = load_logits(x, &s, buf);
		real *dz = span_out(&x->logits, &s, out);

		for (int64_t i = 0; i < s.count; i++) {
			real slope = c > 0 ? 1 - z[i] / c * (z[i] / c) : 1,
			     taken = s.first + i == label ? factor[1] : 0;

			dz[i] = (factor[0] * real_exp(z[i] - max) - taken) * slope;
		}
		span_store(&x->logits, &s, dz);
	}
	s = (struct span){ row, x->valid_columns, x->logits.shape[1] - x->valid_columns };
	memset(span_address(&x->logits, &s), 0, (size_t)s.count * dtype_size(x->logits.dtype));
}

/* The two losses of a row, then its gradient when there is one to make. Derivative of the z-loss
 * c lse^2 is 2 c lse softmax, hence the factor. */
static void
loss_row(const struct xent *x, int64_t row)
{
	struct stats t = x->stats.data ? combine(x, row) : row_stats(x, row);
	real log_sum = real_math(log)(t.sum), lse = t.max + log_sum;
	real weight = (real)x->grad_scale * ((const float *)x->mask.data)[row];
	real factor[2] = { weight * (1 + 2 * (real)x->z_loss * lse) / t.sum, weight };

	*real_at(&x->loss, row) = log_sum - (t.label - t.max);
	*real_at(&x->zloss, row) = (real)x->z_loss * lse * lse;
	if (x->grad_scale != 0)
		gradient_row(x, row, t.max, factor);
}

/* A step as a loop over rows. */
struct steps {
	const struct xent *x;
	void (*row)(const struct xent *, int64_t row);
};

/* Some rows of one step. */
static void
rows(const void *ctx, int64_t item, void *scratch)
{
	const struct steps *t = ctx;
	int64_t per_item = cpu_rows_per_item(t->x->logits.shape[1]),
		end = int64_min(t->x->logits.shape[0], (item + 1) * per_item);

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++)
		t->row(t->x, row);
}

/* One step over all rows. */
static void
run(struct stream *st, const struct xent *x, void (*row)(const struct xent *, int64_t))
{
	struct steps t = { x, row };

	ops_require(
	    x->logits.ndim == 2 && x->valid_columns >= 0 && x->valid_columns <= x->logits.shape[1]);
	ops_require(x->labels.dtype == DTYPE_I32);
	cpu_for(
	    st, int64_div_up(x->logits.shape[0], cpu_rows_per_item(x->logits.shape[1])), rows, &t);
}

/* Fills stats [T, 3] with those of the columns here; gathering them is the caller's. */
void
cpu_name(xent_stats)(struct stream *st, const struct xent *x)
{
	ops_require(
	    x->stats.dtype == REAL_DTYPE && tensor_elements(&x->stats) == 3 * x->logits.shape[0]);
	run(st, x, stats_row);
}

/* Gives each rank the same loss. Masked rows have a loss but gradient zero: the caller's dot with
 * the mask leaves them out. */
void
cpu_name(xent_loss)(struct stream *st, const struct xent *x)
{
	ops_require(x->mask.dtype == DTYPE_F32 && x->loss.dtype == REAL_DTYPE &&
	    x->zloss.dtype == REAL_DTYPE);
	ops_require(!x->stats.data ||
	    (x->stats.dtype == REAL_DTYPE &&
		tensor_elements(&x->stats) == 3 * x->parts * x->logits.shape[0]));
	run(st, x, loss_row);
}
