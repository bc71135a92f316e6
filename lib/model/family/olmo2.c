/*
 * olmo2.c - OLMo 2: Llama with norms of the branches instead of their inputs, and of all heads of q
 * and of k together
 *
 * Source: the config and tensor names of Olmo2ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_OLMO,
	NAMES_ENDS,
};

static const struct key keys[] = {
	KEYS_OLMO("olmo2"),
};

static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (family_read_olmo(c, e) < 0 || family_read_rope(c, v, e) < 0)
		return -1;
	return c->rope_scaling == ROPE_SCALING_NONE
	    ? 0
	    : err_set(e, "scaled positions of olmo2 are not supported");
}

static const char *const others[] = { OTHERS_ROPE, NULL };

const struct family family_olmo2 = {
	.model_type = "olmo2",
	.architecture = "Olmo2ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = family_write_rope,
};
