/*
 * ministral3.c - Ministral 3: Mistral whose positions are scaled by YaRN, and whose queries grow
 * with the logarithm of positions beyond those before the scaling
 *
 * Source: the config and tensor names of Ministral3ForCausalLM in huggingface/transformers.
 */
#include "lib/model/family/rows.h"

static const struct family_name names[] = {
	NAMES_MISTRAL,
};

static const struct key keys[] = {
	KEYS_SIZES,
	KEY_GROUPS(8, .null = family_heads),
	KEY_HEAD_DIM(128, .null = family_head_width),
	KEY_SILU("ministral3"),
	{ "max_position_embeddings", KEY_INT, KEY_OFF(max_position_embeddings), 262144 },
	KEYS_RATES(1e-5),
	{ "sliding_window", KEY_COUNT, KEY_OFF(window_size), 0 },
};

/* A file without scaled positions would mean those of the first model of the family. */
static int
read_rest(struct model_config *c, const struct json_value *v, struct err *e)
{
	static const char key[] = "llama_4_scaling_beta";
	const struct json_value *dict = family_rope_of(v), *beta = json_get(dict, key);

	if (family_read_llama(c, v, e) < 0)
		return -1;
	if (c->rope_scaling != ROPE_SCALING_YARN)
		return err_set(e, "ministral3 needs positions scaled by yarn");
	if (!beta || beta->type == JSON_NULL)
		return err_set(e, "\"%s\" is missing beside the scaling of positions", key);
	return json_double(dict, key, 0, &c->query_scaling_beta, e);
}

static void
write_rest(const struct model_config *c, struct str *out)
{
	struct str more = { 0 };

	str_adds(&more, ",\n    \"llama_4_scaling_beta\": ");
	str_add_double(&more, c->query_scaling_beta);
	family_write_rope_with(c, more.buf, out);
	str_release(&more);
}

static const char *const others[] = { OTHERS_ROPE, "llama_4_scaling_beta", NULL };

const struct family family_ministral3 = {
	.model_type = "ministral3",
	.architecture = "Ministral3ForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.others = others,
	.read_rest = read_rest,
	.write_rest = write_rest,
};
