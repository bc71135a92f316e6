/*
 * operations.h - what a rank does in a step, operation by operation
 *
 * One list, made from the rows by which the engine runs: the work that blocks state (work.h), their
 * linears that read 8 bits, what a layout shares over which ranks, and the buffers of the memory
 * plan. mplan prices it (plan/price.h). The list of a kind of block is
 * that of one block and one micro batch; it depends on the tensor, context and expert ranks, the
 * micro batch and what a layer recomputes, and neither on stages nor on data ranks. Nothing is
 * allocated.
 */
#ifndef MODEL_OPERATIONS_H
#define MODEL_OPERATIONS_H

#include "lib/model/memory.h"
#include "lib/model/work.h"

enum operation_class {
	OPERATION_PRODUCT,
	OPERATION_ATTENTION,
	OPERATION_MEMORY, /* kernels bound by memory */
	OPERATION_TENSOR, /* exchanges of tensor ranks, and of those below */
	OPERATION_CONTEXT,
	OPERATION_EXPERTS,
	OPERATION_DATA,
	OPERATION_STAGES,
	OPERATION_HOST, /* copies to and from the host, and what it computes */
	OPERATION_UPDATE,
	OPERATION_CLASSES
};

/* AGAIN: a part of a layer that is computed again in the backward pass. */
enum operation_pass {
	OPERATION_FORWARD,
	OPERATION_AGAIN,
	OPERATION_BACKWARD,
	OPERATION_STEP,
	OPERATION_PASSES
};

struct operation {
	const char *name; /* static */
	enum operation_class class;
	enum operation_pass pass;
	/* of a product: C[m,n] = A[m,k] B[k,n], count times, in one kernel if grouped; C is F32
	 * and added to if it accumulates; A and B have this type, with scales of blocks if blocks.
	 * Of what belongs to no block, how many times a step has it */
	int64_t m, n, k, count;
	enum dtype type;
	bool accumulate, grouped, blocks;
	double flops; /* of products and attention */
	/* through the device's memory; of an exchange, of the array that a direction of a ring
	 * takes to all of the ranks */
	double bytes;
	int kernels; /* that the host starts */
	/* of the ranks of an exchange: AX_BIT; 0: those that share experts; or the bit below */
	unsigned axes;
	bool sums;   /* of an exchange: adds up the arrays of its ranks */
	bool back;   /* of a message: to the stage before */
	bool routed; /* of rows whose number on a rank the routers decide */
	bool ends;   /* is not computed again in the last of the blocks that are */
	/* of the head's gradients: they are computed in the forward pass, while there are logits;
	 * other programs compute them in the backward pass */
	bool early;
	double keys; /* of attention: that a query sees in the mean; bytes are its scores then */
	bool states; /* of attention: linear, by states in place of keys */
	/* the operations of this list that run beside an exchange, and which share of each;
	 * OPERATION_ROOM: others have room for all of it */
	struct {
		int operation;
		double share;
	} beside[2];
	int num_beside;
};

enum { OPERATIONS_MAX = 64, OPERATION_ROOM = -1, OPERATION_EXPERT_DATA = 1 << AX_COUNT };

struct operation_list {
	struct operation item[OPERATIONS_MAX];
	int count;
};

/* Of one block of this kind, whose linears read 8 bits or not. */
void operations_of_block(struct operation_list *out, const struct block_kind *kind, bool eight,
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

/* What a step needs to know of a rank: elements of its flat buffer, of these those of experts that
 * ranks share, and those that it owns. Of those of experts, [1], and of the others, [0], how many
 * are gathered once where weights are sharded, when they have been updated, and how many in a step
 * by its passes. Stretches of gradients that tensor ranks sum, since each computes a part of them,
 * and the elements of these that it owns. Of the update the FLOPs of a Newton-Schulz iteration and
 * the share of the model's parameters that are matrices of layers. */
struct operation_owned {
	int64_t elements, of_experts, own;
	int64_t summed;
	double in_sums;
	int64_t after_update[2], in_passes[2];
	double iteration_flops, matrices;
};
/* Of a stage of x, of whose optimizer are `own`. */
struct operation_owned operation_owned(
    struct memory_stages *x, const struct train_shape *s, int stage, int64_t own);
/* The first stage that has so many elements. */
int operation_stage(const struct memory_stages *x, int64_t elements);
/* Sets iteration_flops and matrices, from the parameters of x alone, for any layout. */
void operation_count_matrices(struct operation_owned *o, const struct memory_stages *x,
    const struct layout *l, const struct train_shape *s);

/* Of a step apart from its passes: gradients, weights, table, messages between stages (of a chunk
 * and micro batch), update. */
void operations_of_step(struct operation_list *out, const struct operation_owned *owned,
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

#endif
