/*
 * exaone4.c - EXAONE 4: Llama with norms of branches instead of their inputs and of the heads of q
 * and k; some models have a sliding window in three of four layers, and do not rotate in the others
 *
 * Source: the config and tensor names of Exaone4ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_POST_NORMS,
	NAMES_QKV,
	NAMES_QK_NORMS,
	NAMES_PROJ,
	NAMES_GATED_MLP,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(32),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("exaone4"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 2048 },
	KEYS_RATES(1e-5),
	KEY_WINDOW,
};

/* Where there is a window, layers without it do not rotate. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	int rc = family_read_windows(c, v, e);

	if (rc < 0 || (rc == 0 && c->window_size && family_read_window_pattern(c, v, e) < 0))
		return -1;
	if (!c->window_size || pattern_count(&c->window_attn_skip_freq, c->num_layers) == 0)
		c->window_attn_skip_freq = (struct layer_pattern){ 0 };
	c->no_rope_freq = c->window_attn_skip_freq;
	c->norm_placement = NORM_PLACEMENT_POST;
	c->qk_layernorm = true;
	return family_read_llama(c, v, e);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", "sliding_window_pattern", NULL };

const struct family family_exaone4 = {
	.model_type = "exaone4",
	.architecture = "Exaone4ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_windows,
};
