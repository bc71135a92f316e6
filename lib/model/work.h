/*
 * work.h - what blocks do with a micro batch: GEMMs, attention, memory traffic, collectives
 *
 * Each kind of block lists its own operations (block/), of one tensor rank; mplan prices them, and
 * they add up to the model FLOPs of a step.
 */
#ifndef MODEL_WORK_H
#define MODEL_WORK_H

#include "lib/model/block/block.h"

enum { WORK_GEMMS = 5 };

/* y [rows, out] = x [rows, in] W^T forward; the gradients of x and W backward. 2 rows out in flops
 * each. */
struct gemm_shape {
	int64_t rows, out, in;
	/* its rows come in so many equal parts, each a GEMM of its own; grouped: each with a weight
	 * of its own, in one kernel. 0 as 1 */
	int64_t count;
	bool grouped;
	unsigned recompute; /* enum recompute_module: under these the backward pass repeats it */
	bool repeated;      /* it does so in any case */
	/* the gradient of W reads 16 bits also where the others read 8 (lib/model/fp8.h) */
	bool gradient_in_16;
};

/* What kernels bound by memory do in a pass. */
struct work_bytes {
	double act;    /* elements read and written, in the run's type */
	double stream; /* and in that of the residual stream */
	int kernels;
};

/* Of a forward and a backward pass unless stated otherwise. */
struct work {
	struct gemm_shape gemm[WORK_GEMMS];
	int num_gemms;
	double attention; /* flops of scores and weighted sums, forward alone, below the diagonal */
	/* flops of states that pass along a sequence, forward alone; of twice as many backward,
	 * those that make the states again do not count */
	double recurrence;
	struct work_bytes forward, backward;
	int reductions; /* all-reduces of [T,h] over the tensor ranks */
	/* the first GEMM is column parallel and the last row parallel: --tp-comm-overlap lets
	 * collectives run beside them */
	bool overlap;
	int scatters;  /* with sequence parallelism in their place: gathers and scatters of it */
	double sent;   /* elements to other context ranks */
	int exchanges; /* in which these go */
	/* elements of rows to the ranks of their experts and back, where ranks share these, in each
	 * of so many exchanges */
	double routed;
	int routings;
};

/* The work of a block of this kind on one micro batch and one tensor rank. */
void work_of(struct work *w, const struct block_kind *kind, const struct model_config *c,
    const struct layout *l, const struct train_shape *s);
/* Of a forward and a backward pass. */
double work_flops(const struct work *w);
/* For the kinds: one more GEMM; the norm and the multiplier of a branch, where the model has
 * them. */
void work_gemm(struct work *w, int64_t rows, int64_t out, int64_t in);
void work_branch(struct work *w, const struct sizes *z);
/* For the kinds: an activation with so many outputs. */
void work_activation(struct work *w, const struct sizes *z, double outputs);
/* For the kinds: the norm of an input together with the residual sum before it. */
void work_norm(struct work *w, const struct sizes *z);

/*
 * model_flops - FLOPs of a step over `samples` sequences of seq_length tokens, as Megatron-LM
 * counts them now
 *
 * Forward, gradient of the input and of the weight (factor 3), causal attention counted half,
 * recomputation not counted; padded_vocab as layout_vocab gives it, because the padding is
 * multiplied too. Norms, activations and the embedding look-up do not count, so the figure does not
 * depend on the implementation. Source: docs/math.md 7.1; Megatron-LM training.py
 * num_floating_point_operations; Narayanan et al. 2021, arXiv:2104.04473, appendix, with the causal
 * half.
 */
double model_flops(
    const struct model_config *c, int64_t samples, int64_t seq_length, int64_t padded_vocab);

#endif
