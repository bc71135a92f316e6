/*
 * op.h - the cases of an operation: how it is run forward and backward on any backend in any type
 *
 * tests/op/NAME.c ends with `cases`, for the operations of train/op/NAME.h; driver.c runs them. A
 * case is a problem, which is a list of slots: inputs with random values, outputs with random
 * gradients, that an op_test declares, runs forward and runs backward. What does not fit into
 * slots, above all an operation without a gradient, is a function that checks a backend by itself.
 */
#ifndef TESTS_OP_OP_H
#define TESTS_OP_OP_H

#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "train/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 12, SLOT_DIMS = 2 };
/* A rebuilt slot is a second copy of the first output, recomputed by the backward pass. */
enum slot_kind {
	SLOT_NONE,
	SLOT_INPUT,
	SLOT_FIXED,
	SLOT_OUTPUT,
	SLOT_IDS,
	SLOT_MASK,
	SLOT_SCRATCH,
	SLOT_REBUILT
};
/* Stored real; gradient real; gradient added to; a vector of `rows` elements; scratch that is act.
 * Otherwise act and a matrix; scratch is real. */
enum { SLOT_REAL = 1, SLOT_REAL_GRAD = 2, SLOT_ADDED = 4, SLOT_VECTOR = 8, SLOT_ACT = 16 };

/* What a case takes. */
enum {
	/* on the CPU: values, central differences in fp64, types and threads; or its check */
	CASE_CPU = 1,
	CASE_CUDA = 2, /* the backend against the CPU in double; or its check */
	CASE_BITS = 4, /* and in F32 the same bits */
	CASE_TIME = 8,
	CASE_BOTH = CASE_CPU | CASE_CUDA,
	CASE_LARGE = CASE_CUDA | CASE_TIME,
};

struct problem;

struct op_test {
	const char *name;
	void (*declare)(struct problem *);
	void (*forward)(struct problem *);
	void (*backward)(struct problem *);
	/* element of the first output, from the inputs; this and backward may be NULL where time
	 * alone is taken */
	double (*expect)(const struct problem *, int64_t row, int64_t column);
	/* by which limits against the CPU are larger, and those of large cases; 0: 1 and 2 */
	double slack, large_slack;
	bool measured; /* also with what the device chooses where it need not be deterministic */
};

/* Of a test, which reads the fields it needs, or of a check of a backend. */
struct op_case {
	const struct op_test *test;
	unsigned takes;
	void (*check)(const struct backend *);
	int64_t rows, columns, inner;
	int batch, heads, groups, head_dim;
	int64_t window;
	/* cap: of attention and the loss; of embeddings their scale; of activations their bounds */
	double drop, cap;
	int64_t turn; /* of dropout; 0: positions are contiguous */
	int kind;
	unsigned flags;
};

/* A check and what it takes. */
#define CHECKED(takes, check) \
	{ \
		NULL, takes, check \
	}

/* Ended by a case that takes nothing. */
extern const struct op_case cases[];

struct slot {
	enum slot_kind kind;
	unsigned flags;
	int64_t rows, columns;
	struct tensor t, g;   /* on the device */
	double *value, *grad; /* on the host, [rows, columns] */
};

struct problem {
	const struct backend *backend;
	struct device *device;
	struct stream *st;
	const struct ops *ops; /* the stream's, or with an observer */
	enum dtype act, real;
	const struct op_case *c;
	struct slot slot[SLOTS];
};

/* How to run: act is the run's type, round the type to which inputs are rounded first. */
struct problem_config {
	enum dtype act, round;
	int num_threads;
	bool deterministic;
};

/* The initial value of accumulated gradients. */
#define SLOT_BEFORE 0.25

/* --- for what tests/op/NAME.c declares ------------------------------------------------------- */

#define SHAPE(r, c) ((const int64_t[SLOT_DIMS]){ (r), (c) })
#define VECTOR_PARAM (SLOT_REAL_GRAD | SLOT_ADDED | SLOT_VECTOR)
#define VECTOR_WRITTEN (SLOT_REAL_GRAD | SLOT_VECTOR)
#define T(i) (&p->slot[i].t)
#define G(i) (&p->slot[i].g)

/* A case with a residual stream of type real, in its flags. */
enum { WIDE = 1 << 16 };

/* The type of the slots of the residual stream. */
static inline unsigned
stream_slot(const struct op_case *c)
{
	return c->flags & WIDE ? SLOT_REAL | SLOT_REAL_GRAD : 0;
}

static inline int64_t
slot_count(const struct slot *s)
{
	return s->rows * s->columns;
}

/* Declares slot i with its random values and, for an output, its random gradient. Outputs hold NaN
 * before. */
void slot_add(
    struct problem *p, int i, enum slot_kind kind, unsigned flags, const int64_t shape[SLOT_DIMS]);

/* Host doubles to a tensor of any type. */
void upload(struct problem *p, const struct tensor *t, const double *from);
/* An uninitialised matrix in act; the caller releases it. */
struct tensor act_matrix(struct problem *p, int64_t rows, int64_t columns);
/* The unit matrix [n, n] in act; the caller releases it. */
struct tensor unit_matrix(struct problem *p, int64_t n);
/* out (real) += the sums of the columns of x (act): the bias gradient that a GEMM computes. */
void add_column_sums(struct problem *p, const struct tensor *out, const struct tensor *x);

/* The dropout counters of every case. */
struct dropout case_dropout(const struct op_case *c, int64_t width);

/* --- for the formulas of values -------------------------------------------------------------- */

/* An element of a slot. */
static inline double
value_at(const struct problem *p, int i, int64_t row, int64_t column)
{
	return p->slot[i].value[row * p->slot[i].columns + column];
}

/* c tanh(x / c), or x without c. */
static inline double
capped(const struct problem *p, double x)
{
	return p->c->cap > 0 ? p->c->cap * tanh(x / p->c->cap) : x;
}

/* 0 or 1 / (1 - p), drawn for one element. */
double drawn(const struct dropout *d, int64_t index);
/* The tanh form as published. */
double gelu(double x);
/* Whether a kind is gated; and what it takes of its inputs in a case with a cap. */
static inline bool
is_gated(int kind)
{
	return kind >= ACT_SWIGLU;
}

static inline struct act_gate
case_gate(const struct op_case *c)
{
	return (struct act_gate){ c->cap, c->cap > 0 ? 1 : 0 };
}

/* An activation of x, and where it is gated of the gate x and `up`, in the bounds of the case. */
double activation(const struct op_case *c, double x, double up);

/* --- for checks ------------------------------------------------------------------------------ */

/* Opens the device, runs both passes, leaves the results in the slots; problem_free it. */
struct problem *problem_solve(
    const struct backend *backend, const struct op_case *c, struct problem_config config);
void problem_free(struct problem *p);

void round_values(double *x, int64_t n, enum dtype to);

/* Sum of squared differences over sum of squares. */
double nmse(const double *a, const double *b, int64_t n);

#endif
