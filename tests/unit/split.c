/* split.c - layers over virtual stages: balanced, by options, by a text; broken rules */
#include "lib/model/split.h"
#include "lib/model/options.h"
#include "tests/check.h"

#include <string.h>

#define REFUSED(of, why) "--pipeline-model-parallel-layout '" of "': " why

/* Llama-8B, whose head weighs about 2.2 layers at 8192 tokens, with other numbers of layers. */
static struct model_config
llama(int64_t layers)
{
	struct model_config c;

	model_defaults(&c, MODEL_BASE);
	c.num_layers = layers;
	c.hidden_size = 4096;
	c.ffn_hidden_size = 14336;
	c.num_attention_heads = 32;
	c.num_query_groups = 8;
	c.kv_channels = 128;
	c.vocab_size = 128256;
	c.activation = ACTIVATION_SWIGLU;
	c.untie_embeddings_and_output_weights = true;
	return c;
}

/* The split as a text, or the reason for refusing it. */
static const char *
resolved(const struct split_options *o, int64_t layers, int64_t stages)
{
	static char said[600];
	const struct model_config c = llama(layers);
	struct layout l = { 1, 1, 1, stages };
	struct str text = { 0 };
	struct err e;

	if (split_resolve(o, &c, 8192, &l, &e) < 0)
		return strcpy(said, e.msg);
	split_text(&l, &c, &text);
	strcpy(said, text.buf);
	str_release(&text);
	return said;
}

/* Without options the busiest stage has as little work as possible, and of those with equal work
 * the first have fewer layers: they hold more micro batches. With chunks they have more. */
static void
test_balance(void)
{
	const struct split_options none = { 0 };
	const struct model_config c = llama(32);
	struct layout l = { 1, 1, 1, 4, .virtual_stages = 2 };
	struct str text = { 0 };

	CHECK_STR(resolved(&none, 32, 1), "Et*32L");
	CHECK_STR(resolved(&none, 32, 4), "Et*8|t*9|t*9|t*6L");
	CHECK_STR(resolved(&none, 7, 8), "Et|t|t|t|t|t|t|L");
	split_balance(&c, 8192, &l);
	split_text(&l, &c, &text);
	CHECK_STR(text.buf, "Et*4|t*4|t*4|t*4|t*5|t*5|t*4|t*2L");
	str_release(&text);
}

/* Layers after the head are on its stage, which has fewer others. */
static void
test_later(void)
{
	struct model_config c = llama(8);
	const char
	    *of[] = { "Et*4|t*4mmL", "Et*4|t*4L", "Et*4|t*4mL", "Et*4|t*4m|mL" },
	    *want[] = { "Et*4|t*4m*2L", "Et*4|t*4m*2L",
		    REFUSED("Et*4|t*4mL", "has 1 m: must be none, or --mtp-num-layers 2"),
		    REFUSED("Et*4|t*4m|mL",
			"m must be on the last stage, before L: layers after the head are on "
			"its stage") };

	c.mtp_num_layers = 2;
	for (int i = 0; i < 5; i++) {
		struct split_options o = { .pipeline_model_parallel_layout = i < 4 ? of[i] : NULL };
		struct layout l = { 1, 1, 1, 2 };
		struct str text = { 0 };
		struct err e;

		if (split_resolve(&o, &c, 8192, &l, &e) < 0)
			str_adds(&text, e.msg);
		else
			split_text(&l, &c, &text);
		CHECK_STR(text.buf, i < 4 ? want[i] : "Et*8|m*2L");
		str_release(&text);
	}
}

/* If the head has more work than all layers, its stage has only the layers that its other chunks
 * need. */
static void
test_heavy_head(void)
{
	struct model_config c = llama(5);
	struct layout l = { 1, 1, 1, 2, .virtual_stages = 3 };
	struct str text = { 0 };

	c.vocab_size *= 100;
	split_balance(&c, 8192, &l);
	split_text(&l, &c, &text);
	CHECK_STR(text.buf, "Et|t|t|t|t|L");
	str_release(&text);
}

/* A layout without a split has nearly equal stages. */
static void
test_unmade(void)
{
	const struct model_config c = llama(10);
	const struct layout l = { 1, 1, 1, 4 };
	struct str text = { 0 };

	split_text(&l, &c, &text);
	CHECK_STR(text.buf, "Et*3|t*3|t*2|t*2L");
	str_release(&text);
}

