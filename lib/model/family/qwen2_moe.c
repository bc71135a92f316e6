/*
 * qwen2_moe.c - Qwen1.5 and Qwen2 with experts: Qwen2 with experts in all layers, or in all but
 * some, and one that all tokens are sent to, whose output a sigmoid of each token multiplies
 *
 * Source: the config and tensor names of Qwen2MoeForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

#define NAMES_LAYER \
	NAMES_NORMS, NAMES_QKV, NAMES_QKV_BIASES, NAMES_PROJ, NAMES_GATED_MLP, NAMES_SHARED_EXPERT

static const struct family_name names[] = {
	NAMES_LAYER,
	NAMES_QWEN_EXPERTS,
	NAMES_ENDS,
};

static const struct family_name stacked[] = {
	NAMES_LAYER,
	NAMES_STACKED_EXPERTS,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(16),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("qwen2_moe"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	KEYS_RATES(1e-6),
	{ "qkv_bias", KEY_BOOL, KEY_OFF(qkv_bias), true },
	KEY_WINDOW_IF_USED,
	{ "num_experts", KEY_INT, KEY_OFF(num_experts), 60 },
	{ "moe_intermediate_size", KEY_INT, KEY_OFF(moe_ffn_hidden_size), 1408 },
	{ "shared_expert_intermediate_size", KEY_INT, KEY_OFF(moe_shared_expert_intermediate_size),
	    5632 },
	{ "norm_topk_prob", KEY_NOT, KEY_OFF(moe_router_pre_softmax), false },
	KEYS_ROUTER(4, 0.001),
};

/* Without layer_types every second layer before max_window_layers has the window, from the first
 * on. */
static int
read_windows(struct model_config *c, const struct json_value *v, struct err *e)
{
	bool skipped[PATTERN_MAX];
	int64_t end, n = c->num_layers;
	int rc = family_read_windows(c, v, e);

	if (rc < 0 || json_int(v, "max_window_layers", 28, &end, e) < 0)
		return -1;
	if (rc == 0 && c->window_size) {
		if (n < 1 || n > PATTERN_MAX)
			return err_set(e,
			    "windows in some of more than %d layers are not supported",
			    PATTERN_MAX);
		for (int64_t i = 0; i < n; i++)
			skipped[i] = i % 2 == 1 || i >= end;
		c->window_attn_skip_freq = pattern_of(skipped, (int)n);
	}
	family_settle_windows(c);
	return 0;
}

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (family_read_window(c, v, e) < 0 || read_windows(c, v, e) < 0 ||
	    family_read_sparse(c, v, e) < 0)
		return -1;
	if (c->moe_shared_expert_intermediate_size < 1)
		return err_set(e, "\"shared_expert_intermediate_size\" must be at least 1");
	c->moe_shared_expert_gate = true;
	return family_read_experts(c, v, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	family_write_sparse(c, out);
	family_write_qwen(c, out);
}

static const char *const others[] = { OTHERS_QWEN, "decoder_sparse_step", "mlp_only_layers", NULL };

const struct family family_qwen2_moe = {
	.model_type = "qwen2_moe",
	.architecture = "Qwen2MoeForCausalLM",
	.names = names,
	.other_names = stacked,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
