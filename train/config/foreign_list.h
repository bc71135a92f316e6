/*
 * foreign_list.h - what becomes of other programs' options that mtrain does not have, a row each,
 * sorted by name
 *
 * The names are those of pretrain_gpt.py from 2021 to 2026, with the ones that it makes of its
 * configuration classes (--no-x and --disable-x of a switch that is on), of the forks of llm-jp,
 * Swiss AI and others, and of the scripts of BigScience and DeepSpeed; '_' is written as '-'. An
 * option that gets built leaves this list in the same change. The reasons are in foreign.c.
 *
 *   DO(NOTE, name, n, why)          a run with it computes the same, there and here, up to the
 *                                   order of sums; or only an option that is refused reads it
 *   DO(ALIAS, name, n, to)          the same as the options `to`, where $ stands for what was given
 *   DO(SAME, name, n, values, why)  NOTE with one of the values (* any, @x that of option x), or
 *                                   with "value=to" ALIAS; refused with any other
 *   DO(MATHS, name, n, why)         would change what is computed
 *   DO(LACKS, name, n, why)         asks for a function that `why` has another way to
 *   DO(SCOPE, name, n, why)         is of a program for something else
 *
 * n is the number of words that its program takes after the name: 0, 1, OPT_MAYBE where some of
 * them take one and others none, or OPT_MANY.
 */
#ifndef TRAIN_CONFIG_FOREIGN_LIST_H
#define TRAIN_CONFIG_FOREIGN_LIST_H

