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
	KEYS_GEMMA("gemma3_text", 262208),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 131072 },
	KEY_ROPE_THETA,
	{ "rope_local_base_freq", KEY_NUMBER, KEY_OFF(sliding_window_rope_base),
	    .written_only = true },
	{ "final_logit_softcapping", KEY_BOUND, KEY_OFF(final_logit_softcapping), 0 },
};

/* Five layers with a window, then one without, unless layer_types says otherwise. */
static int
read_every(const struct json_value *v, int64_t *every, struct err *e)
{
	const struct json_value *types = json_get(v, "layer_types");

	*every = 1;
	if (types && types->type != JSON_NULL)
		return 0;
	if (json_int(v, "sliding_window_pattern", 6, every, e) < 0)
		return -1;
	if (*every >= 1 && *every <= PATTERN_MAX)
		return 0;
	return err_set(e, "\"sliding_window_pattern\" is %lld; must be from 1 to %d",
	    (long long)*every, PATTERN_MAX);
}

/* The bases are those of a file that says none. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	int64_t every;

	c->qk_layernorm = true;
	c->rotary_base = 1e6;
	c->sliding_window_rope_base = 1e4;
	if (read_every(v, &every, e) < 0 || family_read_gemma(c, v, every, e) < 0 ||
	    family_read_rope_by_layer(c, v, "rope_local_base_freq", e) < 0)
		return -1;
	return c->sliding_window_rope_base >= 1
	    ? 0
	    : err_set(e, "\"rope_local_base_freq\" must be at least 1");
}

/* In both generations: older readers find scaling in rope_scaling alone. */
static void
write_rest(const struct model_config *c, struct str *out)
{
	family_write_layer_types(c, out);
	family_write_rope_by_layer(c, out);
}

static const char *const others[] = { OTHERS_ROPE, OTHERS_GEMMA, "sliding_window_pattern",
	"_sliding_window_pattern", NULL };

const struct family family_gemma3 = {
	.model_type = "gemma3_text",
	.architecture = "Gemma3ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
