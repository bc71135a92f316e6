/* route.h - the top-k experts, and the order of their rows */
#ifndef TRAIN_OP_ROUTE_H
#define TRAIN_OP_ROUTE_H

#include "train/op/call.h"

/*
 * The experts of R rows of logits: those of the k highest scores, of equal ones those of lower
 * number. A score is a logit, or with ROUTE_SIGMOID its sigmoid plus the bias of the expert. The
 * weights of the chosen, times `scale`: ROUTE_SOFTMAX, the softmax of their logits;
 * ROUTE_PRE_SOFTMAX, their part of the softmax of all E; ROUTE_SIGMOID, their sigmoids divided by
 * the sum of these, or as they are where k is 1. Row r belongs to balancing group r % S.
 *
 * With groups only the experts of the `group_topk` best groups are chosen. Group g has the experts
 * g E / groups to (g + 1) E / groups - 1, and its score is the sum of its `group_scores` highest
 * scores, which for ROUTE_PRE_SOFTMAX are parts of the softmax; of equal ones the lower number is
 * better.
 * Source: Shazeer 2017 arXiv:1701.06538; Wang 2024 arXiv:2408.15664; groups as in Megatron-LM
 * core/transformer/moe/moe_utils.py, group_limited_topk; docs/math.md 5.1.
 */
enum route_score { ROUTE_SOFTMAX, ROUTE_PRE_SOFTMAX, ROUTE_SIGMOID };
struct route {
	struct tensor logits; /* real [R,E] */
	struct tensor bias;   /* act [E]; or none */
	struct tensor topk;   /* I32 [R,k]: a row's experts in rising order */
	struct tensor weight; /* real [R,k] */
	/* I32 [R,k n], where n ranks share each expert: where the row for each of these is among
	 * all R k n, in the order of counts and then of rows */
	struct tensor permutation;
	/* I32 [p,E n / p]: rows for each of p ranks, for the experts of each. Rank i has its slice
	 * i % n of those of number i / n of p / n equal ranges. */
	struct tensor counts;
	/* I32 [S,E]: by balancing group the rows that choose each expert by their scores without
	 * the bias, of all groups */
	struct tensor load;
	enum route_score score;
	int64_t groups, group_topk, group_scores; /* 0: all experts are one */
	double scale;
	/* topk is read; all else follows from it, and with a bias or groups load from the logits */
	bool chosen;
};

/*
 * dlogits = the gradient through the weights, plus balance times that of the sum over rows of
 * n[i] P[i] with n = load[group of the row], a constant, plus z times that of the sum of lse^2. P
 * is the softmax of a row, or its sigmoids divided by their sum; lse = log sum exp of its logits.
 * n is without the bias, as P is: compute_routing_scores_for_aux_loss in Megatron-LM's
 * core/transformer/moe/moe_utils.py. With a total the one group's load is added to it, and n is
 * the total, divided by the number of loads that it holds: its sum over that of a load.
 * Source: Fedus 2021 arXiv:2101.03961; Zoph 2022 arXiv:2202.08906; Qiu 2025 arXiv:2501.11873;
 * docs/math.md 5.3.
 */
struct route_grad {
	struct route fwd;      /* as it was left, but load may be summed over ranks */
	struct tensor total;   /* F64 [E], of earlier loads; or none */
	struct tensor dweight; /* real [R,k] */
	struct tensor dlogits; /* real [R,E], written */
	/* real [E]: the rows of each are added, or written without accumulate; or none */
	struct tensor dbias;
	bool accumulate;
	double balance, z;
	struct tensor factor;   /* F64 [1]: multiplies both; or none */
	struct tensor received; /* I32 [sources,E_l], rows strided: as in struct grouped */
	int64_t round;          /* P */
	/* F64 [E + 5], added to: the rows of each expert; then over rows the sum of n[i] P[i],
	 * lse^2 and the entropy of P; then the rounds that have rows, or 1; last the most rows
	 * that have arrived, which is a maximum */
	struct tensor sums;
};

/*
 * Each expert keeps `capacity` of its rows at most: those of the highest weights, of equal ones the
 * first; or by_position the first of all. The places of a dropped row become -1, and the others
 * close up. Weights stay as they are.
 * Source: Lepikhin 2020 arXiv:2006.16668; docs/math.md 5.4.
 */
struct drop_rows {
	struct route route;  /* as it was left; with chosen, kept is read and all else follows */
	struct tensor taken; /* as route.counts: of the rows that are left */
	struct tensor kept;  /* real [R,k]: 1, or 0 for a row that is dropped */
	int64_t capacity;
	bool by_position;
	struct tensor choice; /* I32 [R,k]: topk, or -1 for a row that is dropped; or none */
};

/*
 * The order of the rows that chose experts [first, first + E), of whom others, and numbers below 0,
 * are none: places of -1.
 */
struct place_rows {
	struct tensor choice; /* I32 [R,k] */
	/* As in struct route, of E experts and the rows for these: I32 [R,k n] and [p,E n / p] */
	struct tensor permutation, counts;
	int64_t first;
};

/* Rows in another order: y[place[r, j]] = x[r] for each j, or y[r] = the sum of x[place[r, j]] in
 * the order of j, added to y[r] with accumulate. No place occurs twice, and one below 0 is none. */
enum permute_kind { ROWS_PERMUTE, ROWS_GATHER };
struct permute {
	enum permute_kind kind;
	struct tensor y, x;        /* act, or real; [R,h] and [P,h], or the other way round */
	struct tensor permutation; /* I32 [R,k] */
	bool accumulate;
};

/* An observer checks neither places nor counts. */
static inline void
describe_route(struct op_call *c, const struct route *r)
{
	op_reads(c, &r->logits);
	op_writes(c, "weight", &r->weight);
}

static inline void
describe_route_grad(struct op_call *c, const struct route_grad *r)
{
	op_reads(c, &r->fwd.logits);
	op_reads(c, &r->dweight);
	op_writes(c, "dlogits", &r->dlogits);
}

static inline void
describe_drop_rows(struct op_call *c, const struct drop_rows *d)
{
	op_reads(c, &d->route.topk);
	op_reads(c, &d->route.weight);
	op_writes(c, "permutation", &d->route.permutation);
}

static inline void
describe_place_rows(struct op_call *c, const struct place_rows *p)
{
	op_reads(c, &p->choice);
	op_writes(c, "permutation", &p->permutation);
}

static inline void
describe_permute(struct op_call *c, const struct permute *r)
{
	op_reads(c, &r->x);
	op_writes(c, "y", &r->y);
}

#endif

#ifdef OPERATION
OPERATION(route, route)
OPERATION(route_grad, route_grad)
OPERATION(drop_rows, drop_rows)
OPERATION(place_rows, place_rows)
OPERATION(permute, permute)
#endif
