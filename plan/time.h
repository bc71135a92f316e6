/*
 * time.h - how long a training step takes, from the operations of its blocks
 *
 * The figures are those of the rank that all others wait for. Source: docs/planning.md 2.
 *
 * What may be called how often: time_blocks takes some ten microseconds and depends on tensor,
 * context and expert ranks, the micro batch, FP8 and what is recomputed inside a layer, not on the
 * stages, chunks, data ranks or sharding: call it once for all plans that share these, and
 * time_bound, which takes about a microsecond a layer, for each plan. time_step_of simulates the
 * stages, which takes up to two milliseconds. All results can be copied;
 * nothing has to be released.
 */
#ifndef PLAN_TIME_H
#define PLAN_TIME_H

#include "lib/model/passes.h"
#include "plan/price.h"
#include "plan/simulate.h"

/* Seconds; total is the sum of bubble and of all parts, and of the other sums. */
struct step_time {
	double total;
	double compute; /* GEMMs and attention */
	double memory;  /* memory-bound kernels, including the optimizer */
	double tp;      /* collectives of the tensor ranks */
	double cp;      /* exchanges of the context ranks */
	double ep;      /* of the ranks that share experts */
	double bubble;  /* waiting for other stages */
	double dp;      /* collectives of the data ranks that are not hidden */
	/* exchanges between stages, copies to and from the host, host work, stragglers */
	double other;
	double part[OPERATION_CLASSES]; /* by class of operation */
};

/* What the blocks of a micro batch cost, by kind, and whether their linears read 8-bit operands. */
struct block_costs {
	struct block_price kind[BLOCK_COUNT][2];
};

void time_blocks(const struct run_case *r, struct block_costs *out);
/* time_step with the costs of its blocks. */
void time_step_of(const struct run_case *r, const struct block_costs *costs, struct step_time *out);
void time_step(const struct run_case *r, struct step_time *out);
/* Seconds of the passes of each virtual stage, and of a message of each stage to the next; whether
 * it lands (plan/simulate.h). */
struct pipeline_costs {
	struct pass_cost pass[SPLIT_MAX];
	double message[SPLIT_MAX];
	bool lands[SPLIT_MAX];
};
void time_pipeline(
    const struct run_case *r, const struct block_costs *costs, struct pipeline_costs *out);
/* Seconds of a step that are no more than those of time_step_of, without a simulation of its
 * stages. */
double time_bound(const struct run_case *r, const struct block_costs *costs);
/* Seconds of all blocks of the model on a micro batch without recomputation: of stages together. */
double time_model(const struct run_case *r, const struct block_costs *costs);

#endif
