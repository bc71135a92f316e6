/* tape.c - the operations of a tape */
#include "tests/oracle/tape.h"

#include <math.h>
#include <stdlib.h>

void
tape_clear(struct tape *t)
{
	t->count = 0;
}

void
tape_free(struct tape *t)
{
	free(t->entry);
	*t = (struct tape){ 0 };
}

double
tape_value(const struct tape *t, int a)
{
	return t->entry[a].value;
}

int
tape_two(struct tape *t, double value, int a, double da, int b, double db)
{
	if (t->count == t->capacity) {
		t->capacity = t->capacity ? 2 * t->capacity : 1 << 16;
		t->entry = realloc(t->entry, (size_t)t->capacity * sizeof *t->entry);
		if (!t->entry)
			abort();
	}
	t->entry[t->count] = (struct entry){ { a, b }, { da, db }, value, 0 };
	return t->count++;
}

int
tape_one(struct tape *t, double value, int a, double da)
{
	return tape_two(t, value, a, da, -1, 0);
}

int
tape_number(struct tape *t, double value)
{
	return tape_two(t, value, -1, 0, -1, 0);
}

void
tape_backward(struct tape *t, int a)
{
	for (int i = 0; i < t->count; i++)
		t->entry[i].grad = i == a;
	for (int i = a; i >= 0; i--)
		for (int k = 0; k < 2; k++)
			if (t->entry[i].from[k] >= 0)
				t->entry[t->entry[i].from[k]].grad +=
				    t->entry[i].grad * t->entry[i].partial[k];
}

int
tape_add(struct tape *t, int a, int b)
{
	return tape_two(t, tape_value(t, a) + tape_value(t, b), a, 1, b, 1);
}

int
tape_multiply(struct tape *t, int a, int b)
{
	double x = tape_value(t, a), y = tape_value(t, b);

	return tape_two(t, x * y, a, y, b, x);
}

int
tape_divide(struct tape *t, int a, int b)
{
	double x = tape_value(t, a), y = tape_value(t, b);

	return tape_two(t, x / y, a, 1 / y, b, -x / (y * y));
}

int
tape_scale(struct tape *t, int a, double factor)
{
	return tape_one(t, factor * tape_value(t, a), a, factor);
}

int
tape_shift(struct tape *t, int a, double by)
{
	return tape_one(t, tape_value(t, a) + by, a, 1);
}

int
tape_exp(struct tape *t, int a)
{
	double y = exp(tape_value(t, a));

	return tape_one(t, y, a, y);
}

int
tape_log(struct tape *t, int a)
{
	double x = tape_value(t, a);

	return tape_one(t, log(x), a, 1 / x);
}

int
tape_tanh(struct tape *t, int a)
{
	double y = tanh(tape_value(t, a));

	return tape_one(t, y, a, 1 - y * y);
}

int
tape_power(struct tape *t, int a, double exponent)
{
	double x = tape_value(t, a);

	return tape_one(t, pow(x, exponent), a, exponent * pow(x, exponent - 1));
}

int
tape_normal(struct tape *t, int a)
{
	double x = tape_value(t, a);

	return tape_one(t, erfc(-x / sqrt(2)) / 2, a, exp(-x * x / 2) / sqrt(8 * atan(1)));
}

int
tape_sigmoid(struct tape *t, int a)
{
	double y = 1 / (1 + exp(-tape_value(t, a)));

	return tape_one(t, y, a, y * (1 - y));
}

int
tape_positive(struct tape *t, int a)
{
	double x = tape_value(t, a);

	return tape_one(t, x > 0 ? x : 0, a, x > 0);
}
