/*
 * cast.c - mckpt cast
 *
 * Weights in another type, rounded once; the optimizer's state keeps its own. What the new type
 * cannot hold is counted and said, not refused: the weights of a trained model rarely reach the
 * bounds of fp16, and who casts can compare with mckpt diff.
 */
#include "ckpt/copy.h"
#include "ckpt/verbs.h"

struct cast_config {
	int dtype; /* of copy_dtypes, but for the first */
	bool no_optim, force;
};

static const struct opt cast_opts[] = {
	CHOICE(struct cast_config, "dtype", dtype, copy_dtypes + 1, NULL,
	    "type of the weights; rounds to nearest, once"),
	FLAG(struct cast_config, "no-optim", no_optim, "leave the optimizer's state out"),
	FLAG(struct cast_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

static int
run_cast(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	static const struct layout one = { 1, 1, 1, 1 };
	const struct cast_config *c = p->cfg;
	struct copy_options o = { .verb = "cast",
		.given = p,
		.layout = &one,
		.dtype = copy_types[c->dtype + 1],
		.no_optim = c->no_optim,
		.force = c->force };
	struct str state = { 0 }, notes = { 0 };
	struct source *s;
	int rc = cli_operands(argc, 2, "SRC DST", e);

	if (rc)
		return rc;
	if (!opt_given(p, "dtype")) {
		err_set(e, "--dtype: needed, one of bf16, fp16, fp32");
		return CLI_USAGE;
	}
	s = source_open(argv[0], e);
	if (!s)
		return CLI_FAILED;
	/* mexport goes by the type in the state */
	str_adds(&state, s->state_text.buf);
	state_edit(&state, "dtype", "%s", dtype_name(o.dtype));
	o.save = argv[1];
	o.options = s->options.buf;
	o.state = state.buf;
	rc = copy_source(s, &o, &notes, e);
	cli_notes(&notes);
	if (rc == 0 && s->lost.overflows + s->lost.underflows)
		str_addf(&notes,
		    "%s: %lld numbers are too large for %s and became infinite, %lld are too small "
		    "and became 0\n",
		    argv[1], (long long)s->lost.overflows, copy_dtypes[c->dtype + 1],
		    (long long)s->lost.underflows);
	cli_warnings(&notes);
	str_release(&state);
	source_close(s);
	return rc;
}

const struct verb verb_cast = { .name = "cast",
	.operands = "SRC DST",
	.summary = "rewrite a checkpoint with weights of another type",
	.opts = cast_opts,
	.cfg_size = sizeof(struct cast_config),
	.run_given = run_cast };
