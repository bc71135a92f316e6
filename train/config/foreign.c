/*
 * foreign.c - what mtrain makes of the options of other programs: the rows and their reasons
 *
 * A reason is a short statement about mtrain, or what to give instead. Rows of one reason are
 * reported together.
 */
#include "train/config/foreign.h"
#include "train/config/foreign_list.h"

#include <stddef.h>

static const char activation[] = "this activation is not supported; see --activation";
static const char adam8[] =
    "an optimizer with 8-bit blocks of state is not supported; see --exp-avg-dtype";
static const char all_tokens[] = "the loss is that of all tokens of a sample";
static const char always_fp32[] = "softmax is always held in fp32";
static const char barrier[] = "ranks wait for each other where they communicate";
static const char batch_says[] = "--global-batch-size says how many micro batches a step has";
static const char buffers[] = "buffers of the sharded run are planned";
static const char capacity[] =
    "an expert takes what --moe-expert-capacity-factor says, in training and evaluation";
static const char capacity_order[] =
    "--moe-expert-capacity-factor drops the tokens with the lowest scores, or with "
    "--moe-token-drop-policy position the last";
static const char ce16[] = "the loss is computed in fp32";
static const char chunks[] = "a micro batch is smaller with a smaller --micro-batch-size";
static const char ckpt_step[] = "--ckpt-step says from which checkpoint of --load a run continues";
static const char comm[] = "only tunes communication";
static const char convert[] = "mckpt converts checkpoints";
static const char curriculum[] =
    "samples by difficulty and layers that drop tokens are not supported";
static const char data_impl[] = "mtok writes .bin and .idx files of the one format that is read";
static const char decoder[] = "models with an encoder and a decoder are out of scope";
static const char deepspeed[] =
    "ranks and shards are those of mpirun and of the options of sharding";
static const char dispatch[] = "rows of experts are dispatched in one way";
static const char distill[] = "distillation is out of scope";
static const char docmask[] =
    "--reset-attention-mask keeps documents apart; their positions do not restart";
static const char dp_init[] = "data ranks have the same weights";
static const char dropless[] = "tokens are dropped only with --moe-expert-capacity-factor";
static const char elastic[] = "elastic models are out of scope";
static const char emb32[] = "the table of embeddings has the type of the run";
static const char emb_factor[] =
    "this factor on embeddings is not supported; see --scale-embeddings-by-hidden-size";
static const char encoder[] = "encoder models are out of scope";
static const char epochs[] = "the order of samples comes from --train-iters or --train-samples";
static const char etp[] =
    "experts are split among tensor ranks unless --expert-tensor-parallel-size says otherwise";
static const char eval_start[] = "evaluations begin with --eval-interval";
static const char even[] = "a batch that does not divide among the data ranks is an error";
static const char expert_bias[] = "biases of experts are not supported";
static const char experts_over[] =
    "--expert-model-parallel-size says among how many ranks experts are spread";
static const char faults[] = "faults are not injected on request";
static const char flushed[] = "events are flushed with each line";
static const char forced[] = "routing cannot be forced";
static const char fp32_sums[] = "gradients are always accumulated and reduced in fp32";
static const char fp4[] = "FP4 is not supported";
static const char fp8_copies[] = "8-bit copies are made for each GEMM that needs them";
static const char fp8_interval[] = "8-bit weights are made anew in every step";
static const char freeze[] = "weights cannot be frozen";
static const char from_files[] = "the files of the tokenizer say what it is";
static const char from_map[] = "samples are read from the map";
static const char fsdp_fp32[] = "master weights and gradients are fp32; --main-params-dtype, "
				"--main-grads-dtype and --grad-reduce-in-bf16 say otherwise";
static const char fused[] = "which kernels are fused is not a choice";
static const char generate[] = "text is continued with --generate, and --prompts or --prompt-file";
static const char glu[] = "this gated activation is not supported";
static const char goldfish[] = "the Goldfish loss is not supported";
static const char graphs[] = "CUDA graphs are recorded without being asked; see --no-cuda-graphs";
static const char group_topk[] = "groups of experts are --moe-router-num-groups and "
				 "--moe-router-group-topk";
