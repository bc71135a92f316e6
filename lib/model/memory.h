/*
 * memory.h - the memory plan: every buffer of a rank, by name, with its size
 *
 * mtrain takes three arenas on the device, and one on the host, and places the buffers in them at
 * the offsets given here; mplan and --dry-run print the same figures, because they call the same
 * function.
 *
 *   params    for the run: weights, main gradients, optimizer state, constants
 *   saved     one slot per chunk and micro batch in flight: what its forward pass leaves for the
 *             backward pass; tails, which hold the last layers of chunks that have more than
 *             slots have room for; and the tokens of the micro batches. In a layer, what kinds of
 *             block hold that no layer has together shares the same bytes
 *   scratch   one step of one layer; buffers whose phases do not meet share the same bytes
 *   host      for the run, in host memory: what the host updates, and a ring of two slots through
 *             which pieces of the device's arrays pass; and of each slot what leaves the device
 *             between the passes (activation_offload.h)
 *
 * Each block describes its buffers (block/); rank_buffers.c describes those of the rank.
 *
 * Recomputation trades saved bytes for time. Selective: outputs of the norms and of the activation
 * are recomputed from their inputs, so one of each lies in scratch. Full: the first layers of a
 * stage save only inputs, one per chunk of layers; all chunks share a place in scratch, where the
 * backward pass recomputes the layers of one chunk at a time.
 */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "lib/model/block/block.h"
#include "lib/model/bucket.h"
#include "lib/model/place.h"
#include "lib/model/schedule.h"
#include "lib/model/activation_offload.h"

enum arena { ARENA_PARAMS, ARENA_SAVED, ARENA_SCRATCH, ARENA_HOST, ARENA_COUNT };

/* What a buffer exists for: the rank, or each slot, micro batch or stage output of its schedule. */
enum memory_per { ONCE, PER_SLOT, PER_BATCH, PER_STAGE_OUTPUT };

/* A buffer that the rank has. */
struct buffer {
	const char *name; /* static; of a state of the update rule the rule's name for it */
	int number;       /* of the rank or of a block (block/buffers.h) */
	enum level level; /* scratch for what the rows of a layer state and is recomputed */
	enum arena place;
	enum dtype dtype;
	int64_t shape[2]; /* as the row says; [n] has 1 column */
	bool vector;      /* [n]; a matrix may have 1 column too */
	uint64_t bytes;   /* of one instance */
	uint64_t alive;   /* as in struct placed */
	/* in the arena; of layer buffers in the layer, of those with copies in the first one */
	uint64_t offset;
	/* of copies: their number, where they begin in the arena, and the distance between them */
	enum memory_per per;
	int copies;
	uint64_t base, stride;
};

struct memory_plan {
	struct block *block; /* of the stage, block/block.h; owned */
	int num_blocks;
	struct block_range *chunk; /* the blocks of each chunk; owned */
	struct shards shards;      /* owned, unless they are those of a struct memory_stages */
	bool shared;
	/* the optimizer owns the rank's part of each bucket, or all; the elements of the largest
	 * owner, and of those the ones in buckets of layers */
	bool sharded;
	int64_t optim_elements, optim_matrices;
	int64_t shard_elements; /* of the largest shards, where something is sharded; or of all */
	/* of them, in their order, those that the device updates; the host updates the rest */
	int64_t optim_device;
	/* the rule whose states BUF_STATE and later buffers hold, or NULL */
	const struct optim_rule *rule;
	int64_t num_layers; /* of the largest chunk of the stage */
	/* for which a slot has room; a chunk of more also has a tail, which has room for the rest
	 * of the largest */
	int slot_layers;
	struct schedule_use use; /* what the stage holds at the same time */
	/* those that the rank has, in the order of statement; owned. By number, the place of each
	 * in this array from 1 on; 0: there is none */
	struct buffer *buffer;
	int num_buffers;
	short at[BLOCK_NUMBERS];
	/* the bytes of a saved slot and of a tail; of one layer in them; of a micro batch outside
	 */
	uint64_t slot_bytes, tail_bytes, layer_bytes, kept_bytes, batch_bytes;
	/* A slot holds what the heads have, then the layers after the first of them, then what
	 * every layer keeps, then the inputs of recomputed chunks, then the layers that keep
	 * everything; a tail what follows in a larger one. */
	int64_t later; /* layers after the head, which keep everything */
	uint64_t head_bytes, later_bytes, later_base, kept_base, inputs_base, layer_base;
	uint64_t tail_base, batch_base; /* of the first tail and micro batch, in the saved arena */
	/* layers [0, recompute_layers) of the stage are recomputed, recompute_chunk at a time */
	int64_t recompute_layers, recompute_chunk;
	/* what each such chunk saves: the input of its first block, that of one of these kinds,
	 * which have the same size */
	int recompute_input;
	unsigned recompute_kinds;
	int64_t recompute_inputs; /* their number, */
	uint64_t input_bytes;     /* and the bytes of one */
	uint64_t recompute_base;  /* where the layers of a chunk lie in scratch */
	struct activation_offload_plan activation_offload;
	/* of the units that leave, those that are inputs of recomputed layers, and layers */
	int64_t offload_inputs, offload_layers;
	/* where its places begin in the saved arena, and the bytes of one; the same of the slots in
	 * the host's, which hold those inputs first */
	uint64_t offload_base, offload_bytes, offload_host, offload_host_bytes;
	uint64_t arena[ARENA_COUNT]; /* the sizes that are allocated */
};

