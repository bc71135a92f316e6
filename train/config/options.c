/*
 * options.c - the option table of mtrain
 *
 * Rows are those of option_list.h, and NOTE rows, which are accepted and answered with one line;
 * options that would change the result and are not supported are in train/config/refused.c instead.
 */
#include "train/config/agree.h"
#include "train/config/config.h"
#include "train/watch/stop.h"

#include <math.h>

/* clang-format off */
#define S struct train_options
/* The tag of a row says what ranks have in common of it. */
#define ROW(kind, ...) ROW_##kind(__VA_ARGS__),
#define ROW_OPT(on, n, t, f, ...) \
	{ .name = n, .type = t, .off = offsetof(S, f), .tag = AGREE_TAG(AGREE_##on), __VA_ARGS__ }
#define ROW_RANGE(on, n, f, lo, hi, d, h) \
	ROW_OPT(on, n, OPT_INT, f, .min = lo, .max = hi, .def = d, .help = h)
#define ROW_INT(on, n, f, lo, d, h) ROW_RANGE(on, n, f, lo, 1e15, d, h)
#define ROW_NUM(on, n, f, lo, hi, d, h) \
	ROW_OPT(on, n, OPT_NUMBER, f, .min = lo, .max = hi, .def = d, .help = h)
#define ROW_FLAG(on, n, f, h) ROW_OPT(on, n, OPT_FLAG, f, .help = h)
#define ROW_UNFLAG(on, n, f, h) ROW_OPT(on, n, OPT_UNFLAG, f, .help = h)
#define ROW_STRING(on, n, f, u, d, h) ROW_OPT(on, n, OPT_STRING, f, .unit = u, .def = d, .help = h)
#define ROW_LIST(on, n, f, u, h) ROW_OPT(on, n, OPT_LIST, f, .unit = u, .help = h)
#define ROW_CHOICE(on, n, f, c, d, h) \
	ROW_OPT(on, n, OPT_CHOICE, f, .choices = c, .def = d, .help = h)
#define ROW_INT_OF ROW_INT
#define ROW_NUM_OF ROW_NUM
#define ROW_FLAG_OF ROW_FLAG
#define ROW_STRING_OF ROW_STRING
#define ROW_LIST_OF ROW_LIST
#define ROW_CHOICE_OF ROW_CHOICE
#define ROW_GROUP(h) { .type = OPT_GROUP, .help = h }
#define CORPORA "[WEIGHT] PREFIX"
#define NOTE(n, h) { .name = n, .type = OPT_NOTE, .help = h }
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
	TRAIN_OPTIONS(ROW) ROW_GROUP("Accepted for Megatron-LM's scripts"),
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