static const char head8[] = "the head is not computed in 8 bits";
static const char hetero[] = "layers of different shapes are not supported";
static const char hybrid[] = "state-space and linear-attention models are out of scope";
static const char ids[] = "tokens would differ: ids come from the files of the tokenizer alone";
static const char index_files[] =
    "index maps are built from --seed, --split and --train-samples; --data-cache-path keeps them";
static const char index_only[] = "samples are the same";
static const char init_std[] = "embeddings are drawn with --init-method-std";
static const char interleaved[] = "how gate and up lie in memory is not a choice";
static const char interval[] = "--moe-layer-freq takes the list of the layers with experts";
static const char invariant[] =
    "results that do not depend on the batch are not supported; see --deterministic-mode";
static const char jitter[] = "jitter of the input of routers is not supported";
static const char keeps_steps[] = "--finetune begins at step 0, with a new state of the optimizer";
static const char l2[] = "the L2 norm of q and k is not supported; see --qk-layernorm";
static const char latent_moe[] = "experts of a latent width are not supported";
static const char launcher[] = "processes are started by mpirun or srun";
static const char layer_scale[] = "scores are divided by the number of the layer and multiplied by "
				  "it before the softmax, which cancels in fp32";
static const char layout[] =
    "--pipeline-model-parallel-layout gives the embedding a stage of its own";
static const char levels[] = "log lines do not depend on it; see -v and -q";
static const char linear[] = "must be a factor";
static const char loads[] = "the load of every expert is in --metrics-file";
static const char logged[] = "always logged";
static const char long_context[] = "context ranks share a sequence in one way";
static const char mapped[] = "index maps are mapped, each once";
static const char mhc[] = "several residual streams are not supported";
static const char moe8[] = "experts exchange rows in 8 bits";
static const char mpi_nccl[] = "communication is MPI between CPUs and NCCL between GPUs";
static const char mrope[] = "positions in sections are not supported";
static const char mtp_detached[] = "losses of later tokens always reach the whole model";
static const char mtp_mixed[] =
    "layers that predict later tokens read the hidden state before them alone";
static const char mtp_stage[] = "the last stage has the layers that predict later tokens";
static const char muon_qkv[] = "Muon updates q, k and v each by itself";
static const char mup[] = "muP is not supported";
static const char nan_checks[] = "NaN and Inf are always looked for";
static const char no_code[] = "no code is ever loaded";
static const char no_gc[] = "there is no garbage collector";
static const char no_masks[] = "masks are never built";
static const char no_matrix[] = "attention never stores its matrix";
static const char no_msc[] = "files are opened by their paths";
static const char no_rerun[] = "--verify-interval computes steps twice";
static const char no_rng[] = "randomness has no state but the seed";
static const char norm_places[] = "norms in this place are not supported; see --norm-placement";
static const char not_logged[] = "not logged";
static const char null_ids[] = "the last id of NullTokenizer ends a document";
static const char offload[] = "saved activations stay on the GPU; mplan tells whether they fit";
static const char old_tokenizer[] = "the ids of an older tokenizer class would differ";
static const char one_adamw[] = "there is one AdamW";
static const char one_ckpt[] = "checkpoints have one format, whole and independent of the layout";
static const char one_level[] =
    "give --cp-comm-type a2a or all_gather: context ranks have one level";
