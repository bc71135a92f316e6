/*
 * foreign_list.h - what becomes of other programs' options that mtrain does not have, a row each,
 * sorted by name
 *
 * The names are those of pretrain_gpt.py from 2021 to 2026, with the ones that it makes of its
 * configuration classes (--no-x and --disable-x of a switch that is on), of the forks of llm-jp,
 * Swiss AI and others, and of the scripts of BigScience and DeepSpeed; '_' is written as '-'. An
 * option that gets built leaves this list in the same change. The reasons are in foreign.c.
 *
 *   DO(NOTE, name, why)          a run with it computes the same, there and here, up to the order
 *                                of sums; or only an option that is refused reads it
 *   DO(ALIAS, name, to)          the same as the options `to`, where $ stands for what was given
 *   DO(SAME, name, values, why)  NOTE with one of the values (* any, @x that of option x), or with
 *                                "value=to" ALIAS; refused with any other
 *   DO(MATHS, name, why)         would change what is computed
 *   DO(LACKS, name, why)         asks for a function that `why` has another way to
 *   DO(SCOPE, name, why)         is of a program for something else
 */
#ifndef TRAIN_CONFIG_FOREIGN_LIST_H
#define TRAIN_CONFIG_FOREIGN_LIST_H

/* clang-format off */
#define FOREIGN_LIST(DO) \
	DO(NOTE, "DDP-impl", one_model) DO(NOTE, "abort-on-unmet-fused-kernel-constraints", fused) \
	DO(NOTE, "accumulate-allreduce-grads-in-fp32", fp32_sums) \
	DO(MATHS, "activation-func-clamp-value", clamp) \
	DO(NOTE, "activation-offload-fraction", offload) \
	DO(ALIAS, "activations-checkpoint-method", \
	   "--recompute-granularity full --recompute-method $") \
	DO(ALIAS, "activations-checkpoint-num-layers", "--recompute-num-layers $") \
	DO(NOTE, "ademamix-alpha", read_ademamix) DO(NOTE, "ademamix-alpha-warmup", read_ademamix) \
	DO(NOTE, "ademamix-beta3", read_ademamix) DO(NOTE, "ademamix-beta3-warmup", read_ademamix) \
	DO(NOTE, "adlr-autoresume", restart) DO(NOTE, "adlr-autoresume-interval", restart) \
	DO(MATHS, "allow-ambiguous-pad-tokens", ids) DO(LACKS, "aml-data-download-path", storage) \
	DO(NOTE, "app-tag-run-name", watch) DO(NOTE, "app-tag-run-version", watch) \
	DO(NOTE, "apply-query-key-layer-scaling", layer_scale) \
	DO(MATHS, "apply-residual-connection-post-layernorm", post_norm) \
	DO(MATHS, "apply-wd-to-qk-layernorm", wd_norm) \
	DO(NOTE, "async-ckpt-cpu-priority", one_ckpt) DO(NOTE, "async-ckpt-io-priority", one_ckpt) \
	DO(NOTE, "async-ckpt-use-cpu-shm", one_ckpt) DO(SCOPE, "async-mode", serving) \
	DO(NOTE, "async-strategy", one_ckpt) DO(MATHS, "attention-output-gate", attn_gate) \
	DO(NOTE, "attention-softmax-in-fp32", always_fp32) \
	DO(NOTE, "auto-detect-ckpt-format", one_ckpt) \
	DO(MATHS, "batch-invariant-backend", invariant) \
	DO(MATHS, "batch-invariant-mode", invariant) \
	DO(ALIAS, "batch-size", "--micro-batch-size $") DO(SCOPE, "bert-embedder-type", retrieval) \
	DO(SCOPE, "bert-load", retrieval) DO(SCOPE, "bert-no-binary-head", encoder) \
	DO(SCOPE, "biencoder-projection-dim", retrieval) \
	DO(SCOPE, "biencoder-shared-query-context-model", retrieval) \
	DO(SCOPE, "block-data-path", retrieval) DO(NOTE, "cache-mla-latents", serving_note) \
	DO(NOTE, "calc-ft-timeouts", watch) DO(SCOPE, "chat-template", sft) \
	DO(NOTE, "check-for-large-grads", nan_checks) DO(NOTE, "check-for-spiky-loss", nan_checks) \
	DO(ALIAS, "checkpoint-activations", \
	   "--recompute-granularity full --recompute-method uniform") \
	DO(NOTE, "checkpoint-in-cpu", offload) \
	DO(ALIAS, "checkpoint-num-layers", "--recompute-num-layers $") \
	DO(NOTE, "ckpt-assume-constant-structure", one_ckpt) \
	DO(LACKS, "ckpt-convert-format", convert) DO(LACKS, "ckpt-convert-save", convert) \
	DO(LACKS, "ckpt-convert-update-legacy-dist-opt-format", convert) \
	DO(NOTE, "ckpt-drop-redundant-extra-state", one_ckpt) DO(NOTE, "ckpt-format", one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load", one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load-exchange-algo", one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load-per-rank-objects", one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load-process-group", one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-save", one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-save-process-group", one_ckpt) \
	DO(NOTE, "ckpt-pg-tensors-cache-create", one_ckpt) \
	DO(NOTE, "ckpt-pg-tensors-cache-path", one_ckpt) DO(SCOPE, "classes-fraction", vision) \
	DO(NOTE, "config-logger-dir", watch) DO(NOTE, "contigious-checkpointing", recompute_how) \
	DO(NOTE, "cpu-offloading-retain-pinned-cpu-buffers", planned) \
	DO(ALIAS, "cpu-optimizer", "--optimizer-cpu-offload") \
	DO(NOTE, "cpu-torch-adam", one_adamw) DO(NOTE, "create-all-gather-group", buffers) \
	DO(NOTE, "create-moe-param-group", dispatch) DO(NOTE, "cross-entropy-fusion-impl", fused) \
	DO(NOTE, "cross-entropy-loss-fusion", fused) DO(NOTE, "cuda-graph-impl", graphs) \
	DO(NOTE, "cuda-graph-modules", graphs) DO(NOTE, "cuda-graph-scope", graphs) \
	DO(NOTE, "cuda-graph-warmup-steps", graphs) \
	DO(MATHS, "data-efficiency-curriculum-learning", curriculum) \
	DO(SAME, "data-impl", "mmap; infer", data_impl) \
	DO(MATHS, "data-parallel-random-init", dp_init) \
	DO(SCOPE, "data-per-class-fraction", vision) \
	DO(NOTE, "dataloader-defer-npy-index-mmap", mapped) \
	DO(NOTE, "dataloader-fast-cache-load", mapped) \
	DO(MATHS, "dataloader-inter-document-masking", docmask) \
	DO(NOTE, "ddp-average-in-collective", comm) DO(NOTE, "ddp-num-buckets", comm) \
	DO(NOTE, "ddp-pad-buckets-for-high-nccl-busbw", comm) \
	DO(NOTE, "ddp-param-name-patterns-for-fp32-local-accumulation", fp32_sums) \
	DO(NOTE, "ddp-reduce-scatter-with-fp32-accumulation", fp32_sums) \
	DO(NOTE, "deallocate-pipeline-outputs", planned) \
	DO(NOTE, "decode-only-cuda-graphs", serving_note) DO(SCOPE, "decoder-num-layers", encoder) \
	DO(SAME, "decoder-seq-length", "@seq-length", decoder) \
	DO(NOTE, "decrease-batch-size-if-needed", even) DO(NOTE, "deepscale", deepspeed) \
	DO(ALIAS, "deepscale-config", "--deepspeed-config $") DO(NOTE, "deepspeed", deepspeed) \
	DO(NOTE, "deepspeed-activation-checkpointing", recompute_how) \
	DO(NOTE, "deepspeed-mpi", deepspeed) \
	DO(NOTE, "defer-embedding-wgrad-compute", speed) \
	DO(NOTE, "delay-offload-until-cuda-graph", offload) DO(NOTE, "delay-param-gather", comm) \
	DO(NOTE, "delay-wgrad-compute", speed) \
	DO(NOTE, "delta-offload-bytes-across-pp-ranks", offload) \
	DO(SCOPE, "dino-bottleneck-size", vision) DO(SCOPE, "dino-freeze-last-layer", vision) \
	DO(SCOPE, "dino-head-hidden-size", vision) DO(SCOPE, "dino-local-crops-number", vision) \
	DO(SCOPE, "dino-local-img-size", vision) DO(SCOPE, "dino-norm-last-layer", vision) \
	DO(SCOPE, "dino-teacher-temp", vision) DO(SCOPE, "dino-warmup-teacher-temp", vision) \
	DO(SCOPE, "dino-warmup-teacher-temp-epochs", vision) \
	DO(NOTE, "disable-align-grad-reduce", comm) \
	DO(NOTE, "disable-bf16-reduced-precision-matmul", fp32_sums) \
	DO(NOTE, "disable-chunked-prefill", serving_note) \
	DO(NOTE, "disable-ckpt-load-validate-sharding-integrity", one_ckpt) \
	DO(NOTE, "disable-clone-scatter-output-in-embedding", planned) \
	DO(NOTE, "disable-dsa-indexer-rotate-activation", read_variant) \
	DO(NOTE, "disable-dsa-indexer-scoring-relu", read_variant) \
	DO(NOTE, "disable-flight-recorder-dump-on-timeout", watch) \
	DO(NOTE, "disable-flight-recorder-extra-dump-on-exec", watch) \
	DO(NOTE, "disable-flight-recorder-include-only-active", watch) \
	DO(MATHS, "disable-fp8-wgrad", wgrad16) DO(NOTE, "disable-gloo-process-groups", mpi_nccl) \
	DO(NOTE, "disable-jit-fuser", fused) \
	DO(NOTE, "disable-log-loss-scale-to-tensorboard", logged) \
	DO(SCOPE, "disable-mamba-mem-eff-path", hybrid) DO(NOTE, "disable-manual-gc-eval", no_gc) \
	DO(NOTE, "disable-mem-efficient-ln", planned) \
	DO(NOTE, "disable-moe-token-dropping", dropless) \
	DO(NOTE, "disable-moe-top2-2nd-expert-sampling", second_expert) \
	DO(NOTE, "disable-msc", no_msc) \
	DO(ALIAS, "disable-pad-vocab-size", "--make-vocab-size-divisible-by 1") \
	DO(NOTE, "disable-save-tokenizer-assets", one_ckpt) \
	DO(NOTE, "disable-straggler-on-startup", watch) \
	DO(NOTE, "disable-strict-fsdp-dtensor-load", buffers) \
	DO(NOTE, "disable-symmetric-registration", comm) \
	DO(MATHS, "disable-tokenizer-sentencepiece-ignore-extra-whitespaces", ids) \
	DO(NOTE, "disable-tp-comm-bulk-dgrad", comm) DO(NOTE, "disable-tp-comm-bulk-wgrad", comm) \
	DO(NOTE, "disable-tp-comm-overlap-ag", comm) DO(NOTE, "disable-tp-comm-overlap-rs", comm) \
	DO(NOTE, "disable-tp-comm-split-ag", comm) DO(NOTE, "disable-tp-comm-split-rs", comm) \
	DO(NOTE, "disable-use-tokenizer-model-from-checkpoint-args", one_ckpt) \
	DO(NOTE, "dist-ckpt-format", one_ckpt) \
	DO(NOTE, "dist-ckpt-optim-fully-reshardable", one_ckpt) \
	DO(NOTE, "dist-ckpt-save-pre-mcore-014", one_ckpt) \
	DO(NOTE, "dist-ckpt-strictness", one_ckpt) DO(NOTE, "dist-ckpt-workers", one_ckpt) \
	DO(NOTE, "distrib-optim-fully-reshardable-mem-efficient", one_ckpt) \
	DO(NOTE, "distribute-checkpointed-activations", recompute_how) \
	DO(NOTE, "distribute-saved-activations", recompute_how) \
	DO(NOTE, "distributed-backend", mpi_nccl) DO(NOTE, "ds-fused-adam", one_adamw) \
	DO(SCOPE, "ds-inference", serving) DO(NOTE, "ds-sequence-parallel-fpdt", long_context) \
	DO(NOTE, "ds-sequence-parallel-fpdt-chunk-size", long_context) \
	DO(NOTE, "ds-sequence-parallel-fpdt-offloading", long_context) \
	DO(ALIAS, "ds-sequence-parallel-size", "--context-parallel-size $ --cp-comm-type a2a") \
	DO(NOTE, "dsa-indexer-head-dim", read_variant) \
	DO(NOTE, "dsa-indexer-k-norm-epsilon", read_variant) \
	DO(NOTE, "dsa-indexer-k-norm-fp32", read_variant) \
	DO(NOTE, "dsa-indexer-loss-coeff", read_variant) \
	DO(NOTE, "dsa-indexer-n-heads", read_variant) \
	DO(NOTE, "dsa-indexer-rope-interleaved", read_variant) \
	DO(NOTE, "dsa-indexer-skip-topk-offset", read_variant) \
	DO(NOTE, "dsa-indexer-topk", read_variant) DO(NOTE, "dsa-indexer-topk-freq", read_variant) \
	DO(NOTE, "dsa-indexer-use-sparse-loss", read_variant) \
	DO(NOTE, "dsa-kernel-backend", read_variant) \
	DO(NOTE, "dump-param-to-param-group-map", profile) \
	DO(MATHS, "embed-layernorm", norm_places) \
	DO(SAME, "embedding-init-method-std", "@init-method-std", init_std) \
	DO(SCOPE, "embedding-path", retrieval) DO(MATHS, "embedding-weights-in-fp32", emb32) \
	DO(NOTE, "empty-unused-memory-level", planned) \
	DO(NOTE, "enable-chunked-prefill", serving_note) DO(NOTE, "enable-cuda-graph", graphs) \
	DO(NOTE, "enable-experimental", one_model) \
	DO(NOTE, "enable-expert-tensor-parallelism", etp) DO(NOTE, "enable-ft-package", watch) \
	DO(NOTE, "enable-full-sharding-in-hsdp", one_shard) \
	DO(MATHS, "enable-mhc-connections", mhc) DO(LACKS, "enable-msc", storage) \
	DO(NOTE, "enable-one-logger", watch) DO(NOTE, "enable-zbh1-exact-semantics", zero_bubble) \
	DO(NOTE, "enable-zbh1-pipeline", zero_bubble) \
	DO(ALIAS, "encoder-num-layers", "--num-layers $") \
	DO(SCOPE, "encoder-pipeline-model-parallel-size", encoder) \
	DO(ALIAS, "encoder-seq-length", "--seq-length $") \
	DO(SCOPE, "encoder-tensor-model-parallel-size", encoder) \
	DO(NOTE, "ep-overlap-early-attn-memory-release", dispatch) \
	DO(ALIAS, "ep-size", "--expert-model-parallel-size $") \
	DO(NOTE, "error-injection-rate", no_rerun) DO(NOTE, "error-injection-type", no_rerun) \
	DO(SCOPE, "evidence-data-path", retrieval) DO(NOTE, "exit-signal-handler", signals) \
	DO(NOTE, "exit-signal-handler-for-dataloader", signals) \
	DO(NOTE, "exit-signal-handler-for-training", signals) \
	DO(MATHS, "experimental-attention-variant", sparse) \
	DO(SAME, "expert-interval", "1", interval) \
	DO(ALIAS, "expert-parallel", "--expert-model-parallel-size $") \
	DO(SAME, "expert-tensor-parallel-num-weight-shards", "1", tp_shards) \
	DO(SCOPE, "export-kd-cfg", distill) DO(SCOPE, "export-kd-teacher-load", distill) \
	DO(SCOPE, "export-te-mcore-model", distill) DO(NOTE, "external-cuda-graph", graphs) \
	DO(SCOPE, "faiss-use-gpu", retrieval) DO(LACKS, "fake-process-group", plan_only) \
	DO(LACKS, "fault-injector-delay-start-iteration", faults) \
	DO(LACKS, "fault-injector-fault-delay", faults) \
	DO(LACKS, "fault-injector-fault-probabilities", faults) \
	DO(LACKS, "fault-injector-fault-types", faults) \
	DO(LACKS, "fault-injector-mtti-seconds", faults) \
	DO(LACKS, "fault-injector-num-ranks", faults) \
	DO(LACKS, "fault-injector-offset-seconds", faults) \
	DO(LACKS, "fault-injector-ranks", faults) DO(LACKS, "fault-injector-seed", faults) \
	DO(MATHS, "fim-data", fim) DO(NOTE, "fim-eod-token", read_fim) \
	DO(NOTE, "fim-fragment-rate", read_fim) DO(NOTE, "fim-middle-token", read_fim) \
	DO(NOTE, "fim-no-prefix", read_fim) DO(NOTE, "fim-pad-token", read_fim) \
	DO(NOTE, "fim-prefix-token", read_fim) DO(NOTE, "fim-rate", read_fim) \
	DO(NOTE, "fim-split-sample", read_fim) DO(NOTE, "fim-spm-rate", read_fim) \
	DO(NOTE, "fim-suffix-token", read_fim) \
	DO(NOTE, "fine-grained-activation-offloading", offload) \
	DO(NOTE, "fine-grained-offloading-max-inflight-offloads", offload) \
	DO(NOTE, "flash-attention-version", no_matrix) DO(NOTE, "flash-decode", serving_note) \
	DO(NOTE, "flight-recorder-dump-path", watch) \
	DO(NOTE, "flight-recorder-include-stack-trace", watch) \
	DO(NOTE, "flight-recorder-trace-buffer-size", watch) \
	DO(NOTE, "force-ds-sequence-parallel", long_context) \
	DO(MATHS, "fp16-lm-cross-entropy", ce16) DO(NOTE, "fp32-allreduce", fp32_sums) \
	DO(MATHS, "fp4-format", fp4) DO(NOTE, "fp4-param-gather", read_fp4) \
	DO(NOTE, "fp4-quantizer-factory", read_fp4) DO(NOTE, "fp4-recipe", read_fp4) \
	DO(ALIAS, "fp8-e4m3", "--fp8-format e4m3") DO(ALIAS, "fp8-hybrid", "--fp8-format hybrid") \
	DO(SAME, "fp8-interval", "1", fp8_interval) DO(MATHS, "fp8-output-proj", head8) \
	DO(MATHS, "fp8-quantizer-factory", recipes) DO(MATHS, "freeze-all-layers", freeze) \
	DO(NOTE, "fsdp-db-use-persist-buf-on-alloc-fail", buffers) \
	DO(NOTE, "fsdp-double-buffer", buffers) DO(NOTE, "fsdp-manual-registration", buffers) \
	DO(NOTE, "ft-num-warmup-iters", watch) DO(NOTE, "fused-residual-rmsnorm", one_model) \
	DO(SCOPE, "gdp-cutedsl-kernel", hybrid) \
	DO(SCOPE, "gdp-num-chunk-states-to-recompute", hybrid) \
	DO(SCOPE, "gdp-num-householder", hybrid) DO(NOTE, "gemm-shapes", test_only) \
	DO(SAME, "glu-activation", "swiglu=--swiglu; geglu=--activation geglu", glu) \
	DO(SAME, "glu-linear-offset", "0", offset) DO(NOTE, "goldfish-h", read_goldfish) \
	DO(NOTE, "goldfish-k", read_goldfish) DO(MATHS, "goldfish-loss", goldfish) \
	DO(NOTE, "gpu-sniff-test-interval", watch) DO(SCOPE, "grpo-clamp-eps-lower", rl) \
	DO(SCOPE, "grpo-clamp-eps-upper", rl) DO(SCOPE, "grpo-default-temperature", rl) \
	DO(SCOPE, "grpo-default-top-p", rl) DO(SCOPE, "grpo-entropy-term-weight", rl) \
	DO(SCOPE, "grpo-filter-groups-with-same-reward", rl) DO(SCOPE, "grpo-group-size", rl) \
	DO(SCOPE, "grpo-iterations", rl) DO(SCOPE, "grpo-kl-beta", rl) \
	DO(SCOPE, "grpo-prompts-per-step", rl) DO(NOTE, "gtp-expert-remat-nccl-ub", dispatch) \
	DO(NOTE, "gtp-remat-nccl-ub", buffers) DO(NOTE, "gtp-remat-opt-in-modules", buffers) \
	DO(NOTE, "gtp-remat-reduce-scatter-with-fp32-accumulation", fp32_sums) \
	DO(SCOPE, "head-lr-mult", vision) \
	DO(MATHS, "heterogeneous-layers-config-encoded-json", hetero) \
	DO(MATHS, "heterogeneous-layers-config-path", hetero) \
	DO(SCOPE, "hidden-size-teacher", distill) \
	DO(LACKS, "hierarchical-context-parallel-sizes", one_level) \
	DO(NOTE, "high-priority-a2a-comm-stream", dispatch) \
	DO(NOTE, "high-priority-stream-groups", comm) DO(SCOPE, "hybrid-attention-ratio", hybrid) \
	DO(LACKS, "hybrid-context-parallel", one_level) DO(SCOPE, "hybrid-layer-pattern", hybrid) \
	DO(SCOPE, "hybrid-mlp-ratio", hybrid) DO(SCOPE, "hybrid-override-pattern", hybrid) \
	DO(SCOPE, "ict-head-size", retrieval) DO(SCOPE, "ict-load", retrieval) \
	DO(SCOPE, "img-dim", vision) DO(SCOPE, "img-h", vision) DO(SCOPE, "img-w", vision) \
	DO(SCOPE, "incoming-requests-per-sec", serving) \
	DO(SCOPE, "incoming-requests-per-step", serving) \
	DO(SCOPE, "indexer-batch-size", retrieval) DO(SCOPE, "indexer-log-interval", retrieval) \
	DO(SCOPE, "inference", serving) \
	DO(NOTE, "inference-batch-times-seqlen-threshold", serving_note) \
	DO(SCOPE, "inference-ckpt-non-strict", serving) \
	DO(NOTE, "inference-coordinator-port", serving_note) \
	DO(NOTE, "inference-cuda-graph-all-prefills", serving_note) \
	DO(NOTE, "inference-cuda-graph-max-tokens", serving_note) \
	DO(NOTE, "inference-cuda-graph-scope", serving_note) \
	DO(NOTE, "inference-disable-ep-consensus", serving_note) \
	DO(NOTE, "inference-disable-triton-nvls-kernels", serving_note) \
	DO(NOTE, "inference-dynamic-batching", serving_note) \
	DO(NOTE, "inference-dynamic-batching-async-sched-mode", serving_note) \
	DO(NOTE, "inference-dynamic-batching-block-size", serving_note) \
	DO(NOTE, "inference-dynamic-batching-buffer-guaranteed-fraction", serving_note) \
	DO(NOTE, "inference-dynamic-batching-buffer-overflow-factor", serving_note) \
	DO(NOTE, "inference-dynamic-batching-buffer-size-gb", serving_note) \
	DO(NOTE, "inference-dynamic-batching-chunk-size", serving_note) \
	DO(NOTE, "inference-dynamic-batching-cuda-graph-max-tokens", serving_note) \
	DO(NOTE, "inference-dynamic-batching-cuda-graph-mixed-prefill-count", serving_note) \
	DO(NOTE, "inference-dynamic-batching-cuda-graph-sizing-distribution", serving_note) \
	DO(NOTE, "inference-dynamic-batching-logprobs-mode", serving_note) \
	DO(NOTE, "inference-dynamic-batching-mamba-memory-ratio", serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-requests", serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-requests-override", serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-tokens", serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-tokens-override", serving_note) \
	DO(NOTE, "inference-dynamic-batching-num-cuda-graphs", serving_note) \
	DO(NOTE, "inference-dynamic-batching-paused-buffer-size-gb", serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching", serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-coordinator-policy", serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-eviction-policy", serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-mamba-gb", serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-routing-alpha", serving_note) \
	DO(NOTE, "inference-dynamic-batching-sampling-backend", serving_note) \
	DO(NOTE, "inference-dynamic-batching-track-generated-token-events", serving_note) \
	DO(NOTE, "inference-dynamic-batching-track-paused-request-events", serving_note) \
	DO(NOTE, "inference-dynamic-batching-unified-memory-level", serving_note) \
	DO(NOTE, "inference-fuse-tp-communication", serving_note) \
	DO(NOTE, "inference-grouped-gemm-backend", serving_note) \
	DO(NOTE, "inference-logging-step-interval", serving_note) \
	DO(NOTE, "inference-max-batch-size", serving_note) \
	DO(NOTE, "inference-max-requests", serving_note) \
	DO(NOTE, "inference-max-seq-length", serving_note) \
	DO(NOTE, "inference-moe-disable-fused-quant-kernels", serving_note) \
	DO(NOTE, "inference-moe-token-dispatcher-type", serving_note) \
	DO(SCOPE, "inference-repeat-n", serving) DO(NOTE, "inference-rng-tracker", serving_note) \
	DO(NOTE, "inference-shards", serving_note) \
	DO(NOTE, "inference-text-gen-server-logging", serving_note) \
	DO(NOTE, "inference-use-synchronous-zmq-collectives", serving_note) \
	DO(NOTE, "inference-wandb-logging", serving_note) \
	DO(MATHS, "init-method-xavier-uniform", xavier) \
	DO(NOTE, "init-model-with-meta-device", same_start) \
	DO(NOTE, "initialize-socket-comms", mpi_nccl) \
	DO(NOTE, "inprocess-active-world-size", restart) \
	DO(NOTE, "inprocess-barrier-timeout", restart) \
	DO(NOTE, "inprocess-completion-timeout", restart) \
	DO(NOTE, "inprocess-empty-cuda-cache", restart) DO(NOTE, "inprocess-granularity", restart) \
	DO(NOTE, "inprocess-hard-timeout", restart) \
	DO(NOTE, "inprocess-heartbeat-interval", restart) \
	DO(NOTE, "inprocess-heartbeat-timeout", restart) \
	DO(NOTE, "inprocess-last-call-wait", restart) \
	DO(NOTE, "inprocess-max-iterations", restart) \
	DO(NOTE, "inprocess-monitor-process-interval", restart) \
	DO(NOTE, "inprocess-monitor-thread-interval", restart) \
	DO(NOTE, "inprocess-progress-watchdog-interval", restart) \
	DO(NOTE, "inprocess-restart", restart) DO(NOTE, "inprocess-soft-timeout", restart) \
	DO(NOTE, "inprocess-termination-grace-time", restart) \
	DO(MATHS, "input-embeddings-multiplier", emb_factor) DO(SCOPE, "is-hybrid-model", hybrid) \
	DO(SCOPE, "iter-per-epoch", vision) DO(SCOPE, "kd", distill) \
	DO(SCOPE, "kd-alpha-ce", distill) DO(SCOPE, "kd-beta-ce", distill) \
	DO(SCOPE, "kd-temp", distill) DO(NOTE, "keep-fp8-transpose-cache", fp8_copies) \
	DO(NOTE, "keep-fp8-transpose-cache-when-using-custom-fsdp", fp8_copies) \
	DO(LACKS, "kill-switch-file", stop_file) DO(LACKS, "kill-switch-path", stop_file) \
	DO(NOTE, "kitchen-attention-backend", read_kitchen) \
	DO(MATHS, "kitchen-config-file", recipes) DO(MATHS, "kitchen-recipe-number", recipes) \
	DO(NOTE, "kv-lora-rank", read_mla) DO(SCOPE, "langrl-env-config", rl) \
	DO(SCOPE, "langrl-external-server", rl) \
	DO(SCOPE, "langrl-inference-server-conversation-template", rl) \
	DO(SCOPE, "langrl-inference-server-type", rl) \
	DO(ALIAS, "layernorm-epsilon", "--norm-epsilon $") \
	DO(MATHS, "layernorm-init", norm_places) DO(NOTE, "lazy-mpu-init", one_model) \
	DO(MATHS, "legacy-tokenizer", old_tokenizer) DO(SCOPE, "linear-attention-freq", hybrid) \
	DO(MATHS, "linear-attention-type", linear_attn) \
	DO(SCOPE, "linear-conv-kernel-dim", hybrid) DO(SCOPE, "linear-key-head-dim", hybrid) \
	DO(SCOPE, "linear-num-key-heads", hybrid) DO(SCOPE, "linear-num-value-heads", hybrid) \
	DO(SCOPE, "linear-value-head-dim", hybrid) DO(NOTE, "lion-beta1", read_lion) \
	DO(NOTE, "lion-beta2", read_lion) DO(NOTE, "load-main-params-from-ckpt", one_ckpt) \
	DO(LACKS, "load-model-opt-format", convert) DO(LACKS, "load-tag", ckpt_step) \
	DO(SCOPE, "load-teacher", distill) DO(NOTE, "local-rank", launcher) \
	DO(NOTE, "log-batch-size-to-tensorboard", logged) \
	DO(NOTE, "log-device-memory-used", not_logged) \
	DO(NOTE, "log-learning-rate-to-tensorboard", logged) DO(NOTE, "log-level", levels) \
	DO(NOTE, "log-level-replica", levels) DO(NOTE, "log-loss-scale-to-tensorboard", logged) \
	DO(NOTE, "log-max-attention-logit", not_logged) \
	DO(NOTE, "log-memory-interval", not_logged) \
	DO(NOTE, "log-optimizer-states-to-tensorboard", not_logged) \
	DO(NOTE, "log-params-norm-per-param", not_logged) DO(NOTE, "log-progress", not_logged) \
	DO(NOTE, "log-validation-ppl-to-tensorboard", logged) DO(NOTE, "logging-level", levels) \
	DO(SCOPE, "logits-load-decode-threads", distill) DO(SCOPE, "logits-load-dir", distill) \
	DO(SCOPE, "logits-load-ignore-errors", distill) \
	DO(SCOPE, "logits-load-kd-loss-alpha", distill) \
	DO(SCOPE, "logits-load-msc-prefetch-depth", distill) \
	DO(SCOPE, "logits-load-prefetch-factor", distill) DO(SCOPE, "logits-save-dir", distill) \
	DO(SCOPE, "logits-save-dtype", distill) DO(SCOPE, "logits-save-top-k", distill) \
	DO(SCOPE, "logits-save-top-p", distill) DO(SCOPE, "logits-save-top-p-min-k", distill) \
	DO(SCOPE, "mamba-head-dim", hybrid) \
	DO(NOTE, "mamba-inference-conv-states-dtype", serving_note) \
	DO(NOTE, "mamba-inference-ssm-states-dtype", serving_note) \
	DO(SCOPE, "mamba-num-groups", hybrid) DO(SCOPE, "mamba-num-heads", hybrid) \
	DO(SCOPE, "mamba-state-dim", hybrid) DO(SCOPE, "mamba-training-ssm-states-dtype", hybrid) \
	DO(NOTE, "manual-gc", no_gc) DO(NOTE, "manual-gc-interval", no_gc) \
	DO(SCOPE, "mask-factor", vision) DO(SCOPE, "mask-prob", encoder) \
	DO(SCOPE, "mask-type", vision) DO(LACKS, "max-seqlen-per-dp-cp-rank", one_level) \
	DO(NOTE, "max-tokens-to-oom", serving_note) \
	DO(NOTE, "megatron-fsdp-enable-fine-grained-param-gather", buffers) \
	DO(SAME, "megatron-fsdp-grad-comm-dtype", "fp32", fsdp_fp32) \
	DO(SAME, "megatron-fsdp-main-grads-dtype", "fp32", fsdp_fp32) \
	DO(SAME, "megatron-fsdp-main-params-dtype", "fp32", fsdp_fp32) \
	DO(NOTE, "megatron-fsdp-max-pool-double-buffer", buffers) \
	DO(NOTE, "megatron-fsdp-version", buffers) DO(NOTE, "memory-centric-tiled-linear", speed) \
	DO(NOTE, "memory-snapshot-path", profile) DO(NOTE, "mhc-init-gating-factor", read_mhc) \
	DO(NOTE, "mhc-num-residual-streams", read_mhc) \
	DO(NOTE, "mhc-recompute-layer-num", read_mhc) \
	DO(NOTE, "mhc-sinkhorn-iterations", read_mhc) \
	DO(NOTE, "min-offloaded-tensor-size", offload) DO(NOTE, "mla-down-proj-fusion", read_mla) \
	DO(NOTE, "mlp-chunks-for-prefill", serving_note) \
	DO(SAME, "mlp-chunks-for-training", "1", chunks) \
	DO(SAME, "mlp-type", "standard", residual) DO(NOTE, "mmap-warmup", from_map) \
	DO(ALIAS, "model-parallel-size", "--tensor-model-parallel-size $") \
	DO(SAME, "model-spec", "*gpt_layer*; local", spec) \
	DO(MATHS, "moe-apply-probs-on-input", probs_in) DO(MATHS, "moe-combine-bwd-dtype", moe8) \
	DO(NOTE, "moe-deepep-num-sms", dispatch) DO(MATHS, "moe-dispatch-fwd-dtype", moe8) \
	DO(NOTE, "moe-enable-deepep", dispatch) DO(MATHS, "moe-enable-routing-replay", replay) \
	DO(SAME, "moe-eval-capacity-factor", "@moe-expert-capacity-factor", capacity) \
	DO(ALIAS, "moe-expert-parallel-size", "--expert-model-parallel-size $") \
	DO(NOTE, "moe-extended-tp", etp) DO(NOTE, "moe-flex-dispatcher-backend", dispatch) \
	DO(NOTE, "moe-flex-dispatcher-num-sms", dispatch) DO(NOTE, "moe-grouped-gemm", together) \
	DO(NOTE, "moe-hybridep-num-blocks-permute", dispatch) \
	DO(NOTE, "moe-hybridep-num-blocks-unpermute", dispatch) \
	DO(NOTE, "moe-hybridep-num-sms", dispatch) \
	DO(NOTE, "moe-hybridep-num-sms-preprocessing", dispatch) \
	DO(NOTE, "moe-hybridep-pad-uneven-dispatch-inputs", dispatch) \
	DO(MATHS, "moe-input-jitter-eps", jitter) DO(MATHS, "moe-latent-size", latent_moe) \
	DO(LACKS, "moe-layer-recompute", recompute_moe) \
	DO(ALIAS, "moe-loss-coeff", "--moe-aux-loss-coeff $") \
	DO(SAME, "moe-min-capacity", "0", capacity) \
	DO(NOTE, "moe-mlp-glu-interleave-size", interleaved) \
	DO(NOTE, "moe-ncclep-zero-copy", dispatch) \
	DO(NOTE, "moe-pad-experts-for-cuda-graph-inference", serving_note) \
	DO(NOTE, "moe-paged-stash", dispatch) \
	DO(NOTE, "moe-paged-stash-buffer-size-factor-cpu", dispatch) \
	DO(NOTE, "moe-paged-stash-buffer-size-factor-cuda", dispatch) \
	DO(NOTE, "moe-paged-stash-page-size", dispatch) DO(NOTE, "moe-per-layer-logging", loads) \
	DO(NOTE, "moe-permute-fusion", dispatch) \
	DO(NOTE, "moe-permute-fusion-into-hybridep", dispatch) \
	DO(SAME, "moe-router-dtype", "fp32", router_dtype) \
	DO(MATHS, "moe-router-force-biased", forced) DO(NOTE, "moe-router-fusion", dispatch) \
	DO(MATHS, "moe-router-group-topk", group_topk) \
	DO(MATHS, "moe-router-num-groups", group_topk) \
	DO(NOTE, "moe-router-padding-for-fp8", padded) \
	DO(NOTE, "moe-router-padding-for-quantization", padded) \
	DO(MATHS, "moe-router-quantile-balancing-ema", quantile) \
	DO(MATHS, "moe-router-topk-limited-devices", group_topk) \
	DO(SAME, "moe-router-topk-scaling-factor", "1", topk_scale) \
	DO(NOTE, "moe-routing-trace-capture-hidden-states", profile) \
	DO(NOTE, "moe-routing-trace-capture-logits", profile) \
	DO(NOTE, "moe-routing-trace-dump-weights", profile) \
	DO(NOTE, "moe-routing-trace-max-training-iters", profile) \
	DO(NOTE, "moe-routing-trace-path", profile) \
	DO(MATHS, "moe-shared-expert-gate", shared_gate) \
	DO(NOTE, "moe-shared-expert-glu-interleave-size", interleaved) \
	DO(NOTE, "moe-shared-expert-overlap", dispatch) \
	DO(MATHS, "moe-single-grouped-bias", expert_bias) \
	DO(NOTE, "moe-single-grouped-weight", together) \
	DO(LACKS, "moe-token-dropping", capacity_order) \
	DO(LACKS, "moe-train-capacity-factor", capacity_order) \
	DO(NOTE, "moe-upcycling-granularity", read_upcycling) \
	DO(NOTE, "moe-use-grouped-tensor", together) \
	DO(NOTE, "moe-use-legacy-grouped-gemm", together) DO(LACKS, "moe-use-upcycling", upcycle) \
	DO(SCOPE, "mos", distill) DO(MATHS, "mrope-section", mrope) DO(NOTE, "mscale", read_mla) \
	DO(NOTE, "mscale-all-dim", read_mla) DO(NOTE, "mtp-detach-heads", read_mtp) \
	DO(NOTE, "mtp-hsm", read_mtp) DO(MATHS, "mtp-hybrid-override-pattern", mtp) \
	DO(NOTE, "mtp-loss-scaling-factor", read_mtp) DO(MATHS, "mtp-num-layers", mtp) \
	DO(NOTE, "mtp-standalone", read_mtp) DO(NOTE, "mtp-use-repeated-layer", read_mtp) \
	DO(MATHS, "multi-latent-attention", latent) DO(MATHS, "muon-no-split-qkv", muon_qkv) \
	DO(ALIAS, "muon-use-nesterov", "--muon-nesterov") DO(NOTE, "muon-use-syrk", speed) \
	DO(NOTE, "mup-attn-scale-power", read_mup) DO(NOTE, "mup-base-head-dim", read_mup) \
	DO(NOTE, "mup-base-hidden-size", read_mup) DO(NOTE, "mup-embedding-mult", read_mup) \
	DO(NOTE, "mup-output-mult", read_mup) DO(NOTE, "mup-width-mult", read_mup) \
	DO(NOTE, "nccl-all-reduce-for-prefill", serving_note) \
	DO(NOTE, "nccl-communicator-config-path", comm) DO(NOTE, "no-align-grad-reduce", comm) \
	DO(NOTE, "no-align-param-gather", comm) \
	DO(NOTE, "no-async-tensor-model-parallel-allreduce", only_speed) \
	DO(MATHS, "no-attn-layernorm", norm_places) \
	DO(NOTE, "no-barrier-with-level-1-timing", comm) DO(NOTE, "no-bias-dropout-fusion", fused) \
	DO(NOTE, "no-bias-swiglu-fusion", fused) \
	DO(NOTE, "no-check-for-nan-in-loss-and-grad", nan_checks) \
	DO(NOTE, "no-ckpt-fully-parallel-save", one_ckpt) \
	DO(NOTE, "no-ckpt-load-validate-sharding-integrity", one_ckpt) \
	DO(NOTE, "no-clone-scatter-output-in-embedding", planned) \
	DO(NOTE, "no-contiguous-buffers-in-local-ddp", buffers) \
	DO(NOTE, "no-create-attention-mask-in-dataloader", no_masks) \
	DO(NOTE, "no-delay-grad-reduce", comm) \
	DO(NOTE, "no-dsa-indexer-rotate-activation", read_variant) \
	DO(NOTE, "no-dsa-indexer-scoring-relu", read_variant) \
	DO(MATHS, "no-final-layernorm", norm_places) \
	DO(NOTE, "no-flight-recorder-dump-on-timeout", watch) \
	DO(NOTE, "no-flight-recorder-extra-dump-on-exec", watch) \
	DO(NOTE, "no-flight-recorder-include-only-active", watch) \
	DO(MATHS, "no-fp8-wgrad", wgrad16) DO(NOTE, "no-gradient-accumulation-fusion", fused) \
	DO(NOTE, "no-gradient-reduce-div-fusion", sum_scale) \
	DO(NOTE, "no-initialization", starts_drawn) DO(LACKS, "no-load-lr-state", schedule_anew) \
	DO(NOTE, "no-load-rng", no_rng) DO(NOTE, "no-log-learnig-rate-to-tensorboard", logged) \
	DO(NOTE, "no-log-loss-scale-to-tensorboard", logged) DO(NOTE, "no-manual-gc-eval", no_gc) \
	DO(NOTE, "no-masked-softmax-fusion", fused) DO(MATHS, "no-mlp-layernorm", norm_places) \
	DO(NOTE, "no-one-logger", watch) \
	DO(ALIAS, "no-pad-vocab-size", "--make-vocab-size-divisible-by 1") \
	DO(NOTE, "no-persist-layer-norm", fused) DO(NOTE, "no-pin-cpu-grads", pinned) \
	DO(NOTE, "no-pin-cpu-params", pinned) DO(NOTE, "no-pipeline-parallel", pp_decides) \
	DO(NOTE, "no-query-key-layer-scaling", the_default) \
	DO(SCOPE, "no-rl-persist-cuda-graphs", rl) DO(MATHS, "no-rope-freq", no_rope) \
	DO(NOTE, "no-rope-fusion", fused) DO(NOTE, "no-save-rng", no_rng) \
	DO(NOTE, "no-save-tokenizer-assets", one_ckpt) \
	DO(NOTE, "no-scatter-gather-tensors-in-pipeline", comm) \
	DO(NOTE, "no-strict-fsdp-dtensor-load", buffers) \
	DO(MATHS, "no-tokenizer-sentencepiece-ignore-extra-whitespaces", ids) \
	DO(NOTE, "no-tp-comm-bulk-dgrad", comm) DO(NOTE, "no-tp-comm-bulk-wgrad", comm) \
	DO(NOTE, "no-tp-comm-overlap-ag", comm) DO(NOTE, "no-tp-comm-overlap-rs", comm) \
	DO(NOTE, "no-tp-comm-split-ag", comm) DO(NOTE, "no-tp-comm-split-rs", comm) \
	DO(NOTE, "no-use-layer-wise-param-layout", comm) \
	DO(NOTE, "no-use-tokenizer-model-from-checkpoint-args", one_ckpt) \
	DO(MATHS, "no-weight-decay-cond-type", wd_cond) \
	DO(NOTE, "non-persistent-ckpt-type", one_ckpt) \
	DO(NOTE, "non-persistent-global-ckpt-dir", one_ckpt) \
	DO(NOTE, "non-persistent-local-ckpt-algo", one_ckpt) \
	DO(NOTE, "non-persistent-local-ckpt-dir", one_ckpt) \
	DO(NOTE, "non-persistent-save-interval", one_ckpt) \
	DO(LACKS, "null-tokenizer-eod-id", null_ids) DO(LACKS, "null-tokenizer-pad-id", null_ids) \
	DO(SCOPE, "num-attention-heads-teacher", distill) DO(SCOPE, "num-channels", vision) \
	DO(SCOPE, "num-classes", vision) DO(NOTE, "num-dataset-builder-threads", mapped) \
	DO(NOTE, "num-distributed-optimizer-instances", one_shard) \
	DO(ALIAS, "num-experts-switch", "--num-experts $") \
	DO(SCOPE, "num-experts-teacher", distill) \
	DO(ALIAS, "num-key-value-heads", "--group-query-attention --num-query-groups $") \
	DO(SCOPE, "num-layers-teacher", distill) DO(NOTE, "num-speculative-tokens", serving_note) \
	DO(LACKS, "num-tokens-to-generate", generate) DO(NOTE, "num-workers", from_map) \
	DO(NOTE, "nvtx-ranges", profile) DO(LACKS, "object-storage-cache-path", storage) \
	DO(NOTE, "offload-modules", offload) DO(NOTE, "one-logger-async", watch) \
	DO(NOTE, "one-logger-entity", watch) DO(NOTE, "one-logger-project", watch) \
	DO(NOTE, "one-logger-run-name", watch) DO(NOTE, "onnx-safe", one_model) \
	DO(NOTE, "optimizer-cuda-graph", graphs) DO(NOTE, "otel-enabled", watch) \
	DO(NOTE, "otel-service-name", watch) DO(NOTE, "otel-span-groups", watch) \
	DO(NOTE, "outer-dp-sharding-strategy", one_shard) \
	DO(SCOPE, "output-bert-embeddings", retrieval) \
	DO(SCOPE, "output-every-n-results", serving) DO(SCOPE, "output-logit-dtype", serving) \
	DO(LACKS, "output-path", generate) DO(NOTE, "overlap-cpu-optimizer-d2h-h2d", overlapped) \
	DO(NOTE, "overlap-dispatch-backward-with-experts-wgrad", dispatch) \
	DO(NOTE, "overlap-grad-reduce", the_default) \
	DO(NOTE, "overlap-moe-expert-parallel-comm", dispatch) \
	DO(NOTE, "overlap-p2p-communication", the_default) \
	DO(NOTE, "overlap-p2p-communication-warmup-flush", comm) \
	DO(NOTE, "overlap-param-gather", the_default) \
	DO(NOTE, "overlap-param-gather-with-optimizer-step", comm) \
	DO(LACKS, "override-ckpt-iteration", ckpt_step) \
	DO(ALIAS, "override-lr-scheduler", "--override-opt_param-scheduler") \
	DO(ALIAS, "pad-vocab-size-to", "--make-vocab-size-divisible-by $") \
	DO(ALIAS, "padded-vocab-size", "--make-vocab-size-divisible-by $") \
	DO(NOTE, "partition-activations", recompute_how) DO(SCOPE, "patch-dim", vision) \
	DO(LACKS, "per-dataset-sequences-path", start_lists) DO(SCOPE, "perform-rl-step", rl) \
	DO(ALIAS, "persistent-save-interval", "--save-interval $") \
	DO(MATHS, "phase-transition-iterations", phases) \
	DO(NOTE, "pipeline-model-parallel-comm-backend", mpi_nccl) \
	DO(SCOPE, "pipeline-model-parallel-split-rank", encoder) \
	DO(MATHS, "post-layer-norm", norm_places) \
	DO(SAME, "pp-partition-method", \
	   "uniform; parameters; type:transformer; type:transformer|embedding=" \
	   "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", \
	   partition) \
	DO(NOTE, "profile-backward", recompute_how) DO(NOTE, "profile-ranks", profile) \
	DO(NOTE, "profile-steps", profile) DO(SCOPE, "prompt-file-num-truncate", serving) \
	DO(LACKS, "prompts", generate) DO(NOTE, "pytorch-profiler-collect-callstack", profile) \
	DO(NOTE, "pytorch-profiler-collect-chakra", profile) \
	DO(NOTE, "pytorch-profiler-collect-shapes", profile) DO(NOTE, "q-lora-rank", read_mla) \
	DO(NOTE, "qk-head-dim", read_mla) DO(MATHS, "qk-l2-norm", l2) \
	DO(NOTE, "qk-pos-emb-head-dim", read_mla) DO(NOTE, "qknorm-impl", fused) \
	DO(SCOPE, "query-in-block-prob", retrieval) DO(MATHS, "quick-geglu", quick) \
	DO(MATHS, "random-ltd", curriculum) DO(NOTE, "record-memory-history", profile) \
	DO(NOTE, "record-shapes", profile) DO(SCOPE, "refit-method", rl) \
	DO(SCOPE, "relative-attention-max-distance", encoder) \
	DO(SCOPE, "relative-attention-num-buckets", encoder) DO(NOTE, "remote-device", pinned) \
	DO(MATHS, "renormalize-blend-weights", repeats) DO(MATHS, "repeated-dataloader", repeats) \
	DO(NOTE, "replication", one_ckpt) DO(NOTE, "replication-factor", one_ckpt) \
	DO(NOTE, "replication-jump", one_ckpt) DO(SCOPE, "report-topk-accuracies", retrieval) \
	DO(NOTE, "rerun-mode", no_rerun) DO(LACKS, "reset-iteration", keeps_steps) \
	DO(SCOPE, "result-rejected-tracker-filename", serving) \
	DO(SCOPE, "retriever-report-topk-accuracies", retrieval) \
	DO(SCOPE, "retriever-score-scaling", retrieval) \
	DO(SCOPE, "retriever-seq-length", retrieval) DO(SCOPE, "retro-add-retriever", retrieval) \
	DO(SCOPE, "retro-attention-gate", retrieval) \
	DO(SCOPE, "retro-cyclic-train-iters", retrieval) \
	DO(SCOPE, "retro-encoder-attention-dropout", retrieval) \
	DO(SCOPE, "retro-encoder-hidden-dropout", retrieval) \
	DO(SCOPE, "retro-encoder-layers", retrieval) \
	DO(SCOPE, "retro-no-verify-neighbor-count", retrieval) \
	DO(SCOPE, "retro-num-neighbors", retrieval) \
	DO(SCOPE, "retro-num-retrieved-chunks", retrieval) \
	DO(SCOPE, "retro-project-dir", retrieval) DO(SCOPE, "retro-return-doc-ids", retrieval) \
	DO(SCOPE, "retro-workdir", retrieval) DO(NOTE, "return-data-index", index_only) \
	DO(LACKS, "return-log-probs", generate) \
	DO(NOTE, "reuse-grad-buf-for-mxfp8-param-ag", fp8_copies) \
	DO(SCOPE, "rl-calculate-intra-group-similarity", rl) \
	DO(SCOPE, "rl-consumption-granularity", rl) DO(SCOPE, "rl-default-temperature", rl) \
	DO(SCOPE, "rl-default-top-k", rl) DO(SCOPE, "rl-default-top-p", rl) \
	DO(SCOPE, "rl-durable-rollout-bank", rl) DO(SCOPE, "rl-generation-batch-size", rl) \
	DO(SCOPE, "rl-generation-lag", rl) DO(SCOPE, "rl-importance-sampling-truncation-coef", rl) \
	DO(SCOPE, "rl-inference-expert-model-parallel-size", rl) \
	DO(SCOPE, "rl-inference-expert-tensor-model-parallel-size", rl) \
	DO(SCOPE, "rl-inference-logprobs-is-correction", rl) \
	DO(SCOPE, "rl-inference-model-unified-memory-level", rl) \
	DO(SCOPE, "rl-inference-parsers", rl) \
	DO(SCOPE, "rl-inference-pipeline-model-parallel-size", rl) \
	DO(SCOPE, "rl-inference-tensor-model-parallel-size", rl) \
	DO(SCOPE, "rl-kv-cache-management-mode", rl) DO(SCOPE, "rl-max-inflight-requests", rl) \
	DO(SCOPE, "rl-num-parallel-generation-batches", rl) \
	DO(SCOPE, "rl-num-parallel-generations", rl) \
	DO(SCOPE, "rl-offload-inference-model-weights-when-idle", rl) \
	DO(SCOPE, "rl-offload-kv-cache-during-training", rl) \
	DO(SCOPE, "rl-offload-optimizer-during-inference", rl) \
	DO(SCOPE, "rl-parallel-generation-tasks", rl) DO(SCOPE, "rl-partial-rollouts", rl) \
	DO(SCOPE, "rl-persist-cuda-graphs", rl) DO(SCOPE, "rl-profile", rl) \
	DO(SCOPE, "rl-profile-dir", rl) DO(SCOPE, "rl-prompts-per-eval", rl) \
	DO(SCOPE, "rl-remove-kv-cache-during-training", rl) DO(SCOPE, "rl-reset-cuda-graphs", rl) \
	DO(SCOPE, "rl-rollout-bank-dir", rl) DO(SCOPE, "rl-rollout-bank-max-bytes", rl) \
	DO(SCOPE, "rl-sequence-packing-algo", rl) \
	DO(SCOPE, "rl-sequence-packing-max-sequences-per-bin", rl) \
	DO(SCOPE, "rl-skip-bos-token", rl) DO(SCOPE, "rl-submission-granularity", rl) \
	DO(SCOPE, "rl-training-cuda-graphs", rl) DO(SCOPE, "rl-use-sequence-packing", rl) \
	DO(SCOPE, "rl-verify-model-weights-swap", rl) \
	DO(SAME, "rope-type", \
	   "rope; yarn=--position-embedding-type rope --rope-scaling-type yarn", rope_type) \
	DO(ALIAS, "rotary-position-embeddings-theta", "--rotary-base $") \
	DO(NOTE, "rotary-scaling-factor", read_mla) \
	DO(SAME, "rotary-seq-len-interpolation-factor", \
	   "1; *=--rope-scaling-type linear --rope-scaling-factor $", linear) \
	DO(NOTE, "run-workload-inspector-server", watch) DO(LACKS, "s3-cache-path", storage) \
	DO(SCOPE, "sample-rate", retrieval) DO(LACKS, "save-activations-interval", tensors) \
	DO(LACKS, "save-dgrads-interval", tensors) DO(LACKS, "save-params-interval", tensors) \
	DO(LACKS, "save-tokens-per-expert-interval", tensors) \
	DO(LACKS, "save-wgrads-interval", tensors) DO(NOTE, "scattered-embeddings", speed) \
	DO(SCOPE, "sft", sft) DO(SCOPE, "sft-tokenizer-prompt-format", sft) \
	DO(NOTE, "sharp-enabled-group", comm) DO(SCOPE, "short-seq-prob", encoder) \
	DO(NOTE, "skip-allreduce", test_only) DO(NOTE, "skip-alltoall", test_only) \
	DO(NOTE, "skip-gemm", test_only) DO(NOTE, "skip-reducescatter", test_only) \
	DO(NOTE, "skip-sendrecv", test_only) DO(SAME, "softmax-type", "vanilla", sinks) \
	DO(SAME, "spec", "*gpt_layer*; local", spec) DO(NOTE, "split-transformers", recompute_how) \
	DO(LACKS, "standalone-embedding-stage", layout) \
	DO(LACKS, "start-eval-at-iter", eval_start) DO(LACKS, "stop-words", generate) \
	DO(NOTE, "straggler-ctrlr-port", watch) \
	DO(NOTE, "suggested-communication-unit-size", comm) \
	DO(SCOPE, "suspend-resume-interval", serving) DO(SCOPE, "suspend-timeout", serving) \
	DO(SCOPE, "swin-backbone-type", vision) DO(NOTE, "symmetric-ar-type", serving_note) \
	DO(NOTE, "sync-tp-duplicated-parameters", same_sums) \
	DO(NOTE, "synchronize-each-layer", recompute_how) \
	DO(MATHS, "te-precision-config-file", recipes) DO(NOTE, "te-rng-tracker", graphs) \
	DO(SAME, "tensor-parallel-num-weight-shards", "1", tp_shards) \
	DO(NOTE, "tensorboard-queue-size", flushed) DO(LACKS, "termination-id", generate) \
	DO(NOTE, "test-mode", test_only) DO(NOTE, "tile-factor", speed) \
	DO(SCOPE, "titles-data-path", retrieval) DO(NOTE, "tokenizer-hf-no-use-fast", no_code) \
	DO(NOTE, "tokenizer-metadata", from_files) \
	DO(ALIAS, "tokenizer-name-or-path", "--tokenizer-model $") \
	DO(MATHS, "tokenizer-sentencepiece-legacy", ids) \
	DO(MATHS, "tokenizer-special-tokens", ids) DO(LACKS, "top-n-logprobs", generate) \
	DO(ALIAS, "topk", "--moe-router-topk $") \
	DO(NOTE, "torch-fsdp2-no-reshard-after-forward", buffers) \
	DO(NOTE, "tp-comm-bootstrap-backend", mpi_nccl) DO(NOTE, "tp-comm-overlap-cfg", comm) \
	DO(NOTE, "tp-comm-overlap-rs-dgrad", comm) \
	DO(ALIAS, "tp-size", "--tensor-model-parallel-size $") \
	DO(MATHS, "train-data-exact-num-epochs", epochs) DO(LACKS, "train-desc-path", index_files) \
	DO(LACKS, "train-doc-idx-path", index_files) DO(LACKS, "train-idx-path", index_files) \
	DO(LACKS, "train-sample-idx-path", index_files) \
	DO(LACKS, "train-shuffle-idx-path", index_files) DO(NOTE, "train-sync-interval", barrier) \
	DO(LACKS, "train-weighted-split-paths-path", start_lists) \
	DO(NOTE, "transformer-impl", one_model) DO(LACKS, "trigger-path", stop_file) \
	DO(NOTE, "trust-remote-code", no_code) DO(LACKS, "universal-checkpoint", universal) \
	DO(ALIAS, "use-checkpoint-lr-scheduler", "--use-checkpoint-opt_param-scheduler") \
	DO(NOTE, "use-contiguous-buffers-in-ddp", buffers) DO(SCOPE, "use-coordinator", serving) \
	DO(NOTE, "use-cpu-initialization", same_start) \
	DO(ALIAS, "use-custom-fsdp", "--use-megatron-fsdp") DO(MATHS, "use-dataset-only", repeats) \
	DO(NOTE, "use-dist-ckpt", one_ckpt) DO(NOTE, "use-flash-attn", no_matrix) \
	DO(NOTE, "use-flash-attn-builder", no_matrix) DO(NOTE, "use-flash-attn-triton", no_matrix) \
	DO(NOTE, "use-flash-attn-v1", no_matrix) DO(NOTE, "use-flash-attn-v2", no_matrix) \
	DO(NOTE, "use-flashinfer-fused-rope", serving_note) \
	DO(NOTE, "use-fused-weighted-squared-relu", one_model) DO(NOTE, "use-gigatoken", no_code) \
	DO(NOTE, "use-grouped-gemm-for-dense-mlp", together) \
	DO(NOTE, "use-grouped-gemm-for-shared-expert", together) \
	DO(MATHS, "use-kitchen-attention", recipes) DO(NOTE, "use-legacy-models", one_model) \
	DO(NOTE, "use-legacy-static-engine", serving_note) DO(NOTE, "use-mcore-models", one_model) \
	DO(NOTE, "use-mp-args-from-checkpoint-args", one_ckpt) DO(NOTE, "use-mpi", mpi_nccl) \
	DO(MATHS, "use-mup", mup) DO(NOTE, "use-nccl-ub", comm) \
	DO(SCOPE, "use-one-sent-docs", retrieval) DO(NOTE, "use-persistent-ckpt-worker", one_ckpt) \
	DO(NOTE, "use-pin-memory", pinned) DO(NOTE, "use-pytorch-profiler", profile) \
	DO(MATHS, "use-relu", activation) DO(NOTE, "use-ring-exchange-p2p", comm) \
	DO(NOTE, "use-same-sampling-seed-across-dp-ranks", serving_note) \
	DO(NOTE, "use-sharp", comm) DO(NOTE, "use-te-activation-func", one_model) \
	DO(NOTE, "use-torch-optimizer-for-cpu-offload", pinned) \
	DO(NOTE, "use-transformer-engine-op-fuser", one_model) DO(NOTE, "use-tutel", dispatch) \
	DO(NOTE, "v-head-dim", read_mla) DO(NOTE, "valid-num-workers", from_map) \
	DO(LACKS, "valid-weighted-split-paths-path", start_lists) \
	DO(NOTE, "verify-integrity", one_ckpt) DO(SCOPE, "vision-backbone-type", vision) \
	DO(SCOPE, "vision-pretraining", vision) DO(SCOPE, "vision-pretraining-type", vision) \
	DO(SCOPE, "vocab-extra-ids", encoder) DO(NOTE, "wandb-entity", wandb) \
	DO(NOTE, "wandb-exp-name", wandb) DO(NOTE, "wandb-id", wandb) \
	DO(NOTE, "wandb-name", wandb) DO(NOTE, "wandb-project", wandb) \
	DO(NOTE, "wandb-save-dir", wandb) DO(ALIAS, "warmup", "--lr-warmup-fraction $") \
	DO(NOTE, "wgrad-deferral-limit", speed) DO(MATHS, "xielu", activation) \
	DO(MATHS, "xiprelu", activation) DO(MATHS, "xiprelup", activation) \
	DO(LACKS, "yaml-cfg", yaml) DO(NOTE, "yarn-correction-range-round-to-int", yarn_rounds) \
	DO(SAME, "z-loss-strength", "0", z_loss) DO(NOTE, "zero-allgather-bucket-size", comm) \
	DO(NOTE, "zero-contigious-gradients", comm) DO(NOTE, "zero-reduce-bucket-size", comm) \
	DO(NOTE, "zero-reduce-scatter", comm) \
	DO(SAME, "zero-stage", \
	   "0; 1=--use-distributed-optimizer; 2=--data-parallel-sharding-strategy optim_grads; " \
	   "3=--data-parallel-sharding-strategy optim_grads_params", zero)
/* clang-format on */

#endif
