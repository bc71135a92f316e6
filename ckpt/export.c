/*
 * export.c - mckpt export
 *
 * The source, the layout and the args are checked before anything is written; one rename makes the
 * checkpoint appear. The formats differ in how they name and place tensors; where parameters lie in
 * those is megatron.h's.
 */
#include "ckpt/copy.h"
#include "ckpt/export.h"
#include "ckpt/export_impl.h"
#include "ckpt/verbs.h"
#include "lib/base/int64.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/ckpt/ckpt.h"

#include <stdlib.h>
#include <string.h>

const char *const export_formats[] = { "torch", "torch_dist", NULL };
enum { WINDOW_BYTES = 4 << 20 }; /* of a tensor in memory, but for a row that is larger */
static int (*const writers[])(struct export *x) = { export_torch, export_torch_dist };

/* --- tensors ---------------------------------------------------------------------------------- */

bool
export_has(const struct export *x, int tensor, int kind)
{
	return kind < x->num_kinds && (kind != KIND_MASTER || x->has_master) &&
	    (kind == KIND_WEIGHT || !x->map.tensor[tensor].balance);
}

enum dtype
export_dtype(const struct export *x, int tensor, int kind)
{
	return kind == KIND_WEIGHT && !x->map.tensor[tensor].balance ? x->dtype : DTYPE_F32;
}

int
export_num_optimizers(const struct export *x)
{
	return layout_expert_ranks(&x->layout) > 1 ? 2 : 1;
}

bool
export_optimizes(const struct export *x, int optimizer, int tensor)
{
	const struct megatron_tensor *t = &x->map.tensor[tensor];

	return !t->balance &&
	    (export_num_optimizers(x) == 1 || (t->expert >= 0) == (optimizer == 1));
}

const char *
export_state(const struct export *x, int kind)
{
	return x->src->rule->states[kind - KIND_STATES];
}

bool
export_is_linear(const char *key)
{
	static const char *const names[] = { ".linear_", ".eh_proj.", ".in_proj.", ".out_proj." };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strstr(key, names[i]))
			return true;
	return false;
}

uint64_t
export_bytes(const struct export *x, int tensor, int kind)
{
	const struct megatron_tensor *t = &x->map.tensor[tensor];
	int64_t shape[SLICE_DIMS];
	struct slice whole;

	megatron_rank_shape(t, x->ranks, shape);
	whole = slice_whole(t->ndim, shape);
	return (uint64_t)slice_elements(&whole) * dtype_size(export_dtype(x, tensor, kind));
}

/* Some rows of a rank's tensor. */
struct rows {
	int tensor, kind, rank;
	int64_t first, count, elements; /* elements in each */
	char *dst;
};

/* Whether numbers are others when 1 is added to what is stored. */
static bool
is_blurred(const float *whole, const void *stored, enum dtype t, int64_t n)
{
	size_t size = dtype_size(t);
	char *back = mem_alloc((size_t)n, size), *want = mem_alloc((size_t)n, size);
	bool same;

	memcpy(back, stored, (size_t)n * size);
	megatron_shift(back, t, n, 1);
	dtype_convert(want, t, whole, DTYPE_F32, n);
	same = dtype_same(back, want, t, n);
	free(back);
	free(want);
	return !same;
}

/* A box of a parameter, as it is stored: rounded once, of a norm's weight after it is less 1. */
static int
read_box(struct export *x, const struct rows *r, const struct source_part *part, void *dst)
{
	enum dtype dtype = export_dtype(x, r->tensor, r->kind);
	int64_t n = slice_elements(&part->slice);
	float *whole, *less;
	int rc;

	if (!x->map.tensor[r->tensor].less_one || r->kind >= KIND_STATES)
		return source_read(x->src, part, dtype, dst, x->e);
	whole = mem_alloc((size_t)n, sizeof *whole);
	less = mem_alloc((size_t)n, sizeof *less);
	rc = source_read(x->src, part, DTYPE_F32, whole, x->e);
	if (rc == 0) {
		memcpy(less, whole, (size_t)n * sizeof *less);
		megatron_shift(less, DTYPE_F32, n, -1);
		dtype_convert(dst, dtype, less, DTYPE_F32, n);
		if (r->kind == (x->has_master ? KIND_MASTER : KIND_WEIGHT))
			x->blurred |= is_blurred(whole, dst, dtype, n);
	}
	free(whole);
	free(less);
	return rc;
}

