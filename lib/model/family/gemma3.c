/*
 * gemma3.c - the text models of Gemma 3: Gemma 2 with norms of the heads of q and k, and rotary
 * angles of their own in the layers with a window
 *
 * Source: the config and tensor names of Gemma3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_GEMMA,
	NAMES_QK_NORMS,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_GEMMA("gemma3_text"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 },
	{ "rope_theta", KEY_NUMBER, KEY_OFF(rotary_base), 1e6 },
	{ "rope_local_base_freq", KEY_NUMBER, KEY_OFF(sliding_window_rope_base), 1e4 },
	{ "attn_logit_softcapping", KEY_BOUND, KEY_OFF(attn_logit_softcapping), 0 },
	{ "final_logit_softcapping", KEY_BOUND, KEY_OFF(final_logit_softcapping), 0 },
};

/* Newer files have a dictionary for each kind of layer. That of layers with a window is plain. */
static int
read_rope(struct model_config *c, const struct json_value *config, struct err *e)
{
	const struct json_value *both = json_get(config, "rope_parameters"),
				*full = json_get(both, "full_attention");
	struct model_config local = *c;

	local.rotary_base = c->sliding_window_rope_base;
	if (!full)
		return family_read_rope(c, config, e);
	if (family_read_rope_in(c, full, e) < 0 ||
	    family_read_rope_in(&local, json_get(both, "sliding_attention"), e) < 0)
		return -1;
	if (local.rope_scaling != ROPE_SCALING_NONE)
		return err_set(
		    e, "\"sliding_attention\": scaled positions are not supported there");
	c->sliding_window_rope_base = local.rotary_base;
	return 0;
}

/* Five layers with a window, then one without. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	int64_t every;

	c->qk_layernorm = true;
	if (json_int(v, "sliding_window_pattern", 6, &every, e) < 0)
		return -1;
	if (every < 1 || every > PATTERN_MAX)
		return err_set(e, "\"sliding_window_pattern\" is %lld; must be from 1 to %d",
		    (long long)every, PATTERN_MAX);
	if (c->attn_logit_softcapping > 0)
		return err_set(e,
		    "gemma3_text has no cap over the scores of attention, though its config names "
		    "one");
	if (c->sliding_window_rope_base < 1)
		return err_set(e, "\"rope_local_base_freq\" must be at least 1");
	return family_read_gemma(c, v, every, e) < 0 ? -1 : read_rope(c, v, e);
}

/* In both generations: older readers find scaling in rope_scaling alone. */
static void
write_rest(const struct model_config *c, struct str *out)
{
	struct model_config local = *c;

	local.rotary_base = c->sliding_window_rope_base;
	local.rope_scaling = ROPE_SCALING_NONE;
	family_write_layer_types(c, out);
	str_adds(out, ",\n  \"rope_scaling\": ");
	if (c->rope_scaling == ROPE_SCALING_NONE)
		str_adds(out, "null");
	else
		family_write_rope_in(c, out);
	str_adds(out, ",\n  \"rope_parameters\": {\n  \"full_attention\": ");
	family_write_rope_in(c, out);
	str_adds(out, ",\n  \"sliding_attention\": ");
	family_write_rope_in(&local, out);
	str_adds(out, "\n  }");
}

const struct family family_gemma3 = {
	.model_type = "gemma3_text",
	.architecture = "Gemma3ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.tied = true,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
