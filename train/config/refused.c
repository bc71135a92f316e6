/*
 * refused.c - Megatron-LM's options that mtrain does not have
 *
 * The names are those of pretrain_gpt.py from 2021 to 2026, of the llm-jp fork and of
 * Megatron-DeepSpeed; '_' is written as '-'.
 * Sorted by reason, then by name. An option that gets built leaves this table in the same change.
 *
 * Refusing by name rather than as an unknown option tells a user of those programs whether to leave
 * the option out (nothing is lost), what to write instead, or that such a run is not possible here.
 * An option that only tunes speed is refused too: a script should not carry settings that do
 * nothing. Options about when memory is freed or files are mapped are accepted with a note.
 */
#include "train/config/refused.h"

#include <stddef.h>

static const char graph[] = "CUDA graphs are used by themselves; see --no-cuda-graphs";
static const char fp8[] = "FP4, and this form of FP8, are not supported";
static const char nan_checks[] = "NaN and Inf are always looked for; leave it out";
static const char uneven[] = "batches must divide equally among data ranks";
static const char one_ckpt[] = "checkpoints have one format here; leave it out";
static const char distill[] = "distillation is not supported";
static const char encoder[] = "encoder models are out of scope";
static const char validation[] = "evaluation is every --eval-interval steps";
static const char columns[] = "everything is logged; leave it out";
static const char moe[] = "experts have no such setting here";
static const char upcycling[] = "mckpt upcycle makes experts of a dense model before the run";
static const char resilience[] =
    "fault injection is not supported; --verify-interval runs steps again";
static const char fim[] = "fill-in-the-middle is not supported";
static const char sft[] = "fine-tuning on conversations is out of scope";
static const char fsdp[] = "fully sharded data parallelism has no such setting here";
static const char always[] = "is how it works here; leave it out";
static const char latent[] = "latent and sparse attention are not supported";
static const char modified[] = "modified attention is not supported";
static const char watch[] = "monitoring services are not supported; leave it out";
static const char mtp[] = "multi-token prediction is not supported";
static const char storage[] = "object storage is not supported";
static const char offload[] = "offloading of this kind is not supported";
static const char hcp[] = "one level of context parallelism is supported";
static const char comm[] = "only tunes communication; leave it out";
static const char data_speed[] = "only tunes reading; leave it out";
static const char speed[] = "only tunes speed or memory; leave it out";
static const char recompute[] = "partial recomputation is --recompute-granularity selective";
static const char profile[] = "profiling is --profile, of rank 0; leave it out";
static const char joined[] = "q, k and v are matrices of their own";
static const char rl[] = "reinforcement learning is out of scope";
static const char retrieval[] = "retrieval models are out of scope";
static const char rope[] = "rotary positions of this scaling are not supported";
static const char serving[] = "serving is out of scope";
static const char hybrid[] = "state-space and linear-attention models are not supported";
static const char restart[] = "the batch system restarts a job here; leave it out";
static const char python[] = "there is no Python here; leave it out";
static const char legacy[] = "there is one model code here; leave it out";
static const char optimizer[] = "this optimizer is not supported";
static const char precision[] = "this precision is not supported";
static const char tokenizer[] = "this tokenizer setting is not supported";
static const char use_cp[] = "use --context-parallel-size";
static const char use_cache[] = "use --data-cache-path";
static const char use_data_path[] = "use --data-path and --split";
static const char use_finetune[] = "use --finetune";
static const char use_fp8_format[] = "use --fp8-format";
static const char use_warmup[] = "use --lr-warmup-fraction";
static const char use_vocab_pad[] = "use --make-vocab-size-divisible-by";
static const char use_micro_batch[] = "use --micro-batch-size";
static const char use_capacity[] = "use --moe-expert-capacity-factor";
static const char use_nesterov[] = "use --muon-nesterov";
static const char use_epsilon[] = "use --norm-epsilon";
static const char use_shape[] = "use --num-layers and --seq-length";
static const char use_groups[] = "use --num-query-groups";
static const char use_scheduler[] = "use --override-opt_param-scheduler";
static const char use_layout[] = "use --pipeline-model-parallel-layout";
static const char use_pp[] = "use --pipeline-model-parallel-size 1";
static const char use_recompute[] = "use --recompute-granularity";
static const char use_rotary_base[] = "use --rotary-base";
static const char use_tp[] = "use --tensor-model-parallel-size";
static const char use_samples[] = "use --train-samples";
static const char use_ckpt_scheduler[] = "use --use-checkpoint-opt_param-scheduler";
static const char use_distopt[] = "use --use-distributed-optimizer";
static const char use_flash[] = "use --use-flash-attn";
static const char use_v[] = "use -v or -q";
static const char use_stop[] = "use a file named stop in the --save directory";
static const char use_mckpt[] = "use mckpt to convert";
static const char vision[] = "vision models are out of scope";
static const char maths[] = "would change the mathematics";
static const char zero_bubble[] = "zero-bubble schedules are not supported";

