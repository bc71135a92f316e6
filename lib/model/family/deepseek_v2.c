/*
 * deepseek_v2.c - DeepSeek-V2: attention of latents, experts in all but the first layers, of which
 * a token is sent to those with the largest parts of the softmax, of all or in the best groups, and
 * shared ones
 *
 * Source: the config, the model and the tensor names of DeepseekV2ForCausalLM in
 * huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#include <string.h>

static const struct family_name names[] = {
	NAMES_LATENTS,
	NAMES_QWEN_EXPERTS,
	NAMES_ENDS,
};

static const struct family_name stacked[] = {
	NAMES_LATENTS,
	NAMES_STACKED_EXPERTS,
	NAMES_ENDS,
};

static const struct key keys[] = {
	{ "vocab_size", KEY_INT, KEY_OFF(vocab_size), 102400 },
	{ "hidden_size", KEY_INT, KEY_OFF(hidden_size), 4096 },
	{ "intermediate_size", KEY_INT, KEY_OFF(ffn_hidden_size), 11008 },
	{ "num_hidden_layers", KEY_INT, KEY_OFF(num_layers), 32 },
	{ "num_attention_heads", KEY_INT, KEY_OFF(num_attention_heads), 32 },
	KEY_GROUPS(.derive = family_heads),
	KEYS_LATENTS,
	KEY_SILU("deepseek_v2"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-6),
	{ "n_routed_experts", KEY_INT, KEY_OFF(num_experts), 64 },
	{ "moe_intermediate_size", KEY_INT, KEY_OFF(moe_ffn_hidden_size), 1407 },
	{ "num_experts_per_tok", KEY_INT, KEY_OFF(moe_router_topk), 0 },
	{ "norm_topk_prob", KEY_FIXED, .def = false,
	    .why = "\"norm_topk_prob\" true is not supported: weights of experts are parts of the "
		   "softmax" },
};

/* The largest part of a group is its score. */
static int
read_method(struct model_config *c, const struct json_value *v, struct err *e)
{
	const char *word;

	if (json_string(v, "topk_method", "greedy", &word, e) < 0)
		return -1;
	if (strcmp(word, "greedy") == 0)
		return 0;
	return strcmp(word, "group_limited_greedy") == 0
	    ? family_read_groups(c, v, (const int64_t[]){ 1, 1 }, 1, e)
	    : err_set(e,
		  "\"topk_method\" is '%s'; deepseek_v2 has 'greedy' and 'group_limited_greedy'",
		  word);
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const struct family_latents absent = { .shared = 2, .dense = 0, .scale = 1 };

	c->moe_router_pre_softmax = true;
	if (family_read_only(v, "deepseek_v2", "scoring_func", "softmax", e) < 0 ||
	    read_method(c, v, e) < 0)
		return -1;
	return family_read_latents(c, v, &absent, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	str_addf(out, ",\n  \"scoring_func\": \"softmax\",\n  \"topk_method\": \"%s\"",
	    c->moe_router_num_groups > 0 ? "group_limited_greedy" : "greedy");
	family_write_latents(c, out);
}

static const char *const others[] = { OTHERS_LATENTS, NULL };
static const char *const off[] = { "attention_bias", "mlp_bias", NULL };

const struct family family_deepseek_v2 = {
	.model_type = "deepseek_v2",
	.architecture = "DeepseekV2ForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.off = off,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
