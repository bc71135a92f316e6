/* attention.h - attention */
#ifndef TRAIN_OP_ATTENTION_H
#define TRAIN_OP_ATTENTION_H

#include "train/op/dropout.h"

/* Causal softmax attention with grouped query heads: query head i reads group i * g / n.
 * q [S*b, n*d], k [K*b, g*d], v [K*b, g*e], out [S*b, n*e] act;  lse real [b * n, S], natural log,
 * saved for the backward pass. Keys stand at positions 0 .. K-1 of their sample and queries at the
 * last S of these, S <= K: all of a sample where S = K. softcap c > 0: a score x = scale q.k counts
 * as c tanh(x / c) (Gemma Team 2024, arXiv:2408.00118, section 2). window > 0: a query sees the
 * last `window` keys only. first: where the document of a query begins, so that it sees its own
 * document alone; in a sample it never falls from a position to the next, and is at most the
 * position itself. Dropout of probabilities: index = (((first_sample + sample) * num_heads_global +
 * head) * seq_length + query) * seq_length + key by positions, with stream and step of drop, whose
 * own positions do not count; first_column is the first global head, width the global number of
 * heads. sink: of each head one more score in every row's softmax, which no value belongs to;
 * scale and softcap do not change it. lse has it too. Source: Dao 2023 arXiv:2307.08691; of sinks
 * docs/math.md 2.5. */
struct attention {
	struct tensor out, lse, q, k, v;
	struct tensor first; /* I32 [S*b]: position in its sample of the first token of the row's
			      * document; data NULL: a sample is one document */
	struct tensor sink;  /* real [n]; data NULL: none */
	int micro_batch, num_heads, num_groups, head_dim; /* b, n, g, d */
	int value_dim;                                    /* e; 0: d */
	double scale, softcap;                            /* softcap 0: none */
	int64_t window;
	struct dropout drop;
};
struct attention_grad {
	struct attention fwd;     /* as in the forward pass, out and lse filled */
	struct tensor dout;       /* act [S*b, n*e] */
	struct tensor dq, dk, dv; /* act, written; all keys, those that no query sees too */
	struct tensor dsink;      /* real [n], added to: of each head the sum over its rows in a
				   * fixed order; or none */
	struct tensor delta;      /* real [b * n, S], scratch */
	struct tensor work; /* scratch of attention_workspace (lib/model/block/workspace.h) bytes,
			     * on 256; or none, and then the fastest implementation may not serve */
};

/* The largest score of each head: max [n] real, none negative, becomes the larger of itself and
 * scale q.k over all that a query sees, before softcapping. out, lse and v of fwd are not used. */
struct attention_max {
	struct attention fwd;
	struct tensor max;
};

/* Attention of the next position of each sample to itself and to all before it, whose keys and
 * values are kept, position by position; its own are put beside them. What is kept of those before,
 * first and position are read while earlier operations may still be under way, so none of these
 * makes them: the pass over the position before has ended. */
struct attention_step {
	struct attention fwd; /* of S = K = 1: k and v are those of the new position; first is as
			       * there, and may be any position up to that one */
	struct tensor keys, values; /* act [N*b, g*d], [N*b, g*e]; row position * b of each and the
				     * b - 1 after it are written */
	struct tensor position;     /* I32 [1]: 0 .. N-1, how many are kept */
};

/* S and K of attention, and the position of its first query. */
static inline int64_t
attention_queries(const struct attention *a)
{
	return a->q.shape[0] / a->micro_batch;
}

static inline int64_t
attention_keys(const struct attention *a)
{
	return a->k.shape[0] / a->micro_batch;
}

static inline int64_t
attention_first_query(const struct attention *a)
{
	return attention_keys(a) - attention_queries(a);
}

/* Whether t, if there is one, is real and has an element for each head. */
static inline bool
attention_is_of_heads(const struct attention *a, const struct tensor *t)
{
	return !t->data ||
	    (t->dtype == a->lse.dtype && t->ndim == 1 && t->shape[0] == a->num_heads);
}

/* What heads of values have, with value_dim or without. */
static inline int
attention_value_dim(const struct attention *a)
{
	return a->value_dim ? a->value_dim : a->head_dim;
}