/* The splits are Megatron-LM's for the same options. */
static void
test_options(void)
{
	CHECK_STR(
	    resolved(&(struct split_options){ .num_layers_per_virtual_pipeline_stage = 8 }, 32, 4),
	    "Et*8|t*8|t*8|t*8L");
	CHECK_STR(resolved(&(struct split_options){ .decoder_first_pipeline_num_layers = 5,
			       .decoder_last_pipeline_num_layers = 3 },
		      32, 4),
	    "Et*5|t*12|t*12|t*3L");
	CHECK_STR(resolved(&(struct split_options){ .decoder_last_pipeline_num_layers = 2 }, 11, 4),
	    "Et*3|t*3|t*3|t*2L");
	CHECK_STR(
	    resolved(&(struct split_options){ .account_for_loss_in_pipeline_split = true }, 31, 4),
	    "Et*8|t*8|t*8|t*7L");
	CHECK_STR(resolved(&(struct split_options){ .account_for_embedding_in_pipeline_split = true,
			       .account_for_loss_in_pipeline_split = true,
			       .num_layers_per_virtual_pipeline_stage = 1 },
		      2, 4),
	    "E|t|t|L");
}

static const char *
text(const char *of, int64_t layers, int64_t stages)
{
	return resolved(
	    &(struct split_options){ .pipeline_model_parallel_layout = of }, layers, stages);
}

static void
test_text(void)
{
	CHECK_STR(text("Et*3|(tt|)*2,tL", 8, 4), "Et*3|t*2|t*2|tL");
	CHECK_STR(text("E,ttt,|,(t*2|)*2L", 7, 4), "Et*3|t*2|t*2|L");
	CHECK_STR(text("Et|m|L", 1, 3), REFUSED("Et|m|L", "more m than --mtp-num-layers"));
	CHECK_STR(text("Et|X", 1, 2), REFUSED("Et|X", "signs are E, t, m, L, |, x*n, (...)*n"));
	CHECK_STR(text("tE|L", 1, 2), REFUSED("tE|L", "E must be the first sign, once"));
	CHECK_STR(text("EE|L", 1, 2), REFUSED("EE|L", "E must be the first sign, once"));
	CHECK_STR(text("EtL|t", 2, 2), REFUSED("EtL|t", "L must be the last sign"));
	CHECK_STR(text("Et|t", 2, 2), REFUSED("Et|t", "must end with L, the head"));
	CHECK_STR(text("Et||L", 1, 3), REFUSED("Et||L", "a stage holds nothing"));
	CHECK_STR(text("Et*5|L", 4, 2), REFUSED("Et*5|L", "more t than --num-layers"));
	CHECK_STR(text("Et|L", 4, 2), REFUSED("Et|L", "has 1 t: must be --num-layers 4"));
	CHECK_STR(text("E|t|L", 1, 2),
	    REFUSED(
		"E|t|L", "has 3 stages: must be a multiple of --pipeline-model-parallel-size 2"));
	CHECK_STR(text("E(t|*2L", 2, 3), REFUSED("E(t|*2L", "a group is (...)*n"));
	CHECK_STR(text("E(t|)2L", 2, 3), REFUSED("E(t|)2L", "a group is (...)*n"));
	CHECK_STR(text("Et*L", 2, 1), REFUSED("Et*L", "a '*' needs a number"));
	CHECK_STR(text("E(t|)*600L", 1000, 1), REFUSED("E(t|)*600L", "too many stages"));
	CHECK_STR(text("Et*99999999999999999999L", 2, 1),
	    REFUSED("Et*99999999999999999999L", "a '*' needs a number"));
}

