/* apply_lora.c - mckpt apply-lora: an adapter of PEFT becomes part of the weights; adapted.h */
#include "ckpt/adapted.h"
#include "ckpt/copy.h"
#include "ckpt/verbs.h"

struct lora_config {
	int dtype; /* of copy_dtypes */
	bool residual, untie, force;
};

static const struct opt lora_opts[] = {
	CHOICE(struct lora_config, "dtype", dtype, copy_dtypes, "keep",
	    "type of the weights; rounds to nearest, once"),
	FLAG(struct lora_config, "untie", untie,
	    "make two tables of a tied one, of which the adapter changes one"),
	FLAG(struct lora_config, "base-is-residual", residual,
	    "BASE is what an initialisation such as pissa has left of the model"),
	FLAG(struct lora_config, "force", force, "write into a directory that holds a checkpoint"),
	OPT_END,
};

static int
run_apply(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct lora_config *c = p->cfg;
	struct adapted_rule rule = { .base_is_residual = c->residual, .untie = c->untie };
	struct derived_job job = { .kind = &derived_adapted,
		.rule = &rule,
		.path = (const char *const *)argv,
		.count = 1,
		.verb = "apply-lora",
		.given = p,
		.dtype = copy_types[c->dtype],
		.force = c->force };
	struct derived *d;
	int rc = cli_operands(argc, 3, "BASE ADAPTER DST", e);

	if (rc)
		return rc;
	rule.adapter = argv[1];
	job.save = argv[2];
	d = derived_open(&job, e);
	return d ? derived_write(d, &job, e) : CLI_FAILED;
}

const struct verb verb_apply_lora = { .name = "apply-lora",
	.operands = "BASE ADAPTER DST",
	.summary = "merge an adapter of PEFT into the weights of its base",
	.opts = lora_opts,
	.cfg_size = sizeof(struct lora_config),
	.run_given = run_apply };
