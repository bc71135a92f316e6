/* argmax.c - the likeliest token of each row: ties, infinities and NaN, parts of a vocabulary */
#include "tests/op/sides.h"
#include "tests/op/op.h"

struct shape {
	int64_t rows, columns, valid, first;
};

static const struct shape shapes[] = {
	{ 1, 1, 1, 0 },
	{ 3, 7, 7, 100 },
	{ 5, 32, 0, 64 },
	{ 40, 300, 293, 0 },
	{ 33, 5000, 4999, 5000 },
	{ 9, 50304, 50257, 0 },
};

/* Numbers in few steps, so that there are many ties; rows of one value, of -inf and with NaN. */
static double *
logits_of(const struct shape *c)
{
	double *z = numbers(7, c->rows * c->columns);

	for (int64_t i = 0; i < c->rows; i++)
		for (int64_t k = 0; k < c->columns; k++) {
			double *at = &z[i * c->columns + k];

			*at = i % 5 == 1 ? 0.5
			    : i % 5 == 2 ? (k % 3 ? -1.25 : NAN)
			    : i % 5 == 3 ? -INFINITY
					 : *at;
		}
	return z;
}

/* A row by its definition. */
static void
check_row(const struct shape *c, const double *z, double value, double index)
{
	double max = -INFINITY, at = -1;

	for (int64_t k = 0; k < c->valid; k++)
		if (z[k] > max) {
			max = z[k];
			at = (double)(c->first + k);
		}
	CHECK(value == max);
	CHECK(index == at);
}

static void
check_shape(const struct backend *b, const struct shape *c, enum dtype act)
{
	struct side s = side_open(b, act);
	double *z = logits_of(c), *value, *index;
	struct argmax a = { .logits = put(&s, tensor_2d(NULL, act, c->rows, c->columns), z),
		.value = rig_tensor(&s.r, true, tensor_1d(NULL, s.real, c->rows), NULL),
		.index = rig_tensor(&s.r, true, tensor_1d(NULL, DTYPE_I32, c->rows), NULL),
		.first_column = c->first,
		.valid_columns = c->valid };

	s.r.st->ops->argmax(s.r.st, &a);
	value = take(&s, a.value);
	index = take(&s, a.index);
	rig_take(&s.r, a.logits, NULL);
	for (int64_t i = 0; i < c->rows; i++)
		check_row(c, z + i * c->columns, value[i], index[i]);
	free(z);
	free(value);
	free(index);
	b->close(s.r.d);
}

static void
test_rows(const struct backend *b)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++)
			check_shape(b, &shapes[i], types[t]);
}

const struct op_case cases[] = {
	CHECKED(CASE_BOTH, test_rows),
	{ 0 },
};
