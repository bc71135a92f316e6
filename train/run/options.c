/*
 * options.c - the option table of mtrain
 *
 * One row per option; parsing, range checks, --help, the dumped configuration and the manual page
 * follow from it. Names, defaults and meanings are Megatron-LM's where it has the option, except
 * where the help says otherwise. A NULL default means not given: the value is then zero (or NULL)
 * and train/run/config.c decides. A range is that of one value; rules between options are in
 * train/run/config.c. NOTE rows are accepted and answered with one line; options that would change
 * the result and are not supported are in train/run/refused.c instead.
 */
#include "train/optim/newton_schulz.h"
#include "train/run/config.h"
#include "train/run/stop.h"

#include <math.h>

/* clang-format off */
#define S struct train_options
#define INT(n, f, lo, d, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, f), .min = lo, .max = 1e15, .def = d, \
	  .help = h }
#define NUM(n, f, lo, hi, d, h) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(S, f), .min = lo, .max = hi, .def = d, \
	  .help = h }
#define FLAG(n, f, h) { .name = n, .type = OPT_FLAG, .off = offsetof(S, f), .help = h }
#define UNFLAG(n, f, h) { .name = n, .type = OPT_UNFLAG, .off = offsetof(S, f), .help = h }
#define STRING(n, f, u, d, h) \
	{ .name = n, .type = OPT_STRING, .off = offsetof(S, f), .unit = u, .def = d, .help = h }
#define LIST(n, f, u, h) \
	{ .name = n, .type = OPT_LIST, .off = offsetof(S, f), .unit = u, .help = h }
#define CORPORA "[WEIGHT] PREFIX"
#define CHOICE(n, f, c, d, h) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, f), .choices = c, .def = d, .help = h }
#define NOTE(n, h) { .name = n, .type = OPT_NOTE, .help = h }
#define GROUP(h) { .type = OPT_GROUP, .help = h }
/* clang-format on */

const char *const mtrain_attention_backends[] = { "auto", "fused", "flash", "unfused", "local",
	"hopper", NULL };
const char *const mtrain_backends[] = { "auto", "cpu", "cuda", NULL };

static const char *const muon_precisions[] = { "medium", NULL };
static const char *const muon_tp_modes[] = { "duplicated", "distributed", NULL };
static const char *const muon_scalar_optimizers[] = { "adam", NULL };
static const char *const timing_options[] = { "max", "minmax", "all", NULL };
static const char *const dataloaders[] = { "single", "cyclic", NULL };
static const char *const data_changes[] = { "refuse", "restart", "exclude-seen", NULL };

static const char one_model[] = "there is one model code";
static const char fused[] = "which kernels are fused is not a choice";
static const char always_fp32[] = "softmax is always held in fp32";
static const char wandb[] =
    "TensorBoard event files are written; `wandb sync --sync-tensorboard DIR` uploads them";
static const char planned[] = "memory is planned and taken before the first step";
static const char mapped[] = "index maps are mapped, each once";
static const char no_gc[] = "there is no garbage collector";
static const char signals[] = "signals always save and stop";
static const char launcher[] = "processes are started by mpirun or srun";

