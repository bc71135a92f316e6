/* options.c - the option tables of mckpt's verbs */
#include "ckpt/export.h"
#include "ckpt/options.h"

/* The option's words, and in the same order the types that they stand for. */
static const char *const dtypes[] = { "keep", "bf16", "fp16", "fp32", NULL };
const enum dtype ckpt_import_types[] = { DTYPE_NONE, DTYPE_BF16, DTYPE_F16, DTYPE_F32 };

/* Whose names a checkpoint of torch has; the order of the words. */
static const char *const implementations[] = { "transformer_engine", "local", NULL };

/* clang-format off */
#define CHOICE(S, n, f, c, d, h) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, f), .choices = c, .def = d, .help = h }
#define FLAG(S, n, f, h) { .name = n, .type = OPT_FLAG, .off = offsetof(S, f), .help = h }
#define TEXT(S, n, f, u, h) \
	{ .name = n, .type = OPT_STRING, .off = offsetof(S, f), .unit = u, .help = h }
#define SIZE(S, n, f, d, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, f), .min = 1, .max = 1e6, .def = d, \
	  .help = h }
/* clang-format on */

const struct opt ckpt_no_opts[] = { OPT_END };
const struct opt ckpt_ls_opts[] = {
	FLAG(struct look_config, "json", json, "one JSON object per line instead of TSV"),
	OPT_END,
};

const struct opt ckpt_info_opts[] = {
	FLAG(struct look_config, "json", json, "JSON instead of TSV"),
	FLAG(struct look_config, "tensors", tensors, "one line per tensor instead"),
	OPT_END,
};

const struct opt ckpt_diff_opts[] = {
	{ .name = "tolerance",
	    .type = OPT_NUMBER,
	    .off = offsetof(struct diff_config, tolerance),
	    .min = -1,
	    .max = 1e300,
	    .def = "-1",
	    .unit = "R",
	    .help = "largest relative L2 difference that counts as close; -1: equal bytes" },
	TEXT(struct diff_config, "only", only, "PATTERN",
	    "compare only tensors whose name matches the shell pattern"),
	TEXT(struct diff_config, "ignore", ignore, "PATTERN",
	    "leave out tensors whose name matches the shell pattern"),
	OPT_END,
};

const struct opt ckpt_import_opts[] = {
	{ .name = "dtype",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct import_config, dtype),
	    .choices = dtypes,
	    .def = "keep",
	    .help = "type of the tensors; rounds to nearest, once" },
	{ .name = "vocab-size",
	    .type = OPT_INT,
	    .off = offsetof(struct import_config, vocab_size),
	    .min = 1,
	    .max = 1e15,
	    .unit = "TOKENS",
	    .help = "tokens of a Megatron-LM model whose run has not recorded them; the rows of "
		    "padding after them are dropped" },
	FLAG(struct import_config, "allow-nonfinite", allow_nonfinite,
	    "import NaN and infinity, with a note for each such tensor"),
	FLAG(
	    struct import_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

const struct opt ckpt_reshard_opts[] = {
	SIZE(struct reshard_config, "tensor-model-parallel-size", layout.tensor_model_parallel_size,
	    "1", "tensor ranks of the run that will read it"),
	SIZE(struct reshard_config, "pipeline-model-parallel-size",
	    layout.pipeline_model_parallel_size, "1", "pipeline stages"),
	SIZE(struct reshard_config, "data-parallel-size", layout.data_parallel_size, "1",
	    "data ranks, which share the pieces of each"),
	SPLIT_OPTS(struct reshard_config, split),
	FLAG(struct reshard_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(struct reshard_config, "force", force,
	    "write into a directory that holds a checkpoint"),
	OPT_END,
};

const struct opt ckpt_export_opts[] = {
	CHOICE(struct export_config, "to", to, export_formats, "torch_dist",
	    "format of Megatron-LM: torch, a file a model rank; torch_dist, chunks that any layout "
	    "reads"),
	SIZE(struct export_config, "tensor-model-parallel-size", layout.tensor_model_parallel_size,
	    "1", "tensor ranks of the run that will read it"),
	SIZE(struct export_config, "pipeline-model-parallel-size",
	    layout.pipeline_model_parallel_size, "1",
	    "pipeline stages; equal unless an option says how"),
	SPLIT_OPTS(struct export_config, split),
	CHOICE(struct export_config, "dtype", dtype, dtypes, "keep",
	    "type of the weights; by default that of the run, or of the tensors"),
	CHOICE(struct export_config, "transformer-impl", transformer_impl, implementations,
	    "transformer_engine", "whose names of norms the files of torch have"),
	FLAG(struct export_config, "use-distributed-optimizer", use_distributed_optimizer,
	    "store the optimizer as a run with this option does: distrib_optim.pt, or "
	    "fully_reshardable"),
	FLAG(struct export_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(
	    struct export_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};
