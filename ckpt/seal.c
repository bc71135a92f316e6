/*
 * seal.c - mckpt seal
 *
 * The only way to edit a checkpoint's texts. It prints which texts had changed, so that sealing an
 * unintended change does not go unnoticed.
 */
#include "ckpt/verbs.h"
#include "lib/ckpt/ckpt.h"

static const struct opt seal_opts[] = { OPT_END };

/* One checkpoint at a time, so that each change is examined on its own. Prints a line that names
 * the texts that had changed. */
static int
run_seal(const void *cfg, int argc, char **argv, struct err *e)
{
	struct str changed = { 0 };
	int rc = cli_operands(argc, 1, "DIR", e);

	(void)cfg;
	if (rc)
		return rc;
	rc = ckpt_seal(argv[0], &changed, e);
	if (rc == 0)
		printf(
		    "%s: sealed: %s\n", argv[0], changed.len ? changed.buf : "no text had changed");
	str_release(&changed);
	return rc;
}

const struct verb verb_seal = { .name = "seal",
	.operands = "DIR",
	.summary = "accept options.conf and state.conf as they are now",
	.opts = seal_opts,
	.cfg_size = 1,
	.run = run_seal };
