/* uses.c - what a backend lacks is refused by its name and that of what asks for it */
#include "lib/model/optim_rule.h"
#include "tests/check.h"
#include "tests/sized_model.h"
#include "train/optim/optim.h"
#include "train/step/open.h"

#include <string.h>

static struct err e;

/* The CPU and train/mpi have all that rules and blocks use. */
static void
test_all(const struct backend *b, const struct model_config *c)
{
	for (int i = 0; optim_rule_names[i]; i++)
		CHECK(optim_check_uses(i, b, &e) == 0);
	CHECK(engine_check_uses(c, b, &e) == 0);
	CHECK(uses_check(NULL, b, "nobody", &e) == 0);
}

static void
test_rules(struct backend b)
{
	struct ops ops = *b.ops;

	b.ops = &ops;
	ops.sgd = NULL;
	CHECK(optim_check_uses(0, &b, &e) == 0);
	CHECK(optim_check_uses(1, &b, &e) < 0);
	CHECK(!strcmp(e.msg, "--optimizer sgd: operation 'sgd' is not built for toy"));
	ops.axpby = NULL;
	CHECK(optim_check_uses(2, &b, &e) < 0);
	CHECK(!strcmp(e.msg, "--optimizer muon: operation 'axpby' is not built for toy"));
}

/* A dense model has no experts, so it does not matter what those use. */
static void
test_blocks(struct backend b, struct model_config c)
{
	struct ops ops = *b.ops;

	b.ops = &ops;
	ops.grouped = NULL;
	CHECK(engine_check_uses(&c, &b, &e) == 0);
	c.num_experts = 4;
	CHECK(engine_check_uses(&c, &b, &e) < 0);
	CHECK(!strcmp(e.msg, "block 'moe': operation 'grouped' is not built for toy"));
}

/* The host's memory is train/mpi's, which has all. */
static void
test_calls(struct backend b, const struct model_config *c)
{
	struct comm_ops calls = *b.comm_ops;

	b.comm_ops = &calls;
	calls.all_gather = NULL;
	CHECK(engine_check_uses(c, &b, &e) < 0);
	CHECK(!strcmp(e.msg, "block 'head': collective 'all_gather' is not built for toy"));
	b.comm_ops = NULL;
	CHECK(engine_check_uses(c, &b, &e) == 0);
}

int
main(void)
{
	struct model_config c = sized_model((struct model_sizes){ 2, 32, 4, 4, 128, 16, 100 });
	struct comm *world = mpi_world(&e);
	struct backend b = backend_cpu;

	b.name = "toy";
	b.comm_ops = world->ops;
	test_all(&b, &c);
	test_rules(b);
	test_blocks(b, c);
	test_calls(b, &c);
	world->ops->free(world);
	mpi_end();
	return check_done();
}
