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

static int
read_config(struct model_config *c, const struct json_value *v, struct err *e)
{
	if (json_int(v, "n_tokens", 0, &c->vocab_size, e) < 0 ||
	    json_int(v, "n_blocks", 0, &c->num_layers, e) < 0 ||
	    json_int(v, "width", 0, &c->hidden_size, e) < 0 ||
	    json_int(v, "mlp_width", 0, &c->ffn_hidden_size, e) < 0 ||
	    json_int(v, "heads", 0, &c->num_attention_heads, e) < 0 ||
	    json_int(v, "groups", c->num_attention_heads, &c->num_query_groups, e) < 0 ||
	    json_int(v, "context", 0, &c->max_position_embeddings, e) < 0)
		return -1;
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

static void
write_config(const struct model_config *c, struct str *out)
{
	str_addf(out,
	    ",\n  \"n_tokens\": %lld,\n  \"n_blocks\": %lld,\n  \"width\": %lld,\n  \"mlp_width\": "
	    "%lld",
	    (long long)c->vocab_size, (long long)c->num_layers, (long long)c->hidden_size,
	    (long long)c->ffn_hidden_size);
	str_addf(out, ",\n  \"heads\": %lld,\n  \"groups\": %lld,\n  \"context\": %lld",
	    (long long)c->num_attention_heads, (long long)c->num_query_groups,
	    (long long)c->max_position_embeddings);
}

const struct family family_toy = {
	.model_type = "toy",
	.architecture = "ToyForCausalLM",
	.names = names,
	.read = read_config,
	.check = check,
	.write = write_config,
};
