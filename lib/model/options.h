/*
 * options.h - the options that describe a run's model, layout and batch: one place for mtrain and
 * mplan
 *
 * A tool puts a struct run_options into its config struct and RUN_OPTS(struct, member) into its
 * table; run_resolve turns the options into a model, a layout and a shape, or reports the rule that
 * they break. Names and meanings are Megatron-LM's.
 */
#ifndef MODEL_OPTIONS_H
#define MODEL_OPTIONS_H

#include "lib/model/batch.h"
#include "lib/model/capacity.h"
#include "lib/model/fields.h"
#include "lib/model/fp8_options.h"
#include "lib/model/memory.h"
#include "lib/model/optim_types.h"
#include "lib/model/split.h"

struct run_options {
	struct model_options model;
	int64_t seq_length;
	struct layout layout; /* data_parallel_size is not an option */
	struct split_options split;
	bool tp_comm_overlap, use_distributed_optimizer, use_megatron_fsdp, use_torch_fsdp2,
	    reset_attention_mask;
	int sharding;
	bool grad_reduce_in_bf16;
	int cp_comm_type, dispatcher;
	struct capacity_options capacity;
	int64_t ddp_bucket_size;
	bool overlap_p2p_communication;
	int64_t micro_batch_size, global_batch_size;
	struct opt_list rampup_batch_size;
	const char *step_batch_size_schedule;
	bool bf16, fp16, fp64, fp32_residual_connection, qk_clip;
	int optimizer;
	double ema_decay;
	struct optim_type_options optim_types;
	struct fp8_options fp8;
	int recompute_granularity, recompute_method;
	bool recompute_activations;
	int64_t recompute_num_layers;
	struct opt_list recompute_modules;
	int64_t cpu_offloading_num_layers;
};

/* The result of run_resolve. */
struct run_plan {
	struct model_config model;
	struct layout layout;
	/* num_microbatches: in the largest step, for which memory is planned */
	struct train_shape shape;
	int64_t global_batch_size;     /* of the largest step */
	int64_t eval_micro_batch_size; /* 0: shape's */
	int64_t eval_batch_size;       /* of an evaluation step; global_batch_size by default */
	struct batch_ramp ramp;
	bool tasks; /* evaluations have tasks (evaluation.h) */
};

/* Token rows of a micro batch that a rank holds, and those whose documents attention has to
 * know. */
int64_t run_rows(const struct run_plan *plan);
int64_t run_document_rows(const struct run_plan *plan);
/* Micro batches per data rank in a batch of this many samples. */
int run_microbatches(const struct run_plan *plan, int64_t samples);
/* 0 if all ranks get equally many; -1 with the option that sets the batch, and the rule. */
int run_check_batch(
    const struct run_plan *plan, const char *option, int64_t samples, struct err *e);

/*
 * world_size: ranks of the run. vocab_size: of the tokenizer, 0 when unknown; --vocab-size and a
 * config.json override it. Notes (one line each) go to `notes`. Returns -1 with the option, the
 * rule and a legal value.
 */
int run_resolve(const struct opt_parse *p, const struct run_options *o, int64_t world_size,
    int64_t vocab_size, struct run_plan *plan, struct str *notes, struct err *e);
/* The same where what is wrong joins the other errors of p, and is told with them (opt_answer).
 * Steps that rely on one that failed are left out. -1 after errors. */
int run_rules(const struct opt_parse *p, const struct run_options *o, int64_t world_size,
    int64_t vocab_size, struct run_plan *plan, struct str *notes);
/* Whether instances have anything to share; -1 with the reason. */
int run_check_instances(int64_t instances, enum sharding sharding, struct err *e);
/* Where the optimizer alone is sharded, instances that share its state are one. */
void run_join_instances(struct layout *l, enum sharding sharding);
/* Appends what the config.json of --model says that nobody reads, if there is one. */
void run_note_config(const struct run_options *o, struct str *notes);
/* Which activations are computed again; -1 when the options do not belong together. */
int recompute_resolve(
    const struct opt_parse *p, const struct run_options *o, struct recompute *r, struct err *e);
/* Only the model, for programs without a layout. */
int run_model(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size,
    struct model_config *c, struct err *e);
/* The same, where errors join those of p. */
int run_model_rules(const struct opt_parse *p, const struct run_options *o, int64_t vocab_size,
    struct model_config *c);

/* The model and the layout in the options.conf of a checkpoint; other options in the text are
 * ignored. name is for messages. data_parallel_size, which is not an option, is 1. */
int model_from_text(
    const char *name, const char *text, struct model_config *c, struct layout *l, struct err *e);

