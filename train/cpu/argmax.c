/* argmax.c - the likeliest token of each row, of the vocabulary columns held here */
#include "train/cpu/real.h"

/* The place of the first of n elements that is x; n: there is none. */
static int64_t
find(const real *z, int64_t n, real x)
{
	int64_t i = 0;

	while (i < n && !(z[i] == x))
		i++;
	return i;
}

/* Spans are in order, so a later one has to be larger. */
static void
one_row(const struct argmax *a, int64_t row)
{
	real buf[CPU_SPAN], max = -(real)INFINITY;
	int32_t index = -1;

	for (struct span s = { row, 0, 0 }; s.first < a->valid_columns; s.first += s.count) {
		const real *z;
		real top;

		s.count = int64_min(CPU_SPAN, a->valid_columns - s.first);
		z = span_load(&a->logits, &s, buf);
		top = row_max(z, s.count, max);
		if (top > max)
			index = (int32_t)(a->first_column + s.first + find(z, s.count, top));
		max = top;
	}
	*real_at(&a->value, row) = max;
	((int32_t *)a->index.data)[row] = index;
}

static void
rows(const void *ctx, int64_t item, void *scratch)
{
	const struct argmax *a = ctx;
	int64_t per_item = cpu_rows_per_item(a->logits.shape[1]),
		end = int64_min(a->logits.shape[0], (item + 1) * per_item);

	(void)scratch;
	for (int64_t row = item * per_item; row < end; row++)
		one_row(a, row);
}

void
cpu_name(argmax)(struct stream *st, const struct argmax *a)
{
	int64_t count = a->logits.shape[0];

	ops_require(a->logits.ndim == 2 && a->valid_columns >= 0 &&
	    a->valid_columns <= a->logits.shape[1] && a->value.dtype == REAL_DTYPE &&
	    a->index.dtype == DTYPE_I32);
	ops_require(tensor_elements(&a->value) == count && tensor_elements(&a->index) == count);
	cpu_for(st, int64_div_up(count, cpu_rows_per_item(a->logits.shape[1])), rows, a);
}