/* The rows of one parameter that are among them. Each piece is as wide as the rank's tensor, so
 * that it is read into its place. */
static int
read_param(struct export *x, int i, const struct rows *r)
{
	const struct param *p = &x->src->param[i];
	struct slice whole = slice_whole(p->ndim, p->shape);
	enum dtype dtype = export_dtype(x, r->tensor, r->kind);
	struct megatron_piece it = { 0 };

	while (megatron_next(&x->map, i, x->ranks, &whole, &it)) {
		struct source_part part = { p,
			r->kind < KIND_STATES ? NULL : export_state(x, r->kind), 0, it.param };
		int64_t from = int64_max(it.tensor.start[0], r->first),
			to =
			    int64_min(it.tensor.start[0] + it.tensor.count[0], r->first + r->count);

		if ((x->map.tensor[r->tensor].cut >= 0 && it.rank != r->rank) || from >= to)
			continue;
		part.slice.start[0] += from - it.tensor.start[0];
		part.slice.count[0] = to - from;
		if (read_box(x, r, &part,
			r->dst + (size_t)((from - r->first) * r->elements) * dtype_size(dtype)) < 0)
			return -1;
	}
	return 0;
}

int
export_put(struct export *x, struct torchzip_writer *w, const struct export_part *part)
{
	const struct megatron_tensor *t = &x->map.tensor[part->tensor];
	const struct param *p = x->src->param;
	int64_t shape[SLICE_DIMS], rows, end, most;
	struct rows r = { part->tensor, part->kind, part->rank, .elements = 1 };
	size_t row;
	int rc = 0;

	megatron_rank_shape(t, x->ranks, shape);
	for (int d = 1; d < t->ndim; d++)
		r.elements *= shape[d];
	row = (size_t)r.elements * dtype_size(export_dtype(x, part->tensor, part->kind));
	rows = shape[0] / part->blocks;
	most = int64_max(1, WINDOW_BYTES / (int64_t)int64_max((int64_t)row, 1));
	r.first = part->block * rows;
	end = r.first + rows;
	r.dst = mem_alloc((size_t)int64_min(most, rows), row);
	for (; r.first < end && rc == 0; r.first += r.count) {
		r.count = int64_min(most, end - r.first);
		memset(r.dst, 0, (size_t)r.count * row);
		for (int i = t->first; i < x->src->count && p[i].layer == t->layer && rc == 0; i++)
			if (x->map.rows[i].tensor == part->tensor)
				rc = read_param(x, i, &r);
		if (rc == 0)
			torchzip_put(w, r.dst, (size_t)r.count * row);
	}
	free(r.dst);
	return rc;
}

/* --- checks ----------------------------------------------------------------------------------- */

/* Megatron-LM makes stages equal unless an option says how, where our default is another. */
static int
resolve_layout(struct export *x)
{
	const struct model_config *c = &x->src->config;
	struct split_options s = x->o->split;
	int64_t p = x->o->layout.pipeline_model_parallel_size, v = 1;
	bool uneven = s.decoder_first_pipeline_num_layers || s.decoder_last_pipeline_num_layers ||
	    s.account_for_embedding_in_pipeline_split || s.account_for_loss_in_pipeline_split ||
	    s.pipeline_model_parallel_layout;

	if (s.num_virtual_stages_per_pipeline_rank)
		v = s.num_virtual_stages_per_pipeline_rank;
	if (p > 1 && !uneven && !s.num_layers_per_virtual_pipeline_stage) {
		if (c->num_layers % (p * v))
			return err_set(x->e,
			    "--pipeline-model-parallel-size %lld: its %lld stages must share %lld "
			    "layers equally, or give --decoder-first-pipeline-num-layers or "
			    "another "
			    "split",
			    (long long)p, (long long)(p * v), (long long)c->num_layers);
		s.num_layers_per_virtual_pipeline_stage = c->num_layers / p / v;
		s.num_virtual_stages_per_pipeline_rank = 0;
	}
	x->layout = x->o->layout;
	return layout_check(&x->layout, c, x->e) < 0 ? -1
						     : split_resolve(&s, c, 0, &x->layout, x->e);
}

