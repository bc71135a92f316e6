/*
 * option_list.h - the options of mtrain besides those of lib/model/options.h, a row each
 *
 * A row makes the member of struct train_options (config.h) and the option: parsing, --help, the
 * manual, options.conf and what is compared between ranks follow from it. Names, defaults and
 * meanings are Megatron-LM's where it has the option, except where the help says otherwise. A range
 * is that of one value; rules between options are in config.c. Without a default the value is zero,
 * or NULL, until the option is given. To add one, add its row.
 *
 *   DO(GROUP, heading)
 *   DO(KIND, ON, option, member, ...)   ON: what ranks have in common of it (enum agree_on)
 *
 *   INT             lowest value, default or NULL, help
 *   RANGE           lowest and highest value, default or NULL, help: another integer
 *   NUM             lowest and highest value, default or NULL, help
 *   FLAG, UNFLAG    help: true, or false, where it is given
 *   STRING          unit, default or NULL, help
 *   LETTER          letter, unit, help: a string whose option has a short name too
 *   LIST            unit, help
 *   CHOICE          words, default, help
 *   X_OF            as X, in a member of a struct that another header declares
 */
#ifndef TRAIN_CONFIG_OPTION_LIST_H
#define TRAIN_CONFIG_OPTION_LIST_H

/* clang-format off */
#define TRAIN_OPTIONS(DO) \
	DO(GROUP, "Training") \
	DO(INT, VALUE, "train-iters", train_iters, 1, NULL, "steps to train") \
	DO(INT, VALUE, "train-samples", train_samples, 1, NULL, \
	   "samples to train, instead of --train-iters") \
	DO(LIST, VALUE, "iterations-to-skip", iterations_to_skip, "N", \
	   "steps, counted from 1, whose samples are skipped") \
	DO(STRING, VALUE, "rewind-on-spike", rewind_on_spike, "FACTOR:WINDOW[:TIMES]", NULL, \
	   "where a loss is above FACTOR times the median of the last WINDOW, go back to a " \
	   "checkpoint and skip these steps, 3 TIMES by default") \
	DO(RANGE, VALUE, "seed", seed, 0, 4294967295.0, "1234", \
	   "of weights, dropout and data order") \
	DO(NUM, VALUE, "lr", lr, 0, INFINITY, NULL, "highest learning rate") \
	DO(NUM, VALUE, "min-lr", min_lr, 0, INFINITY, "0", \
	   "learning rate at the end of the decay") \
	DO(NUM, VALUE, "decoupled-lr", decoupled_lr, 0, INFINITY, NULL, \
	   "highest learning rate of the word embeddings and the head; --lr by default") \
	DO(NUM, VALUE, "decoupled-min-lr", decoupled_min_lr, 0, INFINITY, NULL, \
	   "with --decoupled-lr: theirs at the end of the decay; --min-lr by default", \
	   .needs = "decoupled-lr") \
	DO(CHOICE, VALUE, "lr-decay-style", lr_decay_style, lr_styles, "linear", \
	   "shape of the decay") \
	DO(INT, VALUE, "lr-decay-iters", lr_decay_iters, 1, NULL, \
	   "steps of warm-up and decay; --train-iters by default") \
	DO(INT, VALUE, "lr-decay-samples", lr_decay_samples, 1, NULL, \
	   "the same in samples, with --train-samples, which is the default") \
	DO(INT, VALUE, "lr-warmup-iters", lr_warmup_iters, 0, "0", "steps of linear warm-up") \
	DO(INT, VALUE, "lr-warmup-samples", lr_warmup_samples, 0, "0", \
	   "the same in samples, with --train-samples") \
	DO(NUM, VALUE, "lr-warmup-fraction", lr_warmup_fraction, 0, 1, NULL, \
	   "the same as a share of the decay, instead of either") \
	DO(NUM, VALUE, "lr-warmup-init", lr_warmup_init, 0, INFINITY, "0", \
	   "learning rate of the first step", \
	   .needs = "lr-warmup-iters|lr-warmup-samples|lr-warmup-tokens|lr-warmup-fraction") \
	DO(CHOICE, VALUE, "lr-wsd-decay-style", lr_wsd_decay_style, wsd_styles, "exponential", \
	   "shape of the tail of WSD", .needs = "lr-decay-style=WSD") \
	DO(INT, VALUE, "lr-wsd-decay-iters", lr_wsd_decay_iters, 0, NULL, \
	   "steps of the tail of WSD, which needs it", .needs = "lr-decay-style=WSD") \
	DO(INT, VALUE, "lr-wsd-decay-samples", lr_wsd_decay_samples, 0, NULL, \
	   "the same in samples, with --train-samples", .needs = "lr-decay-style=WSD") \
	DO(NUM, VALUE, "weight-decay", weight_decay, 0, INFINITY, "0.01", \
	   "weight decay of tensors with two dimensions") \
	DO(NUM, VALUE, "start-weight-decay", start_weight_decay, 0, INFINITY, NULL, \
	   "first value of a changing weight decay") \
	DO(NUM, VALUE, "end-weight-decay", end_weight_decay, 0, INFINITY, NULL, \
	   "last value of a changing weight decay") \
	DO(CHOICE, VALUE, "weight-decay-incr-style", weight_decay_incr_style, wd_styles, \
	   "constant", "how weight decay changes") \
	DO(NUM, VALUE, "adam-beta1", adam_beta1, 0, 0.9999999, "0.9", \
	   "decay of the first moment", .needs = "optimizer=adam|optimizer=muon") \
	DO(NUM, VALUE, "adam-beta2", adam_beta2, 0, 0.9999999, "0.999", \
	   "decay of the second moment", .needs = "optimizer=adam|optimizer=muon") \
	DO(NUM, VALUE, "adam-eps", adam_eps, 0, 1, "1e-8", \
	   "added to the root of the second moment", \
	   .needs = "optimizer=adam|optimizer=muon") \
	DO(UNFLAG, VALUE, "no-decoupled-weight-decay", decoupled_weight_decay, \
	   "weight decay as a term of the gradient") \
	DO(NUM, VALUE, "sgd-momentum", sgd_momentum, 0, 0.9999999, "0.9", "of --optimizer sgd", \
	   .needs = "optimizer=sgd") \
	DO(NUM_OF, VALUE, "muon-momentum", muon.momentum, 0, 0.9999999, "0.9", \
	   "of --optimizer muon, which updates the matrices of layers, each of q, k, v, gate and " \
	   "up by itself, and leaves the rest to adam: decay of the average of gradients", \
	   .needs = "optimizer=muon") \
	DO(FLAG_OF, VALUE, "muon-nesterov", muon.nesterov, \
	   "the gradient counts once more on top of the average", .needs = "optimizer=muon") \
	DO(CHOICE_OF, VALUE, "muon-scale-mode", muon.scale_mode, muon_scale_modes, "spectral", \
	   "what an orthogonal update of OUT rows and IN columns is multiplied by: the root of " \
	   "the larger of the two, of OUT / IN, or of that where it is above 1", \
	   .needs = "optimizer=muon") \
	DO(NUM_OF, VALUE, "muon-extra-scale-factor", muon.extra_scale_factor, 0, INFINITY, "1", \
	   "multiplies that; with 0.2, spectral updates are about as large as those of adam", \
	   .needs = "optimizer=muon") \
	DO(CHOICE_OF, VALUE, "muon-coefficient-type", muon.coefficient_type, \
	   muon_coefficient_types, "quintic", "polynomials of the Newton-Schulz iterations", \
	   .needs = "optimizer=muon") \
	DO(INT_OF, VALUE, "muon-num-ns-steps", muon.num_ns_steps, 1, "5", \
	   "Newton-Schulz iterations", .needs = "optimizer=muon") \
	DO(CHOICE, VALUE, "muon-fp32-matmul-prec", muon_fp32_matmul_prec, muon_precisions, \
	   "medium", "of their GEMMs: bf16 with --bf16 or --fp16, or else the run's own", \
	   .needs = "optimizer=muon") \
	DO(CHOICE, VALUE, "muon-tp-mode", muon_tp_mode, muon_tp_modes, "duplicated", \
	   "both mean that whole matrices are orthogonalized, each by one tensor rank", \
	   .needs = "optimizer=muon") \
	DO(CHOICE, VALUE, "muon-scalar-optimizer", muon_scalar_optimizer, muon_scalar_optimizers, \
	   "adam", "the rule of what is not a matrix of a layer", .needs = "optimizer=muon") \
	DO(NUM_OF, VALUE, "qk-clip-alpha", qk_clip.alpha, 0, 1, "0.5", \
	   "share of q in what --qk-clip takes from scores; the rest is that of k", \
	   .needs = "qk-clip") \
	DO(NUM_OF, VALUE, "qk-clip-threshold", qk_clip.threshold, 1e-9, INFINITY, "100", \
	   "largest score that --qk-clip leaves alone", .needs = "qk-clip") \
	DO(NUM, VALUE, "clip-grad", clip_grad, 0, INFINITY, "1", \
	   "greatest global gradient norm; 0: no clipping") \
	DO(FLAG, VALUE, "use-z-loss", use_z_loss, \
	   "add --z-loss-coeff times the squared log-sum-exp to the loss") \
	DO(NUM, VALUE, "z-loss-coeff", z_loss, 0, 1, "1e-4", "of --use-z-loss", \
	   .needs = "use-z-loss") \
	DO(NUM, VALUE, "loss-scale", loss_scale, 0, INFINITY, "0", \
	   "a fixed scale of the mean loss of a batch for fp16; 0: dynamic", .needs = "fp16") \
	DO(NUM, VALUE, "initial-loss-scale", initial_loss_scale, 1, INFINITY, "4294967296", \
	   "first dynamic loss scale of fp16", .needs = "fp16") \
	DO(NUM, VALUE, "min-loss-scale", min_loss_scale, 0, INFINITY, "1", \
	   "least dynamic loss scale", .needs = "fp16") \
	DO(INT, VALUE, "loss-scale-window", loss_scale_growth_interval, 1, "1000", \
	   "clean steps before the loss scale doubles", .needs = "fp16") \
	DO(INT, VALUE, "hysteresis", hysteresis, 1, "2", \
	   "overflows before the loss scale halves", .needs = "fp16") \
	DO(GROUP, "Data") \
	DO(LIST_OF, PRESENCE, "data-path", paths.data_path, CORPORA, \
	   "datasets, each PREFIX.bin and PREFIX.idx; several are blended by weight, or by size") \
	DO(STRING_OF, PRESENCE, "data-args-path", paths.data_args_path, "FILE", NULL, \
	   "the words of --data-path from a file") \
	DO(STRING_OF, PRESENCE, "data-schedule", paths.data_schedule, "FILE", NULL, \
	   "datasets whose weights change at given tokens: a line TOKENS WEIGHT PREFIX ... for " \
	   "each stage") \
	DO(LIST_OF, PRESENCE, "train-data-path", paths.split_path[SPLIT_TRAIN], CORPORA, \
	   "datasets only of training, whole: --split does not apply") \
	DO(LIST_OF, PRESENCE, "valid-data-path", paths.split_path[SPLIT_VALID], CORPORA, \
	   "the same for validation") \
	DO(LIST_OF, PRESENCE, "test-data-path", paths.split_path[SPLIT_TEST], CORPORA, \
	   "the same for the test") \
	DO(STRING_OF, PRESENCE, "per-split-data-args-path", paths.per_split_data_args_path, \
	   "FILE", NULL, "all three from a JSON object with the keys train, valid and test") \
	DO(STRING, VALUE, "split", split, "A,B,C", "969, 30, 1", \
	   "shares of training, validation and test") \
	DO(STRING, PRESENCE, "data-cache-path", data_cache_path, "DIR", NULL, \
	   "where index maps are kept; PREFIX/cache/... by default") \
	DO(CHOICE, VALUE, "data-change", data_change, data_changes, "refuse", \
	   "on resume with other data: restart begins the new order, exclude-seen draws no " \
	   "sample of a corpus again, mask accepts other masks of the same tokens") \
	DO(CHOICE, VALUE, "dataloader-type", dataloader_type, dataloaders, "single", \
	   "samples in order, or (cyclic) in a permutation of all of them each epoch") \
	DO(FLAG, VALUE, "no-data-sharding", no_data_sharding, \
	   "cyclic: data ranks share one permutation instead of having one each", \
	   .needs = "dataloader-type=cyclic") \
	DO(FLAG, VALUE, "no-mmap-bin-files", no_mmap_bin_files, \
	   "read tokens instead of mapping the files") \
	DO(NUM, VALUE, "mid-level-dataset-surplus", surplus, 0, 1e6, "0.005", \
	   "how much more than its share each corpus of a weighted blend is asked for") \
	DO(UNFLAG, VALUE, "no-drop-last-partial-validation-sequence", drop_last_partial, \
	   "validation keeps its last sample even when it is not full") \
	DO(FLAG, VALUE, "mock-data", mock_data, "tokens drawn at random, no dataset") \
	DO(CHOICE, VALUE, "sample-packing", sample_packing, sample_packing_names, "cut", \
	   "samples: documents laid end to end and cut, or whole documents that fill them best") \
	DO(CHOICE, VALUE, "long-documents", long_documents, long_documents_names, "cut", \
	   "of best-fit: documents longer than a sample are cut into documents, truncated, or " \
	   "left out", .needs = "sample-packing=best-fit") \
	DO(FLAG, VALUE, "dataloader-inter-document-masking", inter_document_masking, \
	   "a token sees its own document alone, by where documents begin in the dataset: no " \
	   "end-of-document token is needed; best-fit always does") \
	DO(CHOICE, VALUE, "loss-mask", loss_mask, loss_masks, "use", \
	   "the masks of datasets, which say what tokens the loss counts, or all tokens count") \
	DO(CHOICE, VALUE, "loss-per", loss_per, loss_pers, "token", \
	   "the loss is a mean over tokens, or over documents: those of a document in a sample " \
	   "weigh one together") \
	DO(FLAG, VALUE, "eod-mask-loss", eod_mask_loss, \
	   "no loss where the input is the end of a document") \
	DO(FLAG, VALUE, "calculate-per-token-loss", calculate_per_token_loss, \
	   "losses of routers weigh the more beside the loss the fewer tokens it counts, as in " \
	   "Megatron-LM; the loss is always a mean over the tokens of a batch") \
	DO(FLAG, VALUE, "reset-position-ids", reset_position_ids, \
	   "learned positions restart after the end of a document") \
	DO(FLAG_OF, VALUE, "fim-data", fim.on, \
	   "rearrange documents so that the model learns to fill in their middles") \
	DO(NUM_OF, VALUE, "fim-rate", fim.rate, 0, 1, "0.5", "documents that are rearranged", \
	   .needs = "fim-data") \
	DO(NUM_OF, VALUE, "fim-spm-rate", fim.spm_rate, 0, 1, "0.5", \
	   "of these, those whose end comes first", .needs = "fim-data") \
	DO(STRING_OF, VALUE, "fim-split-sample", fim.token[FIM_SPLIT], "TOKEN", NULL, \
	   "a document with this token is rearranged in the parts between", \
	   .needs = "fim-data") \
	DO(NUM_OF, VALUE, "fim-fragment-rate", fim.fragment_rate, -1, 1, "-1", \
	   "parts that are rearranged; below 0: as many as documents", \
	   .needs = "fim-data&fim-split-sample") \
	DO(STRING_OF, VALUE, "fim-no-prefix", fim.no_prefix, "TEXT", NULL, \
	   "documents, or parts, that begin with TEXT stay as they are", .needs = "fim-data") \
	DO(STRING_OF, VALUE, "fim-prefix-token", fim.token[FIM_PREFIX], "TOKEN", "<fim_prefix>", \
	   "before the beginning", .needs = "fim-data") \
	DO(STRING_OF, VALUE, "fim-middle-token", fim.token[FIM_MIDDLE], "TOKEN", "<fim_middle>", \
	   "before the middle", .needs = "fim-data") \
	DO(STRING_OF, VALUE, "fim-suffix-token", fim.token[FIM_SUFFIX], "TOKEN", "<fim_suffix>", \
	   "before the end", .needs = "fim-data") \
	DO(STRING_OF, VALUE, "fim-pad-token", fim.token[FIM_PAD], "TOKEN", "<fim_pad>", \
	   "fills a sample that became shorter; no loss counts it", .needs = "fim-data") \
	DO(STRING_OF, VALUE, "fim-eod-token", fim.token[FIM_EOD], "TOKEN", "<|endoftext|>", \
	   "where documents end", .needs = "fim-data") \
	DO(STRING, VALUE, "tokenizer-type", tokenizer_type, "TYPE", NULL, \
	   "kind of tokenizer, in Megatron-LM's names", .alias = tokenizer_words) \
	DO(STRING, PRESENCE, "tokenizer-model", tokenizer_model, "FILE", NULL, \
	   "SentencePiece model, tokenizer.json or its directory, or tiktoken rank file") \
	DO(STRING, PRESENCE, "vocab-file", vocab_file, "FILE", NULL, \
	   "vocab.json of a GPT-2 tokenizer") \
	DO(STRING, PRESENCE, "merge-file", merge_file, "FILE", NULL, \
	   "merges.txt of a GPT-2 tokenizer") \
	DO(FLAG, VALUE, "tokenizer-hf-no-include-special-tokens", hf_no_include_special_tokens, \
	   "tokenizer.json: no special tokens around a prompt") \
	DO(STRING, VALUE, "tiktoken-pattern", tiktoken_pattern, "NAME", NULL, \
	   "how a TikTokenizer cuts text: v1, v2, gpt2, cl100k, o200k or qwen2; by default the " \
	   "file tells") \
	DO(INT, VALUE, "tiktoken-num-special-tokens", tiktoken_num_special_tokens, 1, "1000", \
	   "ids before the ranks of a TikTokenizer's JSON list") \
	DO(LIST, VALUE, "tiktoken-special-tokens", tiktoken_special_tokens, "TEXT", \
	   "names of a TikTokenizer's special tokens, in the order of their ids") \
	DO(GROUP, "Checkpoints") \
	DO(STRING, PRESENCE, "save", save, "DIR", NULL, "where checkpoints are written") \
	DO(INT, VALUE, "save-interval", save_interval, 1, NULL, \
	   "steps between checkpoints; the last step is always saved", .needs = "save") \
	DO(INT, VALUE, "save-retain-interval", save_retain_interval, 1, NULL, \
	   "a multiple of --save-interval: of checkpoints that are older than the newest, only " \
	   "those of its multiples stay") \
	DO(INT, VALUE, "save-hf-interval", save_hf_interval, 1, NULL, \
	   "a multiple of --save-interval: steps between exports of checkpoints to Hugging Face " \
	   "directories SAVE/hf/iter_*, by mexport in the background; also after the last step", \
	   .needs = "save") \
	DO(STRING, VALUE, "save-hook", save_hook, "CMD", NULL, \
	   "a command of the shell that runs after each save, in the background, with the " \
	   "checkpoint as $1 and its iteration as $2", .needs = "save") \
	DO(STRING, PRESENCE, "load", load, "DIR", NULL, \
	   "resume from here; may be missing or empty only when it equals --save") \
	DO(RANGE, VALUE, "ckpt-step", ckpt_step, -1, 1e15, "-1", \
	   "continue from this iteration of --load; -1: the newest") \
	DO(FLAG, VALUE, "exit-on-missing-checkpoint", exit_on_missing_checkpoint, \
	   "exit with status 1 where --load would start fresh", .needs = "load") \
	DO(STRING, PRESENCE, "pretrained-checkpoint", pretrained_checkpoint, "DIR", NULL, \
	   "weights to start from while --load holds no checkpoint: ours or a Hugging Face " \
	   "directory") \
	DO(FLAG, VALUE, "finetune", finetune, \
	   "take only the weights of --load; steps, samples and optimizer start from zero", \
	   .needs = "load|pretrained-checkpoint") \
	DO(UNFLAG, VALUE, "no-load-optim", load_optim, "leave the optimizer state of --load", \
	   .needs = "load") \
	DO(UNFLAG, VALUE, "no-save-optim", save_optim, "save only weights", .needs = "save") \
	DO(FLAG, VALUE, "break-lock", break_lock, \
	   "take --save even if another run seems to hold it; that one stops", \
	   .needs = "save") \
	DO(FLAG, VALUE, "async-save", async_save, \
	   "write checkpoints during the next steps, from a copy in host memory; always so on a " \
	   "GPU", .needs = "save") \
	DO(FLAG, VALUE, "no-async-save", wait_for_save, \
	   "wait for each checkpoint, also on a GPU", .needs = "save") \
	DO(FLAG, VALUE, "use-checkpoint-args", use_checkpoint_args, \
	   "the model is the checkpoint's, also where options say otherwise; sizes that are " \
	   "given count") \
	DO(FLAG, VALUE, "override-opt_param-scheduler", override_schedule, \
	   "on resume, the command line's schedule and optimizer constants count", \
	   .needs = "load") \
	DO(FLAG, VALUE, "use-checkpoint-opt_param-scheduler", use_checkpoint_schedule, \
	   "on resume, the checkpoint's schedule counts", .needs = "load") \
	DO(GROUP, "Evaluation and end") \
	DO(INT, VALUE, "eval-iters", eval_iters, 0, "100", "batches per evaluation") \
	DO(INT, VALUE, "eval-interval", eval_interval, 1, "1000", "steps between evaluations", \
	   .needs = "eval-iters|full-validation|eval-tasks") \
	DO(INT, VALUE, "eval-global-batch-size", eval_global_batch_size, 1, NULL, \
	   "samples per batch of an evaluation; by default as many as in a training step") \
	DO(INT, VALUE, "eval-micro-batch-size", eval_micro_batch_size, 1, NULL, \
	   "samples per micro batch of an evaluation; --micro-batch-size by default") \
	DO(FLAG, VALUE, "full-validation", full_validation, \
	   "every validation takes all samples of its set, each once") \
	DO(FLAG, VALUE, "multiple-validation-sets", multiple_validation_sets, \
	   "a separate validation loss for each corpus of the list") \
	DO(LIST, VALUE, "validation-set-names", validation_set_names, "NAME", \
	   "their names; by default the ends of their prefixes") \
	DO(LIST, VALUE, "eval-tasks", eval_tasks, "FILE", \
	   "evaluate these tasks too, of JSON Lines (see Tasks): at each evaluation, at the end, " \
	   "and with --skip-train, then also without data") \
	DO(INT, VALUE, "eval-tasks-interval", eval_tasks_interval, 1, "1", \
	   "only at evaluations after a multiple of so many steps, and at the end", \
	   .needs = "eval-tasks") \
	DO(INT, VALUE, "eval-max-length", eval_max_length, 1, NULL, \
	   "tokens that the model reads of a request, the last ones; by default " \
	   "--max-position-embeddings", .needs = "eval-tasks") \
	DO(CHOICE, VALUE, "eval-add-bos", eval_add_bos, eval_add_boses, "auto", \
	   "whether the beginning of text stands before a request: as the tokenizer has it, yes, " \
	   "or no", .needs = "eval-tasks") \
	DO(STRING, PRESENCE, "eval-tasks-output", eval_tasks_output, "FILE", NULL, \
	   "log-likelihoods of the last evaluation of tasks go here, a line of JSON an item", \
	   .needs = "eval-tasks") \
	DO(FLAG, VALUE, "skip-train", skip_train, "evaluate only") \
	DO(INT, VALUE, "exit-interval", exit_interval, 1, NULL, \
	   "save and stop (exit 3) at a multiple of this step") \
	DO(NUM, VALUE, "exit-duration-in-mins", exit_duration_in_mins, 0, INFINITY, "0", \
	   "save and stop (exit 3) after this long; 0: never") \
	DO(CHOICE, VALUE, "exit-signal", exit_signal, stop_signal_names, "SIGTERM", \
	   "save and stop (exit 3) at this signal too; always at the first six") \
	DO(GROUP, "Output") \
	DO(INT, VALUE, "log-interval", log_interval, 1, "100", "steps between log lines") \
	DO(FLAG, NOTHING, "log-throughput", log_throughput, "(throughput is always logged)") \
	DO(FLAG, VALUE, "log-ceiling", log_attainable, \
	   "each step's share of the rate that all ranks reach in the run's own GEMM, measured " \
	   "once at the start") \
	DO(FLAG, VALUE, "log-energy", log_energy, \
	   "joules and watts of the GPUs, where the driver's NVML has a meter") \
	DO(STRING, NOTHING, "tensorboard-dir", tensorboard_dir, "DIR", NULL, \
	   "TensorBoard event files") \
	DO(INT, NOTHING, "tensorboard-log-interval", tensorboard_log_interval, 1, "1", \
	   "steps between points in them and for W&B", .needs = "tensorboard-dir|wandb-project") \
	DO(STRING, NOTHING, "wandb-project", wandb_project, "NAME", NULL, \
	   "a file for this project of Weights & Biases, with the same points; `wandb sync` " \
	   "uploads it") \
	DO(STRING, NOTHING, "wandb-exp-name", wandb_exp_name, "NAME", NULL, \
	   "what the run is called there", .needs = "wandb-project") \
	DO(STRING, NOTHING, "wandb-entity", wandb_entity, "NAME", NULL, \
	   "the user or team whose project it is", .needs = "wandb-project") \
	DO(STRING, NOTHING, "wandb-id", wandb_id, "ID", NULL, \
	   "the run's id there; by default one of its own, which it keeps when it resumes", \
	   .needs = "wandb-project") \
	DO(STRING, NOTHING, "wandb-save-dir", wandb_save_dir, "DIR", NULL, \
	   "the file is in a directory of DIR/wandb; DIR is --save by default, and without it " \
	   "the current directory", .needs = "wandb-project") \
	DO(STRING, NOTHING, "metrics-file", metrics_file, "FILE", NULL, \
	   "one JSON object per step") \
	DO(STRING, NOTHING, "metrics-command", metrics_command, "CMD", NULL, \
	   "a command of the shell that gets the same on its standard input") \
	DO(FLAG, VALUE, "log-params-norm", log_params_norm, \
	   "the norm of all weights after each step, at the cost of a wait") \
	DO(FLAG, VALUE, "log-num-zeros-in-grad", log_num_zeros_in_grad, \
	   "the number of zero elements of the gradients") \
	DO(RANGE, VALUE, "timing-log-level", timing_log_level, 0, 2, "0", \
	   "times of the parts of a step after each log line: 1: the large ones, 2: all") \
	DO(CHOICE, VALUE, "timing-log-option", timing_log_option, timing_options, "minmax", \
	   "of the times of all ranks, the longest, the shortest and the longest, or every one", \
	   .needs = "timing-log-level") \
	DO(FLAG, VALUE, "log-timers-to-tensorboard", log_timers_to_tensorboard, \
	   "the longest of them in --tensorboard-dir and --wandb-project", \
	   .needs = "timing-log-level&tensorboard-dir|wandb-project") \
	DO(FLAG, VALUE, "log-straggler", log_straggler, \
	   "the ranks that compute longest and shortest, after each log line") \
	DO(RANGE, VALUE, "straggler-minmax-count", straggler_minmax_count, 1, 1e6, "1", \
	   "with --log-straggler: if above 1, how many of the slowest and fastest to list", \
	   .needs = "log-straggler") \
	DO(FLAG, VALUE, "log-world-size-to-tensorboard", log_world_size_to_tensorboard, \
	   "the number of ranks in --tensorboard-dir and --wandb-project", \
	   .needs = "tensorboard-dir|wandb-project") \
	DO(FLAG, VALUE, "log-memory-to-tensorboard", log_memory_to_tensorboard, \
	   "bytes that are planned and in use on rank 0 in --tensorboard-dir, --wandb-project " \
	   "and --metrics-file", \
	   .needs = "tensorboard-dir|wandb-project|metrics-file|metrics-command") \
	DO(FLAG, VALUE, "log-loss-by-corpus", log_loss_by_corpus, \
	   "the training loss of each corpus in --metrics-file, at log steps", \
	   .needs = "metrics-file|metrics-command") \
	DO(STRING, PRESENCE, "sample-losses", sample_losses, "FILE", NULL, \
	   "write the loss of every sample of training, a row each: what mshard where --losses " \
	   "reads") \
	DO(INT, VALUE, "sample-losses-interval", sample_losses_interval, 1, "1", \
	   "write them every so many steps", .needs = "sample-losses") \
	DO(FLAG, NOTHING, "profile", profile, \
	   "time every operation of some steps on rank 0: a table against its roofline, a Chrome " \
	   "trace") \
	DO(INT, NOTHING, "profile-step-start", profile_step_start, 0, "10", \
	   "finished steps before the first one that is profiled", .needs = "profile") \
	DO(INT, NOTHING, "profile-step-end", profile_step_end, 1, "12", \
	   "finished steps after the last one that is profiled", .needs = "profile") \
	DO(STRING, NOTHING, "profile-prefix", profile_prefix, "PREFIX", "profile", \
	   "PREFIX.tsv and PREFIX.json get table and trace", .needs = "profile") \
	DO(GROUP, "Machine") \
	DO(CHOICE, VALUE, "backend", backend, mtrain_backends, "auto", \
	   "the device; auto takes a GPU when there is one") \
	DO(CHOICE, VALUE, "attention-backend", attention_backend, mtrain_attention_backends, \
	   "auto", \
	   "kernels of attention on a GPU: fused, cuDNN's; flash, our own on tensor cores; " \
	   "unfused and local, our own without; hopper, our own for compute capability 9.0, and " \
	   "of auto the backward passes that it does not take; auto, of each pass hopper where " \
	   "it was measured to be the fastest, else the first of the others that takes the " \
	   "shape; no other one serves a shape that the one chosen does not take") \
	DO(INT, VALUE, "num-threads", num_threads, 1, NULL, \
	   "CPU threads of a rank; cores / ranks of the host by default") \
	DO(INT, VALUE, "init-timeout", init_timeout, 1, "600", \
	   "seconds that a rank waits for all others to start; then it exits with status 4") \
	DO(RANGE, VALUE, "pretend-hosts", pretend_hosts, 1, 1 << 20, "1", \
	   "the ranks of each machine are so many hosts, the first part of them the first one, " \
	   "and communicate as between hosts, NCCL too: shows on one machine what several do") \
	DO(NUM, VALUE, "distributed-timeout-minutes", timeout_minutes, 0.01, 1e6, "10", \
	   "minutes that a rank waits for others in one call before the first step is done; then " \
	   "all exit with status 4") \
	DO(INT, VALUE, "distributed-timeout-seconds-after-init", timeout_seconds, 1, NULL, \
	   "seconds that it waits after the first step; as long by default") \
	DO(UNFLAG, VALUE, "no-overlap-grad-reduce", overlap_grad_reduce, \
	   "reduce gradients over data ranks in turn with the backward pass, not beside it, as " \
	   "is Megatron-LM's default") \
	DO(UNFLAG, VALUE, "no-overlap-param-gather", overlap_param_gather, \
	   "gather weights from data ranks in turn with the update, not beside the forward pass, " \
	   "as is Megatron-LM's default") \
	DO(UNFLAG, VALUE, "no-cuda-graphs", cuda_graphs, \
	   "queue every pass on the GPU each time; otherwise those without dropout, tensor ranks " \
	   "and context ranks are recorded once and launched whole, or in parts between which " \
	   "data ranks communicate; with --generate those after the prompts") \
	DO(FLAG, VALUE, "deterministic-mode", deterministic_mode, \
	   "bitwise repeatable even where that costs time") \
	DO(INT, VALUE, "verify-interval", verify_interval, 0, "0", \
	   "steps between those whose first micro batch is run twice: different results end the " \
	   "run with status 5; 0: none") \
	DO(INT, VALUE, "check-weight-hash-across-dp-replicas-interval", \
	   check_weight_hash_interval, 0, "0", \
	   "steps between those after which data ranks compare their weights: different ones end " \
	   "the run with status 5; 0: none") \
	DO(RANGE, NOTHING, "ranks", ranks, 1, 1 << 20, NULL, \
	   "start so many ranks on this host by mpirun; Ctrl-C and other requests save and stop") \
	DO(STRING, NOTHING, "launch", launch, "WORDS", NULL, \
	   "start the ranks by these words, as 'mpirun -np 64 --hostfile F' or srun, likewise") \
	DO(NUM, NOTHING, "stop-timeout", stop_timeout, 0, 1e6, "0", \
	   "with these two: seconds from a request to stop until the ranks are ended; 0: no " \
	   "limit", .needs = "ranks|launch") \
	DO(FLAG, VALUE, "dry-run", dry_run, \
	   "check everything, print the memory of every rank, start nothing") \
	DO(RANGE, VALUE, "world-size", world_size, 1, 1 << 20, NULL, \
	   "ranks that --dry-run plans for, at most 1048576: each has a line") \
	DO(CHOICE, VALUE, "gpu", gpu, hardware_names, NULL, \
	   "the device that --dry-run plans for: the last line says whether the run fits, and " \
	   "the status is 1 if it does not; or that --calibrate measures", \
	   .needs = "dry-run|calibrate") \
	DO(STRING, NOTHING, "calibrate", calibrate, "FILE", NULL, \
	   "train nothing, and need no data: measure what the run's own GEMMs, attention, copies " \
	   "and sums of ranks reach, and write it there as options of mplan") \
	DO(NUM, NOTHING, "calibrate-seconds", calibrate_seconds, 0.1, 1e5, "120", \
	   "for so long", .needs = "calibrate") \
	DO(STRING, NOTHING, "operations", operations, "FILE", NULL, \
	   "write the operations of a step there, of the first rank of each stage: the list that " \
	   "mplan time prices", .needs = "dry-run") \
	DO(GROUP, "Porting") \
	DO(FLAG, NOTHING, "explain", explain, \
	   "read a launch script of Megatron-LM or DeepSpeed, without running it, or the options " \
	   "after --: print the command for mtrain and what becomes of each option") \
	DO(LETTER, NOTHING, "output", output, 'o', "FILE", \
	   "with --explain: write an option file instead of the command") \
	DO(FLAG, NOTHING, "json", json, "with --explain: print JSON Lines, an object an option") \
	DO(STRING, PRESENCE, "deepspeed-config", deepspeed_config, "FILE", NULL, \
	   "a configuration of DeepSpeed: what it says of ZeRO, precision, loss scale, clipping " \
	   "and batch must agree with the options, or is taken where these say nothing") \
	DO(INT, VALUE, "train-tokens", train_tokens, 1, NULL, \
	   "--train-samples times --seq-length; the run ends at the first of what is given") \
	DO(INT, VALUE, "lr-decay-tokens", lr_decay_tokens, 1, NULL, \
	   "--lr-decay-samples times --seq-length") \
	DO(INT, VALUE, "lr-warmup-tokens", lr_warmup_tokens, 0, NULL, \
	   "--lr-warmup-samples times --seq-length; the samples need not be whole") \
	DO(GROUP, "Inference") \
	DO(STRING, PRESENCE, "tokens-file", tokens_file, "F.npy", NULL, \
	   "int32 or int64 tokens [s]: run them once, forward") \
	DO(STRING, PRESENCE, "logits-file", logits_file, "F.npy", NULL, \
	   "logits [s, v] of --tokens-file go here; with --generate of one prompt those that " \
	   "chose each token") \
	DO(INT, VALUE, "generate", generate, 1, NULL, \
	   "print at most this many tokens after each prompt, and say at the end how many a " \
	   "second were made") \
	DO(STRING, PRESENCE, "prompt-file", prompt_file, "FILE", NULL, \
	   "text to continue, - is standard input; empty: from the beginning of text", \
	   .needs = "generate") \
	DO(STRING, PRESENCE, "prompts", prompts, "FILE", NULL, \
	   "JSON Lines to continue, - is standard input: objects with prompt or input_ids, and " \
	   "perhaps id, max_tokens, seed; a line of JSON is printed for each", \
	   .needs = "generate") \
	DO(RANGE, VALUE, "generate-batch-size", generate_batch_size, 1, 4096, "8", \
	   "prompts that a data rank continues at once", .needs = "prompts") \
	DO(LIST, VALUE, "stop", stop, "TEXT", \
	   "a text ends before any of these; it always ends at the end of document", \
	   .needs = "generate") \
	DO(LIST, VALUE, "stop-token-ids", stop_token_ids, "ID", \
	   "a text ends before any of these tokens", .needs = "generate") \
	DO(UNFLAG, VALUE, "no-kv-cache", kv_cache, \
	   "compute each token from the whole text instead of keeping keys and values", \
	   .needs = "generate") \
	DO(NUM, VALUE, "temperature", temperature, 0, 100, "0", \
	   "temperature of sampling; 0 takes the likeliest token", .needs = "generate") \
	DO(INT, VALUE, "top-k", top_k, 0, "0", "sample among this many likeliest tokens; 0: all", \
	   .needs = "generate") \
	DO(NUM, VALUE, "top-p", top_p, 0, 1, "1", \
	   "sample among the likeliest tokens of this joint probability", \
	   .needs = "generate")
/* clang-format on */

#endif
