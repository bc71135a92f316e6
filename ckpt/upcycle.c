/*
 * upcycle.c - mckpt upcycle
 *
 * A dense model becomes one with experts. What its tensors hold is upcycled.h's; the copy is that
 * of the other verbs.
 */
#include "ckpt/copy.h"
#include "ckpt/upcycled.h"
#include "ckpt/verbs.h"

struct upcycle_config {
	int64_t num_experts, topk, seed;
	double ratio, router_std;
	int dtype; /* of copy_dtypes */
	bool force;
};

/* clang-format off */
#define NUMBER(n, f, hi, d, h) \
	{ .name = n, .type = OPT_NUMBER, .off = offsetof(struct upcycle_config, f), .min = 0, \
	  .max = hi, .def = d, .help = h }
/* clang-format on */

static const struct opt upcycle_opts[] = {
	SIZE(struct upcycle_config, "num-experts", num_experts, NULL,
	    "experts of each layer, all of the width of its MLP"),
	SIZE(struct upcycle_config, "moe-router-topk", topk, "2",
	    "experts that a token is sent to, whose weights sum to 1"),
	NUMBER("ffn-init-ratio", ratio, 1, "0",
	    "share of the channels of each expert that are replaced by normal numbers of the same "
	    "mean and deviation; 0.5 is usual, 0 copies the MLP"),
	NUMBER("router-init-std", router_std, 1e3, NULL,
	    "standard deviation of the router's numbers; the model's --init-method-std by default"),
	{ .name = "seed",
	    .type = OPT_INT,
	    .off = offsetof(struct upcycle_config, seed),
	    .max = 1e15,
	    .def = "1234",
	    .help = "seed of the random numbers" },
	CHOICE(struct upcycle_config, "dtype", dtype, copy_dtypes, "keep",
	    "type of the tensors; rounds to nearest, once"),
	FLAG(struct upcycle_config, "force", force,
	    "write into a directory that holds a checkpoint"),
	OPT_END,
};

static int
run_upcycle(const struct opt_parse *p, int argc, char **argv, struct err *e)
{
	const struct upcycle_config *c = p->cfg;
	struct upcycle_rule rule = { c->num_experts, c->topk, c->ratio,
		opt_given(p, "router-init-std") ? c->router_std : -1, (uint64_t)c->seed };
	struct derived_job job = { .kind = &derived_upcycled,
		.rule = &rule,
		.verb = "upcycle",
		.given = p,
		.dtype = copy_types[c->dtype],
		.force = c->force };

	if (argc == 2 && !opt_given(p, "num-experts")) {
		err_set(e, "--num-experts: needed, such as 8");
		return CLI_USAGE;
	}
	return derived_run(&job, argc, argv, e);
}

const struct verb verb_upcycle = { .name = "upcycle",
	.operands = "SRC DST",
	.summary = "make a model with experts of a dense one",
	.opts = upcycle_opts,
	.cfg_size = sizeof(struct upcycle_config),
	.run_given = run_upcycle };
