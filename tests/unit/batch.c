/* batch.c - the batch sizes that texts describe, against hand-made figures and Megatron-LM's */
#include "lib/model/batch.h"

#include "tests/check.h"

static struct err e;

static int
linear(struct batch_ramp *r, const char *start, const char *increment, const char *samples)
{
	const char *word[] = { start, increment, samples };

	return batch_linear(r, &(struct opt_list){ samples ? 3 : 2, word }, 64, &e);
}

/* Sizes at samples as Megatron-LM's RampupBatchsizeNumMicroBatchesCalculator had them before it was
 * removed: 16 grows by 16 to 64 over 100 samples, which do not divide by three. */
static void
test_linear(void)
{
	static const struct {
		int64_t consumed, size;
	} expected[] = { { 0, 16 }, { 33, 16 }, { 34, 32 }, { 66, 32 }, { 67, 48 }, { 99, 48 },
		{ 100, 64 }, { 101, 64 }, { INT64_C(1) << 53, 64 } };
	struct batch_ramp r;

	CHECK(linear(&r, "16", "16", "100") == 0);
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
		CHECK(batch_at(&r, expected[i].consumed) == expected[i].size);
	CHECK(batch_largest(&r) == 64);
	/* Steps begin at 0 16 32 (of 16), 48 (of 32), 80 (of 48), 128 192 (of 64). */
	CHECK(batch_end(&r, 0, 5) == 128 && batch_end(&r, 0, 7) == 256);
	CHECK(batch_steps(&r, 0, 256) == 7 && batch_steps(&r, 0, 255) == 6);
	CHECK(batch_steps(&r, 48, 111) == 1 && batch_steps(&r, 48, 48) == 0);
	CHECK(batch_uneven(&r, 16) == 0 && batch_uneven(&r, 32) == 16);
	CHECK(linear(&r, "32", "16", "100") == 0 && batch_uneven(&r, 32) == 48);
}

static void
test_linear_errors(void)
{
	struct batch_ramp r;

	CHECK(linear(&r, "16", "16", NULL) < 0);
	CHECK_STR(e.msg, "--rampup-batch-size: takes START INCREMENT SAMPLES, not 2 words");
	CHECK(linear(&r, "16", "0", "100") < 0);
	CHECK_STR(e.msg, "--rampup-batch-size 0: must be a whole number from 1 to 1e15");
	CHECK(linear(&r, "16x", "16", "100") < 0 && linear(&r, "", "16", "100") < 0);
	CHECK(linear(&r, "16", "16", "9223372036854775808") < 0);
	CHECK(linear(&r, "64", "16", "100") < 0);
	CHECK_STR(e.msg, "--rampup-batch-size 64: must be less than --global-batch-size 64");
	CHECK(linear(&r, "16", "36", "100") < 0);
	CHECK_STR(e.msg,
	    "--rampup-batch-size 16 36: steps of 36 do not lead to --global-batch-size 64 (try an "
	    "increment of 48)");
}

/* Megatron-LM's own example, with 2048 tokens a sample. */
static void
test_table(void)
{
	struct batch_ramp r;
	int64_t first = INT64_C(250000000000) / 2048;

	CHECK(batch_table(&r, "0:768 250B:1536 500B:3072 750B:6144", 2048, &e) == 0);
	CHECK(r.count == 4 && r.step[1].first == first);
	CHECK(batch_at(&r, 0) == 768 && batch_at(&r, first - 1) == 768);
	CHECK(batch_at(&r, first) == 1536 && batch_at(&r, 4 * first) == 6144);
	CHECK(batch_uneven(&r, 768) == 0 && batch_uneven(&r, 1536) == 768);
	/* In any order; the batch may shrink, and the last step of a size passes its end. */
	CHECK(batch_table(&r, "0.1k:8, 0:16,\t1e2k:24", 1, &e) == 0);
	CHECK(r.step[0].size == 16 && r.step[1].first == 100 && r.step[2].first == 100000);
	CHECK(batch_end(&r, 0, 8) == 120 && batch_steps(&r, 0, 120) == 8);
	CHECK(batch_largest(&r) == 24);
}

static void
test_table_errors(void)
{
	static const char *const bad[] = { "0:1 5", "0:1 x:2", "0:1 5:", "0:0", "0:1 -5:2",
		"0:1 0x5:2", "0:1 5KB:2", "0:1 5:2:3", "0:1 nan:2", "0:1 1001T:2" };
	struct batch_ramp r;
	struct str many = { 0 };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK(batch_table(&r, bad[i], 1, &e) < 0);
	CHECK_STR(
	    e.msg, "--step-batch-size-schedule: '1001T:2': must be TOKENS:SIZE, such as 250B:1536");
	CHECK(batch_table(&r, " ", 1, &e) < 0 && batch_table(&r, "16:2", 16, &e) < 0);
	CHECK_STR(e.msg, "--step-batch-size-schedule: needs an entry 0:SIZE, the first size");
	CHECK(batch_table(&r, "0:2 100:4 110:6", 50, &e) < 0);
	CHECK_STR(e.msg,
	    "--step-batch-size-schedule: '110:6' begins at the same sample as another entry, 2");
	for (int i = 0; i <= BATCH_TABLE_MAX; i++)
		str_addf(&many, "%d:1 ", i);
	CHECK(batch_table(&r, many.buf, 1, &e) < 0);
	CHECK_STR(e.msg, "--step-batch-size-schedule: has more than 64 entries");
	str_release(&many);
}

int
main(void)
{
	struct batch_ramp one = batch_constant(12);

	CHECK(batch_at(&one, 7) == 12 && batch_largest(&one) == 12 && batch_uneven(&one, 5) == 12);
	CHECK(batch_steps(&one, 0, 35) == 2 && batch_end(&one, 12, 3) == 48);
	test_linear();
	test_linear_errors();
	test_table();
	test_table_errors();
	return check_done();
}
