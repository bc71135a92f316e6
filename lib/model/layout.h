/*
 * layout.h - rank <-> coordinates, groups, and the part of the model on a rank
 *
 * Order "tp-cp-dp-pp", leftmost fastest: rank = tp + t (cp + c (dp + D pp)); or "tp-cp-pp-dp".
 * Source: docs/parallelism.md 1; Megatron-LM core/parallel_state.py.
 */
#ifndef MODEL_LAYOUT_H
#define MODEL_LAYOUT_H

#include "lib/base/opt.h"
#include "lib/model/config.h"
#include "lib/model/schedule.h"

enum axis { AX_TP, AX_CP, AX_DP, AX_PP, AX_COUNT };
#define AX_BIT(a) (1u << (a))
enum { POSITION_RANGES = 2 }; /* the maximum of a rank in a sample */

/* The optimizer's state of each instance: all that its shards need, or a part of it, of which
 * others have the rest. */
enum outer_sharding { OUTER_NO_SHARD, OUTER_OPTIM };

enum { SPLIT_MAX = 512 }; /* virtual stages, at most */

struct layout {
	int64_t tensor_model_parallel_size, context_parallel_size, data_parallel_size,
	    pipeline_model_parallel_size;
	bool sequence_parallel;    /* between blocks each tensor rank holds different rows */
	bool use_tp_pp_dp_mapping; /* neighbouring stages are nearer than data ranks */
	/* chunks of layers of each pipeline stage: chunk j of stage r is virtual stage j p + r; 0
	 * as 1 */
	int64_t virtual_stages;
	/* micro batches that a stage passes through a chunk before the next chunk; 0: as many as
	 * there are stages */
	int64_t microbatch_group;
	bool overlap_p2p;     /* stages exchange while they run passes */
	int split[SPLIT_MAX]; /* layers of each virtual stage (split.h); all 0: nearly equal */
	/* ranks that divide the experts of a layer among them, and ranks that share each expert; 0
	 * as 1, or as many as tensor ranks */
	int64_t expert_model_parallel_size, expert_tensor_parallel_size;
	/* instances of what is sharded over data ranks, each over as many neighbours of them; 0
	 * as 1 */
	int64_t optimizer_instances;
	int outer_sharding; /* enum outer_sharding, of more than one */
	/* hosts on which the ranks lie that hold the experts of a layer once together, as many
	 * neighbours on each: rows go to each of them once (lib/model/hosts.h); 0 as 1 */
	int64_t expert_hosts;
	/* neighbouring ranks that a host has, where all have as many; 1 where they have not, and 0
	 * where all ranks are on one */
	int64_t host_ranks;
	/* hosts are connected by sockets, which GPUs do not read and write, as pretended ones */
	bool sockets;
};

/*
 * The sizes that are options and recorded in checkpoints; data_parallel_size follows from the
 * number of ranks. Rows for the option table of a struct S that holds the layout M.
 */
/* clang-format off */
#define LAYOUT_SIZE(S, M, n, f, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.f), .min = 1, .max = 1e15, .def = "1", \
	  .help = h }
/* Only models with experts have these, and only their checkpoints record them. */
#define LAYOUT_EXPERTS(S, M, n, f, ...) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.f), .min = 1, .max = 1e15, \
	  .help = __VA_ARGS__ }
#define LAYOUT_OPTS(S, M) \
	LAYOUT_SIZE(S, M, "tensor-model-parallel-size", tensor_model_parallel_size, \
	         "ranks that share each matrix"), \
	LAYOUT_SIZE(S, M, "pipeline-model-parallel-size", pipeline_model_parallel_size, \
	         "pipeline stages"), \
	LAYOUT_SIZE(S, M, "context-parallel-size", context_parallel_size, \
	         "ranks that share a sequence"), \
	LAYOUT_EXPERTS(S, M, "expert-model-parallel-size", expert_model_parallel_size, \
	         "ranks that share the experts of a layer; 1 by default"), \
	LAYOUT_EXPERTS(S, M, "expert-tensor-parallel-size", expert_tensor_parallel_size, \
	         "ranks that share each expert; --tensor-model-parallel-size by default", \
	         .needs = "num-experts")
/* clang-format on */

/* How many ranks divide the experts of a layer among them, and how many share each expert. */
int64_t layout_expert_ranks(const struct layout *l);
int64_t layout_expert_slices(const struct layout *l);
/* The ranks that hold the experts of a layer once together; 1: each rank has all of them. */
int64_t layout_expert_holders(const struct layout *l);
/* The hosts that they are on, as far as rows are concerned, and how many of them one has. */
int64_t layout_expert_hosts(const struct layout *l);
int64_t layout_expert_inside(const struct layout *l);

/*
 * The ranks of a stage by other axes than tensor, context and data: number
 * tp + t (cp + c dp) = etp + n (ep + e edp). The rank at (ep, etp) holds slice etp, of n equal ones
 * of their ffn channels, of experts [ep E / e, (ep + 1) E / e) of every layer. So do the ranks that
 * differ from it in edp alone. Source: docs/parallelism.md 1; Megatron-LM core/parallel_state.py.
 */