/* The type of the run's weights, or of those that are stored. */
static int
choose_dtype(struct export *x)
{
	const struct source *s = x->src;

	x->dtype = x->o->dtype;
	if (x->dtype == DTYPE_NONE && s->state.dtype)
		x->dtype = dtype_from_name(s->state.dtype);
	if (x->dtype == DTYPE_NONE)
		x->dtype = source_dtype(s, &s->param[0], NULL);
	return x->dtype == DTYPE_F64
	    ? err_set(x->e,
		  "%s: its weights are F64, which Megatron-LM does not have; give --dtype", s->path)
	    : 0;
}

/* Which states are written. */
static int
choose_states(struct export *x)
{
	const struct source *s = x->src;
	bool optim = s->rule && !x->o->no_optim;

	if (optim && !(s->rule->traits & OPTIM_OF_MEGATRON))
		return err_set(x->e,
		    "%s: its optimizer is %s, whose states are not written; --no-optim leaves "
		    "them out",
		    s->path, s->rule->name);
	x->num_kinds = optim ? KIND_STATES + optim_num_states(s->rule) : 1;
	x->has_master = optim && (x->dtype != DTYPE_F32 || x->o->use_distributed_optimizer);
	return 0;
}

/* In the files of torch, whose names tell tensor and expert ranks apart, but not those that share
 * an expert; of the ranks of a stage those write that hold its experts once together. */
static int
check_files(const struct export *x)
{
	int64_t t = x->layout.tensor_model_parallel_size, n = layout_expert_slices(&x->layout);

	if (x->o->format != EXPORT_TORCH)
		return 0;
	if (n > t)
		return err_set(x->e,
		    "--expert-tensor-parallel-size %lld: must be at most "
		    "--tensor-model-parallel-size %lld with --to torch, or ranks have files of the "
		    "same name",
		    (long long)n, (long long)t);
	if (layout_expert_holders(&x->layout) % t)
		return err_set(x->e,
		    "--expert-model-parallel-size %lld x --expert-tensor-parallel-size %lld: must "
		    "be a multiple of --tensor-model-parallel-size %lld with --to torch, or not "
		    "all tensor ranks have files",
		    (long long)layout_expert_ranks(&x->layout), (long long)n, (long long)t);
	return 0;
}

/* Takes as many data ranks as the ranks that hold the experts once together have. */
static int
resolve_experts(struct export *x)
{
	struct layout *l = &x->layout;
	int64_t t = l->tensor_model_parallel_size, n = l->expert_tensor_parallel_size;

	if (!x->src->config.num_experts && (l->expert_model_parallel_size > 1 || n > 1))
		return err_set(x->e, "--expert-%s-parallel-size %lld: %s: the model has no experts",
		    n > 1 ? "tensor" : "model",
		    (long long)(n > 1 ? n : l->expert_model_parallel_size), x->src->path);
	if (!x->src->config.num_experts)
		l->expert_tensor_parallel_size = 0;
	x->ranks = (struct megatron_ranks){ t, layout_expert_slices(l) };
	l->data_parallel_size = layout_lcm(t, layout_expert_holders(l)) / t;
	return layout_check_experts(l, &x->src->config, x->e) < 0 ? -1 : check_files(x);
}

/* Everything that can be wrong before the first byte. Names go by the format and by what was asked
 * for. */