/* clang-format off */
#define FOREIGN_LIST(DO) \
	DO(NOTE, "DDP-impl", 1, one_model) \
	DO(NOTE, "abort-on-unmet-fused-kernel-constraints", 0, fused) \
	DO(NOTE, "accumulate-allreduce-grads-in-fp32", 0, fp32_sums) \
	DO(NOTE, "activation-offload-fraction", 1, offload) \
	DO(ALIAS, "activations-checkpoint-method", 1, \
	   "--recompute-granularity full --recompute-method $") \
	DO(ALIAS, "activations-checkpoint-num-layers", 1, "--recompute-num-layers $") \
	DO(NOTE, "ademamix-alpha", 1, read_ademamix) \
	DO(NOTE, "ademamix-alpha-warmup", 1, read_ademamix) \
	DO(NOTE, "ademamix-beta3", 1, read_ademamix) \
	DO(NOTE, "ademamix-beta3-warmup", 1, read_ademamix) \
	DO(NOTE, "adlr-autoresume", 0, restart) DO(NOTE, "adlr-autoresume-interval", 1, restart) \
	DO(NOTE, "align-param-gather", 0, comm) DO(MATHS, "allow-ambiguous-pad-tokens", 0, ids) \
	DO(LACKS, "aml-data-download-path", 1, storage) DO(NOTE, "app-tag-run-name", 1, watch) \
	DO(NOTE, "app-tag-run-version", 1, watch) \
	DO(NOTE, "apply-query-key-layer-scaling", 0, layer_scale) \
	DO(MATHS, "apply-residual-connection-post-layernorm", 0, post_norm) \
	DO(MATHS, "apply-wd-to-qk-layernorm", 0, wd_norm) \
	DO(NOTE, "async-ckpt-cpu-priority", 1, one_ckpt) \
	DO(NOTE, "async-ckpt-io-priority", 1, one_ckpt) \
	DO(NOTE, "async-ckpt-use-cpu-shm", 0, one_ckpt) DO(SCOPE, "async-mode", 0, serving) \
	DO(NOTE, "async-strategy", 1, one_ckpt) \
	DO(NOTE, "attention-softmax-in-fp32", 0, always_fp32) \
	DO(NOTE, "auto-detect-ckpt-format", 0, one_ckpt) DO(SCOPE, "batch-boundaries", 1, serving) \
	DO(MATHS, "batch-invariant-backend", 1, invariant) \
	DO(MATHS, "batch-invariant-mode", 0, invariant) \
	DO(ALIAS, "batch-size", 1, "--micro-batch-size $") \
	DO(SCOPE, "bert-embedder-type", 1, retrieval) DO(SCOPE, "bert-load", 1, retrieval) \
	DO(SCOPE, "bert-no-binary-head", 0, encoder) DO(NOTE, "bias-dropout-fusion", 0, fused) \
	DO(NOTE, "bias-gelu-fusion", 0, the_default) \
	DO(SCOPE, "biencoder-projection-dim", 1, retrieval) \
	DO(SCOPE, "biencoder-shared-query-context-model", 0, retrieval) \
	DO(SCOPE, "block-data-path", 1, retrieval) DO(MATHS, "bod-hiding", 0, docmask) \
	DO(NOTE, "cache-mla-latents", 0, serving_note) DO(NOTE, "calc-ft-timeouts", 0, watch) \
	DO(SCOPE, "chat-template", 1, sft) DO(NOTE, "check-for-large-grads", 0, nan_checks) \
	DO(NOTE, "check-for-spiky-loss", 0, nan_checks) \
	DO(ALIAS, "checkpoint-activations", 0, \
	   "--recompute-granularity full --recompute-method uniform") \
	DO(ALIAS, "checkpoint-granularity", 1, "--recompute-granularity $") \
	DO(NOTE, "checkpoint-in-cpu", 0, offload) \
	DO(ALIAS, "checkpoint-method", 1, "--recompute-method $") \
	DO(ALIAS, "checkpoint-num-layers", 1, "--recompute-num-layers $") \
	DO(NOTE, "ckpt-assume-constant-structure", 0, one_ckpt) \
	DO(LACKS, "ckpt-convert-format", 1, convert) DO(LACKS, "ckpt-convert-save", 1, convert) \
	DO(LACKS, "ckpt-convert-update-legacy-dist-opt-format", 0, convert) \
	DO(NOTE, "ckpt-drop-redundant-extra-state", 0, one_ckpt) \
	DO(NOTE, "ckpt-format", 1, one_ckpt) DO(NOTE, "ckpt-fully-parallel-load", 0, one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load-exchange-algo", 1, one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load-per-rank-objects", 0, one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-load-process-group", 1, one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-save", 0, one_ckpt) \
	DO(NOTE, "ckpt-fully-parallel-save-process-group", 1, one_ckpt) \
	DO(NOTE, "ckpt-pg-tensors-cache-create", 0, one_ckpt) \
	DO(NOTE, "ckpt-pg-tensors-cache-path", 1, one_ckpt) \
	DO(SCOPE, "classes-fraction", 1, vision) DO(NOTE, "codecarbon-dir", 1, watch) \
	DO(NOTE, "config-logger-dir", 1, watch) \
	DO(NOTE, "contigious-checkpointing", 0, recompute_how) \
	DO(SCOPE, "coordinator-schedule-output-path", 1, serving) \
	DO(NOTE, "cpu-offloading-retain-pinned-cpu-buffers", 0, planned) \
	DO(ALIAS, "cpu-optimizer", 0, "--optimizer-cpu-offload") \
	DO(NOTE, "cpu-torch-adam", 0, one_adamw) DO(NOTE, "create-all-gather-group", 0, buffers) \
	DO(NOTE, "create-moe-param-group", 0, dispatch) \
	DO(NOTE, "cross-entropy-fusion-impl", 1, fused) \
	DO(NOTE, "cross-entropy-loss-fusion", 0, fused) DO(NOTE, "cuda-graph-impl", 1, graphs) \
	DO(NOTE, "cuda-graph-modules", OPT_MANY, graphs) \
	DO(NOTE, "cuda-graph-scope", OPT_MANY, graphs) \
	DO(NOTE, "cuda-graph-warmup-steps", 1, graphs) \
	DO(MATHS, "data-efficiency-curriculum-learning", 0, curriculum) \
	DO(SAME, "data-impl", 1, "mmap; infer", data_impl) \
	DO(MATHS, "data-parallel-random-init", 0, dp_init) \
	DO(SCOPE, "data-per-class-fraction", 1, vision) \
	DO(NOTE, "dataloader-defer-npy-index-mmap", 0, mapped) \
	DO(NOTE, "dataloader-fast-cache-load", 0, mapped) \
	DO(NOTE, "ddp-average-in-collective", 0, comm) DO(NOTE, "ddp-num-buckets", 1, comm) \
	DO(NOTE, "ddp-pad-buckets-for-high-nccl-busbw", 0, comm) \
	DO(NOTE, "ddp-param-name-patterns-for-fp32-local-accumulation", OPT_MANY, fp32_sums) \
	DO(NOTE, "ddp-reduce-scatter-with-fp32-accumulation", 0, fp32_sums) \
	DO(NOTE, "deallocate-pipeline-outputs", 0, planned) \
	DO(NOTE, "decode-only-cuda-graphs", 0, serving_note) \
	DO(SCOPE, "decoder-num-layers", 1, encoder) \
	DO(SAME, "decoder-seq-length", 1, "@seq-length", decoder) \
	DO(NOTE, "decrease-batch-size-if-needed", 0, even) DO(NOTE, "deepscale", 0, deepspeed) \
	DO(ALIAS, "deepscale-config", 1, "--deepspeed-config $") \
	DO(NOTE, "deepspeed", 0, deepspeed) \
	DO(NOTE, "deepspeed-activation-checkpointing", 0, recompute_how) \
	DO(NOTE, "deepspeed-mpi", 0, deepspeed) \
	DO(NOTE, "defer-embedding-wgrad-compute", 0, speed) \
	DO(NOTE, "delay-offload-until-cuda-graph", 0, offload) \
	DO(NOTE, "delay-param-gather", 0, comm) DO(NOTE, "delay-wgrad-compute", 0, speed) \
	DO(NOTE, "delta-offload-bytes-across-pp-ranks", 1, offload) \
	DO(SCOPE, "dino-bottleneck-size", 1, vision) \
	DO(SCOPE, "dino-freeze-last-layer", 1, vision) \
	DO(SCOPE, "dino-head-hidden-size", 1, vision) \
	DO(SCOPE, "dino-local-crops-number", 1, vision) \
	DO(SCOPE, "dino-local-img-size", 1, vision) DO(SCOPE, "dino-norm-last-layer", 0, vision) \
	DO(SCOPE, "dino-teacher-temp", 1, vision) DO(SCOPE, "dino-warmup-teacher-temp", 1, vision) \
	DO(SCOPE, "dino-warmup-teacher-temp-epochs", 1, vision) \
	DO(NOTE, "disable-align-grad-reduce", 0, comm) \
	DO(NOTE, "disable-bf16-reduced-precision-matmul", 0, fp32_sums) \
	DO(NOTE, "disable-chunked-prefill", 0, serving_note) \
	DO(NOTE, "disable-ckpt-load-validate-sharding-integrity", 0, one_ckpt) \
	DO(NOTE, "disable-clone-scatter-output-in-embedding", 0, planned) \
	DO(NOTE, "disable-dsa-indexer-rotate-activation", 0, read_variant) \
	DO(NOTE, "disable-dsa-indexer-scoring-relu", 0, read_variant) \
	DO(NOTE, "disable-flight-recorder-dump-on-timeout", 0, watch) \
	DO(NOTE, "disable-flight-recorder-extra-dump-on-exec", 0, watch) \
	DO(NOTE, "disable-flight-recorder-include-only-active", 0, watch) \
	DO(MATHS, "disable-fp8-wgrad", 0, wgrad16) \
	DO(NOTE, "disable-gloo-process-groups", 0, mpi_nccl) \
	DO(NOTE, "disable-jit-fuser", 0, fused) \
	DO(NOTE, "disable-log-loss-scale-to-tensorboard", 0, logged) \
	DO(SCOPE, "disable-mamba-mem-eff-path", 0, hybrid) \
	DO(NOTE, "disable-manual-gc-eval", 0, no_gc) \
	DO(NOTE, "disable-mem-efficient-ln", 0, planned) \
	DO(NOTE, "disable-moe-token-dropping", 0, dropless) \
	DO(NOTE, "disable-moe-top2-2nd-expert-sampling", 0, second_expert) \
	DO(NOTE, "disable-msc", 0, no_msc) \
	DO(ALIAS, "disable-pad-vocab-size", 0, "--make-vocab-size-divisible-by 1") \
	DO(NOTE, "disable-save-tokenizer-assets", 0, one_ckpt) \
	DO(NOTE, "disable-straggler-on-startup", 0, watch) \
	DO(NOTE, "disable-strict-fsdp-dtensor-load", 0, buffers) \
	DO(NOTE, "disable-symmetric-registration", 0, comm) \
	DO(MATHS, "disable-tokenizer-sentencepiece-ignore-extra-whitespaces", 0, ids) \
	DO(NOTE, "disable-tp-comm-bulk-dgrad", 0, comm) \
	DO(NOTE, "disable-tp-comm-bulk-wgrad", 0, comm) \
	DO(NOTE, "disable-tp-comm-overlap-ag", 0, comm) \
	DO(NOTE, "disable-tp-comm-overlap-rs", 0, comm) \
	DO(NOTE, "disable-tp-comm-split-ag", 0, comm) \
	DO(NOTE, "disable-tp-comm-split-rs", 0, comm) \
	DO(NOTE, "disable-use-tokenizer-model-from-checkpoint-args", 0, one_ckpt) \
	DO(NOTE, "dist-ckpt-format", 1, one_ckpt) \
	DO(NOTE, "dist-ckpt-optim-fully-reshardable", 0, one_ckpt) \
	DO(NOTE, "dist-ckpt-save-pre-mcore-014", 0, one_ckpt) \
	DO(NOTE, "dist-ckpt-strictness", 1, one_ckpt) DO(NOTE, "dist-ckpt-workers", 1, one_ckpt) \
	DO(NOTE, "distrib-optim-fully-reshardable-mem-efficient", 0, one_ckpt) \
	DO(NOTE, "distribute-checkpointed-activations", 0, recompute_how) \
	DO(NOTE, "distribute-saved-activations", 0, recompute_how) \
	DO(NOTE, "distributed-backend", 1, mpi_nccl) \
	DO(SCOPE, "drain-between-batches", 0, serving) DO(NOTE, "ds-fused-adam", 0, one_adamw) \
	DO(SCOPE, "ds-inference", 0, serving) \
	DO(NOTE, "ds-sequence-parallel-fpdt", 0, long_context) \
	DO(NOTE, "ds-sequence-parallel-fpdt-chunk-size", 1, long_context) \
	DO(NOTE, "ds-sequence-parallel-fpdt-offloading", 0, long_context) \
	DO(ALIAS, "ds-sequence-parallel-size", 1, "--context-parallel-size $ --cp-comm-type a2a") \
	DO(NOTE, "dsa-indexer-head-dim", 1, read_variant) \
	DO(NOTE, "dsa-indexer-k-norm-epsilon", 1, read_variant) \
	DO(NOTE, "dsa-indexer-k-norm-fp32", 0, read_variant) \
	DO(NOTE, "dsa-indexer-loss-coeff", 1, read_variant) \
	DO(NOTE, "dsa-indexer-n-heads", 1, read_variant) \
	DO(NOTE, "dsa-indexer-rope-interleaved", 0, read_variant) \
	DO(NOTE, "dsa-indexer-skip-topk-offset", 1, read_variant) \
	DO(NOTE, "dsa-indexer-topk", 1, read_variant) \
	DO(NOTE, "dsa-indexer-topk-freq", 1, read_variant) \
	DO(NOTE, "dsa-indexer-use-sparse-loss", 0, read_variant) \
	DO(NOTE, "dsa-kernel-backend", 1, read_variant) \
	DO(NOTE, "dump-param-to-param-group-map", 1, profile) \
	DO(MATHS, "embed-layernorm", 0, norm_places) \
	DO(SAME, "embedding-init-method-std", 1, "@init-method-std", init_std) \
	DO(SCOPE, "embedding-path", 1, retrieval) DO(MATHS, "embedding-weights-in-fp32", 0, emb32) \
	DO(NOTE, "empty-unused-memory-each-iter", 1, planned) \
	DO(NOTE, "empty-unused-memory-level", 1, planned) \
	DO(NOTE, "enable-chunked-prefill", 0, serving_note) \
	DO(NOTE, "enable-cuda-graph", 0, graphs) DO(NOTE, "enable-experimental", 0, one_model) \
	DO(NOTE, "enable-expert-tensor-parallelism", 0, etp) \
	DO(NOTE, "enable-ft-package", 0, watch) \
	DO(ALIAS, "enable-full-sharding-in-hsdp", 0, "--outer-dp-sharding-strategy optim") \
	DO(SCOPE, "enable-gpt-oss", 0, post_training) DO(MATHS, "enable-mhc-connections", 0, mhc) \
	DO(LACKS, "enable-msc", 0, storage) DO(NOTE, "enable-one-logger", 0, watch) \
	DO(NOTE, "enable-zbh1-exact-semantics", 0, zero_bubble) \
	DO(NOTE, "enable-zbh1-pipeline", 0, zero_bubble) \
	DO(ALIAS, "encoder-num-layers", 1, "--num-layers $") \
	DO(SCOPE, "encoder-pipeline-model-parallel-size", 1, encoder) \
	DO(ALIAS, "encoder-seq-length", 1, "--seq-length $") \
	DO(SCOPE, "encoder-tensor-model-parallel-size", 1, encoder) \
	DO(ALIAS, "end-wd", 1, "--end-weight-decay $") \
	DO(NOTE, "ep-overlap-early-attn-memory-release", 0, dispatch) \
	DO(ALIAS, "ep-size", 1, "--expert-model-parallel-size $") \
	DO(NOTE, "error-injection-rate", 1, no_rerun) \
	DO(NOTE, "error-injection-type", 1, no_rerun) DO(LACKS, "eval-only", 1, skip_train) \
	DO(SCOPE, "evidence-data-path", 1, retrieval) DO(NOTE, "exit-signal-handler", 0, signals) \
	DO(NOTE, "exit-signal-handler-for-dataloader", 0, signals) \
	DO(NOTE, "exit-signal-handler-for-training", 0, signals) \
	DO(SAME, "experimental-attention-variant", 1, "gdn; gated_delta_net", sparse) \
	DO(SAME, "expert-interval", 1, "1", interval) \
	DO(LACKS, "expert-parallel", 0, experts_over) \
	DO(SAME, "expert-tensor-parallel-num-weight-shards", 1, "1", tp_shards) \
	DO(SCOPE, "export-default-te-spec", 0, post_training) \
	DO(SCOPE, "export-force-local-attention", 0, post_training) \
	DO(SCOPE, "export-kd-cfg", 1, distill) DO(SCOPE, "export-kd-finalize", 0, distill) \
	DO(SCOPE, "export-kd-teacher-ckpt-format", 1, distill) \
	DO(SCOPE, "export-kd-teacher-load", 1, distill) \
	DO(SCOPE, "export-kd-teacher-model-config", 1, distill) \
	DO(SCOPE, "export-kv-cache-quant", OPT_MAYBE, post_training) \
	DO(SCOPE, "export-legacy-megatron", 0, post_training) \
	DO(SCOPE, "export-model-type", 1, post_training) \
	DO(SCOPE, "export-moe-apply-probs-on-input", 0, post_training) \
	DO(SCOPE, "export-num-eagle-layers", 1, post_training) \
	DO(SCOPE, "export-num-medusa-heads", 1, post_training) \
	DO(SCOPE, "export-offline-model", 0, post_training) \
	DO(SCOPE, "export-qk-l2-norm", 0, post_training) \
	DO(SCOPE, "export-quant-cfg", 1, post_training) \
	DO(SCOPE, "export-real-quant-cfg", 1, post_training) \
	DO(SCOPE, "export-te-mcore-model", 0, distill) DO(NOTE, "external-cuda-graph", 0, graphs) \
	DO(SCOPE, "faiss-use-gpu", 0, retrieval) DO(LACKS, "fake-process-group", 0, plan_only) \
	DO(LACKS, "fault-injector-delay-start-iteration", 1, faults) \
	DO(LACKS, "fault-injector-fault-delay", 1, faults) \
	DO(LACKS, "fault-injector-fault-probabilities", 1, faults) \
	DO(LACKS, "fault-injector-fault-types", 1, faults) \
	DO(LACKS, "fault-injector-mtti-seconds", 1, faults) \
	DO(LACKS, "fault-injector-num-ranks", 1, faults) \
	DO(LACKS, "fault-injector-offset-seconds", 1, faults) \
	DO(LACKS, "fault-injector-ranks", 1, faults) DO(LACKS, "fault-injector-seed", 1, faults) \
	DO(NOTE, "fine-grained-activation-offloading", 0, offload) \
	DO(NOTE, "fine-grained-offloading-max-inflight-offloads", 1, offload) \
	DO(SCOPE, "finetune-data-files", OPT_MANY, sft) DO(SCOPE, "finetune-data-split", 1, sft) \
	DO(SCOPE, "finetune-hf-dataset", 1, sft) DO(NOTE, "flash-attention-version", 1, no_matrix) \
	DO(NOTE, "flash-decode", 0, serving_note) DO(SCOPE, "flextron", 0, elastic) \
	DO(SCOPE, "flextron-config-file", 1, elastic) \
	DO(NOTE, "flight-recorder-dump-path", 1, watch) \
	DO(NOTE, "flight-recorder-include-stack-trace", 0, watch) \
	DO(NOTE, "flight-recorder-trace-buffer-size", 1, watch) \
	DO(NOTE, "force-ds-sequence-parallel", 0, long_context) \
	DO(MATHS, "fp16-lm-cross-entropy", 0, ce16) DO(NOTE, "fp32-allreduce", 0, fp32_sums) \
	DO(MATHS, "fp4-format", 1, fp4) DO(NOTE, "fp4-param-gather", 0, read_fp4) \
	DO(NOTE, "fp4-quantizer-factory", 1, read_fp4) DO(NOTE, "fp4-recipe", 1, read_fp4) \
	DO(ALIAS, "fp8-e4m3", 0, "--fp8-format e4m3") \
	DO(ALIAS, "fp8-hybrid", 0, "--fp8-format hybrid") \
	DO(SAME, "fp8-interval", 1, "1", fp8_interval) DO(MATHS, "fp8-output-proj", 0, head8) \
	DO(MATHS, "fp8-quantizer-factory", 1, recipes) DO(MATHS, "freeze-all-layers", 0, freeze) \
	DO(SCOPE, "freeze-base-for-mtp", 0, post_training) \
	DO(NOTE, "fsdp-db-use-persist-buf-on-alloc-fail", 0, buffers) \
	DO(NOTE, "fsdp-double-buffer", 0, buffers) \
	DO(NOTE, "fsdp-manual-registration", 0, buffers) DO(NOTE, "ft-num-warmup-iters", 1, watch) \
	DO(NOTE, "fused-residual-rmsnorm", 0, one_model) \
	DO(SCOPE, "gdp-cutedsl-kernel", 0, hybrid) \
	DO(SCOPE, "gdp-num-chunk-states-to-recompute", 1, hybrid) \
	DO(SCOPE, "gdp-num-householder", 1, hybrid) DO(NOTE, "gemm-shapes", OPT_MANY, test_only) \
	DO(SAME, "glu-activation", 1, "swiglu=--swiglu; geglu=--activation geglu", glu) \
	DO(NOTE, "goldfish-h", 1, read_goldfish) \
	DO(NOTE, "goldfish-k", 1, read_goldfish) DO(MATHS, "goldfish-loss", 0, goldfish) \
	DO(NOTE, "gpu-sniff-test-interval", 1, watch) DO(SCOPE, "grpo-clamp-eps-lower", 1, rl) \
	DO(SCOPE, "grpo-clamp-eps-upper", 1, rl) DO(SCOPE, "grpo-default-temperature", 1, rl) \
	DO(SCOPE, "grpo-default-top-p", 1, rl) DO(SCOPE, "grpo-entropy-term-weight", 1, rl) \
	DO(SCOPE, "grpo-filter-groups-with-same-reward", 0, rl) \
	DO(SCOPE, "grpo-group-size", 1, rl) DO(SCOPE, "grpo-iterations", 1, rl) \
	DO(SCOPE, "grpo-kl-beta", 1, rl) DO(SCOPE, "grpo-prompts-per-step", 1, rl) \
	DO(NOTE, "gtp-expert-remat-nccl-ub", 0, dispatch) \
	DO(NOTE, "gtp-remat-nccl-ub", 0, buffers) \
	DO(NOTE, "gtp-remat-opt-in-modules", OPT_MANY, buffers) \
	DO(NOTE, "gtp-remat-reduce-scatter-with-fp32-accumulation", 0, fp32_sums) \
	DO(SCOPE, "head-lr-mult", 1, vision) \
	DO(MATHS, "heterogeneous-layers-config-encoded-json", 1, hetero) \
	DO(MATHS, "heterogeneous-layers-config-path", 1, hetero) \
	DO(SCOPE, "hidden-size-teacher", 1, distill) \
	DO(LACKS, "hierarchical-context-parallel-sizes", OPT_MANY, one_level) \
	DO(NOTE, "high-priority-a2a-comm-stream", 0, dispatch) \
	DO(NOTE, "high-priority-stream-groups", OPT_MANY, comm) \
	DO(SCOPE, "hybrid-attention-ratio", 1, hybrid) \
	DO(LACKS, "hybrid-context-parallel", 0, one_level) \
	DO(SCOPE, "hybrid-layer-pattern", 1, hybrid) DO(SCOPE, "hybrid-mlp-ratio", 1, hybrid) \
	DO(SCOPE, "hybrid-override-pattern", 1, hybrid) DO(SCOPE, "ict-head-size", 1, retrieval) \
	DO(SCOPE, "ict-load", 1, retrieval) DO(SCOPE, "img-dim", 1, vision) \
	DO(SCOPE, "img-h", 1, vision) DO(SCOPE, "img-w", 1, vision) \
	DO(SCOPE, "incoming-requests-duration", 1, serving) \
	DO(SCOPE, "incoming-requests-per-sec", 1, serving) \
	DO(SCOPE, "incoming-requests-per-step", 1, serving) \
	DO(SCOPE, "indexer-batch-size", 1, retrieval) \
	DO(SCOPE, "indexer-log-interval", 1, retrieval) DO(SCOPE, "inference", 0, serving) \
	DO(NOTE, "inference-batch-times-seqlen-threshold", 1, serving_note) \
	DO(SCOPE, "inference-ckpt-non-strict", 0, serving) \
	DO(NOTE, "inference-coordinator-port", 1, serving_note) \
	DO(NOTE, "inference-cuda-graph-all-prefills", 0, serving_note) \
	DO(NOTE, "inference-cuda-graph-max-tokens", 1, serving_note) \
	DO(NOTE, "inference-cuda-graph-scope", 1, serving_note) \
	DO(NOTE, "inference-disable-ep-consensus", 0, serving_note) \
	DO(NOTE, "inference-disable-triton-nvls-kernels", 0, serving_note) \
	DO(NOTE, "inference-dynamic-batching", 0, serving_note) \
	DO(NOTE, "inference-dynamic-batching-active-buffer-size-gb", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-async-sched-mode", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-block-size", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-buffer-guaranteed-fraction", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-buffer-overflow-factor", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-buffer-size-gb", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-chunk-size", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-cuda-graph-max-tokens", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-cuda-graph-mixed-prefill-count", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-cuda-graph-sizing-distribution", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-logprobs-mode", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-mamba-memory-ratio", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-requests", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-requests-override", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-tokens", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-max-tokens-override", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-num-cuda-graphs", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-paused-buffer-size-gb", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching", 0, serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-coordinator-policy", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-eviction-policy", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-mamba-gb", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-prefix-caching-routing-alpha", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-sampling-backend", 1, serving_note) \
	DO(NOTE, "inference-dynamic-batching-track-generated-token-events", 0, serving_note) \
	DO(NOTE, "inference-dynamic-batching-track-paused-request-events", 0, serving_note) \
	DO(NOTE, "inference-dynamic-batching-unified-memory-level", 1, serving_note) \
	DO(NOTE, "inference-flask-server-logging", 0, serving_note) \
	DO(NOTE, "inference-fuse-tp-communication", 0, serving_note) \
	DO(NOTE, "inference-grouped-gemm-backend", 1, serving_note) \
	DO(NOTE, "inference-logging-step-interval", 1, serving_note) \
	DO(NOTE, "inference-max-batch-size", 1, serving_note) \
	DO(NOTE, "inference-max-requests", 1, serving_note) \
	DO(NOTE, "inference-max-seq-length", 1, serving_note) \
	DO(NOTE, "inference-moe-disable-fused-quant-kernels", 0, serving_note) \
	DO(NOTE, "inference-moe-token-dispatcher-type", 1, serving_note) \
	DO(SCOPE, "inference-repeat-n", 1, serving) \
	DO(NOTE, "inference-rng-tracker", 0, serving_note) \
	DO(NOTE, "inference-shards", 1, serving_note) \
	DO(NOTE, "inference-text-gen-server-logging", 0, serving_note) \
	DO(NOTE, "inference-use-synchronous-zmq-collectives", 0, serving_note) \
	DO(NOTE, "inference-wandb-logging", 0, serving_note) \
	DO(NOTE, "inference-wandb-logging-step-interval", 1, serving_note) \
	DO(MATHS, "init-method-xavier-uniform", 0, xavier) \
	DO(NOTE, "init-model-with-meta-device", 0, same_start) \
	DO(NOTE, "initialize-socket-comms", 0, mpi_nccl) \
	DO(NOTE, "inprocess-active-world-size", 1, restart) \
	DO(NOTE, "inprocess-barrier-timeout", 1, restart) \
	DO(NOTE, "inprocess-completion-timeout", 1, restart) \
	DO(NOTE, "inprocess-empty-cuda-cache", 0, restart) \
	DO(NOTE, "inprocess-granularity", 1, restart) \
	DO(NOTE, "inprocess-hard-timeout", 1, restart) \
	DO(NOTE, "inprocess-heartbeat-interval", 1, restart) \
	DO(NOTE, "inprocess-heartbeat-timeout", 1, restart) \
	DO(NOTE, "inprocess-last-call-wait", 1, restart) \
	DO(NOTE, "inprocess-max-iterations", 1, restart) \
	DO(NOTE, "inprocess-monitor-process-interval", 1, restart) \
	DO(NOTE, "inprocess-monitor-thread-interval", 1, restart) \
	DO(NOTE, "inprocess-progress-watchdog-interval", 1, restart) \
	DO(NOTE, "inprocess-restart", 0, restart) DO(NOTE, "inprocess-soft-timeout", 1, restart) \
	DO(NOTE, "inprocess-termination-grace-time", 1, restart) \
	DO(MATHS, "input-embeddings-multiplier", 1, emb_factor) \
	DO(SCOPE, "is-hybrid-model", 0, hybrid) DO(SCOPE, "iter-per-epoch", 1, vision) \
	DO(SCOPE, "kd", 0, distill) DO(SCOPE, "kd-alpha-ce", 1, distill) \
	DO(SCOPE, "kd-beta-ce", 1, distill) DO(SCOPE, "kd-temp", 1, distill) \
	DO(NOTE, "keep-fp8-transpose-cache", 0, fp8_copies) \
	DO(NOTE, "keep-fp8-transpose-cache-when-using-custom-fsdp", 0, fp8_copies) \
	DO(LACKS, "kill-switch-file", 1, stop_file) DO(LACKS, "kill-switch-path", 1, stop_file) \
	DO(NOTE, "kitchen-attention-backend", 1, read_kitchen) \
	DO(MATHS, "kitchen-config-file", 1, recipes) \
	DO(MATHS, "kitchen-recipe-number", 1, recipes) \
	DO(SCOPE, "langrl-env-config", 1, rl) DO(SCOPE, "langrl-external-server", 0, rl) \
	DO(SCOPE, "langrl-inference-server-conversation-template", 1, rl) \
	DO(SCOPE, "langrl-inference-server-type", 1, rl) \
	DO(ALIAS, "layernorm-epsilon", 1, "--norm-epsilon $") \
	DO(MATHS, "layernorm-init", 1, norm_places) \
	DO(NOTE, "lazy-mpu-init", OPT_MAYBE, one_model) \
	DO(MATHS, "legacy-tokenizer", 0, old_tokenizer) \
	DO(SAME, "linear-attention-type", 1, "gdn; gated_delta_net", sparse) \
	DO(NOTE, "lion-beta1", 1, read_lion) \
	DO(NOTE, "lion-beta2", 1, read_lion) DO(NOTE, "load-main-params-from-ckpt", 0, one_ckpt) \
	DO(LACKS, "load-model-opt-format", 0, convert) DO(LACKS, "load-tag", 1, ckpt_step) \
	DO(SCOPE, "load-teacher", 1, distill) DO(NOTE, "local-rank", 1, launcher) \
	DO(NOTE, "log-batch-size-to-tensorboard", 0, logged) \
	DO(NOTE, "log-device-memory-used", 0, not_logged) \
	DO(NOTE, "log-learning-rate-to-tensorboard", 0, logged) DO(NOTE, "log-level", 1, levels) \
	DO(NOTE, "log-level-replica", 1, levels) \
	DO(NOTE, "log-loss-scale-to-tensorboard", 0, logged) \
	DO(NOTE, "log-max-attention-logit", 0, not_logged) \
	DO(NOTE, "log-memory-interval", 1, not_logged) \
	DO(NOTE, "log-optimizer-states-to-tensorboard", 0, not_logged) \
	DO(NOTE, "log-params-norm-per-param", 0, not_logged) \
	DO(NOTE, "log-progress", 0, not_logged) \
	DO(NOTE, "log-validation-ppl-to-tensorboard", 0, logged) \
	DO(ALIAS, "log-zeros", 0, "--log-num-zeros-in-grad") DO(NOTE, "logging-level", 1, levels) \
	DO(SCOPE, "logits-load-decode-threads", 1, distill) \
	DO(SCOPE, "logits-load-dir", 1, distill) \
	DO(SCOPE, "logits-load-ignore-errors", 0, distill) \
	DO(SCOPE, "logits-load-kd-loss-alpha", 1, distill) \
	DO(SCOPE, "logits-load-msc-prefetch-depth", 1, distill) \
	DO(SCOPE, "logits-load-prefetch-factor", 1, distill) \
	DO(SCOPE, "logits-save-dir", 1, distill) DO(SCOPE, "logits-save-dtype", 1, distill) \
	DO(SCOPE, "logits-save-top-k", 1, distill) DO(SCOPE, "logits-save-top-p", 1, distill) \
	DO(SCOPE, "logits-save-top-p-min-k", 1, distill) \
	DO(MATHS, "loss-on-targets-only", 0, all_tokens) DO(SCOPE, "mamba-head-dim", 1, hybrid) \
	DO(NOTE, "mamba-inference-conv-states-dtype", 1, serving_note) \
	DO(NOTE, "mamba-inference-ssm-states-dtype", 1, serving_note) \
	DO(SCOPE, "mamba-num-groups", 1, hybrid) DO(SCOPE, "mamba-num-heads", 1, hybrid) \
	DO(SCOPE, "mamba-state-dim", 1, hybrid) \
	DO(SCOPE, "mamba-training-ssm-states-dtype", 1, hybrid) DO(NOTE, "manual-gc", 0, no_gc) \
	DO(NOTE, "manual-gc-interval", 1, no_gc) DO(SCOPE, "mask-factor", 1, vision) \
	DO(SCOPE, "mask-prob", 1, encoder) DO(SCOPE, "mask-type", 1, vision) \
	DO(LACKS, "max-seqlen-per-dp-cp-rank", 1, one_level) \
	DO(NOTE, "max-tokens-to-oom", 1, serving_note) \
	DO(SCOPE, "mean-noise-span-length", 1, encoder) \
	DO(NOTE, "megatron-fsdp-enable-fine-grained-param-gather", 0, buffers) \
	DO(SAME, "megatron-fsdp-grad-comm-dtype", 1, "fp32", fsdp_fp32) \
	DO(SAME, "megatron-fsdp-main-grads-dtype", 1, "fp32", fsdp_fp32) \
	DO(SAME, "megatron-fsdp-main-params-dtype", 1, "fp32", fsdp_fp32) \
	DO(NOTE, "megatron-fsdp-max-pool-double-buffer", 0, buffers) \
	DO(NOTE, "megatron-fsdp-version", 1, buffers) \
	DO(NOTE, "memory-centric-tiled-linear", 0, speed) \
	DO(NOTE, "memory-snapshot-path", 1, profile) \
	DO(NOTE, "mhc-init-gating-factor", 1, read_mhc) \
	DO(NOTE, "mhc-num-residual-streams", 1, read_mhc) \
	DO(NOTE, "mhc-recompute-layer-num", 1, read_mhc) \
	DO(NOTE, "mhc-sinkhorn-iterations", 1, read_mhc) \
	DO(NOTE, "min-offloaded-tensor-size", 1, offload) \
	DO(NOTE, "mla-down-proj-fusion", 0, fused) \
	DO(NOTE, "mlp-chunks-for-prefill", 1, serving_note) \
	DO(SAME, "mlp-chunks-for-training", 1, "1", chunks) \
	DO(SAME, "mlp-type", 1, "standard", residual) DO(NOTE, "mmap-warmup", 0, from_map) \
	DO(ALIAS, "model-parallel-memory-opt", 0, "--sequence-parallel") \
	DO(ALIAS, "model-parallel-size", 1, "--tensor-model-parallel-size $") \
	DO(SAME, "model-provider", 1, "gpt", hybrid) \
	DO(SAME, "model-spec", OPT_MANY, "*gpt_layer*; local", spec) \
	DO(SCOPE, "modelopt-enabled", 0, post_training) \
	DO(MATHS, "moe-apply-probs-on-input", 0, probs_in) \
	DO(MATHS, "moe-combine-bwd-dtype", 1, moe8) DO(NOTE, "moe-deepep-num-sms", 1, dispatch) \
	DO(MATHS, "moe-dispatch-fwd-dtype", 1, moe8) DO(NOTE, "moe-enable-deepep", 0, dispatch) \
	DO(MATHS, "moe-enable-routing-replay", 0, replay) \
	DO(SAME, "moe-eval-capacity-factor", 1, "@moe-expert-capacity-factor", capacity) \
	DO(ALIAS, "moe-expert-parallel-size", 1, "--expert-model-parallel-size $") \
	DO(NOTE, "moe-extended-tp", 0, etp) DO(NOTE, "moe-flex-dispatcher-backend", 1, dispatch) \
	DO(NOTE, "moe-flex-dispatcher-num-sms", 1, dispatch) \
	DO(NOTE, "moe-grouped-gemm", 0, together) \
	DO(NOTE, "moe-hybridep-num-blocks-permute", 1, dispatch) \
	DO(NOTE, "moe-hybridep-num-blocks-unpermute", 1, dispatch) \
	DO(NOTE, "moe-hybridep-num-sms", 1, dispatch) \
	DO(NOTE, "moe-hybridep-num-sms-preprocessing", 1, dispatch) \
	DO(NOTE, "moe-hybridep-pad-uneven-dispatch-inputs", 0, dispatch) \
	DO(MATHS, "moe-input-jitter-eps", 1, jitter) DO(MATHS, "moe-latent-size", 1, latent_moe) \
	DO(LACKS, "moe-layer-recompute", 0, recompute_moe) \
	DO(ALIAS, "moe-loss-coeff", 1, "--moe-aux-loss-coeff $") \
	DO(SAME, "moe-min-capacity", 1, "0", capacity) \
	DO(NOTE, "moe-mlp-glu-interleave-size", 1, interleaved) \
	DO(NOTE, "moe-ncclep-zero-copy", 0, dispatch) \
	DO(NOTE, "moe-pad-experts-for-cuda-graph-inference", 0, serving_note) \
	DO(NOTE, "moe-paged-stash", 0, dispatch) \
	DO(NOTE, "moe-paged-stash-buffer-size-factor-cpu", 1, dispatch) \
	DO(NOTE, "moe-paged-stash-buffer-size-factor-cuda", 1, dispatch) \
	DO(NOTE, "moe-paged-stash-page-size", 1, dispatch) \
	DO(NOTE, "moe-per-layer-logging", 0, loads) DO(NOTE, "moe-permute-fusion", 0, dispatch) \
	DO(NOTE, "moe-permute-fusion-into-hybridep", 0, dispatch) \
	DO(SAME, "moe-router-dtype", 1, "fp32", router_dtype) \
	DO(MATHS, "moe-router-force-biased", 1, forced) DO(NOTE, "moe-router-fusion", 0, dispatch) \
	DO(NOTE, "moe-router-padding-for-fp8", 0, padded) \
	DO(NOTE, "moe-router-padding-for-quantization", 0, padded) \
	DO(MATHS, "moe-router-quantile-balancing-ema", 1, quantile) \
	DO(LACKS, "moe-router-topk-limited-devices", 1, group_topk) \
	DO(NOTE, "moe-routing-trace-capture-hidden-states", 0, profile) \
	DO(NOTE, "moe-routing-trace-capture-logits", 0, profile) \
	DO(NOTE, "moe-routing-trace-dump-weights", 0, profile) \
	DO(SCOPE, "moe-routing-trace-max-inference-steps", 1, serving) \
	DO(NOTE, "moe-routing-trace-max-training-iters", 1, profile) \
	DO(NOTE, "moe-routing-trace-path", 1, profile) \
	DO(NOTE, "moe-shared-expert-glu-interleave-size", 1, interleaved) \
	DO(NOTE, "moe-shared-expert-overlap", 0, dispatch) \
	DO(MATHS, "moe-single-grouped-bias", 0, expert_bias) \
	DO(NOTE, "moe-single-grouped-weight", 0, together) \
	DO(LACKS, "moe-token-dropping", 0, capacity_order) \
	DO(LACKS, "moe-train-capacity-factor", 1, capacity_order) \
	DO(NOTE, "moe-upcycling-granularity", 1, read_upcycling) \
	DO(NOTE, "moe-use-grouped-tensor", 0, together) \
	DO(NOTE, "moe-use-legacy-grouped-gemm", 0, together) \
	DO(LACKS, "moe-use-upcycling", 0, upcycle) DO(SCOPE, "mos", 0, distill) \
	DO(MATHS, "mrope-section", OPT_MANY, mrope) \
	DO(MATHS, "mtp-detach-heads", 0, mtp_detached) DO(MATHS, "mtp-hsm", 0, mtp_mixed) \
	DO(SCOPE, "mtp-hybrid-override-pattern", 1, hybrid) \
	DO(NOTE, "mtp-standalone", 0, mtp_stage) \
	DO(MATHS, "mtp-use-repeated-layer", 0, shared_layers) \
	DO(ALIAS, "multi-query-attention", 0, "--group-query-attention --num-query-groups 1") \
	DO(MATHS, "muon-no-split-qkv", 0, muon_qkv) \
	DO(ALIAS, "muon-use-nesterov", 0, "--muon-nesterov") DO(NOTE, "muon-use-syrk", 0, speed) \
	DO(NOTE, "mup-attn-scale-power", 1, read_mup) DO(NOTE, "mup-base-head-dim", 1, read_mup) \
	DO(NOTE, "mup-base-hidden-size", 1, read_mup) DO(NOTE, "mup-embedding-mult", 1, read_mup) \
	DO(NOTE, "mup-output-mult", 1, read_mup) DO(NOTE, "mup-width-mult", 1, read_mup) \
	DO(NOTE, "nccl-all-reduce-for-prefill", 0, serving_note) \
	DO(NOTE, "nccl-communicator-config-path", 1, comm) \
	DO(NOTE, "no-align-grad-reduce", 0, comm) DO(NOTE, "no-align-param-gather", 0, comm) \
	DO(NOTE, "no-async-tensor-model-parallel-allreduce", 0, only_speed) \
	DO(MATHS, "no-attn-layernorm", 0, norm_places) \
	DO(NOTE, "no-barrier-with-level-1-timing", 0, comm) \
	DO(NOTE, "no-bias-dropout-fusion", 0, fused) DO(NOTE, "no-bias-swiglu-fusion", 0, fused) \
	DO(NOTE, "no-check-for-nan-in-loss-and-grad", 0, nan_checks) \
	DO(NOTE, "no-ckpt-fully-parallel-save", 0, one_ckpt) \
	DO(NOTE, "no-ckpt-load-validate-sharding-integrity", 0, one_ckpt) \
	DO(NOTE, "no-clone-scatter-output-in-embedding", 0, planned) \
	DO(NOTE, "no-contiguous-buffers-in-local-ddp", 0, buffers) \
	DO(NOTE, "no-create-attention-mask-in-dataloader", 0, no_masks) \
	DO(MATHS, "no-cross-document-attention", 0, docmask) \
	DO(NOTE, "no-delay-grad-reduce", 0, comm) \
	DO(NOTE, "no-dsa-indexer-rotate-activation", 0, read_variant) \
	DO(NOTE, "no-dsa-indexer-scoring-relu", 0, read_variant) \
	DO(MATHS, "no-final-layernorm", 0, norm_places) \
	DO(NOTE, "no-flight-recorder-dump-on-timeout", 0, watch) \
	DO(NOTE, "no-flight-recorder-extra-dump-on-exec", 0, watch) \
	DO(NOTE, "no-flight-recorder-include-only-active", 0, watch) \
	DO(MATHS, "no-fp8-wgrad", 0, wgrad16) \
	DO(NOTE, "no-gradient-accumulation-fusion", 0, fused) \
	DO(NOTE, "no-gradient-reduce-div-fusion", 0, sum_scale) \
	DO(NOTE, "no-inference-disable-ep-consensus", 0, serving_note) \
	DO(NOTE, "no-inference-dynamic-batching-prefix-caching", 0, serving_note) \
	DO(NOTE, "no-inference-flask-server-logging", 0, serving_note) \
	DO(NOTE, "no-inference-text-gen-server-logging", 0, serving_note) \
	DO(NOTE, "no-inference-use-synchronous-zmq-collectives", 0, serving_note) \
	DO(NOTE, "no-inference-wandb-logging", 0, serving_note) \
	DO(NOTE, "no-initialization", 0, starts_drawn) \
	DO(LACKS, "no-load-lr-state", 0, schedule_anew) DO(NOTE, "no-load-rng", 0, no_rng) \
	DO(NOTE, "no-log-learnig-rate-to-tensorboard", 0, logged) \
	DO(NOTE, "no-log-loss-scale-to-tensorboard", 0, logged) \
	DO(NOTE, "no-manual-gc-eval", 0, no_gc) DO(NOTE, "no-masked-softmax-fusion", 0, fused) \
	DO(MATHS, "no-mlp-layernorm", 0, norm_places) DO(NOTE, "no-one-logger", 0, watch) \
	DO(ALIAS, "no-pad-vocab-size", 0, "--make-vocab-size-divisible-by 1") \
	DO(NOTE, "no-persist-layer-norm", 0, fused) DO(NOTE, "no-pin-cpu-grads", 0, pinned) \
	DO(NOTE, "no-pin-cpu-params", 0, pinned) DO(NOTE, "no-pipeline-parallel", 0, pp_decides) \
	DO(NOTE, "no-query-key-layer-scaling", 0, the_default) \
	DO(SCOPE, "no-record-throughput", 0, serving) \
	DO(SCOPE, "no-rl-inference-logprobs-is-correction", 0, rl) \
	DO(SCOPE, "no-rl-offload-inference-model-weights-when-idle", 0, rl) \
	DO(SCOPE, "no-rl-partial-rollouts", 0, rl) DO(SCOPE, "no-rl-persist-cuda-graphs", 0, rl) \
	DO(SCOPE, "no-rl-skip-bos-token", 0, rl) DO(SCOPE, "no-rl-training-cuda-graphs", 0, rl) \
	DO(SCOPE, "no-rl-use-sequence-packing", 0, rl) \
	DO(SCOPE, "no-rl-verify-model-weights-swap", 0, rl) \
	DO(NOTE, "no-rope-fusion", 0, fused) DO(NOTE, "no-save-rng", 0, no_rng) \
	DO(NOTE, "no-save-tokenizer-assets", 0, one_ckpt) \
	DO(NOTE, "no-scatter-gather-tensors-in-pipeline", 0, comm) \
	DO(NOTE, "no-strict-fsdp-dtensor-load", 0, buffers) \
	DO(MATHS, "no-tokenizer-sentencepiece-ignore-extra-whitespaces", 0, ids) \
	DO(NOTE, "no-tp-comm-bulk-dgrad", 0, comm) DO(NOTE, "no-tp-comm-bulk-wgrad", 0, comm) \
	DO(NOTE, "no-tp-comm-overlap-ag", 0, comm) DO(NOTE, "no-tp-comm-overlap-rs", 0, comm) \
	DO(NOTE, "no-tp-comm-split-ag", 0, comm) DO(NOTE, "no-tp-comm-split-rs", 0, comm) \
	DO(NOTE, "no-use-layer-wise-param-layout", 0, comm) \
	DO(NOTE, "no-use-tokenizer-model-from-checkpoint-args", 0, one_ckpt) \
	DO(MATHS, "no-weight-decay-cond-type", 1, wd_cond) DO(SCOPE, "noise-density", 1, encoder) \
	DO(NOTE, "non-persistent-ckpt-type", 1, one_ckpt) \
	DO(NOTE, "non-persistent-global-ckpt-dir", 1, one_ckpt) \
	DO(NOTE, "non-persistent-local-ckpt-algo", 1, one_ckpt) \
	DO(NOTE, "non-persistent-local-ckpt-dir", 1, one_ckpt) \
	DO(NOTE, "non-persistent-save-interval", 1, one_ckpt) \
	DO(LACKS, "null-tokenizer-eod-id", 1, null_ids) \
	DO(LACKS, "null-tokenizer-pad-id", 1, null_ids) \
	DO(SCOPE, "num-attention-heads-teacher", 1, distill) DO(SCOPE, "num-channels", 1, vision) \
	DO(SCOPE, "num-classes", 1, vision) DO(NOTE, "num-dataset-builder-threads", 1, mapped) \
	DO(ALIAS, "num-experts-switch", 1, "--num-experts $") \
	DO(SCOPE, "num-experts-teacher", OPT_MANY, distill) \
	DO(ALIAS, "num-key-value-heads", 1, "--group-query-attention --num-query-groups $") \
	DO(SCOPE, "num-layers-teacher", 1, distill) DO(LACKS, "num-microbatches", 1, batch_says) \
	DO(LACKS, "num-microbatches-in-minibatch", 1, batch_says) \
	DO(NOTE, "num-speculative-tokens", 1, serving_note) \
	DO(SCOPE, "num-tokens-from-file", 0, serving) \
	DO(LACKS, "num-tokens-to-generate", 1, generate) \
	DO(SCOPE, "num-tokens-to-prompt", OPT_MANY, serving) \
	DO(MATHS, "num-unique-layers", 1, shared_layers) DO(NOTE, "num-workers", 1, from_map) \
	DO(NOTE, "nvtx-ranges", 0, profile) DO(LACKS, "object-storage-cache-path", 1, storage) \
	DO(NOTE, "offload-modules", OPT_MANY, offload) DO(NOTE, "one-logger-async", 0, watch) \
	DO(NOTE, "one-logger-entity", 1, watch) DO(NOTE, "one-logger-project", 1, watch) \
	DO(NOTE, "one-logger-run-name", 1, watch) DO(NOTE, "onnx-safe", OPT_MAYBE, one_model) \
	DO(NOTE, "optimizer-cuda-graph", 0, graphs) DO(NOTE, "otel-enabled", 0, watch) \
	DO(NOTE, "otel-service-name", 1, watch) DO(NOTE, "otel-span-groups", 1, watch) \
	DO(SCOPE, "output-bert-embeddings", 0, retrieval) \
	DO(SCOPE, "output-every-n-results", 1, serving) \
	DO(SCOPE, "output-logit-dtype", 1, serving) DO(LACKS, "output-path", 1, generate) \
	DO(SCOPE, "output-request-events", 0, serving) \
	DO(NOTE, "overlap-cpu-optimizer-d2h-h2d", 0, overlapped) \
	DO(NOTE, "overlap-dispatch-backward-with-experts-wgrad", 0, dispatch) \
	DO(NOTE, "overlap-grad-reduce", 0, the_default) \
	DO(NOTE, "overlap-moe-expert-parallel-comm", 0, dispatch) \
	DO(NOTE, "overlap-p2p-communication", 0, the_default) \
	DO(NOTE, "overlap-p2p-communication-warmup-flush", 0, comm) \
	DO(NOTE, "overlap-param-gather", 0, the_default) \
	DO(NOTE, "overlap-param-gather-with-optimizer-step", 0, comm) \
	DO(LACKS, "override-checkpoint-version", 1, convert) \
	DO(LACKS, "override-ckpt-iteration", 1, ckpt_step) \
	DO(ALIAS, "override-lr-scheduler", 0, "--override-opt_param-scheduler") \
	DO(ALIAS, "pad-vocab-size-to", 1, "--make-vocab-size-divisible-by $") \
	DO(ALIAS, "padded-vocab-size", 1, "--make-vocab-size-divisible-by $") \
	DO(MATHS, "param-sharing-style", 1, shared_layers) \
	DO(NOTE, "partition-activations", 0, recompute_how) DO(SCOPE, "patch-dim", 1, vision) \
	DO(LACKS, "per-dataset-sequences-path", 1, start_lists) \
	DO(SCOPE, "perform-rl-step", 0, rl) \
	DO(ALIAS, "persistent-save-interval", 1, "--save-interval $") \
	DO(MATHS, "phase-transition-iterations", 1, phases) \
	DO(NOTE, "pipeline-model-parallel-comm-backend", 1, mpi_nccl) \
	DO(SCOPE, "pipeline-model-parallel-split-rank", 1, encoder) \
	DO(MATHS, "post-layer-norm", 0, norm_places) \
	DO(SAME, "pp-partition-method", 1, \
	   "uniform; parameters; type:transformer; type:transformer|embedding=" \
	   "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", \
	   partition) DO(NOTE, "profile-backward", 0, recompute_how) \
	DO(NOTE, "profile-ranks", OPT_MANY, profile) DO(NOTE, "profile-steps", 1, profile) \
	DO(SCOPE, "prompt-file-num-truncate", 1, serving) \
	DO(NOTE, "pytorch-profiler-collect-callstack", 0, profile) \
	DO(NOTE, "pytorch-profiler-collect-chakra", 0, profile) \
	DO(NOTE, "pytorch-profiler-collect-shapes", 0, profile) \
	DO(MATHS, "qk-l2-norm", 0, l2) \
	DO(NOTE, "qknorm-impl", 1, fused) DO(SCOPE, "query-in-block-prob", 1, retrieval) \
	DO(MATHS, "random-ltd", 0, curriculum) \
	DO(NOTE, "record-memory-history", 0, profile) DO(NOTE, "record-shapes", 0, profile) \
	DO(SCOPE, "refit-method", 1, rl) DO(SCOPE, "relative-attention-max-distance", 1, encoder) \
	DO(SCOPE, "relative-attention-num-buckets", 1, encoder) \
	DO(NOTE, "remote-device", 1, pinned) DO(MATHS, "renormalize-blend-weights", 0, repeats) \
	DO(MATHS, "repeated-dataloader", 0, repeats) DO(NOTE, "replication", 0, one_ckpt) \
	DO(NOTE, "replication-factor", 1, one_ckpt) DO(NOTE, "replication-jump", 1, one_ckpt) \
	DO(SCOPE, "report-topk-accuracies", OPT_MANY, retrieval) \
	DO(NOTE, "rerun-mode", 1, no_rerun) DO(LACKS, "reset-iteration", 0, keeps_steps) \
	DO(SCOPE, "result-rejected-tracker-filename", 1, serving) \
	DO(SCOPE, "retriever-report-topk-accuracies", OPT_MANY, retrieval) \
	DO(SCOPE, "retriever-score-scaling", 0, retrieval) \
	DO(SCOPE, "retriever-seq-length", 1, retrieval) \
	DO(SCOPE, "retro-add-retriever", 0, retrieval) \
	DO(SCOPE, "retro-attention-gate", 1, retrieval) \
	DO(SCOPE, "retro-cyclic-train-iters", 1, retrieval) \
	DO(SCOPE, "retro-encoder-attention-dropout", 1, retrieval) \
	DO(SCOPE, "retro-encoder-hidden-dropout", 1, retrieval) \
	DO(SCOPE, "retro-encoder-layers", 1, retrieval) \
	DO(SCOPE, "retro-no-verify-neighbor-count", 0, retrieval) \
	DO(SCOPE, "retro-num-neighbors", 1, retrieval) \
	DO(SCOPE, "retro-num-retrieved-chunks", 1, retrieval) \
	DO(SCOPE, "retro-project-dir", 1, retrieval) \
	DO(SCOPE, "retro-return-doc-ids", 0, retrieval) DO(SCOPE, "retro-workdir", 1, retrieval) \
	DO(NOTE, "return-data-index", 0, index_only) DO(LACKS, "return-log-probs", 0, generate) \
	DO(NOTE, "reuse-grad-buf-for-mxfp8-param-ag", 0, fp8_copies) \
	DO(MATHS, "reweight-loss-based-on-position-frequency", 0, all_tokens) \
	DO(SCOPE, "rl-calculate-intra-group-similarity", 0, rl) \
	DO(SCOPE, "rl-consumption-granularity", 1, rl) DO(SCOPE, "rl-default-temperature", 1, rl) \
	DO(SCOPE, "rl-default-top-k", 1, rl) DO(SCOPE, "rl-default-top-p", 1, rl) \
	DO(SCOPE, "rl-durable-rollout-bank", 0, rl) DO(SCOPE, "rl-generation-batch-size", 1, rl) \
	DO(SCOPE, "rl-generation-lag", 1, rl) \
	DO(SCOPE, "rl-importance-sampling-truncation-coef", 1, rl) \
	DO(SCOPE, "rl-inference-expert-model-parallel-size", 1, rl) \
	DO(SCOPE, "rl-inference-expert-tensor-model-parallel-size", 1, rl) \
	DO(SCOPE, "rl-inference-logprobs-is-correction", 0, rl) \
	DO(SCOPE, "rl-inference-model-unified-memory-level", 1, rl) \
	DO(SCOPE, "rl-inference-parsers", OPT_MANY, rl) \
	DO(SCOPE, "rl-inference-pipeline-model-parallel-size", 1, rl) \
	DO(SCOPE, "rl-inference-tensor-model-parallel-size", 1, rl) \
	DO(SCOPE, "rl-kv-cache-management-mode", 1, rl) \
	DO(SCOPE, "rl-max-inflight-requests", 1, rl) \
	DO(SCOPE, "rl-num-parallel-generation-batches", 1, rl) \
	DO(SCOPE, "rl-num-parallel-generations", 1, rl) \
	DO(SCOPE, "rl-offload-inference-model-weights-when-idle", 0, rl) \
	DO(SCOPE, "rl-offload-kv-cache-during-training", 0, rl) \
	DO(SCOPE, "rl-offload-optimizer-during-inference", 0, rl) \
	DO(SCOPE, "rl-parallel-generation-tasks", 1, rl) DO(SCOPE, "rl-partial-rollouts", 0, rl) \
	DO(SCOPE, "rl-persist-cuda-graphs", 0, rl) DO(SCOPE, "rl-profile", 0, rl) \
	DO(SCOPE, "rl-profile-dir", 1, rl) DO(SCOPE, "rl-prompts-per-eval", 1, rl) \
	DO(SCOPE, "rl-remove-kv-cache-during-training", 0, rl) \
	DO(SCOPE, "rl-reset-cuda-graphs", 0, rl) DO(SCOPE, "rl-rollout-bank-dir", 1, rl) \
	DO(SCOPE, "rl-rollout-bank-max-bytes", 1, rl) DO(SCOPE, "rl-sequence-packing-algo", 1, rl) \
	DO(SCOPE, "rl-sequence-packing-bin-size", 1, rl) \
	DO(SCOPE, "rl-sequence-packing-max-sequences-per-bin", 1, rl) \
	DO(SCOPE, "rl-skip-bos-token", 0, rl) DO(SCOPE, "rl-submission-granularity", 1, rl) \
	DO(SCOPE, "rl-training-cuda-graphs", 0, rl) \
	DO(SCOPE, "rl-use-sequence-packing", OPT_MAYBE, rl) \
	DO(SCOPE, "rl-verify-model-weights-swap", 0, rl) \
	DO(SAME, "rope-type", 1, \
	   "rope; yarn=--position-embedding-type rope --rope-scaling-type yarn", rope_type) \
	DO(ALIAS, "rotary-position-embeddings-theta", 1, "--rotary-base $") \
	DO(SAME, "rotary-seq-len-interpolation-factor", 1, \
	   "1; *=--rope-scaling-type linear --rope-scaling-factor $", linear) \
	DO(NOTE, "run-workload-inspector-server", 0, watch) DO(LACKS, "s3-cache-path", 1, storage) \
	DO(SCOPE, "sample-rate", 1, retrieval) DO(LACKS, "save-activations-interval", 1, tensors) \
	DO(LACKS, "save-dgrads-interval", 1, tensors) \
	DO(LACKS, "save-params-interval", 1, tensors) \
	DO(LACKS, "save-tokens-per-expert-interval", 1, tensors) \
	DO(LACKS, "save-wgrads-interval", 1, tensors) \
	DO(NOTE, "scaled-masked-softmax-fusion", 0, fused) \
	DO(NOTE, "scaled-upper-triang-masked-softmax-fusion", 0, fused) \
	DO(NOTE, "scatter-gather-tensors-in-pipeline", 0, comm) \
	DO(NOTE, "scattered-embeddings", 0, speed) DO(SCOPE, "sft", 0, sft) \
	DO(SCOPE, "sft-tokenizer-prompt-format", 1, sft) DO(NOTE, "sharp-enabled-group", 1, comm) \
	DO(SCOPE, "short-seq-prob", 1, encoder) DO(NOTE, "skip-allreduce", 0, test_only) \
	DO(NOTE, "skip-alltoall", 0, test_only) DO(NOTE, "skip-gemm", 0, test_only) \
	DO(SCOPE, "skip-prompt-log-probs", 0, serving) \
	DO(NOTE, "skip-reducescatter", 0, test_only) DO(NOTE, "skip-sendrecv", 0, test_only) \
	DO(LACKS, "skip-train-iteration-range", OPT_MANY, skip_steps) \
	DO(SAME, "spec", OPT_MANY, "*gpt_layer*; local", spec) \
	DO(NOTE, "split-transformers", 0, recompute_how) \
	DO(LACKS, "standalone-embed-stage", 0, layout) \
	DO(LACKS, "standalone-embedding-stage", 0, layout) \
	DO(LACKS, "start-eval-at-iter", 1, eval_start) \
	DO(ALIAS, "start-wd", 1, "--start-weight-decay $") \
	DO(LACKS, "stop-words", OPT_MANY, generate) DO(NOTE, "straggler-ctrlr-port", 1, watch) \
	DO(NOTE, "suggested-communication-unit-size", 1, comm) \
	DO(SCOPE, "suspend-resume-interval", 1, serving) DO(SCOPE, "suspend-timeout", 1, serving) \
	DO(SCOPE, "swin-backbone-type", 1, vision) DO(NOTE, "symmetric-ar-type", 1, serving_note) \
	DO(NOTE, "sync-tp-duplicated-parameters", 0, same_sums) \
	DO(NOTE, "synchronize-each-layer", 0, recompute_how) \
	DO(MATHS, "te-precision-config-file", 1, recipes) DO(NOTE, "te-rng-tracker", 0, graphs) \
	DO(SAME, "tensor-parallel-num-weight-shards", 1, "1", tp_shards) \
	DO(NOTE, "tensorboard-queue-size", 1, flushed) DO(LACKS, "termination-id", 1, generate) \
	DO(NOTE, "test-mode", 0, test_only) \
	DO(LACKS, "test-weighted-split-paths", OPT_MANY, start_lists) \
	DO(LACKS, "test-weighted-split-paths-path", 1, start_lists) \
	DO(SCOPE, "throughput-check-only", 0, serving) DO(NOTE, "tile-factor", 1, speed) \
	DO(SCOPE, "titles-data-path", 1, retrieval) \
	DO(NOTE, "tokenizer-hf-include-special-tokens", 0, the_default) \
	DO(NOTE, "tokenizer-hf-no-use-fast", 0, no_code) \
	DO(NOTE, "tokenizer-hf-use-fast", 0, the_default) \
	DO(NOTE, "tokenizer-metadata", 1, from_files) \
	DO(ALIAS, "tokenizer-name-or-path", 1, "--tokenizer-model $") \
	DO(MATHS, "tokenizer-sentencepiece-legacy", 0, ids) \
	DO(MATHS, "tokenizer-special-tokens", OPT_MANY, ids) \
	DO(LACKS, "top-n-logprobs", 1, generate) DO(ALIAS, "topk", 1, "--moe-router-topk $") \
	DO(NOTE, "torch-fsdp2-no-reshard-after-forward", 0, buffers) \
	DO(NOTE, "tp-comm-bootstrap-backend", 1, mpi_nccl) \
	DO(NOTE, "tp-comm-overlap-cfg", 1, comm) DO(NOTE, "tp-comm-overlap-rs-dgrad", 0, comm) \
	DO(ALIAS, "tp-size", 1, "--tensor-model-parallel-size $") \
	DO(MATHS, "train-data-exact-num-epochs", 1, epochs) \
	DO(LACKS, "train-desc-path", 1, index_files) \
	DO(LACKS, "train-doc-idx-path", 1, index_files) \
	DO(LACKS, "train-idx-path", 1, index_files) \
	DO(LACKS, "train-sample-idx-path", 1, index_files) \
	DO(LACKS, "train-shuffle-idx-path", 1, index_files) \
	DO(NOTE, "train-sync-interval", 1, barrier) \
	DO(LACKS, "train-weighted-split-paths", OPT_MANY, start_lists) \
	DO(LACKS, "train-weighted-split-paths-path", 1, start_lists) \
	DO(NOTE, "transformer-impl", 1, one_model) DO(LACKS, "trigger-path", 1, stop_file) \
	DO(NOTE, "trust-remote-code", 0, no_code) DO(LACKS, "universal-checkpoint", 0, universal) \
	DO(MATHS, "use-bnb-optimizer", 0, adam8) \
	DO(ALIAS, "use-checkpoint-lr-scheduler", 0, "--use-checkpoint-opt_param-scheduler") \
	DO(NOTE, "use-contiguous-buffers-in-ddp", 0, buffers) \
	DO(SCOPE, "use-coordinator", 0, serving) DO(NOTE, "use-cpu-initialization", 0, same_start) \
	DO(ALIAS, "use-custom-fsdp", 0, "--use-megatron-fsdp") \
	DO(MATHS, "use-dataset-only", 1, repeats) DO(NOTE, "use-dist-ckpt", 0, one_ckpt) \
	DO(NOTE, "use-flash-attn", 0, no_matrix) DO(NOTE, "use-flash-attn-builder", 0, no_matrix) \
	DO(NOTE, "use-flash-attn-triton", 0, no_matrix) \
	DO(NOTE, "use-flash-attn-v1", 0, no_matrix) DO(NOTE, "use-flash-attn-v2", 0, no_matrix) \
	DO(NOTE, "use-flashinfer-fused-rope", 0, serving_note) \
	DO(NOTE, "use-fused-weighted-squared-relu", 0, one_model) \
	DO(NOTE, "use-gigatoken", 0, no_code) DO(NOTE, "use-gpu-initialization", 0, same_start) \
	DO(NOTE, "use-grouped-gemm-for-dense-mlp", 0, together) \
	DO(NOTE, "use-grouped-gemm-for-shared-expert", 0, together) \
	DO(MATHS, "use-kitchen-attention", 0, recipes) DO(NOTE, "use-legacy-models", 0, one_model) \
	DO(NOTE, "use-legacy-static-engine", 0, serving_note) \
	DO(NOTE, "use-mcore-models", 0, one_model) \
	DO(NOTE, "use-mp-args-from-checkpoint-args", 0, one_ckpt) DO(NOTE, "use-mpi", 0, mpi_nccl) \
	DO(MATHS, "use-mup", 0, mup) DO(NOTE, "use-nccl-ub", 0, comm) \
	DO(SCOPE, "use-one-sent-docs", 0, retrieval) \
	DO(NOTE, "use-persistent-ckpt-worker", 0, one_ckpt) DO(NOTE, "use-pin-memory", 0, pinned) \
	DO(NOTE, "use-pytorch-profiler", 0, profile) DO(MATHS, "use-relu", 0, activation) \
	DO(NOTE, "use-ring-exchange-p2p", 0, comm) \
	DO(NOTE, "use-same-sampling-seed-across-dp-ranks", 0, serving_note) \
	DO(NOTE, "use-sharp", 0, comm) DO(NOTE, "use-te-activation-func", 0, one_model) \
	DO(NOTE, "use-torch-optimizer-for-cpu-offload", 0, pinned) \
	DO(NOTE, "use-transformer-engine-op-fuser", 0, one_model) \
	DO(NOTE, "use-tutel", 0, dispatch) \
	DO(NOTE, "valid-num-workers", 1, from_map) \
	DO(LACKS, "valid-weighted-split-paths", OPT_MANY, start_lists) \
	DO(LACKS, "valid-weighted-split-paths-path", 1, start_lists) \
	DO(NOTE, "verify-integrity", 0, one_ckpt) \
	DO(ALIAS, "virtual-pipeline-model-parallel-size", 1, \
	   "--num-virtual-stages-per-pipeline-rank $") \
	DO(SCOPE, "vision-backbone-type", 1, vision) DO(SCOPE, "vision-pretraining", 0, vision) \
	DO(SCOPE, "vision-pretraining-type", 1, vision) DO(SCOPE, "vocab-extra-ids", 1, encoder) \
	DO(ALIAS, "wandb-name", 1, "--wandb-exp-name $") \
	DO(ALIAS, "warmup", 1, "--lr-warmup-fraction $") \
	DO(ALIAS, "wd-incr-style", 1, "--weight-decay-incr-style $") \
	DO(NOTE, "wgrad-deferral-limit", 1, speed) DO(MATHS, "xielu", 0, activation) \
	DO(MATHS, "xiprelu", 0, activation) DO(MATHS, "xiprelup", 0, activation) \
	DO(LACKS, "yaml-cfg", 1, yaml) \
	DO(NOTE, "yarn-correction-range-round-to-int", 0, yarn_rounds) \
	DO(SAME, "z-loss-strength", 1, "0", z_loss) \
	DO(NOTE, "zero-allgather-bucket-size", 1, comm) \
	DO(NOTE, "zero-contigious-gradients", 0, comm) \
	DO(NOTE, "zero-reduce-bucket-size", 1, comm) DO(NOTE, "zero-reduce-scatter", 0, comm) \
	DO(SAME, "zero-stage", 1, \
	   "0; 1=--use-distributed-optimizer; 2=--data-parallel-sharding-strategy optim_grads; " \
	   "3=--data-parallel-sharding-strategy optim_grads_params", zero)
/* clang-format on */

#endif
