/*
 * engine.h - one rank of a run: its place, its memory, its share of the model
 *
 * The engine is ordinary C over three tables: the backend, the operations, the communicators. It is
 * the same code on a CPU and a GPU. Everything it allocates is in engine_open; the step loop
 * allocates nothing on the device.
 */
#ifndef TRAIN_ENGINE_ENGINE_H
#define TRAIN_ENGINE_ENGINE_H

#include "lib/model/pass_items.h"
#include "lib/model/options.h"
#include "train/engine/groups.h"
#include "train/ops.h"

/* Slots of the scalars buffer, F64. */
enum scalar {
	SCALAR_LOSS,
	SCALAR_ZLOSS,
	SCALAR_NORM,
	SCALAR_ZEROS,
	SCALAR_PARAMS,
	SCALAR_NONFINITE,
	SCALAR_MATRIX,  /* the squared norm of the matrix that is being updated */
	SCALAR_ROUTERS, /* what multiplies the losses of routers */
	SCALAR_LATER,   /* the losses of later tokens, of each layer that predicts them */
	SCALAR_COUNT = SCALAR_LATER + MODEL_MTP_MAX
};

struct layer;
struct host;
struct ema;
struct offload;
struct activation_offload;

/* What tensor ranks communicate beside GEMMs, context ranks beside GEMMs and attention, or hosts
 * that share experts beside these. */
struct overlap {
	struct stream *stream; /* NULL: they communicate between them, on the compute stream */
	/* the data to be sent is complete on the compute stream; the requested data has arrived */
	struct event *ready, *gathered, *summed;
	/* for each tensor rank, or turn of a host: its rows have arrived; this rank's part of their
	 * sum is complete */
	struct event **arrived, **made;
	/* the own rows of what row_backward_begin gathers; NULL: nothing */
	const void *coming;
};

struct engine {
	struct run_plan plan;
	uint64_t seed;
	double z_loss;
	int rank, coord[AX_COUNT];
	bool first_stage, last_stage;
	struct position_range
	    position_range[POSITION_RANGES]; /* of a sample: the positions that this rank holds */
	int num_ranges;
	const struct backend *backend;
	struct device *device;
	struct stream *stream;
	const struct ops *ops;
	struct groups groups;
	struct memory_plan mem;
	char *arena[ARENA_COUNT];
	struct param *table;
	int num_params;
	/* [layer + 1][number of the parameter] -> index into mem.shards, of an expert's the rank's
	 * first; -1: none */
	int (*shard_of)[BLOCK_NUMBERS];
	struct layer *layer;                    /* of each block of mem */
	struct pass_items (*items)[PASS_KINDS]; /* of each chunk */
	double token_scale; /* of a token's loss in the backward pass; 1 unless fp16 */
	/* a save that still reads weights, masters or moments and must end before they change; or
	 * NULL */
	struct event *held;
	struct dp_comm *dp_comm;     /* of the data ranks */
	struct stage_p2p *stage_p2p; /* of the pipeline stages */
	struct overlap overlap, context, experts;
	struct comm_block *blocks; /* room for an exchange of the context ranks */
	struct timing *timing;
	/* this rank in evaluations: itself, or with another micro batch size */
	struct engine *evaluator;
	/* this rank in evaluations of tasks (evaluation.h); NULL: there are none */
	struct engine *tasks;
	/* this rank in passes over one position of each sample; NULL: no keys are kept */
	struct engine *decoder;
	struct hashes *hashes;  /* NULL: no comparisons */
	struct fp8_copies *fp8; /* NULL: linears read 16 bits */
	struct stream
	    *host_stream;        /* of the host's processors, for its jobs; NULL: there are none */
	struct host *host;       /* NULL: it computes nothing */
	struct offload *offload; /* NULL: the device updates all */
	struct ema *ema;         /* NULL: no average of the weights is kept */
	struct activation_offload
	    *activation_offload; /* NULL: saved activations stay on the device */
};

/* Initialises this rank's own masters, or its own weights without masters, from the counter RNG:
 * element i of tensor X is a function of only (seed, X, i). optim_to_weights derives all weights
 * from them. */
void engine_init_weights(struct engine *e);

/* A buffer of the params or scratch arena, which exists once. */
struct tensor engine_buffer(const struct engine *e, int b);
/* A table of rotary angles, which exists once. */
struct tensor engine_rope_table(const struct engine *e, enum rope_table which);
/* This rank's part of a weight or its main gradient: 2-D for matrices, 1-D for vectors; data NULL
 * when this rank has none. A tensor with others joined after it can be viewed with them as one
 * matrix from `number` on. layer as in struct param. */
