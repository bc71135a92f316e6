/*
 * toy.c - a family that nobody has: squared ReLU, RMSNorm, learned positions, no biases, an output
 * table of its own
 *
 * family.sh copies it to lib/model/family: this file and its line in the registry are all that a
 * new family needs.
 */
#include "lib/model/family.h"

static const struct family_name names[] = {
	{ ROLE_WORD_EMBEDDINGS, "tokens.weight", false },
	{ ROLE_POSITION_EMBEDDINGS, "positions.weight", false },
	{ ROLE_INPUT_NORM, "blocks.%d.attention.norm", false },
	{ ROLE_Q, "blocks.%d.attention.qkv", true },
	{ ROLE_K, "blocks.%d.attention.qkv", true },
	{ ROLE_V, "blocks.%d.attention.qkv", true },
	{ ROLE_PROJ, "blocks.%d.attention.out", true },
	{ ROLE_MLP_NORM, "blocks.%d.mlp.norm", false },
	{ ROLE_UP, "blocks.%d.mlp.in", false },
	{ ROLE_DOWN, "blocks.%d.mlp.out", false },
	{ ROLE_FINAL_NORM, "norm.weight", false },
	{ ROLE_OUTPUT, "head.weight", false },
	{ ROLE_COUNT, NULL, false },
};

static int64_t
as_many_as_heads(const struct model_config *c)
{
	return c->num_attention_heads;
}

static const struct key keys[] = {
	{ "n_tokens", KEY_INT, KEY_OFF(vocab_size) },
	{ "n_blocks", KEY_INT, KEY_OFF(num_layers) },
	{ "width", KEY_INT, KEY_OFF(hidden_size) },
	{ "mlp_width", KEY_INT, KEY_OFF(ffn_hidden_size) },
	{ "heads", KEY_INT, KEY_OFF(num_attention_heads) },
	{ "groups", KEY_INT, KEY_OFF(num_query_groups), .derive = as_many_as_heads },
	{ "context", KEY_INT, KEY_OFF(max_position_embeddings) },
};

/* The recipe. */
static int
read_rest(struct model_config *c, const struct json_value *config, struct err *e)
{
	(void)config;
	if (c->num_attention_heads < 1)
		return err_set(e, "\"heads\" must be at least 1");
	c->kv_channels = c->hidden_size / c->num_attention_heads;
	c->norm_epsilon = 1e-5;
	c->untie_embeddings_and_output_weights = true;
	c->normalization = NORMALIZATION_RMSNORM;
	c->activation = ACTIVATION_RELU2;
	c->position = POSITION_LEARNED;
	return 0;
}

static int
check(const struct model_config *c, struct err *e)
{
	if (c->normalization != NORMALIZATION_RMSNORM || c->activation != ACTIVATION_RELU2 ||
	    c->position != POSITION_LEARNED)
		return err_set(e, "needs RMSNorm, squared ReLU and learned positions");
	if (c->qkv_bias || c->proj_bias || c->mlp_bias || !c->untie_embeddings_and_output_weights)
		return err_set(e, "has no biases and an output table of its own");
	return 0;
}

const struct family family_toy = {
	.model_type = "toy",
	.architecture = "ToyForCausalLM",
	.names = names,
	.keys = keys,
	.num_keys = sizeof keys / sizeof *keys,
	.read_rest = read_rest,
	.check = check,
};
