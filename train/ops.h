/*
 * ops.h - the numeric contract: everything mtrain computes, as one table that each backend fills
 *
 * Letters: T = s*b rows of one micro batch, row r = position r / b of sample r % b
 * (sequence-major); h hidden, n query heads, g key/value groups (local counts under tensor
 * parallelism), d head size, f ffn, v vocabulary columns held here. "act" tensors have the run's
 * dtype (F32, BF16, F16, F64); "real" tensors are F32, or F64 when the run is F64: statistics,
 * log-sum-exp, loss, main gradients, master weights, moments. "stream" tensors, of the residual
 * stream and its gradient, are all act or, where the run wants that, all real. Sums are held in
 * real precision whatever the storage.
 *
 * Calls are queued on the stream and cannot fail softly: a wrong shape is BUG(), a device fault
 * surfaces in sync(). Nothing is kept of the arguments after the call but the tensors' memory until
 * the stream has passed. Every operation is deterministic: the order of every sum depends on the
 * shapes alone; only attention_bwd need not be where the device was opened without
 * device_config.deterministic. Sources of the formulas: spec sections named with each.
 */
#ifndef TRAIN_OPS_H
#define TRAIN_OPS_H

#include "lib/base/tree.h"
#include "train/backend.h"
#include "train/tensor.h"

#include <stdint.h>

