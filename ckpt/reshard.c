/*
 * reshard.c - mckpt reshard
 *
 * The source and the layout are checked before anything is written. With a distributed optimizer
 * each data rank owns an equal part of each bucket; resharding always writes that form, as a reader
 * sees only boxes.
 */
#include "ckpt/copy.h"
#include "ckpt/reshard.h"
#include "ckpt/verbs.h"
#include "lib/model/layout_text.h"

/* How long the reader's samples are is not known: its default split may be another, which costs it
 * nothing, as it reads boxes. */
int
reshard(const struct reshard_options *o, struct str *notes, struct err *e)
{
	struct layout layout = o->layout;
	struct str options = { 0 };
	struct copy_options copy = { .save = o->save,
		.verb = "reshard",
		.given = o->given,
		.layout = &layout,
		.dtype = DTYPE_NONE,
		.no_optim = o->no_optim,
		.force = o->force };
	struct source *s = source_open(o->src, e);
	int rc = -1;

	if (s && source_require(s, e) == 0 && layout_check(&layout, &s->config, e) == 0 &&
	    layout_check_experts(&layout, &s->config, e) == 0 &&
	    split_resolve(&o->split, &s->config, s->config.max_position_embeddings, &layout, e) ==
		0) {
		layout_replace(s->options.buf, &layout, &o->split, &options);
		copy.options = options.buf;
		copy.state = s->state_text.buf;
		rc = copy_source(s, &copy, notes, e);
	}
	str_release(&options);
	source_close(s);
	return rc;
}

struct reshard_config {
	struct layout layout; /* context_parallel_size is not an option */
	struct split_options split;
	bool no_optim, force;
};

static const struct opt reshard_opts[] = {
	SIZE(struct reshard_config, "tensor-model-parallel-size", layout.tensor_model_parallel_size,
	    "1", "tensor ranks of the run that will read it"),
	SIZE(struct reshard_config, "pipeline-model-parallel-size",
	    layout.pipeline_model_parallel_size, "1", "pipeline stages"),
	SIZE(struct reshard_config, "data-parallel-size", layout.data_parallel_size, "1",
	    "data ranks, which share the pieces of each"),
	SIZE(struct reshard_config, "expert-model-parallel-size", layout.expert_model_parallel_size,
	    NULL, "ranks that share the experts of a layer; 1 by default"),
	SIZE(struct reshard_config, "expert-tensor-parallel-size",
	    layout.expert_tensor_parallel_size, NULL,
	    "ranks that share each expert; --tensor-model-parallel-size by default"),
	SPLIT_OPTS(struct reshard_config, split),
	FLAG(struct reshard_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(struct reshard_config, "force", force,
	    "write into a directory that holds a checkpoint"),
	OPT_END,
};

/* Neither context nor sequence parallelism changes what is stored; tensor ranks of a run with
 * experts have the latter. */
static int
run_reshard(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct reshard_config *c = p->cfg;
	int rc = cli_operands(argc, 2, "SRC DST", e);
	struct reshard_options o = { .layout = c->layout,
		.split = c->split,
		.no_optim = c->no_optim,
		.force = c->force,
		.given = p };
	struct str notes = { 0 };

	if (rc)
		return rc;
	o.layout.context_parallel_size = 1;
	o.layout.sequence_parallel = true;
	o.src = argv[0];
	o.save = argv[1];
	rc = reshard(&o, &notes, e);
	cli_notes(&notes);
	return rc;
}

const struct verb verb_reshard = { .name = "reshard",
	.operands = "SRC DST",
	.summary = "rewrite a checkpoint as a run of another layout would",
	.opts = reshard_opts,
	.cfg_size = sizeof(struct reshard_config),
	.run_given = run_reshard,
	.common = "tensor-model-parallel-size pipeline-model-parallel-size data-parallel-size "
		  "expert-model-parallel-size pipeline-model-parallel-layout no-optim force" };
