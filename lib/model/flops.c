/*
 * flops.c - model FLOPs of a training step
 *
 * The usual count of model FLOPs: two for a multiply-add, three passes (one forward, two backward),
 * hence 6 a weight and token. Causal attention costs 12 s q a token and layer over the whole
 * square, half of it below the diagonal. Norms, activations, the embedding look-up and
 * recomputation do not count, so the figure does not depend on the implementation.
 */
#include "lib/model/flops.h"

/*
 * In double: a step of a large run passes 2^63. The vocabulary counts with its padding, because the
 * padding is multiplied too. Source of the form: Narayanan et al. 2021, arXiv:2104.04473, appendix,
 * with the causal half.
 */
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
