/* expect.h - an element of the first output of each operation by the formula in ops.h, in double */
#ifndef TESTS_GRAD_EXPECT_H
#define TESTS_GRAD_EXPECT_H

#include "tests/grad/cases.h"

/* 0 or 1 / (1 - p), drawn for one element. */
static double
drawn(const struct dropout *d, int64_t index)
{
	return (double)rng_uniform(d->key, (uint64_t)index, d->stream, d->step) >= d->p
	    ? 1 / (1 - d->p)
	    : 0;
}

/* An element of a slot. */
static double
value_at(const struct problem *p, int i, int64_t row, int64_t column)
{
	return p->slot[i].value[row * p->slot[i].columns + column];
}

/* The tanh form as published. */
static double
gelu(double x)
{
	return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double
expect_gemm(const struct problem *p, int64_t row, int64_t column)
{
	bool ta = p->c->flags & TRANS_A, tb = p->c->flags & TRANS_B;
	double sum = 0;

	for (int64_t k = 0; k < p->c->inner; k++)
		sum += (ta ? value_at(p, 0, k, row) : value_at(p, 0, row, k)) *
		    (tb ? value_at(p, 1, column, k) : value_at(p, 1, k, column));
	sum = 0.5 * sum + (p->c->flags & BETA ? 0.75 * value_at(p, 2, row, column) : 0);
	if (p->c->flags & BIAS)
		sum += p->slot[4].value[column];
	return p->c->flags & GELU ? gelu(sum) : sum;
}

static double
expect_norm(const struct problem *p, int64_t row, int64_t column)
{
	bool layer = p->c->flags & LAYER_NORM;
	int64_t length = norm_length(p->c), within = column % length, first = column - within;
	double mean = 0, square = 0, d = (double)length, y;

	for (int64_t i = 0; layer && i < length; i++)
		mean += value_at(p, 0, row, first + i) / d;
	for (int64_t i = 0; i < length; i++)
		square += pow(value_at(p, 0, row, first + i) - mean, 2) / d;
	y = (value_at(p, 0, row, column) - mean) / sqrt(square + 1e-3) *
	    (p->slot[1].value[within] + (p->c->flags & LESS_ONE ? 1 : 0));
	return layer ? y + p->slot[2].value[within] : y;
}

static double
expect_rope(const struct problem *p, int64_t row, int64_t column)
{
	int64_t within = column % p->c->head_dim, half = p->c->inner / 2,
		position = row / p->c->batch;
	bool pairs = p->c->flags & INTERLEAVED, second = pairs ? within % 2 : within >= half;
	int64_t pair = pairs ? within / 2 : within % half,
		partner = column + (pairs ? 1 : half) * (second ? -1 : 1);
	double angle = (double)position * pow(100, -2.0 * (double)pair / (double)p->c->inner);

	if (within >= p->c->inner)
		return value_at(p, 0, row, column);
	return value_at(p, 0, row, column) * cos(angle) +
	    value_at(p, 0, row, partner) * (second ? sin(angle) : -sin(angle));
}

/* c tanh(x / c), or x without c. */
static double
capped(const struct problem *p, double x)
{
	return p->c->cap > 0 ? p->c->cap * tanh(x / p->c->cap) : x;
}

/* The score of a query and a key. */
static double
score(const struct problem *p, int64_t query_row, int64_t key_row, int64_t head)
{
	int64_t d = p->c->head_dim, group = head * p->c->groups / p->c->heads;
	double sum = 0;

	for (int64_t i = 0; i < d; i++)
		sum += value_at(p, 0, query_row, head * d + i) *
		    value_at(p, 1, key_row, group * d + i);
	return capped(p, 1.3 * sum);
}

static double
expect_attention(const struct problem *p, int64_t row, int64_t column)
{
	const struct op_case *c = p->c;
	struct dropout drop = case_dropout(c, c->heads + 2);
	int64_t sample = row % c->batch, query = c->inner + row / c->batch;
	int64_t head = column / c->head_dim;
	int64_t v = head * c->groups / c->heads * c->head_dim + column % c->head_dim;
	double total = 0, sum = 0;

	for (int64_t key = 0; key <= query; key++) {
		int64_t index =
		    (((drop.first_sample + sample) * drop.width + drop.first_column + head) *
			    drop.seq_length +
			query) *
			drop.seq_length +
		    key;
		double e = exp(score(p, row, key * c->batch + sample, head));

		if ((c->window > 0 && key <= query - c->window) ||
		    (c->flags & DOCUMENTS && key < document_start(sample, query)))
			continue;
		total += e;
		sum += e * value_at(p, 2, key * c->batch + sample, v) *
		    (drop.p > 0 ? drawn(&drop, index) : 1);
	}
	return sum / total;
}

static double
expect_act(const struct problem *p, int64_t row, int64_t column)
{
	double x = value_at(p, 0, row, column);

	switch (p->c->kind) {
	case ACT_GELU_TANH: return gelu(x);
	case ACT_GELU_ERF: return 0.5 * x * (1 + erf(x / sqrt(2)));
	case ACT_RELU2: return x > 0 ? x * x : 0;
	case ACT_SWIGLU: return x / (1 + exp(-x)) * value_at(p, 0, row, column + p->c->columns);
	default: return gelu(x) * value_at(p, 0, row, column + p->c->columns);
	}
}

static double
expect_expert_act(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 2, row, 0) * expect_act(p, row, column);
}

