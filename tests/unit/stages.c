/* stages.c - files of --data-schedule: what is accepted and what each mistake is called, what a
 * checkpoint says of them, and where stages begin when batches grow */
#include "lib/base/mem.h"
#include "lib/data/paths.h"
#include "lib/model/batch.h"
#include "tests/check.h"

static struct err e;

static void
test_file(void)
{
	struct data_paths p = { 0 };

	CHECK(data_stages_parse("# a comment\n\n 0 0.7 web 3e-1 code # more\n1.5K 1 code\r\n"
				"2B\t2e-6 web 1 papers",
		  "f", &p, &e) == 0);
	CHECK(p.num_stages == 3 && p.stage[1].tokens == 1500 && p.stage[2].tokens == 2000000000);
	CHECK(p.stage[0].list.count == 2 && p.stage[0].list.weight[1] == 0.3);
	CHECK_STR(p.stage[2].list.prefix[1], "papers");
	/* all of them, in the order of first mention */
	CHECK(p.list[SPLIT_TRAIN].count == 3 && !p.list[SPLIT_TRAIN].weight);
	CHECK_STR(p.list[SPLIT_TRAIN].prefix[2], "papers");
	CHECK(data_paths_list(&p, SPLIT_TRAIN)->count == 3);
	CHECK(data_paths_list(&p, SPLIT_VALID) == &p.stage[0].list);
	CHECK(data_stage_samples(&p.stage[1], 16) == 94);
	data_paths_release(&p);
}

static void
test_mistakes(void)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "# nothing\n", "f: has no stage: a line is TOKENS WEIGHT PREFIX ..." },
		{ "5 1 a", "f:1: the first stage begins at 5 tokens: must be 0" },
		{ "0 1 a\n\nten 1 a",
		    "f:3: 'ten': a stage begins with its first token, a number "
		    "such as 0, 250B or 1.2T" },
		{ "0 1 a\n9 1 a\n9 1 b",
		    "f:3: begins at 9 tokens: must be more than the 9 of the stage before it" },
		{ "0 a b",
		    "f:1: a stage is TOKENS WEIGHT PREFIX WEIGHT PREFIX ...: every prefix "
		    "needs a weight" },
		{ "0", "f:1: it names no dataset" },
		{ "0 0 a",
		    "f:1: weight 0: must be finite and above 0; leave a corpus out instead" },
		{ "0 1 a 1 b 2 a", "f:1: 'a' twice in one stage" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct data_paths p = { 0 };

		CHECK(data_stages_parse(bad[i].text, "f", &p, &e) < 0);
		CHECK_STR(e.msg, bad[i].why);
		data_paths_release(&p);
	}
}

static void
test_record(void)
{
	static const char *const bad[] = { "0 0", "0 0 2:1", "0 0 0:0", "0 0 0:nan", "0 0 0:1 |",
		"0 0 0:1 | ", "0 0 0:1  1:1", "5 0 0:1 | 4 9 0:1", "5 9 0:1 | 6 9 0:1", "-1 0 0:1",
		"0 0 0:1x" };
	static const int64_t first[] = { 0, 96 };
	struct data_paths p = { 0 };
	struct stage_record *r;
	char *text;
	int n;

	CHECK(data_stages_parse("0 0.7 a 0.3 b\n1500 1 b", "f", &p, &e) == 0);
	text = stage_records_text(&p, first);
	CHECK_STR(text, "0 0 0:0.69999999999999996 1:0.29999999999999999 | 96 1500 1:1");
	CHECK(stage_records_parse(text, 2, &r, &n, &e) == 0 && n == 2);
	CHECK(r[0].count == 2 && r[0].weight[0] == 0.7 && r[1].first == 96);
	CHECK(r[1].tokens == 1500 && r[1].corpus[0] == 1);
	stage_records_free(r, n);
	free(text);
	data_paths_release(&p);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(stage_records_parse(bad[i], 2, &r, &n, &e) < 0);
		stage_records_free(r, n);
	}
}

/* A stage begins with a step, the first that does not begin before its sample. */
static void
test_reach(void)
{
	struct batch_ramp r;

	CHECK(batch_table(&r, "0:4 1024:8", 16, &e) == 0);
	for (int64_t to = 0, at = 0; to < 300; to++) {
		while (at < to)
			at += batch_at(&r, at);
		CHECK(batch_reach(&r, 0, to) == at);
		CHECK(to < 64 || batch_reach(&r, 64, to) == at);
	}
	CHECK(batch_reach(&r, 96, 50) == 96);
}

int
main(void)
{
	test_file();
	test_mistakes();
	test_record();
	test_reach();
	return check_done();
}