const struct opt mtrain_opts[] = {
	RUN_OPTS(S, run),
	GROUP("Training"),
	INT("train-iters", train_iters, 1, NULL, "steps to train"),
	INT("train-samples", train_samples, 1, NULL, "samples to train, instead of --train-iters"),
	LIST("iterations-to-skip", iterations_to_skip, "N",
	    "steps, counted from 1, whose samples are skipped"),
	STRING("rewind-on-spike", rewind_on_spike, "FACTOR:WINDOW[:TIMES]", NULL,
	    "where a loss is above FACTOR times the median of the last WINDOW, go back to a "
	    "checkpoint and skip these steps, 3 TIMES by default"),
	{ .name = "seed",
	    .type = OPT_INT,
	    .off = offsetof(S, seed),
	    .min = 0,
	    .max = 4294967295.0,
	    .def = "1234",
	    .help = "of weights, dropout and data order" },
	NUM("lr", lr, 0, INFINITY, NULL, "highest learning rate"),
	NUM("min-lr", min_lr, 0, INFINITY, "0", "learning rate at the end of the decay"),
	NUM("decoupled-lr", decoupled_lr, 0, INFINITY, NULL,
	    "highest learning rate of the word embeddings and the head; --lr by default"),
	NUM("decoupled-min-lr", decoupled_min_lr, 0, INFINITY, NULL,
	    "with --decoupled-lr: theirs at the end of the decay; --min-lr by default"),
	CHOICE("lr-decay-style", lr_decay_style, lr_styles, "linear", "shape of the decay"),
	INT("lr-decay-iters", lr_decay_iters, 1, NULL,
	    "steps of warm-up and decay; --train-iters by default"),
	INT("lr-decay-samples", lr_decay_samples, 1, NULL,
	    "the same in samples, with --train-samples, which is the default"),
	INT("lr-warmup-iters", lr_warmup_iters, 0, "0", "steps of linear warm-up"),
	INT("lr-warmup-samples", lr_warmup_samples, 0, "0",
	    "the same in samples, with --train-samples"),
	NUM("lr-warmup-fraction", lr_warmup_fraction, 0, 1, NULL,
	    "the same as a share of the decay, instead of either"),
	NUM("lr-warmup-init", lr_warmup_init, 0, INFINITY, "0", "learning rate of the first step"),
	CHOICE("lr-wsd-decay-style", lr_wsd_decay_style, wsd_styles, "exponential",
	    "shape of the tail of WSD"),
	INT("lr-wsd-decay-iters", lr_wsd_decay_iters, 0, NULL,
	    "steps of the tail of WSD, which needs it"),
	INT("lr-wsd-decay-samples", lr_wsd_decay_samples, 0, NULL,
	    "the same in samples, with --train-samples"),
	NUM("weight-decay", weight_decay, 0, INFINITY, "0.01",
	    "weight decay of tensors with two dimensions"),
	NUM("start-weight-decay", start_weight_decay, 0, INFINITY, NULL,
	    "first value of a changing weight decay"),
	NUM("end-weight-decay", end_weight_decay, 0, INFINITY, NULL,
	    "last value of a changing weight decay"),
	CHOICE("weight-decay-incr-style", weight_decay_incr_style, wd_styles, "constant",
	    "how weight decay changes"),
	NUM("adam-beta1", adam_beta1, 0, 0.9999999, "0.9", "decay of the first moment"),
	NUM("adam-beta2", adam_beta2, 0, 0.9999999, "0.999", "decay of the second moment"),
	NUM("adam-eps", adam_eps, 0, 1, "1e-8", "added to the root of the second moment"),
	UNFLAG("no-decoupled-weight-decay", decoupled_weight_decay,
	    "weight decay as a term of the gradient"),
	NUM("sgd-momentum", sgd_momentum, 0, 0.9999999, "0.9", "of --optimizer sgd"),
	NUM("muon-momentum", muon.momentum, 0, 0.9999999, "0.9",
	    "of --optimizer muon, which updates the matrices of layers, each of q, k, v, gate and "
	    "up by itself, and leaves the rest to adam: decay of the average of gradients"),
	FLAG("muon-nesterov", muon.nesterov, "the gradient counts once more on top of the average"),
	CHOICE("muon-scale-mode", muon.scale_mode, muon_scale_modes, "spectral",
	    "what an orthogonal update of OUT rows and IN columns is multiplied by: the root of "
	    "the larger of the two, of OUT / IN, or of that where it is above 1"),
	NUM("muon-extra-scale-factor", muon.extra_scale_factor, 0, INFINITY, "1",
	    "multiplies that; with 0.2, spectral updates are about as large as those of adam"),
	CHOICE("muon-coefficient-type", muon.coefficient_type, newton_schulz_types, "quintic",
	    "polynomials of the Newton-Schulz iterations"),
	INT("muon-num-ns-steps", muon.num_ns_steps, 1, "5", "Newton-Schulz iterations"),
	CHOICE("muon-fp32-matmul-prec", muon_fp32_matmul_prec, muon_precisions, "medium",
	    "of their GEMMs: bf16 with --bf16 or --fp16, or else the run's own"),
	CHOICE("muon-tp-mode", muon_tp_mode, muon_tp_modes, "duplicated",
	    "both mean that whole matrices are orthogonalized, each by one tensor rank"),
	CHOICE("muon-scalar-optimizer", muon_scalar_optimizer, muon_scalar_optimizers, "adam",
	    "the rule of what is not a matrix of a layer"),
	NUM("qk-clip-alpha", qk_clip.alpha, 0, 1, "0.5",
	    "share of q in what --qk-clip takes from scores; the rest is that of k"),
	NUM("qk-clip-threshold", qk_clip.threshold, 1e-9, INFINITY, "100",
	    "largest score that --qk-clip leaves alone"),
	NUM("clip-grad", clip_grad, 0, INFINITY, "1",
	    "greatest global gradient norm; 0: no clipping"),
	FLAG("use-z-loss", use_z_loss,
	    "add --z-loss-coeff times the squared log-sum-exp to the loss"),
	NUM("z-loss-coeff", z_loss, 0, 1, "1e-4", "of --use-z-loss"),
	NUM("loss-scale", loss_scale, 0, INFINITY, "0",
	    "a fixed scale of the mean loss of a batch for fp16; 0: dynamic"),
	NUM("initial-loss-scale", initial_loss_scale, 1, INFINITY, "4294967296",
	    "first dynamic loss scale of fp16"),
	NUM("min-loss-scale", min_loss_scale, 0, INFINITY, "1", "least dynamic loss scale"),
	INT("loss-scale-window", loss_scale_window, 1, "1000",
	    "clean steps before the loss scale doubles"),
	INT("hysteresis", hysteresis, 1, "2", "overflows before the loss scale halves"),
	GROUP("Data"),
	LIST("data-path", paths.data_path, CORPORA,
	    "datasets, each PREFIX.bin and PREFIX.idx; several are blended by weight, or by size"),
	STRING("data-args-path", paths.data_args_path, "FILE", NULL,
	    "the words of --data-path from a file"),
	LIST("train-data-path", paths.split_path[SPLIT_TRAIN], CORPORA,
	    "datasets only of training, whole: --split does not apply"),
	LIST("valid-data-path", paths.split_path[SPLIT_VALID], CORPORA, "the same for validation"),
	LIST("test-data-path", paths.split_path[SPLIT_TEST], CORPORA, "the same for the test"),
	STRING("per-split-data-args-path", paths.per_split_data_args_path, "FILE", NULL,
	    "all three from a JSON object with the keys train, valid and test"),
	STRING("split", split, "A,B,C", "969, 30, 1", "shares of training, validation and test"),
	STRING("data-cache-path", data_cache_path, "DIR", NULL,
	    "where index maps are kept; PREFIX/cache/... by default"),
	CHOICE("data-change", data_change, data_changes, "refuse",
	    "on resume with other data: restart begins the new order, exclude-seen draws no sample "
	    "of a corpus again"),
	CHOICE("dataloader-type", dataloader_type, dataloaders, "single",
	    "samples in order, or (cyclic) in a permutation of all of them each epoch"),
	FLAG("no-data-sharding", no_data_sharding,
	    "cyclic: data ranks share one permutation instead of having one each"),
	FLAG("no-mmap-bin-files", no_mmap_bin_files, "read tokens instead of mapping the files"),
	NUM("mid-level-dataset-surplus", surplus, 0, 1e6, "0.005",
	    "how much more than its share each corpus of a weighted blend is asked for"),
	UNFLAG("no-drop-last-partial-validation-sequence", drop_last_partial,
	    "validation keeps its last sample even when it is not full"),
	FLAG("mock-data", mock_data, "tokens drawn at random, no dataset"),
	FLAG("eod-mask-loss", eod_mask_loss, "no loss where the input is the end of a document"),
	FLAG("calculate-per-token-loss", calculate_per_token_loss,
	    "losses of routers weigh the more beside the loss the fewer tokens it counts, as in "
	    "Megatron-LM; the loss is always a mean over the tokens of a batch"),
	FLAG("reset-position-ids", reset_position_ids,
	    "learned positions restart after the end of a document"),
	STRING("tokenizer-type", tokenizer_type, "TYPE", NULL,
	    "kind of tokenizer, in Megatron-LM's names"),
	STRING("tokenizer-model", tokenizer_model, "FILE", NULL,
	    "SentencePiece model, tokenizer.json or its directory, or tiktoken rank file"),
	STRING("vocab-file", vocab_file, "FILE", NULL, "vocab.json of a GPT-2 tokenizer"),
	STRING("merge-file", merge_file, "FILE", NULL, "merges.txt of a GPT-2 tokenizer"),
	FLAG("tokenizer-hf-no-include-special-tokens", hf_no_include_special_tokens,
	    "tokenizer.json: no special tokens around a prompt"),
	STRING("tiktoken-pattern", tiktoken_pattern, "NAME", NULL,
	    "how a TikTokenizer cuts text: v1, v2, gpt2, cl100k, o200k or qwen2; by default the "
	    "file tells"),
	INT("tiktoken-num-special-tokens", tiktoken_num_special_tokens, 1, "1000",
	    "ids before the ranks of a TikTokenizer's JSON list"),
	{ .name = "tiktoken-special-tokens",
	    .type = OPT_LIST,
	    .off = offsetof(S, tiktoken_special_tokens),
	    .unit = "TEXT",
	    .help = "names of a TikTokenizer's special tokens, in the order of their ids" },
	GROUP("Checkpoints"),
	STRING("save", save, "DIR", NULL, "where checkpoints are written"),
	INT("save-interval", save_interval, 1, NULL,
	    "steps between checkpoints; the last step is always saved"),
	INT("save-retain-interval", save_retain_interval, 1, NULL,
	    "a multiple of --save-interval: of checkpoints that are older than the newest, only "
	    "those of its multiples stay"),
	STRING("load", load, "DIR", NULL,
	    "resume from here; may be missing or empty only when it equals --save"),
	{ .name = "ckpt-step",
	    .type = OPT_INT,
	    .off = offsetof(S, ckpt_step),
	    .min = -1,
	    .max = 1e15,
	    .def = "-1",
	    .help = "continue from this iteration of --load; -1: the newest" },
	FLAG("exit-on-missing-checkpoint", exit_on_missing_checkpoint,
	    "exit with status 1 where --load would start fresh"),
	STRING("pretrained-checkpoint", pretrained_checkpoint, "DIR", NULL,
	    "weights to start from while --load holds no checkpoint: ours or a Hugging Face "
	    "directory"),
	FLAG("finetune", finetune,
	    "take only the weights of --load; steps, samples and optimizer start from zero"),
	UNFLAG("no-load-optim", load_optim, "leave the optimizer state of --load"),
	UNFLAG("no-save-optim", save_optim, "save only weights"),
	FLAG("break-lock", break_lock,
	    "take --save even if another run seems to hold it; that one stops"),
	FLAG("async-save", async_save,
	    "write checkpoints during the next steps, from a copy in host memory; always so on a "
	    "GPU"),
	FLAG("no-async-save", wait_for_save, "wait for each checkpoint, also on a GPU"),
	FLAG("use-checkpoint-args", use_checkpoint_args,
	    "the model is the checkpoint's, also where options say otherwise; sizes that are given "
	    "count"),
	FLAG("override-opt_param-scheduler", override_schedule,
	    "on resume, the command line's schedule and optimizer constants count"),
	FLAG("use-checkpoint-opt_param-scheduler", use_checkpoint_schedule,
	    "on resume, the checkpoint's schedule counts"),
	GROUP("Evaluation and end"),
	INT("eval-iters", eval_iters, 0, "100", "batches per evaluation"),
	INT("eval-interval", eval_interval, 1, "1000", "steps between evaluations"),
	INT("eval-global-batch-size", eval_global_batch_size, 1, NULL,
	    "samples per batch of an evaluation; by default as many as in a training step"),
	INT("eval-micro-batch-size", eval_micro_batch_size, 1, NULL,
	    "samples per micro batch of an evaluation; --micro-batch-size by default"),
	FLAG("full-validation", full_validation,
	    "every validation takes all samples of its set, each once"),
	FLAG("multiple-validation-sets", multiple_validation_sets,
	    "a separate validation loss for each corpus of the list"),
	LIST("validation-set-names", validation_set_names, "NAME",
	    "their names; by default the ends of their prefixes"),
	FLAG("skip-train", skip_train, "evaluate only"),
	INT("exit-interval", exit_interval, 1, NULL,
	    "save and stop (exit 3) at a multiple of this step"),
	NUM("exit-duration-in-mins", exit_duration_in_mins, 0, INFINITY, "0",
	    "save and stop (exit 3) after this long; 0: never"),
	CHOICE("exit-signal", exit_signal, stop_signal_names, "SIGTERM",
	    "save and stop (exit 3) at this signal too; always at the first six"),
	GROUP("Output"),
	INT("log-interval", log_interval, 1, "100", "steps between log lines"),
	FLAG("log-throughput", log_throughput, "(throughput is always logged)"),
	FLAG("log-ceiling", log_ceiling,
	    "each step's share of the rate that all ranks reach in the run's own GEMM, measured "
	    "once at the start"),
	FLAG("log-energy", log_energy,
	    "joules and watts of the GPUs, where the driver's NVML has a meter"),
	STRING("tensorboard-dir", tensorboard_dir, "DIR", NULL, "TensorBoard event files"),
	INT("tensorboard-log-interval", tensorboard_log_interval, 1, "1",
	    "steps between points in them"),
	STRING("metrics-file", metrics_file, "FILE", NULL, "one JSON object per step"),
	FLAG("log-params-norm", log_params_norm,
	    "the norm of all weights after each step, at the cost of a wait"),
	FLAG("log-num-zeros-in-grad", log_num_zeros_in_grad,
	    "the number of zero elements of the gradients"),
	{ .name = "timing-log-level",
	    .type = OPT_INT,
	    .off = offsetof(S, timing_log_level),
	    .max = 2,
	    .def = "0",
	    .help = "times of the parts of a step after each log line: 1: the large ones, 2: all" },
	CHOICE("timing-log-option", timing_log_option, timing_options, "minmax",
	    "of the times of all ranks, the longest, the shortest and the longest, or every one"),
	FLAG("log-timers-to-tensorboard", log_timers_to_tensorboard,
	    "the longest of them in --tensorboard-dir"),
	FLAG("log-straggler", log_straggler,
	    "the ranks that compute longest and shortest, after each log line"),
	{ .name = "straggler-minmax-count",
	    .type = OPT_INT,
	    .off = offsetof(S, straggler_minmax_count),
	    .min = 1,
	    .max = 1e6,
	    .def = "1",
	    .help =
		"with --log-straggler: if above 1, how many of the slowest and fastest to list" },
	FLAG("log-world-size-to-tensorboard", log_world_size_to_tensorboard,
	    "the number of ranks in --tensorboard-dir"),
	FLAG("log-memory-to-tensorboard", log_memory_to_tensorboard,
	    "bytes that are planned and in use on rank 0 in --tensorboard-dir"),
	FLAG("log-loss-by-corpus", log_loss_by_corpus,
	    "the training loss of each corpus in --metrics-file, at log steps"),
	FLAG("profile", profile,
	    "time every operation of some steps on rank 0: a table against its roofline, a Chrome "
	    "trace"),
	INT("profile-step-start", profile_step_start, 0, "10",
	    "finished steps before the first one that is profiled"),
	INT("profile-step-end", profile_step_end, 1, "12",
	    "finished steps after the last one that is profiled"),
	STRING("profile-prefix", profile_prefix, "PREFIX", "profile",
	    "PREFIX.tsv and PREFIX.json get table and trace"),
	GROUP("Machine"),
	CHOICE("backend", backend, mtrain_backends, "auto",
	    "the device; auto takes a GPU when there is one"),
	CHOICE("attention-backend", attention_backend, mtrain_attention_backends, "auto",
	    "kernels of attention on a GPU: fused, cuDNN's; flash, our own on tensor cores; "
	    "unfused and local, our own without; hopper, our own forward pass for compute "
	    "capability 9.0, and the backward pass of auto; auto, for each shape hopper where it "
	    "was the fastest, else the first of the others that takes it; no other one serves a "
	    "shape that the one chosen does not take"),
	INT("num-threads", num_threads, 1, NULL,
	    "CPU threads of a rank; cores / ranks of the host by default"),
	INT("init-timeout", init_timeout, 1, "600",
	    "seconds that a rank waits for all others to start; then it exits with status 4"),
	NUM("distributed-timeout-minutes", timeout_minutes, 0.01, 1e6, "10",
	    "minutes that a rank waits for others in one call before the first step is done; then "
	    "all exit with status 4"),
	INT("distributed-timeout-seconds-after-init", timeout_seconds, 1, NULL,
	    "seconds that it waits after the first step; as long by default"),
	UNFLAG("no-overlap-grad-reduce", overlap_grad_reduce,
	    "reduce gradients over data ranks in turn with the backward pass, not beside it, as "
	    "is Megatron-LM's default"),
	UNFLAG("no-overlap-param-gather", overlap_param_gather,
	    "gather weights from data ranks in turn with the update, not beside the forward "
	    "pass, as is Megatron-LM's default"),
	UNFLAG("no-cuda-graphs", cuda_graphs,
	    "queue every pass on the GPU each time; otherwise those without dropout, tensor ranks "
	    "and context ranks are recorded once and launched whole, or in parts between which "
	    "data "
	    "ranks communicate"),
	FLAG("deterministic-mode", deterministic_mode,
	    "bitwise repeatable even where that costs time"),
	INT("verify-interval", verify_interval, 0, "0",
	    "steps between those whose first micro batch is run twice: different results end the "
	    "run with status 5; 0: none"),
	INT("check-weight-hash-across-dp-replicas-interval", check_weight_hash_interval, 0, "0",
	    "steps between those after which data ranks compare their weights: different ones end "
	    "the run with status 5; 0: none"),
	FLAG("dry-run", dry_run, "check everything, print the memory of every rank, start nothing"),
	{ .name = "world-size",
	    .type = OPT_INT,
	    .off = offsetof(S, world_size),
	    .min = 1,
	    .max = 1 << 20,
	    .help = "ranks that --dry-run plans for, at most 1048576: each has a line" },
	GROUP("Inference"),
	STRING("tokens-file", tokens_file, "F.npy", NULL,
	    "int32 or int64 tokens [s]: run them once, forward"),
	STRING("logits-file", logits_file, "F.npy", NULL, "logits [s, v] of --tokens-file go here"),
	INT("generate", generate, 1, NULL, "print this many tokens after the prompt"),
	STRING("prompt-file", prompt_file, "FILE", NULL,
	    "text to continue; empty: from the beginning of text"),
	NUM("temperature", temperature, 0, 100, "0",
	    "temperature of sampling; 0 takes the likeliest token"),
	INT("top-k", top_k, 0, "0", "sample among this many likeliest tokens; 0: all"),
	NUM("top-p", top_p, 0, 1, "1",
	    "sample among the likeliest tokens of this joint probability"),
	GROUP("Accepted for Megatron-LM's scripts"),
	NOTE("yarn-correction-range-round-to-int", "the pairs of yarn are rounded by default"),
	NOTE("use-mcore-models", one_model),
	NOTE("use-legacy-models", one_model),
	NOTE("transformer-impl", one_model),
	NOTE("use-flash-attn", "attention never stores its matrix"),
	NOTE("attention-softmax-in-fp32", always_fp32),
	NOTE("no-masked-softmax-fusion", fused),
	NOTE("no-bias-swiglu-fusion", fused),
	NOTE("no-bias-dropout-fusion", fused),
	NOTE("no-rope-fusion", fused),
	NOTE("cross-entropy-loss-fusion", fused),
	NOTE("cross-entropy-fusion-impl", fused),
	NOTE("no-gradient-accumulation-fusion", fused),
	NOTE("moe-grouped-gemm", "the experts of a rank are always multiplied together"),
	NOTE("no-persist-layer-norm", fused),
	NOTE("distributed-backend", "communication is MPI between CPUs and NCCL between GPUs"),
	NOTE("local-rank", launcher),
	NOTE("use-cpu-initialization", "initial weights never depend on the device"),
	NOTE("accumulate-allreduce-grads-in-fp32",
	    "gradients are always accumulated and reduced in fp32"),
	NOTE("overlap-grad-reduce", "the default"),
	NOTE("overlap-param-gather", "the default"),
	NOTE("no-async-tensor-model-parallel-allreduce", "changes only speed"),
	NOTE("ckpt-format", "checkpoints have one format"),
	NOTE("no-load-rng", "randomness has no state but the seed"),
	NOTE("no-save-rng", "randomness has no state but the seed"),
	NOTE("num-workers", "samples are read from the map"),
	NOTE("no-create-attention-mask-in-dataloader", "masks are never built"),
	NOTE("exit-signal-handler", signals),
	NOTE("exit-signal-handler-for-dataloader", signals),
	NOTE("exit-signal-handler-for-training", signals),
	NOTE("empty-unused-memory-level", planned),
	NOTE("deallocate-pipeline-outputs", planned),
	NOTE("disable-mem-efficient-ln", planned),
	NOTE("disable-clone-scatter-output-in-embedding", planned),
	NOTE("no-clone-scatter-output-in-embedding", planned),
	NOTE("dataloader-fast-cache-load", mapped),
	NOTE("dataloader-defer-npy-index-mmap", mapped),
	NOTE("overlap-cpu-optimizer-d2h-h2d", "copies always overlap the update by the host"),
	NOTE("cpu-offloading-retain-pinned-cpu-buffers", planned),
	NOTE("manual-gc", no_gc),
	NOTE("manual-gc-interval", no_gc),
	NOTE("no-manual-gc-eval", no_gc),
	NOTE("disable-manual-gc-eval", no_gc),
	NOTE("log-validation-ppl-to-tensorboard", "always logged"),
	NOTE("log-progress", "not logged"),
	NOTE("log-learning-rate-to-tensorboard", "always logged"),
	NOTE("log-loss-scale-to-tensorboard", "always logged"),
	NOTE("log-batch-size-to-tensorboard", "always logged"),
	NOTE("tensorboard-queue-size", "events are flushed with each line"),
	NOTE("wandb-project", wandb),
	NOTE("wandb-exp-name", wandb),
	NOTE("wandb-name", wandb),
	NOTE("wandb-entity", wandb),
	NOTE("wandb-save-dir", wandb),
	OPT_END,
};
