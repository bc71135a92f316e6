/*
 * loss.c - cross entropy and z-loss over the vocabulary columns held here. Source:
 * spec/training.md 2.8 and 5.1
 *
 * Three passes with a reduction over tensor ranks between them (the caller's): the row maximum,
 * the sum of exponentials with the label's logit, then loss and gradient. Logits [T, v/t] turn
 * into their gradient in place. valid_columns ends before the padding of the vocabulary, which
 * takes part in nothing. Statistics and losses are in real; the mask is F32.
 */
#include "train/cpu/real.h"

/* Column of row i's label here, or -1 when it is another rank's or padding. */
static int64_t
label_column(const struct xent *x, int64_t row)
{
	int64_t column = ((const int32_t *)x->labels.data)[row] - x->first_column;

	return column >= 0 && column < x->valid_columns ? column : -1;
}

/* One logit, -1 never being asked for. */
static real
logit(const struct xent *x, int64_t row, int64_t column)
{
	real buf[1];

	return *span_load(&x->logits, &(struct span){ row, column, 1 }, buf);
}

/* The next span of a row's valid columns; false after the last. Start with count 0 and first 0. */
static bool
next_span(const struct xent *x, struct span *s)
{
	s->first += s->count;
	s->count = cpu_min(CPU_SPAN, x->valid_columns - s->first);
	return s->count > 0;
}

/* The row maximum, -inf when all columns here are padding. */
static void
max_row(const struct xent *x, int64_t row)
{
	struct span s = { row, 0, 0 };
	real buf[CPU_SPAN], max = -(real)INFINITY;

	while (next_span(x, &s))
		max = row_max(span_load(&x->logits, &s, buf), s.count, max);
	*real_at(&x->row_max, row) = max;
}

/* The sum of exponentials and the label's shifted logit. */
static void
sum_row(const struct xent *x, int64_t row)
{
	struct span s = { row, 0, 0 };
	real buf[CPU_SPAN], shifted[CPU_SPAN], max = *real_at(&x->row_max, row), sum = 0;
	int64_t label = label_column(x, row);

	while (next_span(x, &s)) {
		const real *z = span_load(&x->logits, &s, buf);

		for (int64_t i = 0; i < s.count; i++)
			shifted[i] = real_exp(z[i] - max);
		sum += row_sum(shifted, s.count);
	}
	*real_at(&x->sums, 2 * row) = sum;
	*real_at(&x->sums, 2 * row + 1) = label < 0 ? 0 : logit(x, row, label) - max;
}

/* logits <- gradient: factor * softmax, less `weight` at the label, zero in the padding. Padding
 * is written as zero since the products behind it read all columns. */
static void
gradient_row(const struct xent *x, int64_t row, real factor, real weight)
{
	struct span s = { row, 0, 0 };
	real buf[CPU_SPAN], max = *real_at(&x->row_max, row);
	int64_t label = label_column(x, row);

	while (next_span(x, &s)) {
		real *z = span_load(&x->logits, &s, buf);

		for (int64_t i = 0; i < s.count; i++)
			z[i] = factor * real_exp(z[i] - max);
		if (label >= s.first && label < s.first + s.count)
			z[label - s.first] -= weight;
		span_store(&x->logits, &s, z);
	}
	s = (struct span){ row, x->valid_columns, x->logits.shape[1] - x->valid_columns };
	memset(span_address(&x->logits, &s), 0, (size_t)s.count * dtype_size(x->logits.dtype));
}

/* The two losses of a row, then its gradient when there is one to make. Derivative of the z-loss
 * c lse^2 is 2 c lse softmax, hence the factor. */
static void
loss_row(const struct xent *x, int64_t row)
{
	real sum = *real_at(&x->sums, 2 * row), log_sum = real_math(log)(sum),
	     lse = *real_at(&x->row_max, row) + log_sum;
	real weight = (real)x->grad_scale * ((const float *)x->mask.data)[row];

	*real_at(&x->loss, row) = log_sum - *real_at(&x->sums, 2 * row + 1);
	*real_at(&x->zloss, row) = (real)x->z_loss * lse * lse;
	if (x->grad_scale != 0)
		gradient_row(x, row, weight * (1 + 2 * (real)x->z_loss * lse) / sum, weight);
}

/* The three steps as loops over rows. */
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
		end = cpu_min(t->x->logits.shape[0], (item + 1) * per_item);

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++)
		t->row(t->x, row);
}

/* One step over all rows. */
static void
run(struct stream *st, const struct xent *x, void (*row)(const struct xent *, int64_t))
{
	struct steps t = { x, row };

	cpu_check(
	    x->logits.ndim == 2 && x->valid_columns >= 0 && x->valid_columns <= x->logits.shape[1]);
	cpu_check(x->labels.dtype == DTYPE_I32 && x->row_max.dtype == REAL_DTYPE &&
	    x->sums.dtype == REAL_DTYPE);
	cpu_for(
	    st, cpu_div_up(x->logits.shape[0], cpu_rows_per_item(x->logits.shape[1])), rows, &t);
}

/* Fills row_max [T]; the maximum over tensor ranks is the caller's. */
void
cpu_name(xent_max)(struct stream *st, const struct xent *x)
{
	run(st, x, max_row);
}

/* Fills sums [T, 2] relative to the global maximum; a rank that does not hold the label leaves 0
 * there, so that the sum over ranks is the label's logit. */
void
cpu_name(xent_sum)(struct stream *st, const struct xent *x)
{
	run(st, x, sum_row);
}

/* Needs the sums of all ranks, and gives each rank the same loss. Masked rows have a loss but
 * gradient zero: the caller's dot with the mask leaves them out. */
void
cpu_name(xent_loss)(struct stream *st, const struct xent *x)
{
	cpu_check(x->mask.dtype == DTYPE_F32 && x->loss.dtype == REAL_DTYPE &&
	    x->zloss.dtype == REAL_DTYPE);
	run(st, x, loss_row);
}
