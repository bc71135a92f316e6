/*
 * tape.h - derivatives of a number computed from others, by reverse accumulation
 *
 * A tape records each operation with its partial derivatives. Numbers are named by their places on
 * it. Nothing here knows what is computed.
 */
#ifndef ORACLE_TAPE_H
#define ORACLE_TAPE_H

struct entry {
	int from[2]; /* -1: none */
	double partial[2], value, grad;
};

struct tape {
	struct entry *entry;
	int count, capacity;
};

void tape_clear(struct tape *t);
void tape_free(struct tape *t);
double tape_value(const struct tape *t, int a);
/* A number that depends on nothing, and one that depends on one or two. */
int tape_number(struct tape *t, double value);
int tape_one(struct tape *t, double value, int a, double da);
int tape_two(struct tape *t, double value, int a, double da, int b, double db);
/* Of every number, the derivative of number a by it, into grad. */
void tape_backward(struct tape *t, int a);

int tape_add(struct tape *t, int a, int b);
int tape_multiply(struct tape *t, int a, int b);
int tape_divide(struct tape *t, int a, int b);
int tape_scale(struct tape *t, int a, double factor);
int tape_shift(struct tape *t, int a, double by);
int tape_exp(struct tape *t, int a);
int tape_log(struct tape *t, int a);
int tape_tanh(struct tape *t, int a);
int tape_power(struct tape *t, int a, double exponent);
/* The standard normal distribution function. */
int tape_normal(struct tape *t, int a);
int tape_sigmoid(struct tape *t, int a);
int tape_positive(struct tape *t, int a);

#endif
