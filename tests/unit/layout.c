/* layout.c - layouts: written to an option file and read back; axes of later versions are
 * refused */
#include "lib/model/layout_text.h"
#include "lib/model/options.h"
#include "tests/check.h"

#include <string.h>

#define MODEL "num-layers 4\nhidden-size 64\nnum-attention-heads 8\nvocab-size 500\nseq-length 32\n"

/* Reads the layout of a checkpoint's options. */
static int
read_layout(const char *options, struct layout *l, struct err *e)
{
	struct model_config c;
	struct str text = { 0 };
	int rc;

	str_addf(&text, MODEL "%s", options);
	e->msg[0] = '\0';
	rc = model_from_text("options.conf", text.buf, &c, l, e);
	str_release(&text);
	return rc;
}

/* Every size except data parallelism; an empty text gives one rank. */
static void
test_round_trip(void)
{
	const struct layout l = { 2, 3, 5, 7 };
	struct layout back;
	struct str text = { 0 };
	struct err e;

	layout_replace("", &l, &(struct split_options){ 0 }, &text);
	CHECK(read_layout(text.buf, &back, &e) == 0);
	CHECK_STR(e.msg, "");
	for (int a = 0; a < AX_COUNT; a++)
		CHECK(layout_size(&back, (enum axis)a) ==
		    (a == AX_DP ? 1 : layout_size(&l, (enum axis)a)));
	str_release(&text);
	CHECK(read_layout("lr 1e-4\n", &back, &e) == 0);
	CHECK(layout_world(&back) == 1);
}

/* Every spelling that the reader accepts as a size is removed. */
static void
test_replace(void)
{
	static const char old[] = "# tensor-model-parallel-size 8\nlr 1e-4\n"
				  "--tensor-model-parallel-size 8\n"
				  " pipeline_model_parallel_size = 4\n"
				  "context-parallel-size 1 # of one\ndata-path 1 \"a b\"\n\n"
				  "decoder-last-pipeline-num-layers 1\nseq-length 32";
	static const struct layout l = { 2, 1, 3, 1 };
	static const struct split_options split = { .decoder_first_pipeline_num_layers = 3 };
	struct str text = { 0 };

	layout_replace(old, &l, &split, &text);
	CHECK_STR(text.buf,
	    "# tensor-model-parallel-size 8\nlr 1e-4\ndata-path 1 \"a b\"\n\nseq-length 32\n"
	    "tensor-model-parallel-size 2\npipeline-model-parallel-size 1\n"
	    "context-parallel-size 1\ndecoder-first-pipeline-num-layers 3\n");
	str_release(&text);
}

/* An axis that this version lacks must be 1; other options are ignored. */
static void
test_newer(void)
{
	struct layout l;
	struct err e;

	CHECK(read_layout("expert-model-parallel-size 1\n", &l, &e) == 0);
	CHECK(read_layout("sequence-parallelism x\n", &l, &e) == 0);
	CHECK(read_layout("hidden_model_parallel_size 2\n", &l, &e) < 0);
	CHECK_STR(e.msg,
	    "options.conf:6: --hidden_model_parallel_size 2: must be 1: this version has no such "
	    "axis, so a newer one wrote this");
	CHECK(read_layout("hidden-model-parallel-size\n", &l, &e) < 0);
}

/* Rows are shared in whole positions; the rule applies only with the option and several ranks. */
static void
test_rows(void)
{
	struct layout l = { 4, 1, 1, 1, true }, plain = { 4, 1, 1, 1, false },
		      one = { 1, 1, 1, 1, true };
	struct err e;

	CHECK(layout_row_shards(&l) == 4 && layout_row_shards(&plain) == 1 &&
	    layout_row_shards(&one) == 1);
	CHECK(layout_check_rows(&l, 32, &e) == 0 && layout_check_rows(&plain, 30, &e) == 0 &&
	    layout_check_rows(&one, 31, &e) == 0);
	CHECK(layout_check_rows(&l, 30, &e) < 0);
	CHECK_STR(e.msg,
	    "--seq-length 30: must be a multiple of --tensor-model-parallel-size 4 with "
	    "--sequence-parallel (try 28)");
	CHECK(layout_check_rows(&l, 3, &e) < 0 && strstr(e.msg, "(try 4)"));
}

int
main(void)
{
	test_rows();
	test_round_trip();
	test_replace();
	test_newer();
	return check_done();
}
