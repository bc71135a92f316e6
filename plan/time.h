/*
 * time.h - how long a training step takes: a simple model of GEMMs, memory traffic, collectives and
 * the pipeline
 *
 * The figures are those of the rank that all others wait for. They rank layouts; they do not
 * predict exact seconds. Source: docs/planning.md 2.
 */
#ifndef PLAN_TIME_H
#define PLAN_TIME_H

#include "lib/model/memory.h"
#include "lib/model/hardware.h"

struct run_case {
	const struct model_config *model;
	const struct layout *layout;
	const struct train_shape *shape;
	const struct hardware *hw;
	struct memory_stages *stages; /* of the layout; only for time_step */
	/* of the flat parameter buffer, and the optimizer's share of it, on the largest stage */
	int64_t elements, optim_elements;
	bool fp8; /* GEMMs read 8-bit operands: those of a layer whose linears do */
};

/* Seconds; total is the sum of the others. */
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
};

/* C[m, n] = A[m, k] B[k, n] in seconds, kernel start included. accumulate: C is F32 and added
 * to. */
double time_gemm(const struct run_case *r, int64_t m, int64_t n, int64_t k, bool accumulate);
/* All-reduce of `bytes` over `size` ranks that stand `stride` apart, in seconds. */
double time_all_reduce(const struct run_case *r, int64_t size, int64_t stride, double bytes);
void time_step(const struct run_case *r, struct step_time *out);

/* What the blocks of a micro batch cost: of a layout's tensor, context and expert ranks, a micro
 * batch and what is recomputed in a layer, for any number of stages and data ranks. */
struct block_costs {
	/* on one micro batch, forward and backward */
	struct stage_cost {
		double compute, memory, tp, cp, ep;
		double again;   /* of tp, when the forward pass is recomputed */
		double host;    /* copies of saved activations that nothing hides */
	} kind[BLOCK_COUNT][2]; /* by kind, and whether its linears read 8-bit operands */
};
void time_blocks(const struct run_case *r, struct block_costs *out);
/* time_step with the costs of its blocks. */
void time_step_of(const struct run_case *r, const struct block_costs *costs, struct step_time *out);
/* Seconds of all blocks of the model on a micro batch without recomputation: of stages together. */
double time_model(const struct run_case *r, const struct block_costs *costs);

#endif