/* A place in the arenas. */
struct memory_place {
	enum arena arena;
	uint64_t offset;
};

/* The buffer of a number; one of 0 bytes without a name where the rank has none. */
const struct buffer *memory_buffer(const struct memory_plan *m, int number);
/* The plan of the rank at coord; released by memory_release. The layout must be legal. */
void memory_plan(struct memory_plan *m, const struct model_config *c, const struct layout *l,
    const struct train_shape *s, const int coord[AX_COUNT]);
void memory_release(struct memory_plan *m);

/* What a rank of each stage holds of the parameters: the part of a plan that is most work, and
 * depends on nothing of a shape but the bucket size and the update rule. */
struct memory_stages {
	const struct model_config *model;
	const struct layout *layout;
	struct param *table; /* model_params */
	int num_params;
	bool borrowed; /* the table belongs to others */
	struct memory_stage {
		struct shards shards;
		/* of matrices of layers, as in struct rank_share */
		int64_t matrix, updates, gram;
	} * stage;                      /* [pipeline_model_parallel_size] */
	struct schedule_counts counts;  /* of the shapes that were planned */
	struct schedule_counts *shared; /* in their place those of others; NULL: none */
	/* plans of its stages have sizes, but no offsets in the arenas; NULL: they have both */
	struct place_sizes *sizes;
};
/* Model and layout must outlive the stages. */
void memory_stages_init(struct memory_stages *x, const struct model_config *c,
    const struct layout *l, const struct train_shape *s);
/* The same with the model's parameters, counts and sizes of others, which must outlive the stages
 * too; plans of the stages have buckets, but no shards. */
void memory_stages_like(struct memory_stages *x, const struct memory_stages *others,
    const struct layout *l, const struct train_shape *s);
void memory_stages_release(struct memory_stages *x);
/* The plan of the first rank of a stage, without new shards: x must outlive it. The shape has the
 * bucket size and the update rule that x was made for. */
void memory_plan_stage(
    struct memory_plan *m, struct memory_stages *x, const struct train_shape *s, int stage);
/* The part of a bucket that the rank's optimizer owns. */
struct part memory_optim_part(const struct memory_plan *m, int bucket);
/* Elements of a slot of the ring to the host. */
int64_t memory_staging_slot(const struct memory_plan *m);
/* The bytes of the device's arenas. */
uint64_t memory_total(const struct memory_plan *m);
/* The numbers of an action (schedule.h). */
struct memory_copy {
	int slot, tail, batch, stage_output;
};
/* The place of buffer b, which must exist, of one action; layer counts from the chunk's first and
 * is 0 for buffers not per layer. */
struct memory_place memory_at(
    const struct memory_plan *m, int b, const struct memory_copy *copy, int64_t layer);
/* The shape of the list of actions that the plan has room for. The layout, which the plan was made
 * for, must outlive it. */
struct schedule_shape memory_schedule(
    const struct memory_plan *m, const struct layout *l, int num_microbatches, bool training);
/* A unit that leaves its slot: where it is computed, in the saved arena, and where it lies on the
 * host if it is copied there. */
struct memory_offloaded {
	uint64_t device, host, bytes;
};
struct memory_offloaded memory_offloaded(const struct memory_plan *m, int slot, int number);
/* The size of a buffer of n bytes with the gap after it. */
uint64_t memory_aligned(uint64_t n);
/* The bytes of a layer after the head in a slot. */
uint64_t memory_later_bytes(const struct memory_plan *m);
/* The buffer of what the host updates, for one of what the device does; else b. */
int memory_host_copy(int b);
/* Whether the rank has the buffer, on the device or on the host. */
bool memory_has(const struct memory_plan *m, int b);
/* A stretch of the own part of a bucket that fits a slot of the ring. */
struct bucket_chunk {
	int bucket;
	struct part part;
};
/* Goes on to the next of all of them, in the flat order; all 0 begins. False after the last. */
bool memory_bucket_chunk(const struct memory_plan *m, struct bucket_chunk *p);
/* The number of instances of a buffer in its arena, over all layers and slots. */
int64_t memory_instances(const struct memory_plan *m, int b, enum arena where);

#endif