static const char one_model[] = "there is one model code";
static const char only_speed[] = "changes only speed";
static const char overlapped[] = "copies always overlap the update by the host";
static const char padded[] = "rows of 8-bit GEMMs are padded where they must be";
static const char partition[] = "--pipeline-model-parallel-layout says which layers a stage has";
static const char phases[] = "batches grow with --rampup-batch-size or --step-batch-size-schedule";
static const char pinned[] = "host memory is pinned where that helps";
static const char plan_only[] = "--dry-run --world-size N plans a run of N ranks on one machine";
static const char planned[] = "memory is planned and taken before the first step";
static const char post_norm[] = "norms after the residual sum are not supported";
static const char post_training[] = "quantization and export for serving are out of scope";
static const char pp_decides[] = "--pipeline-model-parallel-size decides";
static const char probs_in[] = "outputs of experts are weighted, not their inputs";
static const char profile[] = "--profile times the operations of rank 0; no other trace is written";
static const char quantile[] = "routing by quantiles is not supported";
static const char read_ademamix[] = "only --optimizer ademamix reads it";
static const char read_fp4[] = "only --fp4-format reads it";
static const char read_goldfish[] = "only --goldfish-loss reads it";
static const char read_kitchen[] = "only --use-kitchen-attention reads it";
static const char read_lion[] = "only --optimizer lion reads it";
static const char read_mhc[] = "only --enable-mhc-connections reads it";
static const char read_mup[] = "only --use-mup reads it";
static const char read_upcycling[] = "only --moe-use-upcycling reads it";
static const char read_variant[] = "only --experimental-attention-variant reads it";
static const char recipes[] = "types of operands are chosen with --fp8-recipe alone";
static const char recompute_how[] = "how recomputed layers lie in memory is not a choice";
static const char recompute_moe[] = "--recompute-granularity full computes experts again";
static const char repeats[] = "samples of a corpus would repeat or change";
static const char replay[] = "routing cannot be replayed";
static const char residual[] = "residual experts are not supported";
static const char restart[] = "the batch system restarts a run, which continues from its --save";
static const char retrieval[] = "retrieval models are out of scope";
static const char rl[] = "reinforcement learning is out of scope";
static const char rope_type[] = "must be rope or yarn";
static const char router_dtype[] = "routers compute in fp32";
static const char same_start[] = "initial weights never depend on the device";
static const char same_sums[] = "copies of one weight get the same sums on every tensor rank";
static const char schedule_anew[] =
    "--override-opt_param-scheduler takes the schedule of the command line";
static const char second_expert[] =
    "the experts of a token are always those with the highest scores";
static const char serving[] = "serving is out of scope";
static const char serving_note[] = "only serving reads it";
static const char sft[] =
    "mtok --chat-format makes a dataset of conversations with a mask, and --data-path trains on it";
static const char shared_layers[] = "layers never share weights";
static const char signals[] = "signals always save and stop";
static const char skip_steps[] = "--iterations-to-skip takes the numbers of the steps to leave out";
static const char skip_train[] = "--skip-train evaluates and does not train";
static const char sparse[] =
    "of its kinds there is the gated delta rule alone: --linear-attention-freq";
static const char spec[] =
    "it names the code of another model; the options of the model say what is trained";
static const char speed[] = "only tunes speed or memory";
static const char start_lists[] =
    "give --train-data-path and --valid-data-path, or --per-split-data-args-path";
static const char starts_drawn[] =
    "initial weights are always drawn; those of a checkpoint replace them";
static const char stop_file[] = "a file named stop in the --save directory saves and ends the run";
static const char storage[] = "copy or mount the files, and give their paths";
static const char sum_scale[] = "gradients are sums that are divided once";
static const char tensors[] =
    "mckpt cat prints the weights of a checkpoint; --metrics-file has norms and loads";