/* Megatron-LM's words; the first is its ring, in whose place keys are gathered. */
extern const char *const opt_cp_comm_types[];
/* Megatron-LM's words. */
extern const char *const opt_dispatchers[];
extern const char *const opt_dispatcher_words[];
/* In the order of enum sharding. */
extern const char *const opt_shardings[];
/* In the order of enum outer_sharding. */
extern const char *const opt_outer_shardings[];
extern const char *const opt_recompute_granularities[], *const opt_recompute_methods[];

/* clang-format off */
#define RUN_INT(S, M, n, f, lo, d, ...) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.f), .min = lo, .max = 1e15, .def = d, \
	  .help = __VA_ARGS__ }
#define RUN_FLAG(S, M, n, f, ...) \
	{ .name = n, .type = OPT_FLAG, .off = offsetof(S, M.f), .help = __VA_ARGS__ }
#define RUN_CHOICE(S, M, n, f, c, d, ...) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, M.f), .choices = c, .def = d, \
	  .help = __VA_ARGS__ }
/* clang-format on */

/* clang-format off */
#define RUN_OPTS(S, M) \
	MODEL_OPTS(S, M.model), \
	{ .type = OPT_GROUP, .help = "Layout" }, \
	LAYOUT_OPTS(S, M.layout), \
	SPLIT_OPTS(S, M.split), \
	RUN_CHOICE(S, M, "cp-comm-type", cp_comm_type, opt_cp_comm_types, "p2p", \
	         "how ranks that share a sequence read it: all_gather (or allgather), each has " \
	         "all keys and values; a2a, each has all positions of some heads, so that " \
	         "--num-query-groups must divide among tensor and context ranks; p2p is run " \
	         "as all_gather", .needs = "context-parallel-size>1"), \
	RUN_CHOICE(S, M, "moe-token-dispatcher-type", dispatcher, opt_dispatchers, "allgather", \
	         "how rows reach the ranks of their experts: alltoall; allgather and flex are " \
	         "run as it", .alias = opt_dispatcher_words, .needs = "num-experts"), \
	CAPACITY_OPTS(S, M.capacity), \
	RUN_FLAG(S, M, "sequence-parallel", layout.sequence_parallel, \
	         "tensor ranks hold rows of their own between blocks: norms, dropout and " \
	         "residual sums of a part of the sequence each", \
	         .needs = "tensor-model-parallel-size>1"), \
	RUN_FLAG(S, M, "use-tp-pp-dp-mapping", layout.use_tp_pp_dp_mapping, \
	         "number the ranks so that stages of a pipeline are nearer to each other than " \
	         "data ranks, not the other way round; may change on resume"), \
	RUN_FLAG(S, M, "tp-comm-overlap", tp_comm_overlap, \
	         "tensor ranks communicate beside GEMMs: rows are multiplied while others " \
	         "are gathered or summed, gradients of inputs summed beside those of weights", \
	         .needs = "tensor-model-parallel-size>1"), \
	RUN_FLAG(S, M, "use-distributed-optimizer", use_distributed_optimizer, \
	         "share the optimizer's state over data ranks"), \
	RUN_CHOICE(S, M, "data-parallel-sharding-strategy", sharding, opt_shardings, "no_shard", \
	         "what is sharded over data ranks: optim, master weights and " \
	         "moments, as with --use-distributed-optimizer, which is its default; " \
	         "optim_grads, gradients too; optim_grads_params, weights too"), \
	RUN_INT(S, M, "num-distributed-optimizer-instances", layout.optimizer_instances, 1, "1", \
	         "what is sharded is sharded over the data ranks of an instance, which are so " \
	         "many times fewer neighbours, and held by each instance: with as many instances " \
	         "as hosts, weights are gathered inside hosts"), \
	RUN_CHOICE(S, M, "outer-dp-sharding-strategy", layout.outer_sharding, \
	         opt_outer_shardings, "no_shard", \
	         "of the optimizer's state each instance holds all that belongs to its shards " \
	         "(no_shard), or a part (optim): fewer bytes, in memory and between hosts, and " \
	         "the same bits, but for a norm that clips; instances whose optimizer alone is " \
	         "sharded are then one"), \
	RUN_FLAG(S, M, "use-megatron-fsdp", use_megatron_fsdp, \
	         "--data-parallel-sharding-strategy optim_grads_params by default"), \
	RUN_FLAG(S, M, "use-torch-fsdp2", use_torch_fsdp2, "the same"), \
	RUN_FLAG(S, M, "grad-reduce-in-bf16", grad_reduce_in_bf16, \
	         "gradients are sent to other data ranks in bfloat16; they are summed in " \
	         "fp32, in the order of all sums"), \
	RUN_INT(S, M, "ddp-bucket-size", ddp_bucket_size, 1, "134217728", \
	         "elements, in whole layers, that data ranks reduce and gather at once"), \
	{ .name = "no-overlap-p2p-communication", .type = OPT_UNFLAG, \
	  .off = offsetof(S, M.overlap_p2p_communication), \
	  .help = "interleaved stages exchange between passes, not beside them, which takes a " \
	          "slot of activations less" }, \
	{ .type = OPT_GROUP, .help = "Batch and precision" }, \
	RUN_INT(S, M, "seq-length", seq_length, 1, NULL, "tokens per sample"), \
	RUN_FLAG(S, M, "reset-attention-mask", reset_attention_mask, \
	         "a token sees its own document alone: nothing before the last end of a " \
	         "document"), \
	RUN_INT(S, M, "micro-batch-size", micro_batch_size, 1, "1", \
	         "samples that a rank processes at once"), \
	RUN_INT(S, M, "global-batch-size", global_batch_size, 1, NULL, \
	         "samples per step; micro-batch-size x data ranks by default, and with " \
	         "several chunks a stage x the micro batches of a group"), \
	{ .name = "rampup-batch-size", .type = OPT_LIST, \
	  .off = offsetof(S, M.rampup_batch_size), .unit = "N", \
	  .help = "START INCREMENT SAMPLES: steps of START samples at first, larger by INCREMENT " \
	          "in equal parts of the first SAMPLES, up to --global-batch-size" }, \
	{ .name = "step-batch-size-schedule", .type = OPT_STRING, \
	  .off = offsetof(S, M.step_batch_size_schedule), .unit = "\"TOKENS:SIZE ...\"", \
	  .help = "samples per step from the given numbers of consumed tokens on, as in " \
	          "\"0:768 250B:1536\", in place of --global-batch-size" }, \
	RUN_FLAG(S, M, "bf16", bf16, "bfloat16 weights and activations, fp32 master weights"), \
	RUN_FLAG(S, M, "fp16", fp16, "float16 with dynamic loss scaling, fp32 master weights"), \
	RUN_FLAG(S, M, "fp64", fp64, \
	         "double precision on the CPU: an oracle for comparing layouts"), \
	RUN_FLAG(S, M, "fp32-residual-connection", fp32_residual_connection, \
	         "with --bf16 or --fp16, what is passed from layer to layer, and its gradient, " \
	         "in fp32", .needs = "bf16|fp16"), \
	FP8_OPTS(S, M.fp8), \
	RUN_CHOICE(S, M, "optimizer", optimizer, optim_rule_names, "adam", "update rule", \
	         .alias = optim_rule_words), \
	OPTIM_TYPE_OPTS(S, M.optim_types), \
	RUN_FLAG(S, M, "qk-clip", qk_clip, \
	         "after an update, q and k of groups of heads whose scores have become large " \
	         "shrink; scores are those of all samples of a step"), \
	{ .name = "ema-decay", .type = OPT_NUMBER, .off = offsetof(S, M.ema_decay), \
	  .max = 0.9999999999, .def = "0", \
	  .help = "keep an exponential moving average of the master weights in host memory and " \
	          "in checkpoints: the share that it keeps of itself in a step; 0: none" }, \
	RUN_CHOICE(S, M, "recompute-granularity", recompute_granularity, \
	         opt_recompute_granularities, "none", \
	         "activations that the backward pass recomputes: selective, the outputs of " \
	         "norms and activations; full, whole layers from their inputs"), \
	{ .name = "recompute-modules", .type = OPT_LIST, \
	  .off = offsetof(S, M.recompute_modules), .unit = "MODULE", \
	  .help = "with --recompute-granularity selective: what it recomputes instead, of " \
	          "core_attn and moe_act (no more than always), layernorm (outputs of norms), " \
	          "mlp (from its norm on), moe and shared_experts (kept here)" }, \
	RUN_FLAG(S, M, "recompute-activations", recompute_activations, \
	         "--recompute-granularity selective, overriding that option"), \
	RUN_CHOICE(S, M, "recompute-method", recompute_method, opt_recompute_methods, "uniform", \
	         "full recomputation of all layers in chunks, or of the first layers of a " \
	         "stage (block)", .needs = "recompute-granularity"), \
	RUN_INT(S, M, "recompute-num-layers", recompute_num_layers, 1, "1", \
	         "layers per chunk (uniform) or per stage (block) that full recomputation " \
	         "repeats", .needs = "recompute-granularity"), \
	RUN_INT(S, M, "cpu-offloading-num-layers", cpu_offloading_num_layers, 0, "0", \
	         "layers of a stage, or of each of its chunks, whose saved activations lie in " \
	         "host memory between their two passes, evenly spread; all but the first at most")
/* clang-format on */

#endif