/* The position of a row in its sample, in terms of case_dropout's counters. */
static int64_t
position_of(const struct problem *p, int64_t row)
{
	int64_t i = row / p->c->batch;

	return p->c->turn && i >= p->c->turn ? 500 + i - p->c->turn : 2 + i;
}

static double
expect_dropout(const struct problem *p, int64_t row, int64_t column)
{
	struct dropout d = case_dropout(p->c, p->c->columns + 3);
	int64_t sample = d.first_sample + (d.first_row + row) % p->c->batch,
		position = position_of(p, d.first_row + row);
	int64_t index = (sample * d.seq_length + position) * d.width + d.first_column + column;

	return value_at(p, 0, row, column) * (d.p > 0 ? drawn(&d, index) : 1);
}

static double
expect_residual(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 2, row, column) + expect_dropout(p, row, column);
}

/* The sum of expect_residual with the residual in a slot of its own, then expect_norm's formula. */
static double
expect_block(const struct problem *p, int64_t row, int64_t column)
{
	struct dropout d = case_dropout(p->c, p->c->columns + 3);
	int64_t sample = d.first_sample + (d.first_row + row) % p->c->batch, h = p->c->columns,
		position = position_of(p, d.first_row + row);
	int64_t index = (sample * d.seq_length + position) * d.width + d.first_column;
	bool layer = p->c->flags & LAYER_NORM;
	double mean = 0, square = 0, at = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int64_t i = 0; i < h; i++) {
			double x =
			    value_at(p, 0, row, i) + (p->slot[1].value ? p->slot[1].value[i] : 0);

			x = value_at(p, 2, row, i) + x * (d.p > 0 ? drawn(&d, index + i) : 1);
			mean += pass == 0 && layer ? x / (double)h : 0;
			square += pass == 1 ? pow(x - mean, 2) / (double)h : 0;
			at = i == column ? x : at;
		}
	at = (at - mean) / sqrt(square + 1e-3) * p->slot[4].value[column];
	return layer ? at + p->slot[5].value[column] : at;
}

static double
expect_add(const struct problem *p, int64_t row, int64_t column)
{
	return value_at(p, 0, row, column) + value_at(p, 1, row, column);
}

static double
expect_sum(const struct problem *p, int64_t row, int64_t column)
{
	double sum = value_at(p, 0, row, column);

	for (int i = 0; i < p->c->batch; i++)
		sum += value_at(p, 1, i, column);
	return sum;
}

static double
expect_axpby(const struct problem *p, int64_t row, int64_t column)
{
	double z = p->c->flags & WRITE_GRAD ? 0 : value_at(p, 1, row, column);

	return -1.5 * value_at(p, 0, row, column) + 0.25 * z;
}

static double
expect_embedding(const struct problem *p, int64_t row, int64_t column)
{
	int64_t word = (int64_t)p->slot[3].value[row], position = (int64_t)p->slot[4].value[row];

	return (p->c->cap > 0 ? p->c->cap : 1) *
	    ((word < p->c->inner ? value_at(p, 0, word, column) : 0) +
		value_at(p, 1, position, column));
}

static double
expect_xent(const struct problem *p, int64_t row, int64_t column)
{
	double sum = 0;

	(void)column;
	for (int64_t i = 0; i < p->c->inner; i++)
		sum += exp(capped(p, value_at(p, 0, row, i)));
	return log(sum) - capped(p, value_at(p, 0, row, (int64_t)p->slot[3].value[row]));
}

#endif