static const char test_only[] = "it is for tests of the other program";
static const char the_default[] = "the default";
static const char together[] = "the experts of a rank are always multiplied together";
static const char tp_shards[] = "weights are sharded over data ranks alone: --use-megatron-fsdp";
static const char universal[] = "mckpt import reads such a checkpoint before the run";
static const char upcycle[] = "mckpt upcycle makes experts of a dense model before the run";
static const char vision[] = "vision models are out of scope";
static const char watch[] = "monitoring services get nothing; --metrics-file has every step";
static const char wd_cond[] = "weight decay is of tensors with two dimensions";
static const char wd_norm[] = "norms of q and k have no weight decay";
static const char wgrad16[] = "with --fp8-format gradients of weights come from 8-bit operands";
static const char xavier[] = "Xavier initialisation is not supported";
static const char yaml[] = "write the options into a file, one a line, and give --config FILE";
static const char yarn_rounds[] = "the pairs of yarn are rounded by default";
static const char z_loss[] = "give --use-z-loss and --z-loss-coeff";
static const char zero[] = "DeepSpeed has four stages";
static const char zero_bubble[] = "passes are ordered as in 1F1B; the sums are the same";

/* clang-format off */
#define ROW(k, n, w, ...) { .name = n, .kind = FOREIGN_##k, .words = w, ROW_##k(__VA_ARGS__) },
#define ROW_NOTE(w) .why = w
#define ROW_ALIAS(t) .to = t
#define ROW_SAME(v, w) .values = v, .why = w
#define ROW_MATHS(w) .why = w
#define ROW_LACKS(w) .why = w
#define ROW_SCOPE(w) .why = w
/* clang-format on */

static const struct opt_foreign rows[] = { FOREIGN_LIST(ROW) };

/* Words that users of other frameworks try. */
static const struct opt_word words[] = {
	{ "accumulate-grad-batches", "global-batch-size" },
	{ "batch-size-per-device", "micro-batch-size" },
	{ "block-size", "seq-length" },
	{ "context-length", "seq-length" },
	{ "d-ff", "ffn-hidden-size" },
	{ "d-model", "hidden-size" },
	{ "dataset", "data-path" },
	{ "dim", "hidden-size" },
	{ "epochs", "train-iters" },
	{ "eval-steps", "eval-interval" },
	{ "gradient-accumulation-steps", "global-batch-size" },
	{ "gradient-checkpointing", "recompute-granularity full" },
	{ "intermediate-size", "ffn-hidden-size" },
	{ "iterations", "train-iters" },
	{ "iters", "train-iters" },
	{ "learning-rate", "lr" },
	{ "logging-steps", "log-interval" },
	{ "lr-scheduler-type", "lr-decay-style" },
	{ "max-grad-norm", "clip-grad" },
	{ "max-iters", "train-iters" },
	{ "max-length", "seq-length" },
	{ "max-seq-len", "seq-length" },
	{ "max-seq-length", "seq-length" },
	{ "max-steps", "train-iters" },
	{ "model-name-or-path", "model" },
	{ "n-embd", "hidden-size" },
	{ "n-head", "num-attention-heads" },
	{ "n-heads", "num-attention-heads" },
	{ "n-layer", "num-layers" },
	{ "n-layers", "num-layers" },
	{ "num-epochs", "train-iters" },
	{ "num-heads", "num-attention-heads" },
	{ "num-hidden-layers", "num-layers" },
	{ "num-kv-heads", "num-query-groups" },
	{ "num-steps", "train-iters" },
	{ "num-train-epochs", "train-iters" },
	{ "output-dir", "save" },
	{ "per-device-train-batch-size", "micro-batch-size" },
	{ "pipeline-parallel-size", "pipeline-model-parallel-size" },
	{ "resume", "load" },
	{ "resume-from-checkpoint", "load" },
	{ "save-steps", "save-interval" },
	{ "sequence-length", "seq-length" },
	{ "steps", "train-iters" },
	{ "tensor-parallel-size", "tensor-model-parallel-size" },
	{ "tokenizer", "tokenizer-model" },
	{ "train-batch-size", "global-batch-size" },
	{ "warmup-ratio", "lr-warmup-fraction" },
	{ "warmup-steps", "lr-warmup-iters" },
	{ "wd", "weight-decay" },
	{ NULL, NULL },
};

const struct opt_foreigners mtrain_foreign = { rows, sizeof rows / sizeof *rows, words };
