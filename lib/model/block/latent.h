/*
 * latent.h - what attention holds whose queries, keys and values are projected up from latents
 */
#ifndef MODEL_BLOCK_LATENT_H
#define MODEL_BLOCK_LATENT_H

#include "lib/model/block/buffers.h"
#include "lib/model/config.h"

struct buffer_list;
struct param_list;
struct sizes;
struct work;

/* The block of attention states them; its own numbers are below LATENT_FIRST. */
enum { LATENT_FIRST = 64 };
/* clang-format off */
enum latent_param {
	LATENT_Q_DOWN = (BLOCK_attention << BLOCK_SHIFT) + LATENT_FIRST,
	LATENT_Q_NORM, LATENT_Q_UP, LATENT_Q_WHOLE, LATENT_KV_DOWN, LATENT_KV_NORM, LATENT_KV_UP,
};
enum latent_buffer {
	LATENT_Q = (BLOCK_attention << BLOCK_SHIFT) + LATENT_FIRST,
	LATENT_Q_RSTD, LATENT_KV, LATENT_KV_RSTD,
	LATENT_Q_NORMED, LATENT_KV_NORMED, LATENT_KV_HEADS,
	LATENT_DQ, LATENT_DQ_NORMED, LATENT_DKV, LATENT_DKV_NORMED,
};
/* clang-format on */

/* The widths of a token's latents: that of its queries, 0 where they have none, and that of its
 * keys and values together with the elements of keys that rotate. */
struct latent_sizes {
	int64_t q, kv;
};
struct latent_sizes latent_sizes_of(const struct model_config *c);

/* Those of such a model in place of the weights of q, k and v; the buffers of a rank with `heads`
 * heads; and the GEMMs of both projections of each latent. */
void latent_params(struct param_list *to, const struct model_config *c);
void latent_buffers(struct buffer_list *to, const struct sizes *z, int64_t heads);
void latent_work(struct work *w, const struct sizes *z, int64_t heads);

#endif
