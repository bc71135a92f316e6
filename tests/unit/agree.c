/* agree.c - every option has a deliberate rule for what ranks must have in common */
#include "tests/check.h"
#include "train/config/agree.h"
#include "train/config/options.h"

/* The row of a name, which must exist. */
static const struct opt *
option(const char *name)
{
	const struct opt *o = mtrain_opts;

	while (o->type != OPT_END_TYPE && (!o->name || strcmp(o->name, name)))
		o++;
	CHECK(o->type != OPT_END_TYPE);
	return o;
}

static void
test_sorted(void)
{
	for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++) {
		if (!o->name || agree_on(o) != AGREE_UNSORTED)
			continue;
		printf("--%s: agree.c says nothing of this option\n", o->name);
		CHECK(false);
	}
	CHECK(agree_on(option("lr")) == AGREE_VALUE);
	CHECK(agree_on(option("split")) == AGREE_VALUE);
	CHECK(agree_on(option("log-interval")) == AGREE_VALUE);
	CHECK(agree_on(option("save")) == AGREE_PRESENCE);
	CHECK(agree_on(option("metrics-file")) == AGREE_NOTHING);
}

/* A world of one agrees with itself, without a message. */
static void
test_alone(void)
{
	struct err e = { "" };
	struct comm *world = mpi_world(&e);

	CHECK(world && agree_text(world, "a\t1\n", &e) == 0);
	CHECK(agree_text(world, NULL, &e) == 0);
	CHECK_STR(e.msg, "");
	mpi_end();
}

int
main(void)
{
	test_sorted();
	test_alone();
	return check_done();
}