static int
check(struct export *x, struct str *notes)
{
	const struct export_options *o = x->o;
	bool dist = o->format == EXPORT_TORCH_DIST;
	struct source *s = x->src;
	int64_t t = o->layout.tensor_model_parallel_size;
	struct megatron_model m = { .config = &s->config,
		.param = s->param,
		.count = s->count,
		.names = !o->local ? MEGATRON_ENGINE
		    : dist         ? MEGATRON_LOCAL_DIST
				   : MEGATRON_LOCAL,
		.experts = dist           ? MEGATRON_STACKED
		    : o->moe_grouped_gemm ? MEGATRON_GROUPED
					  : MEGATRON_SEQUENTIAL,
		.later = dist ? MEGATRON_TRANSFORMER_LAYER : MEGATRON_MODEL_LAYER };

	m.padded_vocab_size = x->padded_vocab_size = megatron_padded_vocab(&s->config, t);
	if (o->local && model_has_linear(&s->config))
		return err_set(x->e,
		    "--transformer-impl local: %s: Megatron-LM has linear attention with "
		    "transformer_engine alone",
		    s->path);
	if (source_require(s, x->e) < 0 || resolve_layout(x) < 0 || choose_dtype(x) < 0 ||
	    resolve_experts(x) < 0 || export_check_args(x, x->e) < 0 || choose_states(x) < 0 ||
	    export_take_schedule(x) < 0)
		return -1;
	if (x->num_kinds > 1 && x->schedule.lr == 0)
		str_addf(notes,
		    "%s: its learning rate is not known: Megatron-LM takes the optimizer only with "
		    "the --lr and --min-lr of its run\n",
		    s->path);
	if (megatron_map_init(&x->map, &m, x->e) < 0 ||
	    megatron_check_ranks(&x->map, x->ranks, x->e) < 0)
		return -1;
	if (s->num_of_run)
		str_addf(notes, "%s: its scales of 8-bit operands are not written\n", s->path);
	if (x->padded_vocab_size > s->config.vocab_size)
		str_addf(notes,
		    "%s: the vocabulary tables get %lld rows, of which %lld are padding, zeros\n",
		    o->save, (long long)x->padded_vocab_size,
		    (long long)(x->padded_vocab_size - s->config.vocab_size));
	return 0;
}

/*
 * Writes save/iter_* of the source's iteration, and the tracker. Weights are rounded once; with an
 * optimizer, parameters are its fp32 masters too, and each state is kept. Padded rows of the
 * vocabulary are zeros. One rank's part of a tensor is in memory at a time. notes gets lines.
 */
static int
export_source(const struct export_options *o, struct str *notes, struct err *e)
{
	struct export x = { .o = o, .e = e };
	struct copy_target t = { .save = o->save, .force = o->force };
	struct lock *lock = NULL;
	int rc = -1;

	x.src = source_open(o->src, e);
	if (!x.src)
		return -1;
	str_add(notes, x.src->notes.buf, x.src->notes.len);
	if (x.src->averaged)
		str_addf(notes, "%s: its average of the weights is left out\n", x.src->path);
	t.source = x.src->path;
	t.iteration = x.src->state.iteration;
	if (check(&x, notes) == 0)
		lock = copy_claim(&t, e);
	if (lock && ckpt_begin(o->save, t.iteration, x.tmp, e) == 0) {
		if (writers[o->format](&x) == 0 && copy_check(&t, lock, e) == 0)
			rc = ckpt_publish(&(struct ckpt_commit){ .save = o->save,
					      .iteration = t.iteration,
					      .fresh = !o->force,
					      .lock = lock,
					      .tmp = x.tmp },
			    e);
		else
			io_remove_tree(x.tmp, NULL);
	}
	if (rc < 0) /* another run has removed the directory then, which is no reason */
		lock_check(lock, e);
	lock_release(lock);
	if (rc == 0 && x.src->lost.overflows + x.src->lost.underflows)
		str_addf(notes, "%s: %lld numbers became infinite and %lld became 0\n", o->save,
		    (long long)x.src->lost.overflows, (long long)x.src->lost.underflows);
	if (rc == 0 && x.blurred)
		str_addf(notes,
		    "%s: weights below 0.5 of norms of linear attention are rounded, since "
		    "Megatron-LM has them less 1\n",
		    o->save);
	megatron_map_release(&x.map);
	source_close(x.src);
	return rc;
}