/* Several to a line. */
/* clang-format off */
const struct opt_refused mtrain_refused[] = {
	/* Passes are recorded without being asked. */
	{ "cuda-graph-impl", graph }, { "cuda-graph-modules", graph },
	{ "cuda-graph-scope", graph }, { "cuda-graph-warmup-steps", graph },
	{ "enable-cuda-graph", graph }, { "external-cuda-graph", graph },
	{ "optimizer-cuda-graph", graph }, { "te-rng-tracker", graph },
	/* 8 and 4 bits: what is supported has options of its own. Results depend on the rest, so it
	 * cannot be ignored. */
	{ "disable-fp8-wgrad", fp8 }, { "fp4-format", fp8 },
	{ "fp4-param-gather", fp8 },
	{ "fp4-quantizer-factory", fp8 }, { "fp4-recipe", fp8 }, { "fp8-interval", fp8 },
	{ "fp8-output-proj", fp8 }, { "fp8-quantizer-factory", fp8 },
	{ "keep-fp8-transpose-cache", fp8 },
	{ "keep-fp8-transpose-cache-when-using-custom-fsdp", fp8 },
	{ "kitchen-attention-backend", fp8 }, { "kitchen-config-file", fp8 },
	{ "kitchen-recipe-number", fp8 }, { "no-fp8-wgrad", fp8 },
	{ "reuse-grad-buf-for-mxfp8-param-ag", fp8 }, { "te-precision-config-file", fp8 },
	{ "use-kitchen-attention", fp8 },
	/* The check costs one pass over the gradients, which the norm makes anyway. */
	{ "no-check-for-nan-in-loss-and-grad", nan_checks },
	/* It would make the batch, and with it every result, depend on the number of ranks. */
	{ "decrease-batch-size-if-needed", uneven },
	/* How checkpoints are written elsewhere: formats, workers, replicas, strictness. Ours
	 * are whole, global and written by all ranks, whatever the layout. */
	{ "async-ckpt-cpu-priority", one_ckpt }, { "async-ckpt-io-priority", one_ckpt },
	{ "async-ckpt-use-cpu-shm", one_ckpt },
	{ "async-strategy", one_ckpt }, { "auto-detect-ckpt-format", one_ckpt },
	{ "ckpt-assume-constant-structure", one_ckpt },
	{ "ckpt-drop-redundant-extra-state", one_ckpt }, { "ckpt-fully-parallel-load", one_ckpt },
	{ "ckpt-fully-parallel-load-exchange-algo", one_ckpt },
	{ "ckpt-fully-parallel-load-per-rank-objects", one_ckpt },
	{ "ckpt-fully-parallel-load-process-group", one_ckpt },
	{ "ckpt-fully-parallel-save", one_ckpt },
	{ "ckpt-fully-parallel-save-process-group", one_ckpt },
	{ "ckpt-pg-tensors-cache-create", one_ckpt }, { "ckpt-pg-tensors-cache-path", one_ckpt },
	{ "disable-ckpt-load-validate-sharding-integrity", one_ckpt },
	{ "disable-save-tokenizer-assets", one_ckpt },
	{ "disable-use-tokenizer-model-from-checkpoint-args", one_ckpt },
	{ "dist-ckpt-format", one_ckpt }, { "dist-ckpt-optim-fully-reshardable", one_ckpt },
	{ "dist-ckpt-save-pre-mcore-014", one_ckpt }, { "dist-ckpt-strictness", one_ckpt },
	{ "dist-ckpt-workers", one_ckpt },
	{ "distrib-optim-fully-reshardable-mem-efficient", one_ckpt },
	{ "load-main-params-from-ckpt", one_ckpt }, { "load-model-opt-format", one_ckpt },
	{ "load-tag", one_ckpt }, { "no-ckpt-fully-parallel-save", one_ckpt },
	{ "no-ckpt-load-validate-sharding-integrity", one_ckpt },
	{ "no-save-tokenizer-assets", one_ckpt },
	{ "no-use-tokenizer-model-from-checkpoint-args", one_ckpt },
	{ "non-persistent-ckpt-type", one_ckpt }, { "non-persistent-global-ckpt-dir", one_ckpt },
	{ "non-persistent-local-ckpt-algo", one_ckpt },
	{ "non-persistent-local-ckpt-dir", one_ckpt },
	{ "non-persistent-save-interval", one_ckpt }, { "override-ckpt-iteration", one_ckpt },
	{ "persistent-save-interval", one_ckpt }, { "replication", one_ckpt },
	{ "replication-factor", one_ckpt }, { "replication-jump", one_ckpt },
	{ "universal-checkpoint", one_ckpt }, { "use-dist-ckpt", one_ckpt },
	{ "use-mp-args-from-checkpoint-args", one_ckpt },
	{ "use-persistent-ckpt-worker", one_ckpt }, { "verify-integrity", one_ckpt },
	/* A second model beside the one that is trained. */
	{ "hidden-size-teacher", distill }, { "kd", distill }, { "kd-alpha-ce", distill },
	{ "kd-beta-ce", distill }, { "kd-temp", distill }, { "load-teacher", distill },
	{ "logits-load-decode-threads", distill }, { "logits-load-dir", distill },
	{ "logits-load-ignore-errors", distill }, { "logits-load-kd-loss-alpha", distill },
	{ "logits-load-msc-prefetch-depth", distill }, { "logits-load-prefetch-factor", distill },
	{ "logits-save-dir", distill }, { "logits-save-dtype", distill },
	{ "logits-save-top-k", distill }, { "logits-save-top-p", distill },
	{ "logits-save-top-p-min-k", distill }, { "mos", distill },
	{ "num-attention-heads-teacher", distill }, { "num-experts-teacher", distill },
	{ "num-layers-teacher", distill },
	/* BERT and T5: other models, other data, other losses. */
	{ "bert-no-binary-head", encoder }, { "encoder-pipeline-model-parallel-size", encoder },
	{ "encoder-tensor-model-parallel-size", encoder }, { "mask-prob", encoder },
	{ "pipeline-model-parallel-split-rank", encoder },
	{ "relative-attention-max-distance", encoder },
	{ "relative-attention-num-buckets", encoder }, { "short-seq-prob", encoder },
	{ "vocab-extra-ids", encoder },
	/* Evaluation reads the same batches each time, so that its values can be compared. */
	{ "start-eval-at-iter", validation },
	/* A script that asks for less output loses nothing by leaving the option out. */
	{ "disable-log-loss-scale-to-tensorboard", columns },
	{ "no-log-learnig-rate-to-tensorboard", columns },
	{ "no-log-loss-scale-to-tensorboard", columns },
	/* Experts are routed in one way; another one would be another model. */
	{ "create-moe-param-group", moe }, { "disable-moe-token-dropping", moe },
	{ "disable-moe-top2-2nd-expert-sampling", moe },
	{ "enable-expert-tensor-parallelism", moe },
	{ "ep-overlap-early-attn-memory-release", moe }, { "expert-interval", moe },
	{ "expert-parallel", moe },
	{ "expert-tensor-parallel-num-weight-shards", moe },
	{ "gtp-expert-remat-nccl-ub", moe },
	{ "high-priority-a2a-comm-stream", moe }, { "mlp-type", moe },
	{ "moe-apply-probs-on-input", moe },
	{ "moe-combine-bwd-dtype", moe }, { "moe-deepep-num-sms", moe },
	{ "moe-dispatch-fwd-dtype", moe }, { "moe-enable-deepep", moe },
	{ "moe-enable-routing-replay", moe },
	{ "moe-expert-parallel-size", moe },
	{ "moe-extended-tp", moe },
	{ "moe-flex-dispatcher-backend", moe },
	{ "moe-flex-dispatcher-num-sms", moe },
	{ "moe-hybridep-num-blocks-permute", moe }, { "moe-hybridep-num-blocks-unpermute", moe },
	{ "moe-hybridep-num-sms", moe }, { "moe-hybridep-num-sms-preprocessing", moe },
	{ "moe-hybridep-pad-uneven-dispatch-inputs", moe }, { "moe-input-jitter-eps", moe },
	{ "moe-latent-size", moe }, { "moe-layer-recompute", moe },
	{ "moe-loss-coeff", moe },
	{ "moe-mlp-glu-interleave-size", moe }, { "moe-ncclep-zero-copy", moe },
	{ "moe-paged-stash", moe },
	{ "moe-paged-stash-buffer-size-factor-cpu", moe },
	{ "moe-paged-stash-buffer-size-factor-cuda", moe }, { "moe-paged-stash-page-size", moe },
	{ "moe-per-layer-logging", moe }, { "moe-permute-fusion", moe },
	{ "moe-permute-fusion-into-hybridep", moe },
	{ "moe-router-dtype", moe },
	{ "moe-router-force-biased", moe },
	{ "moe-router-fusion", moe }, { "moe-router-group-topk", moe },
	{ "moe-router-num-groups", moe },
	{ "moe-router-padding-for-fp8", moe }, { "moe-router-padding-for-quantization", moe },
	{ "moe-router-quantile-balancing-ema", moe },
	{ "moe-router-topk-limited-devices", moe }, { "moe-router-topk-scaling-factor", moe },
	{ "moe-routing-trace-capture-hidden-states", moe },
	{ "moe-routing-trace-capture-logits", moe }, { "moe-routing-trace-dump-weights", moe },
	{ "moe-routing-trace-max-training-iters", moe }, { "moe-routing-trace-path", moe },
	{ "moe-shared-expert-gate", moe }, { "moe-shared-expert-glu-interleave-size", moe },
	{ "moe-shared-expert-overlap", moe },
	{ "moe-single-grouped-bias", moe }, { "moe-single-grouped-weight", moe },
	{ "moe-upcycling-granularity", moe }, { "moe-use-grouped-tensor", moe },
	{ "moe-use-legacy-grouped-gemm", moe },
	{ "num-experts-switch", moe },
	{ "overlap-dispatch-backward-with-experts-wgrad", moe },
	{ "overlap-moe-expert-parallel-comm", moe }, { "topk", moe },
	{ "use-grouped-gemm-for-dense-mlp", moe }, { "use-grouped-gemm-for-shared-expert", moe },
	{ "use-tutel", moe },
	/* Faults that are provoked, and steps that are computed twice to find them. */
	{ "check-for-large-grads", resilience }, { "check-for-spiky-loss", resilience },
	{ "error-injection-rate", resilience }, { "error-injection-type", resilience },
	{ "fake-process-group", resilience },
	{ "fault-injector-delay-start-iteration", resilience },
	{ "fault-injector-fault-delay", resilience },
	{ "fault-injector-fault-probabilities", resilience },
	{ "fault-injector-fault-types", resilience },
	{ "fault-injector-mtti-seconds", resilience }, { "fault-injector-num-ranks", resilience },
	{ "fault-injector-offset-seconds", resilience }, { "fault-injector-ranks", resilience },
	{ "fault-injector-seed", resilience }, { "rerun-mode", resilience },
	/* Rearranged documents: the data would differ. */
	{ "fim-data", fim }, { "fim-eod-token", fim }, { "fim-fragment-rate", fim },
	{ "fim-middle-token", fim }, { "fim-no-prefix", fim }, { "fim-pad-token", fim },
	{ "fim-prefix-token", fim }, { "fim-rate", fim }, { "fim-split-sample", fim },
	{ "fim-spm-rate", fim }, { "fim-suffix-token", fim },
	/* Losses on some turns of a conversation alone. */
	{ "chat-template", sft }, { "sft", sft }, { "sft-tokenizer-prompt-format", sft },
	/* Weights that are gathered layer by layer; the distributed optimizer shards only gradient
	 * sums and states. */
	{ "create-all-gather-group", fsdp },
	{ "disable-strict-fsdp-dtensor-load", fsdp }, { "enable-full-sharding-in-hsdp", fsdp },
	{ "fsdp-db-use-persist-buf-on-alloc-fail", fsdp }, { "fsdp-double-buffer", fsdp },
	{ "fsdp-manual-registration", fsdp }, { "gtp-remat-nccl-ub", fsdp },
	{ "gtp-remat-opt-in-modules", fsdp },
	{ "gtp-remat-reduce-scatter-with-fp32-accumulation", fsdp },
	{ "init-model-with-meta-device", fsdp },
	{ "megatron-fsdp-enable-fine-grained-param-gather", fsdp },
	{ "megatron-fsdp-grad-comm-dtype", fsdp }, { "megatron-fsdp-main-grads-dtype", fsdp },
	{ "megatron-fsdp-main-params-dtype", fsdp },
	{ "megatron-fsdp-max-pool-double-buffer", fsdp }, { "megatron-fsdp-version", fsdp },
	{ "no-contiguous-buffers-in-local-ddp", fsdp }, { "no-strict-fsdp-dtensor-load", fsdp },
	{ "num-distributed-optimizer-instances", fsdp }, { "outer-dp-sharding-strategy", fsdp },
	{ "tensor-parallel-num-weight-shards", fsdp },
	{ "torch-fsdp2-no-reshard-after-forward", fsdp },
	{ "use-contiguous-buffers-in-ddp", fsdp }, { "use-custom-fsdp", fsdp },

	/* Scores are never scaled by the layer's number. */
	{ "no-query-key-layer-scaling", always },
	/* Attention with other parameters than q, k, v and projection. */
	{ "disable-dsa-indexer-rotate-activation", latent },
	{ "disable-dsa-indexer-scoring-relu", latent }, { "dsa-indexer-head-dim", latent },
	{ "dsa-indexer-k-norm-epsilon", latent }, { "dsa-indexer-k-norm-fp32", latent },
	{ "dsa-indexer-loss-coeff", latent }, { "dsa-indexer-n-heads", latent },
	{ "dsa-indexer-rope-interleaved", latent }, { "dsa-indexer-skip-topk-offset", latent },
	{ "dsa-indexer-topk", latent }, { "dsa-indexer-topk-freq", latent },
	{ "dsa-indexer-use-sparse-loss", latent }, { "dsa-kernel-backend", latent },
	{ "experimental-attention-variant", latent }, { "kv-lora-rank", latent },
	{ "mla-down-proj-fusion", latent }, { "mscale", latent }, { "mscale-all-dim", latent },
	{ "multi-latent-attention", latent }, { "no-dsa-indexer-rotate-activation", latent },
	{ "no-dsa-indexer-scoring-relu", latent }, { "q-lora-rank", latent },
	{ "qk-head-dim", latent }, { "qk-pos-emb-head-dim", latent }, { "v-head-dim", latent },
	{ "moe-use-upcycling", upcycling },
	/* Attention with other weights. */
	{ "apply-wd-to-qk-layernorm", modified }, { "attention-output-gate", modified },
	{ "qk-l2-norm", modified }, { "softmax-type", modified },
	/* Metrics go to files and stdout, for monitoring to read. */
	{ "app-tag-run-name", watch }, { "app-tag-run-version", watch },
	{ "calc-ft-timeouts", watch }, { "config-logger-dir", watch },
	{ "disable-flight-recorder-dump-on-timeout", watch },
	{ "disable-flight-recorder-extra-dump-on-exec", watch },
	{ "disable-flight-recorder-include-only-active", watch },
	{ "disable-straggler-on-startup", watch }, { "enable-ft-package", watch },
	{ "enable-one-logger", watch }, { "flight-recorder-dump-path", watch },
	{ "flight-recorder-include-stack-trace", watch },
	{ "flight-recorder-trace-buffer-size", watch }, { "ft-num-warmup-iters", watch },
	{ "gpu-sniff-test-interval", watch }, { "no-flight-recorder-dump-on-timeout", watch },
	{ "no-flight-recorder-extra-dump-on-exec", watch },
	{ "no-flight-recorder-include-only-active", watch }, { "no-one-logger", watch },
	{ "one-logger-async", watch }, { "one-logger-entity", watch },
	{ "one-logger-project", watch }, { "one-logger-run-name", watch },
	{ "otel-enabled", watch }, { "otel-service-name", watch }, { "otel-span-groups", watch },
	{ "run-workload-inspector-server", watch }, { "straggler-ctrlr-port", watch },
	/* More heads and another loss. */
	{ "mtp-detach-heads", mtp }, { "mtp-hsm", mtp }, { "mtp-hybrid-override-pattern", mtp },
	{ "mtp-loss-scaling-factor", mtp }, { "mtp-num-layers", mtp }, { "mtp-standalone", mtp },
	{ "mtp-use-repeated-layer", mtp },
	/* Files are opened by path: mount or copy first. */
	{ "aml-data-download-path", storage }, { "disable-msc", storage },
	{ "enable-msc", storage }, { "object-storage-cache-path", storage },
	{ "s3-cache-path", storage },
	/* Where it does not fit, mplan search finds a layout that does. */
	{ "activation-offload-fraction", offload }, { "checkpoint-in-cpu", offload },
	{ "cpu-optimizer", offload },
	{ "delay-offload-until-cuda-graph", offload },
	{ "delta-offload-bytes-across-pp-ranks", offload },
	{ "fine-grained-activation-offloading", offload },
	{ "fine-grained-offloading-max-inflight-offloads", offload },
	{ "min-offloaded-tensor-size", offload }, { "no-pin-cpu-grads", offload },
	{ "no-pin-cpu-params", offload }, { "offload-modules", offload },
	{ "remote-device", offload }, { "use-pin-memory", offload },
	{ "use-torch-optimizer-for-cpu-offload", offload },
	/* All context ranks of a run are one kind of group. */
	{ "hierarchical-context-parallel-sizes", hcp }, { "hybrid-context-parallel", hcp },
	{ "max-seqlen-per-dp-cp-rank", hcp },
	/* Buckets, overlap, buffers and groups of communication. Values come out the same
	 * without them. */
	{ "ddp-average-in-collective", comm },
	{ "ddp-num-buckets", comm }, { "ddp-pad-buckets-for-high-nccl-busbw", comm },
	{ "delay-param-gather", comm }, { "disable-align-grad-reduce", comm },
	{ "disable-gloo-process-groups", comm }, { "disable-symmetric-registration", comm },
	{ "disable-tp-comm-bulk-dgrad", comm }, { "disable-tp-comm-bulk-wgrad", comm },
	{ "disable-tp-comm-overlap-ag", comm }, { "disable-tp-comm-overlap-rs", comm },
	{ "disable-tp-comm-split-ag", comm }, { "disable-tp-comm-split-rs", comm },
	{ "high-priority-stream-groups", comm }, { "initialize-socket-comms", comm },
	{ "nccl-communicator-config-path", comm }, { "no-align-grad-reduce", comm },
	{ "no-align-param-gather", comm }, { "no-barrier-with-level-1-timing", comm },
	{ "no-delay-grad-reduce", comm },
	{ "no-scatter-gather-tensors-in-pipeline", comm },
	{ "no-tp-comm-bulk-dgrad", comm }, { "no-tp-comm-bulk-wgrad", comm },
	{ "no-tp-comm-overlap-ag", comm }, { "no-tp-comm-overlap-rs", comm },
	{ "no-tp-comm-split-ag", comm }, { "no-tp-comm-split-rs", comm },
	{ "no-use-layer-wise-param-layout", comm },
	{ "overlap-p2p-communication", comm },
	{ "overlap-p2p-communication-warmup-flush", comm },
	{ "overlap-param-gather-with-optimizer-step", comm },
	{ "pipeline-model-parallel-comm-backend", comm }, { "sharp-enabled-group", comm },
	{ "suggested-communication-unit-size", comm }, { "tp-comm-bootstrap-backend", comm },
	{ "tp-comm-overlap-cfg", comm }, { "tp-comm-overlap-rs-dgrad", comm },
	 { "use-mpi", comm }, { "use-nccl-ub", comm },
	{ "use-ring-exchange-p2p", comm }, { "use-sharp", comm },
	/* Samples come from the mapped files; nothing is loaded ahead. */
	{ "data-impl", data_speed }, { "mmap-warmup", data_speed },
	{ "num-dataset-builder-threads", data_speed },
	/* Which kernels are fused and what is kept. */
	{ "defer-embedding-wgrad-compute", speed }, { "delay-wgrad-compute", speed },
	{ "fused-residual-rmsnorm", speed }, { "memory-centric-tiled-linear", speed },
	{ "muon-use-syrk", speed }, { "no-initialization", speed },
	{ "scattered-embeddings", speed }, { "tile-factor", speed },
	{ "use-fused-weighted-squared-relu", speed },
	{ "use-te-activation-func", speed }, { "wgrad-deferral-limit", speed },
	/* What is recomputed is a granularity, not a list of modules. (The spelling is
	 * Megatron-DeepSpeed's.) */
	{ "contigious-checkpointing", recompute }, { "distribute-saved-activations", recompute },
	{ "mhc-recompute-layer-num", recompute }, { "partition-activations", recompute },
	{ "profile-backward", recompute },
	{ "split-transformers", recompute }, { "synchronize-each-layer", recompute },
	{ "dump-param-to-param-group-map", profile }, { "memory-snapshot-path", profile },
	{ "nvtx-ranges", profile }, { "profile-ranks", profile },
	{ "profile-steps", profile }, { "pytorch-profiler-collect-callstack", profile },
	{ "pytorch-profiler-collect-chakra", profile },
	{ "pytorch-profiler-collect-shapes", profile }, { "record-memory-history", profile },
	{ "record-shapes", profile }, { "use-pytorch-profiler", profile },
	/* Muon updates each of them, whatever one GEMM computes. */
	{ "muon-no-split-qkv", joined },
	/* Rollouts and rewards: a different loop. */
	{ "grpo-clamp-eps-lower", rl }, { "grpo-clamp-eps-upper", rl },
	{ "grpo-default-temperature", rl }, { "grpo-default-top-p", rl },
	{ "grpo-entropy-term-weight", rl }, { "grpo-filter-groups-with-same-reward", rl },
	{ "grpo-group-size", rl }, { "grpo-iterations", rl }, { "grpo-kl-beta", rl },
	{ "grpo-prompts-per-step", rl }, { "langrl-env-config", rl },
	{ "langrl-external-server", rl }, { "langrl-inference-server-conversation-template", rl },
	{ "langrl-inference-server-type", rl }, { "perform-rl-step", rl }, { "refit-method", rl },
	{ "rl-calculate-intra-group-similarity", rl }, { "rl-consumption-granularity", rl },
	{ "rl-default-temperature", rl }, { "rl-default-top-k", rl }, { "rl-default-top-p", rl },
	{ "rl-durable-rollout-bank", rl }, { "rl-generation-batch-size", rl },
	{ "rl-generation-lag", rl }, { "rl-importance-sampling-truncation-coef", rl },
	{ "rl-inference-expert-model-parallel-size", rl },
	{ "rl-inference-expert-tensor-model-parallel-size", rl },
	{ "rl-inference-logprobs-is-correction", rl },
	{ "rl-inference-model-unified-memory-level", rl }, { "rl-inference-parsers", rl },
	{ "rl-inference-pipeline-model-parallel-size", rl },
	{ "rl-inference-tensor-model-parallel-size", rl }, { "rl-kv-cache-management-mode", rl },
	{ "rl-max-inflight-requests", rl }, { "rl-num-parallel-generation-batches", rl },
	{ "rl-num-parallel-generations", rl },
	{ "rl-offload-inference-model-weights-when-idle", rl },
	{ "rl-offload-kv-cache-during-training", rl },
	{ "rl-offload-optimizer-during-inference", rl }, { "rl-parallel-generation-tasks", rl },
	{ "rl-partial-rollouts", rl }, { "rl-persist-cuda-graphs", rl }, { "rl-profile", rl },
	{ "rl-profile-dir", rl }, { "rl-prompts-per-eval", rl },
	{ "rl-remove-kv-cache-during-training", rl }, { "rl-reset-cuda-graphs", rl },
	{ "rl-rollout-bank-dir", rl }, { "rl-rollout-bank-max-bytes", rl },
	{ "rl-sequence-packing-algo", rl }, { "rl-sequence-packing-max-sequences-per-bin", rl },
	{ "rl-skip-bos-token", rl }, { "rl-submission-granularity", rl },
	{ "rl-training-cuda-graphs", rl }, { "rl-use-sequence-packing", rl },
	{ "rl-verify-model-weights-swap", rl },
	/* REALM and RETRO. */
	{ "bert-embedder-type", retrieval }, { "bert-load", retrieval },
	{ "biencoder-projection-dim", retrieval },
	{ "biencoder-shared-query-context-model", retrieval }, { "block-data-path", retrieval },
	{ "embedding-path", retrieval }, { "evidence-data-path", retrieval },
	{ "faiss-use-gpu", retrieval }, { "ict-head-size", retrieval }, { "ict-load", retrieval },
	{ "indexer-batch-size", retrieval }, { "indexer-log-interval", retrieval },
	{ "output-bert-embeddings", retrieval }, { "query-in-block-prob", retrieval },
	{ "report-topk-accuracies", retrieval }, { "retriever-report-topk-accuracies", retrieval },
	{ "retriever-score-scaling", retrieval }, { "retriever-seq-length", retrieval },
	{ "retro-add-retriever", retrieval }, { "retro-attention-gate", retrieval },
	{ "retro-cyclic-train-iters", retrieval },
	{ "retro-encoder-attention-dropout", retrieval },
	{ "retro-encoder-hidden-dropout", retrieval }, { "retro-encoder-layers", retrieval },
	{ "retro-no-verify-neighbor-count", retrieval }, { "retro-num-neighbors", retrieval },
	{ "retro-num-retrieved-chunks", retrieval }, { "retro-project-dir", retrieval },
	{ "retro-return-doc-ids", retrieval }, { "retro-workdir", retrieval },
	{ "sample-rate", retrieval }, { "titles-data-path", retrieval },
	{ "use-one-sent-docs", retrieval },
	/* Positions that are stretched change what the model computes. */
	{ "mrope-section", rope }, { "no-rope-freq", rope },
	{ "rope-type", rope }, { "rotary-scaling-factor", rope },
	{ "rotary-seq-len-interpolation-factor", rope },
	/* Requests, caches and servers: export the model and serve it elsewhere. */
	{ "batch-invariant-backend", serving }, { "batch-invariant-mode", serving },
	{ "cache-mla-latents", serving }, { "decode-only-cuda-graphs", serving },
	{ "disable-chunked-prefill", serving }, { "ds-inference", serving },
	{ "enable-chunked-prefill", serving }, { "flash-decode", serving },
	{ "inference", serving }, { "inference-batch-times-seqlen-threshold", serving },
	{ "inference-coordinator-port", serving },
	{ "inference-cuda-graph-all-prefills", serving },
	{ "inference-cuda-graph-max-tokens", serving }, { "inference-cuda-graph-scope", serving },
	{ "inference-disable-ep-consensus", serving },
	{ "inference-disable-triton-nvls-kernels", serving },
	{ "inference-dynamic-batching", serving },
	{ "inference-dynamic-batching-async-sched-mode", serving },
	{ "inference-dynamic-batching-block-size", serving },
	{ "inference-dynamic-batching-buffer-guaranteed-fraction", serving },
	{ "inference-dynamic-batching-buffer-overflow-factor", serving },
	{ "inference-dynamic-batching-buffer-size-gb", serving },
	{ "inference-dynamic-batching-chunk-size", serving },
	{ "inference-dynamic-batching-cuda-graph-max-tokens", serving },
	{ "inference-dynamic-batching-cuda-graph-mixed-prefill-count", serving },
	{ "inference-dynamic-batching-cuda-graph-sizing-distribution", serving },
	{ "inference-dynamic-batching-logprobs-mode", serving },
	{ "inference-dynamic-batching-mamba-memory-ratio", serving },
	{ "inference-dynamic-batching-max-requests", serving },
	{ "inference-dynamic-batching-max-requests-override", serving },
	{ "inference-dynamic-batching-max-tokens", serving },
	{ "inference-dynamic-batching-max-tokens-override", serving },
	{ "inference-dynamic-batching-num-cuda-graphs", serving },
	{ "inference-dynamic-batching-paused-buffer-size-gb", serving },
	{ "inference-dynamic-batching-prefix-caching", serving },
	{ "inference-dynamic-batching-prefix-caching-coordinator-policy", serving },
	{ "inference-dynamic-batching-prefix-caching-eviction-policy", serving },
	{ "inference-dynamic-batching-prefix-caching-mamba-gb", serving },
	{ "inference-dynamic-batching-prefix-caching-routing-alpha", serving },
	{ "inference-dynamic-batching-sampling-backend", serving },
	{ "inference-dynamic-batching-track-generated-token-events", serving },
	{ "inference-dynamic-batching-track-paused-request-events", serving },
	{ "inference-dynamic-batching-unified-memory-level", serving },
	{ "inference-fuse-tp-communication", serving },
	{ "inference-grouped-gemm-backend", serving },
	{ "inference-logging-step-interval", serving }, { "inference-max-batch-size", serving },
	{ "inference-max-requests", serving }, { "inference-max-seq-length", serving },
	{ "inference-moe-disable-fused-quant-kernels", serving },
	{ "inference-moe-token-dispatcher-type", serving }, { "inference-rng-tracker", serving },
	{ "inference-shards", serving }, { "inference-text-gen-server-logging", serving },
	{ "inference-use-synchronous-zmq-collectives", serving },
	{ "inference-wandb-logging", serving }, { "mamba-inference-conv-states-dtype", serving },
	{ "mamba-inference-ssm-states-dtype", serving }, { "max-tokens-to-oom", serving },
	{ "mlp-chunks-for-prefill", serving }, { "mlp-chunks-for-training", serving },
	{ "moe-pad-experts-for-cuda-graph-inference", serving },
	{ "nccl-all-reduce-for-prefill", serving }, { "num-speculative-tokens", serving },
	{ "output-logit-dtype", serving }, { "result-rejected-tracker-filename", serving },
	{ "symmetric-ar-type", serving }, { "use-legacy-static-engine", serving },
	{ "use-same-sampling-seed-across-dp-ranks", serving },
	/* Layers without attention. */
	{ "disable-mamba-mem-eff-path", hybrid }, { "gdp-cutedsl-kernel", hybrid },
	{ "gdp-num-chunk-states-to-recompute", hybrid }, { "gdp-num-householder", hybrid },
	{ "hybrid-attention-ratio", hybrid }, { "hybrid-layer-pattern", hybrid },
	{ "hybrid-mlp-ratio", hybrid }, { "hybrid-override-pattern", hybrid },
	{ "is-hybrid-model", hybrid }, { "linear-attention-freq", hybrid },
	{ "linear-conv-kernel-dim", hybrid }, { "linear-key-head-dim", hybrid },
	{ "linear-num-key-heads", hybrid }, { "linear-num-value-heads", hybrid },
	{ "linear-value-head-dim", hybrid }, { "mamba-head-dim", hybrid },
	{ "mamba-num-groups", hybrid }, { "mamba-num-heads", hybrid },
	{ "mamba-state-dim", hybrid }, { "mamba-training-ssm-states-dtype", hybrid },
	/* A run that is requeued with the same command continues by itself. */
	{ "adlr-autoresume", restart }, { "adlr-autoresume-interval", restart },
	{ "inprocess-active-world-size", restart }, { "inprocess-barrier-timeout", restart },
	{ "inprocess-completion-timeout", restart }, { "inprocess-empty-cuda-cache", restart },
	{ "inprocess-granularity", restart }, { "inprocess-hard-timeout", restart },
	{ "inprocess-heartbeat-interval", restart }, { "inprocess-heartbeat-timeout", restart },
	{ "inprocess-last-call-wait", restart }, { "inprocess-max-iterations", restart },
	{ "inprocess-monitor-process-interval", restart },
	{ "inprocess-monitor-thread-interval", restart },
	{ "inprocess-progress-watchdog-interval", restart }, { "inprocess-restart", restart },
	{ "inprocess-soft-timeout", restart }, { "inprocess-termination-grace-time", restart },
	/* Interpreters and compilers of it. */
	{ "disable-jit-fuser", python }, { "yaml-cfg", python },
	/* Choices between generations of the same code. */
	{ "DDP-impl", legacy }, { "enable-experimental", legacy },
	{ "flash-attention-version", legacy }, { "lazy-mpu-init", legacy },
	{ "model-spec", legacy }, { "onnx-safe", legacy }, { "spec", legacy },
	{ "use-transformer-engine-op-fuser", legacy },
	/* AdamW, SGD and Muon are supported; another rule needs a file in train/optim. */
	{ "lion-beta1", optimizer }, { "lion-beta2", optimizer },
	/* Which types there are is one decision for the whole run. */
	{ "ddp-param-name-patterns-for-fp32-local-accumulation", precision },
	{ "ddp-reduce-scatter-with-fp32-accumulation", precision },
	{ "disable-bf16-reduced-precision-matmul", precision }, { "fp32-allreduce", precision },
	/* Ids come from the tokenizer's files, so that training and export agree. */
	{ "allow-ambiguous-pad-tokens", tokenizer },
	{ "disable-tokenizer-sentencepiece-ignore-extra-whitespaces", tokenizer },
	{ "legacy-tokenizer", tokenizer },
	{ "no-tokenizer-sentencepiece-ignore-extra-whitespaces", tokenizer },
	{ "null-tokenizer-eod-id", tokenizer }, { "null-tokenizer-pad-id", tokenizer },
	{ "trust-remote-code", tokenizer },
	{ "use-gigatoken", tokenizer },
	/* From here on: other spellings of what is supported, with the name to use. */
	{ "ds-sequence-parallel-fpdt", use_cp },
	{ "ds-sequence-parallel-fpdt-chunk-size", use_cp },
	{ "ds-sequence-parallel-fpdt-offloading", use_cp },
	{ "ds-sequence-parallel-size", use_cp }, { "force-ds-sequence-parallel", use_cp },
	{ "train-desc-path", use_cache }, { "train-doc-idx-path", use_cache },
	{ "train-idx-path", use_cache }, { "train-sample-idx-path", use_cache },
	{ "train-shuffle-idx-path", use_cache },
	{ "per-dataset-sequences-path", use_data_path },
	{ "reset-iteration", use_finetune },
	{ "fp8-e4m3", use_fp8_format }, { "fp8-hybrid", use_fp8_format },
	{ "warmup", use_warmup },
	{ "disable-pad-vocab-size", use_vocab_pad }, { "no-pad-vocab-size", use_vocab_pad },
	{ "padded-vocab-size", use_vocab_pad },
	{ "batch-size", use_micro_batch },
	{ "moe-eval-capacity-factor", use_capacity }, { "moe-min-capacity", use_capacity },
	{ "moe-token-dropping", use_capacity }, { "moe-train-capacity-factor", use_capacity },
	{ "muon-use-nesterov", use_nesterov },
	{ "layernorm-epsilon", use_epsilon },
	{ "decoder-num-layers", use_shape }, { "decoder-seq-length", use_shape },
	{ "encoder-num-layers", use_shape }, { "encoder-seq-length", use_shape },
	{ "num-key-value-heads", use_groups },
	{ "no-load-lr-state", use_scheduler }, { "override-lr-scheduler", use_scheduler },
	{ "standalone-embedding-stage", use_layout },
	{ "no-pipeline-parallel", use_pp },
	{ "activations-checkpoint-method", use_recompute },
	{ "activations-checkpoint-num-layers", use_recompute },
	{ "checkpoint-activations", use_recompute }, { "checkpoint-num-layers", use_recompute },
	{ "deepspeed-activation-checkpointing", use_recompute },
	{ "distribute-checkpointed-activations", use_recompute },
	{ "rotary-position-embeddings-theta", use_rotary_base },
	{ "model-parallel-size", use_tp },
	{ "train-data-exact-num-epochs", use_samples }, { "train-tokens", use_samples },
	{ "use-checkpoint-lr-scheduler", use_ckpt_scheduler },
	{ "cpu-torch-adam", use_distopt }, { "deepscale", use_distopt },
	{ "deepscale-config", use_distopt }, { "deepspeed", use_distopt },
	{ "deepspeed-config", use_distopt }, { "deepspeed-mpi", use_distopt },
	{ "ds-fused-adam", use_distopt }, { "zero-allgather-bucket-size", use_distopt },
	{ "zero-contigious-gradients", use_distopt }, { "zero-reduce-bucket-size", use_distopt },
	{ "zero-reduce-scatter", use_distopt }, { "zero-stage", use_distopt },
	{ "use-flash-attn-builder", use_flash }, { "use-flash-attn-triton", use_flash },
	{ "use-flash-attn-v1", use_flash }, { "use-flash-attn-v2", use_flash },
	{ "logging-level", use_v },
	{ "kill-switch-file", use_stop },
	{ "ckpt-convert-format", use_mckpt }, { "ckpt-convert-save", use_mckpt },
	{ "ckpt-convert-update-legacy-dist-opt-format", use_mckpt },
	/* Images, and what models of them need. */
	{ "classes-fraction", vision }, { "data-per-class-fraction", vision },
	{ "dino-bottleneck-size", vision }, { "dino-freeze-last-layer", vision },
	{ "dino-head-hidden-size", vision }, { "dino-local-crops-number", vision },
	{ "dino-local-img-size", vision }, { "dino-norm-last-layer", vision },
	{ "dino-teacher-temp", vision }, { "dino-warmup-teacher-temp", vision },
	{ "dino-warmup-teacher-temp-epochs", vision }, { "head-lr-mult", vision },
	{ "img-dim", vision }, { "img-h", vision }, { "img-w", vision },
	{ "iter-per-epoch", vision }, { "mask-factor", vision }, { "mask-type", vision },
	{ "num-channels", vision }, { "num-classes", vision }, { "patch-dim", vision },
	{ "swin-backbone-type", vision }, { "vision-backbone-type", vision },
	{ "vision-pretraining", vision }, { "vision-pretraining-type", vision },
	/* Whatever else would train another model than the one that was described. */
	{ "activation-func-clamp-value", maths },
	{ "apply-query-key-layer-scaling", maths },
	{ "apply-residual-connection-post-layernorm", maths },
	{ "data-efficiency-curriculum-learning", maths }, { "data-parallel-random-init", maths },
	{ "dataloader-inter-document-masking", maths }, { "embedding-init-method-std", maths },
	{ "embedding-weights-in-fp32", maths }, { "enable-mhc-connections", maths },
	{ "fp16-lm-cross-entropy", maths }, { "freeze-all-layers", maths },
	{ "glu-linear-offset", maths },
	{ "heterogeneous-layers-config-encoded-json", maths },
	{ "heterogeneous-layers-config-path", maths }, { "init-method-xavier-uniform", maths },
	{ "mhc-init-gating-factor", maths }, { "mhc-num-residual-streams", maths },
	{ "mhc-sinkhorn-iterations", maths },
	{ "mup-attn-scale-power", maths }, { "mup-base-head-dim", maths },
	{ "mup-base-hidden-size", maths }, { "mup-embedding-mult", maths },
	{ "mup-output-mult", maths }, { "mup-width-mult", maths },
	{ "no-weight-decay-cond-type", maths },
	{ "phase-transition-iterations", maths }, { "quick-geglu", maths },
	{ "random-ltd", maths }, { "renormalize-blend-weights", maths },
	{ "repeated-dataloader", maths }, { "return-data-index", maths },
	{ "train-sync-interval", maths }, { "use-dataset-only", maths }, { "use-mup", maths },
	{ "z-loss-strength", maths },
	/* 1F1B is the one schedule. */
	{ "enable-zbh1-exact-semantics", zero_bubble }, { "enable-zbh1-pipeline", zero_bubble },
	{ NULL, NULL },
};
/* clang-format on */
