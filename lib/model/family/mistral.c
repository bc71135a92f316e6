/*
 * mistral.c - Mistral and Ministral: Llama without biases, with a sliding window in all layers, in
 * some or in none
 *
 * Source: the config and tensor names of MistralForCausalLM in huggingface/transformers. A Mistral
 * with layer_types is a MinistralForCausalLM to its AutoConfig, from 4.57 on.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_NORMS,
	NAMES_QKV,
	NAMES_PROJ,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

/* A config without sliding_window has the window of the first Mistral; later ones say null. */
static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(8),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("mistral"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 },
	KEYS_RATES(1e-6),
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 4096 },
};

/* layer_types says which layers have the window. A window in no layer is none. */
static int
read_rest(struct model_config *c, const struct json_value *config, struct err *e)
{
	int rc = family_read_layer_types(c, config, e);
	int64_t without;

	if (rc < 0)
		return -1;
	without = pattern_count(&c->window_attn_skip_freq, c->num_layers);
	if (rc > 0 && !c->window_size && without < c->num_layers)
		return err_set(
		    e, "\"layer_types\" has 'sliding_attention', but \"sliding_window\" is null");
	if (without == c->num_layers)
		c->window_size = 0;
	if (!c->window_size || without == 0)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	return family_read_llama(c, config, e);
}

/* Readers that do not know layer_types need not see it where all layers are alike. */
static void
write_rest(const struct model_config *c, struct str *out)
{
	if (pattern_count(&c->window_attn_skip_freq, c->num_layers) > 0)
		family_write_layer_types(c, out);
	family_write_rope(c, out);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", NULL };

const struct family family_mistral = {
	.model_type = "mistral",
	.architecture = "MistralForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
