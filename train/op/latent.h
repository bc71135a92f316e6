/* latent.h - keys and values of heads from what latents are projected up to */
#ifndef TRAIN_OP_LATENT_H
#define TRAIN_OP_LATENT_H

#include "train/op/call.h"

/* Heads side by side: k [T,n (d+r)], v [T,n e], kv [T,n (d+e)], rope [T,r], all act. A head of kv
 * is d elements of its key and then its value; rope is the end of the key of every head.
 * Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.3; docs/math.md 2.10. */
struct latent_heads {
	struct tensor k, v, kv, rope;
	int num_heads;
};

/* dkv and drope, written, from dk and dv of the same shapes; drope is the sum over the heads in
 * their order. */
struct latent_heads_grad {
	struct tensor dkv, drope, dk, dv;
	int num_heads;
};

/* d, r and e. */
struct latent_widths {
	int64_t plain, rope, value;
};

static inline struct latent_widths
latent_widths(
    const struct tensor *k, const struct tensor *v, const struct tensor *rope, int num_heads)
{
	struct latent_widths w;

	w.rope = rope->shape[1];
	w.plain = k->shape[1] / num_heads - w.rope;
	w.value = v->shape[1] / num_heads;
	return w;
}

static inline bool
latent_shapes_fit(const struct tensor *k, const struct tensor *v, const struct tensor *kv,
    const struct tensor *rope, int num_heads)
{
	struct latent_widths w = latent_widths(k, v, rope, num_heads);
	int64_t rows = kv->shape[0];

	return num_heads > 0 && w.plain >= 0 && k->shape[0] == rows && v->shape[0] == rows &&
	    rope->shape[0] == rows && k->shape[1] == num_heads * (w.plain + w.rope) &&
	    v->shape[1] == num_heads * w.value && kv->shape[1] == num_heads * (w.plain + w.value);
}

static inline void
describe_latent_heads(struct op_call *c, const struct latent_heads *l)
{
	op_reads(c, &l->kv);
	op_reads(c, &l->rope);
	op_writes(c, "k", &l->k);
	op_writes(c, "v", &l->v);
}

static inline void
describe_latent_heads_grad(struct op_call *c, const struct latent_heads_grad *l)
{
	op_reads(c, &l->dk);
	op_reads(c, &l->dv);
	op_writes(c, "dkv", &l->dkv);
	op_writes(c, "drope", &l->drope);
}

#endif

#ifdef OPERATION
OPERATION(latent_heads, latent_heads)
OPERATION(latent_heads_grad, latent_heads_grad)
#endif
