/* sized_model.h - models of given sizes for tests that do not care about the rest */
#ifndef TESTS_SIZED_MODEL_H
#define TESTS_SIZED_MODEL_H

#include "lib/model/family.h"

struct model_sizes {
	int64_t layers, hidden, heads, groups, ffn, positions, vocab;
};

/* GPT-2's kind of layers; heads share the width. */
static inline struct model_config
sized_model(struct model_sizes s)
{
	struct model_config c;

	family_defaults(&c);
	c.num_layers = s.layers;
	c.hidden_size = s.hidden;
	c.num_attention_heads = s.heads;
	c.num_query_groups = s.groups;
	c.kv_channels = s.hidden / s.heads;
	c.ffn_hidden_size = s.ffn;
	c.max_position_embeddings = s.positions;
	c.vocab_size = s.vocab;
	c.norm_epsilon = 1e-5;
	return c;
}

/* Llama's kind of layers. */
static inline struct model_config
sized_llama(struct model_sizes s)
{
	struct model_config c = sized_model(s);

	c.normalization = NORMALIZATION_RMSNORM;
	c.activation = ACTIVATION_SWIGLU;
	c.position = POSITION_ROPE;
	return c;
}

#endif
