/*
 * smollm3.c - SmolLM3: Llama with layers that do not rotate, which may have a sliding window
 *
 * Source: the config and tensor names of SmolLM3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_LLAMA,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(4, .null = family_heads),
	KEY_HEAD_DIM(.derive = family_head_width),
	KEY_SILU("smollm3"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 32768 },
	KEYS_RATES(1e-6),
	{ "attention_bias", KEY_BOOL, KEY_OFF(qkv_bias), false },
	{ "mlp_bias", KEY_BOOL, KEY_OFF(mlp_bias), false },
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 0 },
};

/* no_rope_layers has 1 for each layer that rotates; else each layer whose number, from 1 on, the
 * interval divides does not. */
static int
read_unrotated(struct model_config *c, const struct json_value *v, struct err *e)
{
	const struct json_value *list = json_get(v, "no_rope_layers");
	bool still[PATTERN_MAX];
	int64_t every, n = c->num_layers;

	if (json_int(v, "no_rope_layer_interval", 4, &every, e) < 0)
		return -1;
	if (!list || list->type == JSON_NULL) {
		if (every < 1 || (every > PATTERN_MAX && every <= n))
			return err_set(e,
			    "\"no_rope_layer_interval\" is %lld; must be from 1 to %d",
			    (long long)every, PATTERN_MAX);
		if (every <= n)
			c->no_rope_freq = pattern_every(every);
		return 0;
	}
	if (list->type != JSON_ARRAY || (int64_t)list->len < n || n > PATTERN_MAX || n < 1)
		return err_set(e,
		    "\"no_rope_layers\" must be a list with 0 or 1 for each layer, for at most %d",
		    PATTERN_MAX);
	for (int64_t i = 0; i < n; i++)
		still[i] = family_is_off(&list->item[i]);
	c->no_rope_freq = pattern_of(still, (int)n);
	return 0;
}

/* layer_types says which layers have the window; else those that do not rotate have it, where
 * use_sliding_window says so. No window and none in any layer are the same model. */
static int
read_windows(struct model_config *c, const struct json_value *v, struct err *e)
{
	int rc = family_read_windows(c, v, e);
	bool use, still[PATTERN_MAX];
	int64_t n = c->num_layers;

	if (rc < 0 || json_bool(v, "use_sliding_window", false, &use, e) < 0)
		return -1;
	if (rc == 0 && use && c->window_size && n <= PATTERN_MAX && n > 0) {
		for (int64_t i = 0; i < n; i++)
			still[i] = !pattern_skips(&c->no_rope_freq, i);
		c->window_attn_skip_freq = pattern_of(still, (int)n);
	} else if (rc == 0) {
		c->window_size = 0;
	}
	family_settle_windows(c);
	return 0;
}

/* The base is that of a file that says none. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (read_unrotated(c, v, e) < 0 || read_windows(c, v, e) < 0)
		return -1;
	c->proj_bias = c->qkv_bias;
	c->rotary_base = 2e6;
	return family_read_llama(c, v, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	str_adds(out, ",\n  \"no_rope_layers\": [");
	for (int64_t i = 0; i < c->num_layers; i++)
		str_addf(out, "%s\n    %d", i ? "," : "", !pattern_skips(&c->no_rope_freq, i));
	str_addf(out, "\n  ],\n  \"use_sliding_window\": %s", c->window_size ? "true" : "false");
	family_write_layer_types(c, out);
	family_write_rope(c, out);
}

static const char *const others[] = { OTHERS_ROPE, "layer_types", "use_sliding_window",
	"no_rope_layers", "no_rope_layer_interval", NULL };

const struct family family_smollm3 = {
	.model_type = "smollm3",
	.architecture = "SmolLM3ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