/* A wrong shape or type is the caller's mistake. */
#define ops_require(x) \
	do { \
		if (!(x)) \
			BUG("operation called with wrong arguments: not %s", #x); \
	} while (0)

/*
 * c = alpha * op(a) op(b) + beta * c; op(a) [m,k], op(b) [k,n], c [m,n], row-major, row strides
 * free. a, b act, or a real: the gradient of a router's logits; c act or real (main gradients
 * accumulate with beta 1 without a 16-bit round trip).
 *
 * The epilogue, in this order; a tensor without data is none:
 *   bias   act [n], added to every row
 *   aux    act [m,n], dense: GEMM_GELU keeps the value before the activation there, GEMM_GELU_GRAD
 *          reads it
 *   act    c = gelu_tanh(aux), or c = op(a) op(b) * gelu_tanh'(aux); only with beta 0
 *   dbias  real [m]: beta * dbias + the sums of op(a) over k (the bias gradient beside a weight
 *          gradient); beta 0 or 1
 *
 * a and b may both be F8_E4M3 or F8_E5M2, not both F8_E5M2: then a is stored [m,k] and b [n,k]
 * (trans_a false, trans_b true: dense along k, all that Hopper multiplies), beta is 0, or 1 where c
 * is F32, act GEMM_LINEAR and dbias none.
 */
enum gemm_act { GEMM_LINEAR, GEMM_GELU, GEMM_GELU_GRAD };
struct gemm {
	struct tensor c, a, b;
	bool trans_a, trans_b; /* the array is stored transposed: a is [k,m], b is [n,k] */
	double alpha, beta;
	struct tensor bias, aux, dbias;
	enum gemm_act act;
	/* What the stored 8-bit numbers have to be multiplied by: F32 [1], or of blocks as
	 * scale_kind tells, then of both and not squares twice; or none */
	struct tensor scale_a, scale_b;
	/* Sums of a GEMM of 8 bits are promoted to F32 as they grow (gradients); false: they may be
	 * held in the fewer bits of fast accumulation (forward). The CPU sums in F32 anyway. */
	bool exact;
};

/* How a tensor [r,k] of 8 bits that is summed along k is scaled, by the shape of its scales, which
 * are F32 and dense: a number for all of it; for each 128 neighbours of a row, [ceil(k / 128), r];
 * or for each 128 x 128 elements, [ceil(r / 128), ceil(k / 128) and on to a multiple of 4]. So
 * cuBLASLt reads them. r and k are multiples of 16, by which the shapes differ. */
enum scale_kind { SCALE_TENSOR, SCALE_LINES, SCALE_SQUARES };
enum { SCALE_BLOCK = 128 };
static inline enum scale_kind
scale_kind(const struct tensor *scale, const struct tensor *t)
{
	int64_t lines = (t->shape[1] + SCALE_BLOCK - 1) / SCALE_BLOCK;

	if (!scale->data || scale->ndim != 2)
		return SCALE_TENSOR;
	if (scale->shape[0] == lines && scale->shape[1] == t->shape[0])
		return SCALE_LINES;
	ops_require(scale->shape[0] == (t->shape[0] + SCALE_BLOCK - 1) / SCALE_BLOCK &&
	    scale->shape[1] == (lines + 3) / 4 * 4);
	return SCALE_SQUARES;
}

/* Where a factor and its inverse stand in a row of numbers, the rest of which is not used: cuBLASLt
 * (13.0) refuses to multiply by one that is not on a multiple of 16 bytes. */
enum { SCALE_INVERSE, SCALE_FACTOR, SCALE_ROW = 4 };

/* An 8-bit copy of x: q = the number nearest to factor * x (a product in F32), ties to even, held
 * to the largest finite one, NaN kept; qt is its transpose: one reading of x. Where x's largest is
 * wanted apart from a copy, q and qt are none. Source: Micikevicius 2022 arXiv:2209.05433. */
enum quantise_kind {
	QUANTISE_DELAYED, /* by a factor that is known */
	QUANTISE_CURRENT, /* by that of x's own largest, as in struct scales; 1 where that keeps */
	/* By a power of two for each block (scale_kind): the largest that keeps the block within
	 * the type's largest number, from 2^-126 to 2^126; 1 where the block's largest is 0 or not
	 * finite */
	QUANTISE_BLOCK,
};
struct quantise {
	struct tensor x;       /* act [m,n] */
	struct tensor q, qt;   /* F8 [m,n], F8 [n,m]; either may be none */
	struct tensor scale;   /* F32 [SCALE_ROW]: the factor is read, or with its inverse written
				* (CURRENT); of blocks the inverses alone, of q (BLOCK), written */
	struct tensor scale_t; /* BLOCK: those of qt, of the same kind */
	struct tensor amax;    /* F32 [1]: becomes the larger of itself and the largest |x|, a NaN
				* counting as infinity; or none, and so for BLOCK */
	struct tensor sums;    /* real [n]: the sums over the rows of x as it is, which are a bias's
				* gradient, in the order of gemm's dbias; or none */
	bool accumulate;       /* sums are added to, or written without */
	enum quantise_kind kind;
	/* x and q are a window of rows of experts (below): q alone, without sums; or none */
	struct tensor counts;
	int64_t first;
	/* CURRENT: is called with x's largest, F32 [1] of the device, before the factor and amax
	 * follow from it, and queues what makes it that of all parts of the tensor of which x is
	 * one; or NULL. It is called where no row of a window is of the experts, too. */
	void (*share)(const void *sharer, struct stream *, const struct tensor *largest);
	const void *sharer;
};

/* An operation whose result, of BF16, is read in 8 bits may make the copies in the same pass. It
 * has a struct quantise for them, with q, qt or both: they are those of the result as it would be
 * stored, bit for bit, and x is not looked at. The result then need not have data: it is not
 * stored. Sums are only of one that is. */
static inline bool
quantise_makes(const struct quantise *q)
{
	return q->q.data || q->qt.data;
}

/* Once a step: each slot's history moves one place on, and its place 0, the newest, takes amax, or
 * 0 for one that is not finite; amax becomes 0. From the maximum of the history, or its newest
 * place, the slot's factor is largest / maximum * 2^-margin in F32, at most SCALE_MAX, and its
 * inverse follows; a slot whose maximum is 0 keeps both. Source: spec/training.md 13. */
#define SCALE_MAX 0x1p126f
struct scales {
	struct tensor history; /* F32 [slots,length], dense */
	struct tensor amax;    /* F32 [slots] */
	struct tensor scale;   /* F32 [slots,SCALE_ROW], dense */
	struct tensor largest; /* F32 [slots]: of the slot's type */
	int margin;
	bool most_recent;
};

/* LayerNorm when bias.data is set, else RMSNorm (mean unused). y = (x - mean) rstd w + bias with
 * w = weight + shift. A row holds norm_heads() heads of d elements side by side, each normed by
 * itself with the same weight; a row that is normed as a whole has one, and d = h. Head i of row r
 * has its statistics at r * heads + i.
 * Source: Ba 2016 arXiv:1607.06450; Zhang & Sennrich 2019 arXiv:1910.07467; eps is added to the
 * mean square. */
struct norm {
	struct tensor y;            /* act [T, heads*d] */
	struct tensor x;            /* stream or act [T, heads*d] */
	struct tensor weight, bias; /* act [d] */
	struct tensor mean, rstd;   /* real [T*heads], written */
	double eps, shift;
	struct quantise copies; /* of y, with one head */
	/* mean and rstd hold already what an earlier call has written for this x */
	bool has_stats;
};
struct norm_grad {
	struct tensor dx;         /* as x: added to (the residual stream's gradient), or
				   * written with writes_dx */
	struct tensor x;          /* stream or act [T, heads*d] */
	struct tensor dy;         /* act [T, heads*d] */
	struct tensor weight;     /* act [d] */
	struct tensor mean, rstd; /* real [T*heads]; mean.data NULL for RMSNorm */
	/* real [d]: added to, or written without accumulate; dbias.data NULL for RMSNorm. Sums over
	 * rows and heads: on the CPU over the rows of a head, and one head after another */
	struct tensor dweight, dbias;
	struct tensor dx_sum; /* real [h], likewise: column sums of dx as it is stored, on the CPU
			       * in the order of gemm's dbias; with one head, or none */
	bool accumulate, writes_dx;
	double shift;
};

/* The heads in a row of x, by the length of the weight. */
static inline int64_t
norm_heads(const struct tensor *x, const struct tensor *weight)
{
	ops_require(x->ndim == 2 && weight->shape[0] > 0 && x->shape[1] % weight->shape[0] == 0);
	return x->shape[1] / weight->shape[0];
}

/* Rotary positions in place on num_heads heads side by side in the columns of x. The first
 * rotary_dim elements of a head are rotated by the angle of their row's position; table row p holds
 * cos and sin of each of rotary_dim / 2 angles: [position, rotary_dim / 2, 2]. Half-split pairs (i,
 * i + rotary_dim / 2), or (2i, 2i + 1) when interleaved. backward rotates the other way. Source: Su
 * 2021 arXiv:2104.09864. */
struct rope {
	struct tensor x;         /* act [T, num_heads * head_dim] */
	struct tensor table;     /* real [positions, rotary_dim] */
	struct tensor positions; /* I32 [T] */
	int num_heads, head_dim, rotary_dim;
	bool interleaved, backward;
};

/* Counter-based dropout: element (row r, column c) is kept when rng_uniform(key, index, stream,
 * step) >= p, with R = first_row + r and index =
 * ((first_sample + R % b) * seq_length + position of R) * width + first_column + c, and scaled by
 * 1 / (1 - p). The first `turn` positions of the rows follow each other from first_position on, the
 * rest from second_position on (dropout_position). The mask depends on the element's global place
 * only, so every layout and every recomputation draws the same. */
struct dropout {
	double p; /* 0: off */
	uint64_t key;
	uint32_t stream, step;
	int64_t first_sample, seq_length, first_position, second_position, turn, width,
	    first_column;
	int64_t first_row; /* of the T rows: a tensor may hold some of them */
	int micro_batch;   /* b */
};

/* The position in its sample of row R of all T. */
static inline int64_t
dropout_position(const struct dropout *d, int64_t r)
{
	int64_t i = r / d->micro_batch;

	return i < d->turn ? d->first_position + i : d->second_position + i - d->turn;
}

/* Causal softmax attention with grouped query heads: query head i reads group i * g / n.
 *   q [S*b, n*d], k v [K*b, g*d], out [S*b, n*d] act;  lse real [b * n, S], natural log, saved for
 * the backward pass. Keys stand at positions 0 .. K-1 of their sample and queries at the last S of
 * these, S <= K: all of a sample where S = K. softcap c > 0: a score x = scale q.k counts as
 * c tanh(x / c) (Gemma Team 2024, arXiv:2408.00118, section 2). window > 0: a query sees the last
 * `window` keys only. first: where the document of a query begins, so that it sees its own document
 * alone; in a sample it never falls from a position to the next, and is at most the position
 * itself. Dropout of probabilities: index =
 * (((first_sample + sample) * num_heads_global + head) * seq_length + query) * seq_length
 * + key by positions, with stream and step of drop, whose own positions do not count; first_column
 * is the first global head, width the global number of heads. Source: Dao 2023 arXiv:2307.08691. */
struct attention {
	struct tensor out, lse, q, k, v;
	struct tensor first; /* I32 [S*b]: position in its sample of the first token of the row's
			      * document; data NULL: a sample is one document */
	int micro_batch, num_heads, num_groups, head_dim; /* b, n, g, d */
	double scale, softcap;                            /* softcap 0: none */
	int64_t window;
	struct dropout drop;
};
struct attention_grad {
	struct attention fwd;     /* as in the forward pass, out and lse filled */
	struct tensor dout;       /* act [S*b, n*d] */
	struct tensor dq, dk, dv; /* act, written; all keys, those that no query sees too */
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

/* The gated kinds take [gate | up] side by side, 2f columns, and give f. */
enum act_kind { ACT_GELU_TANH, ACT_GELU_ERF, ACT_RELU2, ACT_SWIGLU, ACT_GEGLU_TANH, ACT_KINDS };
struct act {
	enum act_kind kind;
	struct tensor y, x; /* act [T,f], [T,f or 2f] */
	struct quantise copies;
};
/* With copies y is not stored, and blocks of those of dx must not have columns of both its halves:
 * QUANTISE_BLOCK needs an f of whole blocks where there is a gate. */
struct act_grad {
	enum act_kind kind;
	struct tensor dx, dy,
	    x; /* act [T,f or 2f], [T,f], as dx; dx may be x itself, or without a gate dy */
	/* none, or act(x) is written there: it need not have been saved; may be dy itself */
	struct tensor y;
	struct quantise dx_copies, y_copies;
};

/* y = residual + dropout(x); y may be residual itself. x act [T,h], the others stream.
 * norm: NULL, or what follows in the same pass over the rows: the norm of y as it is stored
 * (norm->x is y), with one head. */
struct residual {
	struct tensor y, x, residual;
	struct dropout drop;
	const struct norm *norm;
};

/* dx = mask * dy / (1 - p), with conversion; dx may be dy. act or stream [T,h] each. */
struct dropout_grad {
	struct tensor dx, dy;
	struct dropout drop;
};

/* Row i of y gets scale times table row ids[i] - first_row, or zeros when that is outside the table
 * (another rank's row); accumulate adds instead. table act [rows,h], ids I32 [T], y act [T,h]. */
struct embedding {
	struct tensor y, table, ids;
	int64_t first_row;
	double scale;
	bool accumulate;
};
struct embedding_grad {
	/* real [rows,h]: sums in the order of the rows of dy, added to; without */
	struct tensor dtable;
	struct tensor dy, ids; /* accumulate the other rows become 0 */
	int64_t first_row;
	double scale; /* of what is added */
	bool accumulate;
};

/* Cross entropy over a vocabulary split by columns over `parts` tensor ranks, of logits that are
 * the tensor's, or c tanh(x / c) of its x with softcap c > 0; the gradient is that of x:
 *   xent_stats  stats[i] = { max of the valid columns z, sum exp(z - max), z_label or 0 }   then
 * all-gather of the parts xent_loss   combines the parts in their order; loss[i] = lse - z_label,
 * zloss[i] = z_loss * lse^2 (both unmasked), and when grad_scale != 0 logits <- grad_scale *
 * mask[i] * (softmax * (1 + 2 z_loss lse) - [label]), padding columns 0 With one part stats.data is
 * NULL and xent_loss does both, in one reading of a row where it fits on chip. A part without valid
 * columns has max -inf and sum 0. Source: spec/training.md 2.8 and 5.1; Milakov & Gimelshein 2018
 * arXiv:1805.02867 for the running maximum; Chowdhery 2022 arXiv:2204.02311 for the z-loss. */
struct xent {
	struct tensor logits; /* act [T, v], in place */
	struct tensor labels; /* I32 [T], global ids */
	struct tensor mask;   /* F32 [T] */
	struct tensor stats;  /* real [parts * T, 3], part by part; xent_stats writes [T, 3] */
	int parts;
	struct tensor loss, zloss; /* real [T] */
	/* global id of column 0; columns that are real tokens here */
	int64_t first_column, valid_columns;
	double z_loss, grad_scale, softcap; /* softcap 0: none */
};

/*
 * The experts of R rows of logits: those of the k highest scores, of equal ones those of lower
 * number. A score is a logit, or with ROUTE_SIGMOID its sigmoid plus the bias of the expert. The
 * weights of the chosen: ROUTE_SOFTMAX, the softmax of their logits; ROUTE_PRE_SOFTMAX, their part
 * of the softmax of all E; ROUTE_SIGMOID, their sigmoids divided by the sum of these, or as they
 * are where k is 1. Row r belongs to scope r % S.
 * Source: Shazeer 2017 arXiv:1701.06538; Wang 2024 arXiv:2408.15664; spec/training.md 10.1.
 */
enum route_score { ROUTE_SOFTMAX, ROUTE_PRE_SOFTMAX, ROUTE_SIGMOID };
struct route {
	struct tensor logits; /* real [R,E] */
	struct tensor bias;   /* act [E]; or none */
	struct tensor choice; /* I32 [R,k]: a row's experts in rising order */
	struct tensor weight; /* real [R,k] */
	/* I32 [R,k n], where n ranks share each expert: where the row for each of these is among
	 * all R k n, in the order of counts and then of rows */
	struct tensor place;
	/* I32 [p,E n / p]: rows for each of p ranks, for the experts of each. Rank i has its slice
	 * i % n of those of number i / n of p / n equal ranges. */
	struct tensor counts;
	/* I32 [S,E]: by scope the rows that choose each expert by their scores without the bias */
	struct tensor load;
	enum route_score score;
	/* choice is read; all else follows from it and, with a bias, load from the logits */
	bool chosen;
};

/*
 * dlogits = the gradient through the weights, plus balance times that of the sum over rows of
 * n[i] P[i] with n = load[scope of the row], a constant, plus z times that of the sum of lse^2. P
 * is the softmax of a row, or its sigmoids divided by their sum; lse = log sum exp of its logits.
 * n is without the bias, as P is: compute_routing_scores_for_aux_loss in Megatron-LM's
 * core/transformer/moe/moe_utils.py.
 * Source: Fedus 2021 arXiv:2101.03961; Zoph 2022 arXiv:2202.08906; spec/training.md 10.3.
 */
struct route_grad {
	struct route fwd;      /* as it was left, but load may be summed over ranks */
	struct tensor dweight; /* real [R,k] */
	struct tensor dlogits; /* real [R,E], written */
	/* real [E]: the rows of each are added, or written without accumulate; or none */
	struct tensor dbias;
	bool accumulate;
	double balance, z;
	struct tensor factor;   /* F64 [1]: multiplies both; or none */
	struct tensor arriving; /* I32 [sources,E_l], rows strided: as in struct grouped */
	int64_t window;         /* P */
	/* F64 [E + 5], added to: the rows of each expert; then over rows the sum of n[i] P[i],
	 * lse^2 and the entropy of P; then the windows that have rows, or 1; last the most rows
	 * that have arrived, which is a maximum */
	struct tensor sums;
};

/*
 * Each expert keeps `capacity` of its rows at most: those of the highest weights, of equal ones the
 * first; or by_position the first of all. The places of a dropped row become -1, and the others
 * close up. Weights stay as they are.
 * Source: Lepikhin 2020 arXiv:2006.16668; spec/training.md 10.4.
 */
struct drop_rows {
	struct route route;  /* as it was left; with chosen, kept is read and all else follows */
	struct tensor taken; /* as route.counts: of the rows that are left */
	struct tensor kept;  /* real [R,k]: 1, or 0 for a row that is dropped */
	int64_t capacity;
	bool by_position;
};

/* Rows in another order: y[place[r, j]] = x[r] for each j, or y[r] = the sum of x[place[r, j]] in
 * the order of j, added to y[r] with accumulate. No place occurs twice, and one below 0 is none. */
enum rows_kind { ROWS_SPREAD, ROWS_SUM };
struct rows_by {
	enum rows_kind kind;
	struct tensor y, x;  /* act, or real; [R,h] and [P,h], or the other way round */
	struct tensor place; /* I32 [R,k] */
	bool accumulate;
};

/*
 * Rows that a rank's E_l experts take come in one order: by expert, then by the rank they come
 * from, then as they were sent; expert i has as many as the sum of column i of counts I32
 * [sources,E_l], rows strided, which only the device knows. Tensors of P rows hold a window of the
 * order, rows [first, first + P): all of it, part of it or, after its end, none. Rows of the window
 * after the last of the order are neither read nor written.
 */
static inline int64_t
window_rows(const struct tensor *counts, int64_t first, int64_t height)
{
	int64_t rows = -first;

	for (int64_t i = 0; i < counts->shape[0]; i++)
		for (int64_t j = 0; j < counts->shape[1]; j++)
			rows += ((const int32_t *)counts->data)[i * counts->stride[0] + j];
	return rows < 0 ? 0 : rows < height ? rows : height;
}

/*
 * GEMMs of the experts with those of their rows that the window has. Experts' matrices lie one
 * above the other in one tensor.
 *   GROUPED_FORWARD  c [P,m] = a [P,n] b^T, b act [E_l m, n]
 *   GROUPED_INPUT    c [P,n] = a [P,m] b
 *   GROUPED_WEIGHT   c real [E_l m, n] = a^T b + beta c, a [P,m], b [P,n]; beta 0 or 1. An expert
 *                    without rows in the window gets beta c.
 * But for WEIGHT, a may also be E4M3 or E5M2 and b E4M3. INPUT then has b [n, E_l m], whose columns
 * are the experts' rows, so that both are dense along the sum, and its sums are exact as in struct
 * gemm. So are scales; of blocks they are lines of a and squares of b, none of which is of two
 * experts: m is a multiple of SCALE_BLOCK. m and n are multiples of 16.
 */
enum grouped_kind { GROUPED_FORWARD, GROUPED_INPUT, GROUPED_WEIGHT };
struct grouped {
	enum grouped_kind kind;
	struct tensor c, a, b, counts;
	int64_t first;
	double beta; /* 0 but for GROUPED_WEIGHT */
	struct tensor scale_a, scale_b;
};

/* Of the window: y [P,f] act = weight[r] act(x[r]), x [P,f or 2f] act, weight real [P,1]. */
struct expert_act {
	enum act_kind kind;
	struct tensor y, x, weight, counts;
	int64_t first;
};

/*
 * With a = act(x[r]) in real: dweight[r] = the sum of dy[r] a in a fixed order, y[r] = weight[r] a,
 * dx[r] = act'(x[r]) weight[r] dy[r]. dx and x act [P,f or 2f], dy and y act [P,f], weight and
 * dweight real [P,1]. dx may be x itself; y is neither dy nor x.
 */
struct expert_act_grad {
	enum act_kind kind;
	struct tensor dx, dy, y, dweight, x, weight, counts;
	int64_t first;
};

/* Initial weights: x[i] = std * N(key, stream, first + i), the normals of lib/base/rng.h
 * (rng_normal with step 0); x dense, act or real. A device may differ from the CPU in the last bits
 * of a double before rounding. */
struct normal {
	struct tensor x;
	uint64_t key;
	uint32_t stream;
	int64_t first;
	double std;
};

/*
 * The random bits of a flat range, by the number of each element in its whole tensor, so that they
 * do not depend on the layout: element i is number start + j / columns * width + j % columns with
 * j = first + i, and takes word number % 4 of Philox's block number / 4 (lib/base/rng.h).
 */
struct draws {
	uint64_t key;
	uint32_t stream, step;
	int64_t start, first, columns, width;
};

static inline uint64_t
draws_number(const struct draws *d, int64_t i)
{
	int64_t j = d->first + i;

	return (uint64_t)(d->start + j / d->columns * d->width + j % d->columns);
}

/* One AdamW (or L2 when decoupled is false) update of a flat range; g = grad * grad_scale.
 * Source: Loshchilov & Hutter 2019 arXiv:1711.05101; spec/training.md 4.2. */
struct adamw {
	struct tensor master, grad; /* real [count]; grad may be BF16 */
	/* U16 [count]: completes a master in BF16 (dtype_f32_from_parts), and weight is none then;
	 * else data NULL */
	struct tensor remainder;
	/* real or BF16 [count]; BF16 is rounded stochastically (dtype_bf16_stochastic), exp_avg by
	 * the lower half of the element's word, exp_avg_sq by the upper half */
	struct tensor exp_avg, exp_avg_sq;
	struct draws draws;
	/* act [count]: the rounded master is written there; data NULL when master is it */
	struct tensor weight;
	double lr, beta1, beta2, eps, weight_decay, grad_scale;
	double correction1, correction2; /* 1 - beta^k, k the step number from 1 */
	bool decoupled;
};

struct sgd {
	struct tensor master, momentum, grad, weight; /* as above; momentum real */
	double lr, momentum_factor, weight_decay, grad_scale;
};

/*
 * What two tensors are all that is told of. Where y is F64 [1], it is added to.
 *   add              y += x, same shape; act or real
 *   cast             y = x with conversion between floating types; same shape; integers only to the
 *                    same type
 *   count_nonfinite  y F64 [1] += number of NaN or Inf in x
 *   count_zero       y F64 [1] += number of zeros in x, of either sign
 *   hash             y I64 [1] = a hash of the bits of x, dense: the sum of mix((i + 1) g + the
 *                    bits of element i as a number) modulo 2^64, mix and g those of splitmix64, so
 *                    that no change of a single element goes unseen. Source: Steele, Lea & Flood
 *                    2014, "Fast splittable pseudorandom number generators".
 */
struct pair {
	struct tensor y, x;
};

/* x = value. */
struct fill {
	struct tensor x;
	double value;
};

/* out F64 [1] += sum of x[i] * y[i] in double, in a fixed order; floating vectors of one length. */
struct dot {
	struct tensor out, x, y;
};

/* master BF16 [n] = x real [n] rounded, remainder U16 [n] = what x has beyond that, as in struct
 * adamw; all dense. */
struct halves {
	struct tensor master, remainder, x;
};

/* y = a x / max(sqrt(squares), eps) + b y; b = 0 does not read y. Same shape, floating types; rows
 * may lie apart. */
struct axpby {
	struct tensor y, x;
	double a, b;
	struct tensor squares; /* F64 [1], on the device; or none: y = a x + b y */
	double eps;            /* above 0 with squares */
};

/* A step of an exponential moving average: average += (master - average) * share. */
struct average {
	struct tensor average;           /* real [count] */
	struct tensor master, remainder; /* as in struct adamw */
	double share;
};

/* Biases of experts move towards equal loads: master[i] += rate * sign(mean - load[i]). Source:
 * Wang 2024 arXiv:2408.15664, algorithm 1. */
struct balance {
	struct tensor master, load; /* real [n]; load may be BF16, and master with a remainder */
	struct tensor remainder;    /* U16 [n], or none, and weight act [n], as in struct adamw */
	struct tensor weight;
	double mean, rate;
};

/*
 * y [n] = S (lib/base/tree.h) of the terms of ranks. x [n] is that of rank `own`, the rows of
 * others [ranks - 1, n] are those of the others, in order; own -1: there is no x, and others has
 * all. Without others y is x. Terms are of one type, act or real; they are added in real, or in F64
 * where they are, and rounded once to y, of their type or real. x, y and each row are dense; y may
 * be x.
 */
struct sum {
	struct tensor y, x, others;
	int own;
};

struct ops {
	void (*gemm)(struct stream *, const struct gemm *);
	void (*norm_fwd)(struct stream *, const struct norm *);
	void (*norm_bwd)(struct stream *, const struct norm_grad *);
	void (*rope)(struct stream *, const struct rope *);
	void (*attention_fwd)(struct stream *, const struct attention *);
	void (*attention_bwd)(struct stream *, const struct attention_grad *);
	void (*attention_max)(struct stream *, const struct attention_max *);
	void (*act_fwd)(struct stream *, const struct act *);
	void (*act_bwd)(struct stream *, const struct act_grad *);
	void (*residual_fwd)(struct stream *, const struct residual *);
	void (*dropout_bwd)(struct stream *, const struct dropout_grad *);
	void (*embedding_fwd)(struct stream *, const struct embedding *);
	void (*embedding_bwd)(struct stream *, const struct embedding_grad *);
	void (*xent_stats)(struct stream *, const struct xent *);
	void (*xent_loss)(struct stream *, const struct xent *);
	void (*add)(struct stream *, const struct pair *);
	void (*sum)(struct stream *, const struct sum *);
	void (*axpby)(struct stream *, const struct axpby *);
	void (*fill)(struct stream *, const struct fill *);
	void (*normal)(struct stream *, const struct normal *);
	void (*cast)(struct stream *, const struct pair *);
	void (*split)(struct stream *, const struct halves *);
	void (*dot)(struct stream *, const struct dot *);
	void (*count_nonfinite)(struct stream *, const struct pair *);
	void (*count_zero)(struct stream *, const struct pair *);
	void (*hash)(struct stream *, const struct pair *);
	void (*adamw)(struct stream *, const struct adamw *);
	void (*sgd)(struct stream *, const struct sgd *);
	void (*route)(struct stream *, const struct route *);
	void (*route_grad)(struct stream *, const struct route_grad *);
	void (*drop_rows)(struct stream *, const struct drop_rows *);
	void (*rows_by)(struct stream *, const struct rows_by *);
	void (*grouped)(struct stream *, const struct grouped *);
	void (*expert_act)(struct stream *, const struct expert_act *);
	void (*expert_act_grad)(struct stream *, const struct expert_act_grad *);
	void (*balance)(struct stream *, const struct balance *);
	void (*quantise)(struct stream *, const struct quantise *);
	void (*scales)(struct stream *, const struct scales *);
	/* of the host alone: NULL elsewhere */
	void (*average)(struct stream *, const struct average *);
};

#endif