/* Whether the tensors of the forward pass have the shapes that its numbers say. */
static inline bool
attention_shapes_fit(const struct attention *a)
{
	int64_t width = attention_value_dim(a);

	return a->micro_batch > 0 && a->num_groups > 0 && a->num_heads % a->num_groups == 0 &&
	    a->q.shape[0] % a->micro_batch == 0 && a->k.shape[0] % a->micro_batch == 0 &&
	    a->q.shape[1] == (int64_t)a->num_heads * a->head_dim &&
	    a->k.shape[1] == (int64_t)a->num_groups * a->head_dim &&
	    a->v.shape[1] == a->num_groups * width && a->out.shape[1] == a->num_heads * width &&
	    a->v.shape[0] == a->k.shape[0] && a->out.shape[0] == a->q.shape[0] &&
	    a->k.shape[0] >= a->q.shape[0] &&
	    a->lse.shape[0] == (int64_t)a->micro_batch * a->num_heads &&
	    a->lse.shape[1] == attention_queries(a) &&
	    (!a->first.data ||
		(a->first.dtype == DTYPE_I32 && tensor_elements(&a->first) == a->q.shape[0])) &&
	    attention_is_of_heads(a, &a->sink);
}

/* Whether what is kept is of the shapes that the new position's has. */
static inline bool
attention_step_fits(const struct attention_step *s)
{
	const struct attention *a = &s->fwd;

	return attention_shapes_fit(a) && attention_keys(a) == 1 && a->drop.p == 0 &&
	    s->keys.shape[0] % a->micro_batch == 0 && s->keys.shape[1] == a->k.shape[1] &&
	    s->values.shape[0] == s->keys.shape[0] && s->values.shape[1] == a->v.shape[1] &&
	    s->keys.dtype == a->k.dtype && s->values.dtype == a->v.dtype && s->position.data &&
	    s->position.dtype == DTYPE_I32;
}

/* Whether gradients have the shapes of what they are of. */
static inline bool
attention_gradients_fit(const struct attention_grad *g)
{
	return tensor_same_shape(&g->fwd.out, &g->dout) && tensor_same_shape(&g->fwd.q, &g->dq) &&
	    tensor_same_shape(&g->fwd.lse, &g->delta) && tensor_same_shape(&g->fwd.k, &g->dk) &&
	    tensor_same_shape(&g->fwd.v, &g->dv) && attention_is_of_heads(&g->fwd, &g->dsink) &&
	    (g->fwd.sink.data || !g->dsink.data);
}

/* Below the diagonal, for every window, as in published figures: a query sees its own half of them
 * in the mean, and all keys before the first of them. */
static inline double
attention_flops(const struct attention *a)
{
	double s = (double)attention_queries(a),
	       keys = (double)(attention_keys(a) + attention_first_query(a));

	return 1.0 * a->micro_batch * a->num_heads * s * keys *
	    (a->head_dim + attention_value_dim(a));
}

static inline void
describe_attention_fwd(struct op_call *c, const struct attention *a)
{
	c->flops = attention_flops(a);
	op_reads(c, &a->q);
	op_reads(c, &a->k);
	op_reads(c, &a->v);
	op_reads(c, &a->sink);
	op_writes(c, "out", &a->out);
	op_writes(c, "lse", &a->lse);
}

/* How many positions are kept is not known here: all that there is room for count. */
static inline void
describe_attention_step(struct op_call *c, const struct attention_step *s)
{
	const struct attention *a = &s->fwd;

	c->flops =
	    2.0 * (double)s->keys.shape[0] * a->num_heads * (a->head_dim + attention_value_dim(a));
	op_reads(c, &a->q);
	op_reads(c, &s->keys);
	op_reads(c, &s->values);
	op_reads(c, &a->sink);
	op_writes(c, "out", &a->out);
	op_writes(c, "lse", &a->lse);
}

static inline void
describe_attention_bwd(struct op_call *c, const struct attention_grad *a)
{
	c->flops = 2.5 * attention_flops(&a->fwd);
	op_reads(c, &a->fwd.q);
	op_reads(c, &a->fwd.k);
	op_reads(c, &a->fwd.v);
	op_reads(c, &a->fwd.out);
	op_reads(c, &a->dout);
	op_reads(c, &a->fwd.sink);
	op_writes(c, "dq", &a->dq);
	op_writes(c, "dk", &a->dk);
	op_writes(c, "dv", &a->dv);
	op_writes(c, "dsink", &a->dsink);
}

static inline void
describe_attention_max(struct op_call *c, const struct attention_max *a)
{
	struct attention scores = a->fwd;

	scores.value_dim = scores.head_dim;
	c->flops = attention_flops(&scores) / 2;
	op_reads(c, &a->fwd.q);
	op_reads(c, &a->fwd.k);
	op_writes(c, "max", &a->max);
}

#endif

#ifdef OPERATION
OPERATION(attention_fwd, attention)
OPERATION(attention_step, attention_step)
OPERATION(attention_bwd, attention_grad)
OPERATION(attention_max, attention_max)
#endif
