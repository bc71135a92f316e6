/*
 * gemma2.c - Gemma 2: norms of inputs and branches with weights stored less 1, gated GELU, scaled
 * embeddings, windows in every second layer, capped scores and logits
 *
 * Source: the config and tensor names of Gemma2ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_GEMMA,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_GEMMA("gemma2", 256000),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 8192 },
	KEY_ROPE_THETA,
	{ "attn_logit_softcapping", KEY_BOUND, KEY_OFF(attn_logit_softcapping), 50 },
	{ "final_logit_softcapping", KEY_BOUND, KEY_OFF(final_logit_softcapping), 30 },
};

/* The first layer has the window, and then every second. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (family_read_gemma(c, v, 2, e) < 0)
		return -1;
	return family_read_rope(c, v, e);
}

static const char *const others[] = { OTHERS_ROPE, OTHERS_GEMMA, NULL };

const struct family family_gemma2 = {
	.model_type = "gemma2",
	.architecture = "Gemma2ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.tied = true,
	.read_rest = read_rest,
	.write_rest = family_write_windows,
};