struct tensor engine_weight(const struct engine *e, int layer, int number);
struct tensor engine_grad(const struct engine *e, int layer, int number);
struct tensor engine_joined(const struct engine *e, bool grad, int layer, int first, int last);
/* The same parameters of all experts of the rank, which lie next to each other. */
struct tensor engine_experts(const struct engine *e, bool grad, int layer, int first, int last);
/* The part of a bucket, and of a shard, that this rank's optimizer owns. */
struct part engine_optim_part(const struct engine *e, int bucket);
struct part engine_optim_part_of(const struct engine *e, const struct shard *s);
/* The part of a bucket whose weights and gradients the rank holds where they are sharded: with
 * instances that share the optimizer's state more than its own. */
struct part engine_shard(const struct engine *e, int bucket);
/* An own part of the flat order, in a buffer that holds all elements or only the own ones; without
 * data where the rank has no such buffer. Masters, low bits and states of a part that the host
 * updates lie there. */
struct tensor engine_part(const struct engine *e, int b, const struct part *p);
/* An own part of what an update changes: of the master weights, or of the weights without
 * masters. */
struct tensor engine_masters(const struct engine *e, const struct part *p);
/* An own part of the weights that an update writes: the device's, or the host's copy of them. */
struct tensor engine_updated(const struct engine *e, const struct part *p);
/* Whether the host updates the part, which lies in one bucket; and the stream that may use it. */
bool engine_updated_on_host(const struct engine *e, const struct part *p);
struct stream *engine_stream(const struct engine *e, const struct part *p);
/* Whether the update rule keeps state i of the elements of a bucket. */
bool engine_keeps(const struct engine *e, int bucket, int i);
/* Whether data ranks share gradients (SHARDING_GRADS) or weights (SHARDING_PARAMS), so that this
 * rank holds all of a few buckets of layers at a time, in slots; false with one data rank. */
bool engine_shards(const struct engine *e, enum sharding what);
/* A whole bucket, as the layers use it. */
struct tensor engine_bucket(const struct engine *e, bool grad, int bucket);
/* Zeros in a buffer of the run, on the device and on the host; nothing where the rank has none. */
void engine_clear(struct engine *e, int b);
/* Host <-> scalars. The factor of router losses, which is no sum, becomes 1. */
void engine_zero_scalars(struct engine *e);
/* Of the passes until the next engine_zero_scalars. */
void engine_weigh_routers(struct engine *e, double factor);
void engine_read_scalars(struct engine *e, double out[SCALAR_COUNT]);
/* Waits for the device; a device error ends the program. */
void engine_sync(const struct engine *e);

/* --- one micro batch -------------------------------------------------------------------------- */

/* The context of one pass of one micro batch. */
struct step {
	struct engine *e;
	int microbatch;                      /* its number in the step on this data rank */
	int chunk;                           /* of the stage's layers */
	int slot, tail, batch, stage_output; /* of the schedule */
	bool training;                       /* dropout on, gradients wanted */
	bool recomputes; /* a part of the pass that was run before: what was chosen counts */
	/* main gradients already have earlier micro batches of the step: add to them */
	bool accumulate;
	bool last;            /* the last backward pass of the step */
	uint32_t iteration;   /* key of the dropout masks */
	int64_t first_sample; /* the micro batch's first sample in the run */
	/* positions of each sample before those of the pass, whose keys and values are kept */
	int64_t kept;
	/* host [T - first_logits, v/t] in the run's dtype, of the last rows and this rank's columns
	 * before softcapping, on the last stage, and then there is no loss; or NULL */
	void *logits;
	int64_t first_logits;
	/* host, on the last stage: loss real [T], then mask F32 [T], then of a plan that tells the
	 * likeliest tokens the largest logit of this rank's columns, real [T], and its token, I32
	 * [T]; or NULL */
	void *losses;
};

/* Host arrays of one micro batch, [T] each, sequence-major. */
struct batch {
	int32_t *tokens, *labels, *positions;
	float *loss_mask;
	/* position of the first token of the row's document, of run_document_rows; NULL without
	 * reset_attention_mask */
	int32_t *documents;
	/* [mtp_num_layers T], of training: the labels one token on, two tokens on, and so forth,
	 * and their masks; or NULL */
	int32_t *later_labels;
	float *later_mask;
	/* the same of positions: those of the tokens whose embeddings these layers read */
	int32_t *later_positions;
};

/* A buffer of the step; layer counts from the chunk's first and is 0 for buffers not per layer. */
struct tensor step_buffer(const struct step *s, int b, int64_t layer);

#endif
