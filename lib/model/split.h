/*
 * split.h - which layers each pipeline stage gets, by options or by default
 *
 * The layers go in order through virtual stages 0 .. p v - 1; stage r of p holds those with numbers
 * j p + r as its chunks j. The embedding comes before the first layer, the head after the last.
 * Source of the options and of the notation: Megatron-LM core/transformer/transformer_config.py and
 * pipeline_parallel_layer_layout.py.
 */
#ifndef MODEL_SPLIT_H
#define MODEL_SPLIT_H

#include "lib/model/layout.h"

/* The options as typed; 0 and NULL: not given. */
struct split_options {
	int64_t num_layers_per_virtual_pipeline_stage, num_virtual_stages_per_pipeline_rank,
	    microbatch_group_size_per_virtual_pipeline_stage, decoder_first_pipeline_num_layers,
	    decoder_last_pipeline_num_layers;
	bool account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split;
	const char *pipeline_model_parallel_layout;
};

/* Whether any of them is. */
bool split_given(const struct split_options *o);

/* Rows of a table of options whose struct S holds the options M. */
/* clang-format off */
#define SPLIT_SIZE(S, M, n, f, h) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.f), .min = 1, .max = 1e15, .help = h }
#define SPLIT_FLAG(S, M, n, f, h) \
	{ .name = n, .type = OPT_FLAG, .off = offsetof(S, M.f), .help = h }
#define SPLIT_OPTS(S, M) \
	SPLIT_SIZE(S, M, "num-layers-per-virtual-pipeline-stage", \
	         num_layers_per_virtual_pipeline_stage, \
	         "equal virtual stages of this many layers; by default the work of layers and " \
	         "head is shared out equally"), \
	SPLIT_SIZE(S, M, "num-virtual-stages-per-pipeline-rank", \
	         num_virtual_stages_per_pipeline_rank, \
	         "chunks of layers of each pipeline stage, which take turns: interleaved 1F1B"), \
	SPLIT_SIZE(S, M, "microbatch-group-size-per-virtual-pipeline-stage", \
	         microbatch_group_size_per_virtual_pipeline_stage, \
	         "micro batches that go through a chunk before the next one's turn; " \
	         "pipeline-model-parallel-size by default"), \
	SPLIT_SIZE(S, M, "decoder-first-pipeline-num-layers", decoder_first_pipeline_num_layers, \
	         "layers of the first pipeline stage; the others are equal"), \
	SPLIT_SIZE(S, M, "decoder-last-pipeline-num-layers", decoder_last_pipeline_num_layers, \
	         "layers of the last pipeline stage; the others are equal"), \
	SPLIT_FLAG(S, M, "account-for-embedding-in-pipeline-split", \
	         account_for_embedding_in_pipeline_split, \
	         "equal pipeline stages, where the embedding counts as a layer"), \
	SPLIT_FLAG(S, M, "account-for-loss-in-pipeline-split", \
	         account_for_loss_in_pipeline_split, \
	         "equal pipeline stages, where the head counts as a layer"), \
	{ .name = "pipeline-model-parallel-layout", .type = OPT_STRING, \
	  .off = offsetof(S, M.pipeline_model_parallel_layout), .unit = "STAGES", \
	  .help = "virtual stages between bars, as in \"Et*3|(tt|)*2tL\": E the embedding, t a " \
	          "layer, L the head; x*n and (...)*n repeat" }
/* clang-format on */

/*
 * Fills virtual_stages, microbatch_group and split of a layout whose sizes have passed
 * layout_check; seq_length determines a layer's work relative to the head's (0 counts as 1). -1
 * with the option that breaks a rule, and the rule.
 */
int split_resolve(const struct split_options *o, const struct model_config *c, int64_t seq_length,
    struct layout *l, struct err *e);

/*
 * The default: cuts the layers so that the busiest stage has the least work, and then those of each
 * stage in the same way over its chunks. Of stages with equal work the later ones have the layers
 * that are over, since the first hold the activations of more micro batches; but with chunks the
 * first have them, since then the others wait less: Llama 8B in 4 4 4 4 | 5 5 4 2 layers computes
 * 93.6 % of the time with 64 micro batches and 90.4 % with 16, in 4 4 4 4 | 4 5 5 2 93.1 and 88.7
 * (mplan draw). Every virtual stage gets a layer, except the last, which may hold only the head.
 * The layout must have passed layout_check, and virtual_stages must be set.
 */
void split_balance(const struct model_config *c, int64_t seq_length, struct layout *l);

/* The split in the notation of --pipeline-model-parallel-layout. */
void split_text(const struct layout *l, const struct model_config *c, struct str *out);

#endif
