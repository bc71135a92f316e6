/*
 * import.c - mckpt import
 *
 * The input comes from elsewhere, so the whole model is checked before the first byte is written;
 * one rename makes the checkpoint appear. All is in one file: mckpt reshard divides it.
 */
#include "ckpt/copy.h"
#include "ckpt/verbs.h"

struct import_config {
	const char *model;           /* config.json of a source without it; NULL: not given */
	int64_t vocab_size;          /* of a source that has not recorded it; 0: not given */
	int64_t mtp_num_layers;      /* that predict later tokens */
	int dtype;                   /* of copy_dtypes */
	bool force, allow_nonfinite; /* allow: NaN and infinity are noted, not refused */
};

static const struct opt import_opts[] = {
	{ .name = "dtype",
	    .type = OPT_CHOICE,
	    .off = offsetof(struct import_config, dtype),
	    .choices = copy_dtypes,
	    .def = "keep",
	    .help = "type of the tensors; rounds to nearest, once" },
	{ .name = "model",
	    .type = OPT_STRING,
	    .off = offsetof(struct import_config, model),
	    .unit = "FILE",
	    .help = "a config.json (or its directory) that says the model of a checkpoint in "
		    "torch_dist without Megatron-LM's args, such as of Megatron-Bridge and NeMo, "
		    "or of Meta's files in place of their params.json" },
	{ .name = "vocab-size",
	    .type = OPT_INT,
	    .off = offsetof(struct import_config, vocab_size),
	    .min = 1,
	    .max = 1e15,
	    .unit = "TOKENS",
	    .help = "tokens of a Megatron-LM model whose run has not recorded them; the rows of "
		    "padding after them are dropped" },
	{ .name = "mtp-num-layers",
	    .type = OPT_INT,
	    .off = offsetof(struct import_config, mtp_num_layers),
	    .max = MODEL_MTP_MAX,
	    .def = "0",
	    .unit = "N",
	    .help = "read so many of the layers of a Hugging Face directory that predict later "
		    "tokens, which are left out otherwise" },
	FLAG(struct import_config, "allow-nonfinite", allow_nonfinite,
	    "import NaN and infinity, with a note for each such tensor"),
	FLAG(
	    struct import_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

/* Writes iteration 0 where no run has been. A source that has not recorded its tokens gets the
 * number that was given; without one all rows are taken for tokens, with a note. Notes are printed
 * also when the import fails: they may explain why. */
static int
run_import(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	static const struct layout one = { 1, 1, 1, 1 };
	const struct import_config *c = p->cfg;
	struct copy_options o = { .verb = "import",
		.given = p,
		.layout = &one,
		.dtype = copy_types[c->dtype],
		.force = c->force,
		.check_finite = true,
		.allow_nonfinite = c->allow_nonfinite };
	struct str notes = { 0 };
	struct source *s;
	int rc = cli_operands(argc, 2, "SRC DST", e);

	if (rc)
		return rc;
	s = source_open_as(argv[0], c->model, e);
	if (!s)
		return CLI_FAILED;
	if (s->kind == &source_ckpt)
		rc = err_set(e, "'%s' is a checkpoint already; mckpt reshard rewrites it", argv[0]);
	else if (c->mtp_num_layers && s->kind != &source_hf)
		rc = err_set(e,
		    "--mtp-num-layers: '%s' is no Hugging Face directory: of other sources all "
		    "such layers are read",
		    argv[0]);
	else if (source_predict(s, c->mtp_num_layers, e) < 0)
		rc = CLI_FAILED;
	else if (c->vocab_size)
		rc = source_set_vocab(s, c->vocab_size, e);
	else if (s->padded_vocab)
		str_addf(&notes,
		    "%s: the run has not recorded how many of the %lld rows of its vocabulary "
		    "tables are tokens: all are kept; --vocab-size drops the padding\n",
		    s->path, (long long)s->padded_vocab);
	o.save = argv[1];
	o.options = s->options.buf;
	o.state = s->state_text.buf;
	if (rc == 0)
		rc = copy_source(s, &o, &notes, e);
	cli_notes(&notes);
	source_close(s);
	return rc;
}

const struct verb verb_import = { .name = "import",
	.operands = "SRC DST",
	.summary = "make a checkpoint of a model of another format",
	.opts = import_opts,
	.cfg_size = sizeof(struct import_config),
	.run_given = run_import };