enum expert_axis { EX_TP, EX_EP, EX_DP, EX_COUNT };
#define EX_BIT(a) (1u << (a))
void layout_expert_coord(const struct layout *l, const int coord[AX_COUNT], int out[EX_COUNT]);
/* The inverse on one stage: sets the other coordinates to those of the rank at `at`. */
void layout_expert_place(const struct layout *l, const int at[EX_COUNT], int coord[AX_COUNT]);
/* The number of ranks that hold the same slices of the same experts. */
int64_t layout_expert_data_ranks(const struct layout *l);
/* As layout_group, of the ranks of a stage that differ only on these axes. */
int64_t layout_expert_group(const struct layout *l, unsigned axes, int64_t rank);
/* Sizes by axis. */
int64_t layout_size(const struct layout *l, enum axis a);
int64_t layout_world(const struct layout *l);
/* The number of ranks that hold the same shards but read different data, and a rank's index among
 * them. */
int64_t layout_data_ranks(const struct layout *l);
/* The instances, and the ranks among which one is sharded: of data ranks, and of those that hold
 * the same experts. Data rank r is number r % ranks of instance r / ranks. */
int64_t layout_instances(const struct layout *l);
int64_t layout_shard_ranks(const struct layout *l);
int64_t layout_expert_shard_ranks(const struct layout *l);
/* The instances that share the state of the optimizer; 1: each has all. */
int64_t layout_state_instances(const struct layout *l);
/* Checks that the instances divide the data ranks, of models with experts those of experts too. */
int layout_check_instances(const struct layout *l, const struct model_config *c, struct err *e);
/* The most ranks among which a shard is reduced. */
int64_t layout_most_data_ranks(const struct layout *l);
int layout_data_rank(const struct layout *l, const int coord[AX_COUNT]);
void layout_coord(const struct layout *l, int64_t rank, int coord[AX_COUNT]);
/* How far apart two ranks are that are neighbours on an axis. */
int64_t layout_stride(const struct layout *l, enum axis a);
/* The number of the group over these axes (bits) that contains rank; its ranks are equal on all
 * other axes. */
int64_t layout_group(const struct layout *l, unsigned axes, int64_t rank);

/* Consecutive positions of a sample. */
struct position_range {
	int64_t first, count;
};

/*
 * The positions of a sample that context rank cp holds, in the order of its rows; returns the
 * number of stretches. A single rank holds all positions. Otherwise a sequence is 2 c equal pieces
 * and rank i has pieces i and 2 c - 1 - i, so that all ranks have equally many scores below the
 * diagonal. seq_length must have passed layout_check_length. Source: docs/parallelism.md 6.1;
 * Megatron-LM get_batch_on_this_cp_rank (megatron/core/utils.py).
 */
int layout_positions(
    const struct layout *l, int64_t seq_length, int cp, struct position_range out[POSITION_RANGES]);
/* The number of a sample's positions on a rank. */
int64_t layout_held(const struct layout *l, int64_t seq_length);
/* The context rank that holds a position, and its index among the positions of that rank. */
int layout_holder(const struct layout *l, int64_t seq_length, int64_t position, int64_t *number);

/* Checks every rule of a layout for this model; reports all violations in one line, each with a
 * legal value. */
int layout_check(const struct layout *l, const struct model_config *c, struct err *e);
/* Checks the rule for sequences that context ranks share; the message calls the length `name` and
 * has a legal value.
 */
int layout_check_length(
    const struct layout *l, int64_t seq_length, const char *name, struct err *e);
/* Checks the rules of a layout for a model with experts, of which the last is for all its ranks;
 * likewise. */
int layout_check_experts(const struct layout *l, const struct model_config *c, struct err *e);
/* Checks the rule for context ranks that divide heads (CONTEXT_HEADS); likewise. */
int layout_check_heads(const struct layout *l, const struct model_config *c, struct err *e);
/* Checks all rules between a layout and --seq-length, starting with that one; likewise. */
int layout_check_rows(const struct layout *l, int64_t seq_length, struct err *e);
/* The number of tensor ranks that divide the rows between blocks: rank i holds part i, in the order
 * of positions. */
int64_t layout_row_shards(const struct layout *l);
/* The chunks of a pipeline stage, and the virtual stages of all stages. */
int layout_chunks(const struct layout *l);
int layout_stages(const struct layout *l);
/* Chunk j of stage r as a virtual stage. */
int layout_stage(const struct layout *l, int r, int j);
/* The schedule of a step with this number of micro batches. */
struct schedule_shape layout_schedule(const struct layout *l, int num_microbatches, bool training);
/* Layers [*first, *first + *count) of a virtual stage. */
void layout_layers(const struct layout *l, const struct model_config *c, int virtual_stage,
    int64_t *first, int64_t *count);
/* Least common multiple of two positive numbers. */
int64_t layout_lcm(int64_t a, int64_t b);
/* Rows of the vocabulary tables in memory: V rounded up to a multiple of
 * lcm(make_vocab_size_divisible_by, 16 t); the padding is masked and never on disk. Each tensor
 * rank holds layout_vocab / t of them. */
int64_t layout_vocab(const struct layout *l, const struct model_config *c);
/* Key/value groups that one tensor rank holds (at least 1), and how many tensor ranks share each
 * group. */
int64_t layout_local_groups(const struct layout *l, const struct model_config *c);
int64_t layout_group_ranks(const struct layout *l, const struct model_config *c);

#endif