struct export_config {
	int to, dtype, transformer_impl;
	struct layout layout; /* data_parallel_size and context_parallel_size are not options */
	struct split_options split;
	double lr, min_lr;
	bool use_distributed_optimizer, no_optim, force, moe_grouped_gemm;
};

/* Whose names a checkpoint of torch has; the order of the words. */
static const char *const implementations[] = { "transformer_engine", "local", NULL };

/* clang-format off */
#define RATE(n, f, h) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(struct export_config, f), .min = 0, \
	  .max = 1e300, .help = h }
/* clang-format on */

static const struct opt export_opts[] = {
	CHOICE(struct export_config, "to", to, export_formats, "torch_dist",
	    "format of Megatron-LM: torch, one file per model rank; torch_dist, chunks that any "
	    "layout reads"),
	SIZE(struct export_config, "tensor-model-parallel-size", layout.tensor_model_parallel_size,
	    "1", "tensor ranks of the run that will read it"),
	SIZE(struct export_config, "pipeline-model-parallel-size",
	    layout.pipeline_model_parallel_size, "1",
	    "pipeline stages; equal unless an option says how"),
	SIZE(struct export_config, "expert-model-parallel-size", layout.expert_model_parallel_size,
	    NULL,
	    "ranks that share the experts of a layer, each with a copy of all other tensors; 1 by "
	    "default"),
	SIZE(struct export_config, "expert-tensor-parallel-size",
	    layout.expert_tensor_parallel_size, NULL,
	    "ranks that share each expert; --tensor-model-parallel-size by default"),
	SPLIT_OPTS(struct export_config, split),
	CHOICE(struct export_config, "dtype", dtype, copy_dtypes, "keep",
	    "type of the weights; by default that of the run, or of the tensors"),
	CHOICE(struct export_config, "transformer-impl", transformer_impl, implementations,
	    "transformer_engine",
	    "implementation that names of norms follow: of all in torch, of those before experts "
	    "in torch_dist"),
	FLAG(struct export_config, "moe-grouped-gemm", moe_grouped_gemm,
	    "name experts in the files of torch as a run with this option does"),
	FLAG(struct export_config, "use-distributed-optimizer", use_distributed_optimizer,
	    "store the optimizer as a run with this option does: distrib_optim.pt, or "
	    "fully_reshardable"),
	RATE("lr", lr,
	    "learning rate of the run that will read it, which knows its parameter groups by it; "
	    "by default that of the run that wrote"),
	RATE("min-lr", min_lr,
	    "minimum learning rate of that run; by default that of the run that wrote"),
	FLAG(struct export_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(
	    struct export_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

/* Notes are printed also when the export fails: they may explain why. */
static int
run_export(const void *cfg, int argc, char **argv, struct err *e)
{
	const struct export_config *c = cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct export_options o = { .format = (enum export_format)c->to,
		.layout = c->layout,
		.moe_grouped_gemm = c->moe_grouped_gemm,
		.split = c->split,
		.dtype = copy_types[c->dtype],
		.lr = c->lr,
		.min_lr = c->min_lr,
		.use_distributed_optimizer = c->use_distributed_optimizer,
		.no_optim = c->no_optim,
		.force = c->force,
		.local = c->transformer_impl };
	struct str notes = { 0 };

	if (rc)
		return rc;
	o.layout.data_parallel_size = o.layout.context_parallel_size = 1;
	o.layout.sequence_parallel = true; /* as with experts all tensor ranks have it */
	o.src = argv[0];
	o.save = argv[1];
	rc = export_source(&o, &notes, e);
	cli_notes(&notes);
	return rc;
}

const struct verb verb_export = { .name = "export",
	.operands = "SRC DST",
	.summary = "write a checkpoint of Megatron-LM",
	.opts = export_opts,
	.cfg_size = sizeof(struct export_config),
	.run = run_export,
	.common = "to tensor-model-parallel-size pipeline-model-parallel-size "
		  "expert-model-parallel-size dtype use-distributed-optimizer no-optim force" };
