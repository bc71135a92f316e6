/* flops.c - model FLOPs of a training step */
#include "lib/model/flops.h"

double
model_flops(const struct model_config *c, int64_t samples, int64_t seq_length, int64_t padded_vocab)
{
	double tokens = (double)samples * (double)seq_length, h = (double)c->hidden_size,
	       layers = (double)c->num_layers;
	double q = (double)(c->num_attention_heads * c->kv_channels),
	       kv = (double)(c->num_query_groups * c->kv_channels);
	double mlp = h * (double)c->ffn_hidden_size * (model_gated(c) ? 3 : 2),
	       attention = h * (q + 2 * kv) + q * h;
	double seen = (double)seq_length, w = (double)c->window_size;

	/* Query i sees min(i, w) keys: on average w - w^2 / 2s, of which this is twice, as s is of
	 * s / 2. */
	if (c->window_size && c->window_size < seq_length)
		seen = 2 * w - w * w / seen;
	return 6 * tokens * (layers * (mlp + attention) + h * (double)padded_vocab) +
	    6 * tokens * seen * q * layers;
}
