/* experts.h - what experts compute with rounds of the rows that arrive */
#ifndef TRAIN_OP_EXPERTS_H
#define TRAIN_OP_EXPERTS_H

#include "train/op/act.h"

/*
 * Rows that a rank's E_l experts take come in one order: by expert, then by the rank they come
 * from, then as they were sent; expert i has as many as the sum of column i of counts I32
 * [sources,E_l], rows strided, which only the device knows. Tensors of P rows hold a round of the
 * order, rows [first, first + P): all of it, part of it or, after its end, none. Rows of the round
 * after the last of the order are neither read nor written.
 */
static inline int64_t
round_rows(const struct tensor *counts, int64_t first, int64_t height)
{
	int64_t rows = -first;

	for (int64_t i = 0; i < counts->shape[0]; i++)
		for (int64_t j = 0; j < counts->shape[1]; j++)
			rows += ((const int32_t *)counts->data)[i * counts->stride[0] + j];
	return rows < 0 ? 0 : rows < height ? rows : height;
}

/*
 * GEMMs of the experts with those of their rows that the round has. Experts' matrices lie one
 * above the other in one tensor.
 *   GROUPED_FORWARD  c [P,m] = a [P,n] b^T, b act [E_l m, n]
 *   GROUPED_INPUT    c [P,n] = a [P,m] b
 *   GROUPED_WEIGHT   c real [E_l m, n] = a^T b + beta c, a [P,m], b [P,n]; beta 0 or 1. An expert
 *                    without rows in the round gets beta c.
 * But for WEIGHT, a may also be E4M3 or E5M2 and b E4M3. INPUT then has b [n, E_l m], whose columns
 * are the experts' rows, so that both are dense along the sum, and its sums are exact as in struct
 * gemm. So are scales; of blocks they are lines of a and squares of b, none of which is of two
 * experts: m is a multiple of SCALE_BLOCK. m and n are multiples of 16.
 */
enum grouped_kind { GROUPED_FORWARD, GROUPED_INPUT, GROUPED_WEIGHT };
struct grouped {
	enum grouped_kind kind;
	struct tensor c, a, b, counts;
	int64_t first;
	double beta; /* 0 but for GROUPED_WEIGHT */
	struct tensor scale_a, scale_b;
};

/* Of the round: y [P,f] act = weight[r] act(x[r]), x [P,f or 2f] act, weight real [P,1]. */
struct expert_act {
	enum act_kind kind;
	struct tensor y, x, weight, counts;
	int64_t first;
	struct act_gate gate;
};

/*
 * With a = act(x[r]) in real: dweight[r] = the sum of dy[r] a in a fixed order, y[r] = weight[r] a,
 * dx[r] = act'(x[r]) weight[r] dy[r]. dx and x act [P,f or 2f], dy and y act [P,f], weight and
 * dweight real [P,1]. dx may be x itself; y is neither dy nor x.
 */
struct expert_act_grad {
	enum act_kind kind;
	struct tensor dx, dy, y, dweight, x, weight, counts;
	int64_t first;
	struct act_gate gate;
};

/* Of the round: y[r] += weight[r] bias of the row's expert, or without weight; y act [P,n], bias
 * act [E_l n], weight real [P,1]. */
struct expert_bias {
	struct tensor y, bias, weight, counts;
	int64_t first;
};

/*
 * dbias of each expert = the sum of weight[r] dy[r] over its rows in the round, or without weight,
 * plus beta dbias, beta 0 or 1; dweight[r] += the sum of dy[r] bias. Sums have a fixed order. dy
 * act [P,n], dbias real and bias act [E_l n], weight and dweight real [P,1], or both none, and bias
 * then too.
 */
struct expert_bias_grad {
	struct tensor dbias, dweight, dy, bias, weight, counts;
	int64_t first;
	double beta;
};

/* The host does not know how many rows there are: as if there were all. */
static inline void
describe_grouped(struct op_call *c, const struct grouped *g)
{
	bool weight = g->kind == GROUPED_WEIGHT;

	c->name = weight                 ? "grouped weight gradient"
	    : g->kind == GROUPED_FORWARD ? "grouped forward"
					 : "grouped input gradient";
	c->flops = 2 * (double)tensor_elements(&g->a) * (double)(weight ? g->b : g->c).shape[1];
	op_reads(c, &g->a);
	op_reads(c, &g->b);
	op_writes(c, "c", &g->c);
	if (!weight)
		op_round(c, &g->counts, g->first);
}

static inline void
describe_expert_act(struct op_call *c, const struct expert_act *a)
{
	op_reads(c, &a->x);
	op_reads(c, &a->weight);
	op_writes(c, "y", &a->y);
	op_round(c, &a->counts, a->first);
}

static inline void
describe_expert_act_grad(struct op_call *c, const struct expert_act_grad *a)
{
	op_reads(c, &a->dy);
	op_reads(c, &a->x);
	op_reads(c, &a->weight);
	op_writes(c, "dx", &a->dx);
	op_writes(c, "y", &a->y);
	op_writes(c, "dweight", &a->dweight);
	op_round(c, &a->counts, a->first);
}

/* Shapes and types; real is that of sums. */
static inline void
expert_bias_check(const struct expert_bias *b, enum dtype real)
{
	ops_require(b->y.ndim == 2 && b->counts.dtype == DTYPE_I32 && b->counts.ndim == 2);
	ops_require(b->bias.ndim == 1 && b->bias.shape[0] == b->counts.shape[1] * b->y.shape[1]);
	ops_require(!b->weight.data ||
	    (b->weight.dtype == real && b->weight.ndim == 2 &&
		b->weight.shape[0] == b->y.shape[0] && b->weight.shape[1] == 1));
}

static inline void
expert_bias_grad_check(const struct expert_bias_grad *g, enum dtype real)
{
	const struct expert_bias fwd = { g->dy, g->dbias, g->weight, g->counts, g->first },
				 rows = { g->dy, g->dbias, g->dweight, g->counts, g->first };

	expert_bias_check(&fwd, real);
	expert_bias_check(&rows, real);
	ops_require(g->dbias.dtype == real && (g->beta == 0 || g->beta == 1));
	ops_require(!g->dweight.data == !g->bias.data && !g->dweight.data == !g->weight.data);
	ops_require(!g->bias.data || (g->bias.ndim == 1 && g->bias.shape[0] == g->dbias.shape[0]));
}

static inline void
describe_expert_bias(struct op_call *c, const struct expert_bias *b)
{
	op_reads(c, &b->y);
	op_reads(c, &b->weight);
	op_reads(c, &b->bias);
	op_writes(c, "y", &b->y);
	op_round(c, &b->counts, b->first);
}

static inline void
describe_expert_bias_grad(struct op_call *c, const struct expert_bias_grad *b)
{
	op_reads(c, &b->dy);
	op_reads(c, &b->weight);
	op_reads(c, &b->bias);
	op_writes(c, "dbias", &b->dbias);
	if (b->dweight.data)
		op_reads(c, &b->dweight);
}

#endif

#ifdef OPERATION
OPERATION(grouped, grouped)
OPERATION(expert_bias, expert_bias)
OPERATION(expert_bias_grad, expert_bias_grad)
OPERATION(expert_act, expert_act)
OPERATION(expert_act_grad, expert_act_grad)
#endif