/* One line each: option, value, rule, a legal value. */
static void
test_refused(void)
{
	CHECK_STR(
	    resolved(&(struct split_options){ .num_layers_per_virtual_pipeline_stage = 3 }, 32, 4),
	    "layers of a stage, 8: must be a multiple of --num-layers-per-virtual-pipeline-stage 3 "
	    "(try 6)");
	CHECK_STR(
	    resolved(&(struct split_options){ .account_for_loss_in_pipeline_split = true }, 32, 4),
	    "--num-layers with the ends counted 33: must be a multiple of "
	    "--pipeline-model-parallel-size 4 (try 32)");
	CHECK_STR(
	    resolved(&(struct split_options){ .decoder_first_pipeline_num_layers = 5 }, 32, 3),
	    "--decoder-first-pipeline-num-layers 5: leaves 27 layers to 2 other stages: must be a "
	    "multiple (try 6)");
	CHECK_STR(resolved(&(struct split_options){ .decoder_last_pipeline_num_layers = 5 }, 32, 1),
	    "--decoder-last-pipeline-num-layers 5: needs --pipeline-model-parallel-size of at "
	    "least 2");
	CHECK_STR(resolved(&(struct split_options){ .decoder_last_pipeline_num_layers = 5,
			       .account_for_loss_in_pipeline_split = true },
		      32, 4),
	    "--decoder-last-pipeline-num-layers and --account-for-loss-in-pipeline-split exclude "
	    "each other: give one of them");
	CHECK_STR(resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2,
			       .pipeline_model_parallel_layout = "Et|tL" },
		      2, 2),
	    "--pipeline-model-parallel-layout and --num-virtual-stages-per-pipeline-rank exclude "
	    "each other: give one of them");
	CHECK_STR(
	    resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2 }, 32, 1),
	    "--num-virtual-stages-per-pipeline-rank 2: needs --pipeline-model-parallel-size of at "
	    "least 2 (try 1)");
	CHECK_STR(
	    resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 9 }, 32, 4),
	    "--num-virtual-stages-per-pipeline-rank 9: must be at most 8, so that 4 stages of them "
	    "have layers (try 8)");
}

/* Interleaved stages: chunks from either option, and groups that keep all stages busy. */
static void
test_chunks(void)
{
	CHECK_STR(
	    resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2 }, 32, 4),
	    "Et*4|t*4|t*4|t*4|t*5|t*5|t*4|t*2L");
	CHECK_STR(
	    resolved(&(struct split_options){ .num_layers_per_virtual_pipeline_stage = 2 }, 16, 4),
	    "Et*2|t*2|t*2|t*2|t*2|t*2|t*2|t*2L");
	CHECK_STR(resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2,
			       .decoder_first_pipeline_num_layers = 2 },
		      14, 4),
	    "Et|t*2|t*2|t*2|t|t*2|t*2|t*2L");
	/* Both ends may be alone, where the options say so. */
	CHECK_STR(resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2,
			       .account_for_embedding_in_pipeline_split = true,
			       .account_for_loss_in_pipeline_split = true },
		      6, 4),
	    "E|t|t|t|t|t|t|L");
	CHECK_STR(text("E|t|t|t|t|t|t|L", 6, 4), "E|t|t|t|t|t|t|L");
	CHECK_STR(
	    resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2 }, 6, 4),
	    "--num-virtual-stages-per-pipeline-rank 2: must be at most 1, so that 4 stages of them "
	    "have layers (try 1)");
	CHECK_STR(resolved(&(struct split_options){ .num_layers_per_virtual_pipeline_stage = 1,
			       .decoder_first_pipeline_num_layers = 2,
			       .decoder_last_pipeline_num_layers = 2 },
		      16, 4),
	    "--num-layers-per-virtual-pipeline-stage and --decoder-first-pipeline-num-layers "
	    "exclude each other: give one of them; --num-layers-per-virtual-pipeline-stage and "
	    "--decoder-last-pipeline-num-layers exclude each other: give one of them");
	CHECK_STR(resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2,
			       .decoder_first_pipeline_num_layers = 3 },
		      15, 4),
	    "layers of a stage, 3: must be a multiple of --num-virtual-stages-per-pipeline-rank 2 "
	    "(try 2)");
	CHECK_STR(resolved(&(struct split_options){ .num_virtual_stages_per_pipeline_rank = 2,
			       .microbatch_group_size_per_virtual_pipeline_stage = 3 },
		      32, 4),
	    "--microbatch-group-size-per-virtual-pipeline-stage 3: must be at least "
	    "--pipeline-model-parallel-size 4 (try 4)");
}

int
main(void)
{
	test_balance();
	test_later();
	test_heavy_head();
	test_unmade();
	test_options();
	test_text();
	test_refused();
	test_chunks();
	return check_done();
}
