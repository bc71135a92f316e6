/*
 * shape.h - the shape of a run: what its memory and work depend on besides model and layout
 */
#ifndef MODEL_SHAPE_H
#define MODEL_SHAPE_H

#include "lib/base/dtype.h"
#include "lib/model/optim_rule.h"

#include <stdbool.h>
#include <stdint.h>

enum recompute_granularity { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };
enum recompute_method { RECOMPUTE_UNIFORM, RECOMPUTE_BLOCK };

/* Parts of a layer that the backward pass recomputes: attention (always), the outputs of norms,
 * the MLP from its norm on, the output of its activation alone, that of experts (always); and those
 * that only full recomputation computes again. */
enum recompute_module {
	RECOMPUTE_CORE_ATTN = 1,
	RECOMPUTE_LAYERNORM = 2,
	RECOMPUTE_MLP = 4,
	RECOMPUTE_ACTIVATION = 8,
	RECOMPUTE_MOE_ACT = 16,
	RECOMPUTE_MOE = 32,
	RECOMPUTE_SHARED_EXPERTS = 64
};

/* Which activations the backward pass recomputes. Full and uniform: every layer, in chunks of
 * num_layers; full and block: the first num_layers of a stage, one by one. */
struct recompute {
	enum recompute_granularity granularity;
	enum recompute_method method;
	int64_t num_layers;
	unsigned modules; /* of selective, enum recompute_module; 0: norms and activations */
};

/* The modules whose outputs are not kept. */
static inline unsigned
recompute_modules(const struct recompute *r)
{
	if (r->granularity == RECOMPUTE_NONE)
		return 0;
	return r->granularity == RECOMPUTE_SELECTIVE && r->modules
	    ? r->modules
	    : (unsigned)RECOMPUTE_LAYERNORM | RECOMPUTE_ACTIVATION;
}

/* What is sharded over data ranks: nothing, master weights and moments (ZeRO-1), main gradients too
 * (ZeRO-2), weights too (ZeRO-3). Source: Rajbhandari 2020, arXiv:1910.02054. */
enum sharding { SHARDING_NONE, SHARDING_OPTIM, SHARDING_GRADS, SHARDING_PARAMS };

/* How attention reads a sequence that context ranks share: each has all keys and values, or all
 * positions of some heads. */
enum context_form { CONTEXT_GATHER, CONTEXT_HEADS };

/* Whether the run's GPU has attention of our own for Hopper: it is not known, no, yes; or it was
 * asked for by name, for all that it takes. */
enum hopper_use { HOPPER_PERHAPS, HOPPER_NO, HOPPER_YES, HOPPER_NAMED };

/* The types of what the optimizer keeps, where a run chooses them: of the states of its rule, in
 * their order, and of main gradients. Without `chosen` all are real. */
struct optim_types {
	bool chosen;
	enum dtype state[OPTIM_STATES_MAX];
	enum dtype grads; /* not real only with SHARDING_GRADS or more */
	/* masters are the BF16 weights and 16 bits more (dtype_f32_from_parts) */
	bool low_bits;
};

/* 8-bit operands of the linears of layers: their formats, and how they are scaled (fp8.h). */
enum fp8_format { FP8_NONE, FP8_HYBRID, FP8_E4M3 };
enum fp8_recipe { FP8_DELAYED, FP8_TENSORWISE, FP8_BLOCKWISE };
struct fp8 {
	enum fp8_format format;
	enum fp8_recipe recipe;
	int64_t history_len; /* of delayed scaling, as margin and most_recent */
	int margin;
	bool most_recent;
	int64_t bf16_first, bf16_last; /* layers at the ends of the model without */
};

/* Which rows of an expert that has too many are dropped: those of the lowest weights, or the last.
 */
enum drop_policy { DROP_PROBS, DROP_POSITION };

/* The shape of a run, as far as memory depends on it. */
struct train_shape {
	int64_t seq_length, micro_batch_size, num_microbatches;
	enum dtype dtype; /* weights and activations */
	enum sharding sharding;
	const struct optim_rule *rule; /* the update rule whose states are kept; NULL: none */
	bool forward_only;             /* evaluation only: no gradients, no optimizer */
	struct recompute recompute;
	/* a sample may hold several documents, and attention stays within each */
	bool reset_attention_mask;
	bool tp_comm_overlap; /* tensor ranks communicate beside GEMMs, where they can */
	enum hopper_use hopper;
	bool deterministic;       /* bitwise repeatable even where that costs memory */
	bool hashed;              /* gradients or weights are compared by their hashes */
	int64_t bucket_size;      /* as in struct shards_of */
	bool grad_reduce_in_bf16; /* data ranks exchange gradients in BF16; sums stay real */
	enum context_form context_form;
	bool fp32_residual_connection; /* the residual stream is real */
	struct optim_types optim;
	struct fp8 fp8;
	bool qk_clip; /* the largest scores of attention are kept */
	/* the share of the own elements whose masters and states are in host memory, and which the
	 * host updates */
	double optimizer_offload;
	int64_t offloaded_layers; /* of a chunk, as activation_offload_plan takes them */
	bool averaged;            /* an average of the weights is kept in host memory */
	/* rows for which a rank that shares experts keeps room, over the mean; 0: for all that may
	 * arrive (capacity.h) */
	double expert_rank_capacity;
	/* rows of a rank that an expert takes, over the mean, and which are dropped where it has
	 * more; 0: all are taken */
	double expert_capacity;
	enum drop_policy drop_policy;
	bool random_logits; /* routers choose experts by random numbers */
	/* positions of a sample whose keys and values are kept from one pass to the next, of a run
	 * that generates text; 0: none */
	int64_t kept_positions;
	bool likeliest; /* a pass tells the likeliest token of each row too */
};

/* The type of statistics, moments and master weights: F64 for F64, else F32. */
static inline enum dtype
memory_compute(enum dtype act)
{
	return act == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* The type of a state of the update rule. */
static inline enum dtype
memory_state(const struct train_shape *s, int state)
{
	return s->optim.chosen ? s->optim.state[state] : memory_compute(s->dtype);
}

/* The type of the GEMMs that update matrices: 16-bit runs need the range of BF16 there. */
static inline enum dtype
memory_update(const struct train_shape *s)
{
	return s->dtype == memory_compute(s->dtype) ? s->dtype : DTYPE_BF16;
}

/* The type of main gradients that are kept apart from those of a pass. */
static inline enum dtype
memory_main_grads(const struct train_shape *s)
{
	return s->optim.chosen ? s->optim.grads : memory_compute(s->dtype);
}

/* The type of the residual stream: what lies between blocks, its gradient, and messages of either
 * between stages. */
static inline enum dtype
memory_residual(const struct train_shape *s)
{
	return s->fp32_residual_connection ? memory_compute(s->dtype) : s->dtype;
}

#endif
