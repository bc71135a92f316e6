/* head.c - the head: what final norm, output table and loss hold */
#include "lib/model/block/head.h"
#include "lib/base/int64.h"
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

/* Heads of later tokens have a norm of their own, and share the table. */
static void
params(struct param_list *to, const struct model_config *c)
{
	bool biased = model_norm_biases(c), first = to->layer == c->num_layers,
	     table = first && c->untie_embeddings_and_output_weights;
	int64_t h = c->hidden_size;
	const struct param_row rows[] = {
		NORM_ROWS("decoder.final_layernorm", HEAD_NORM, first, biased, h, 0),
		NORM_ROWS("final_layernorm", HEAD_NORM, !first, biased, h, 0),
		{ "output_layer.weight", HEAD_OUTPUT, table, { c->vocab_size, h }, SHARD_VOCAB, 0,
		    INIT_NORMAL, 0, { 0, 0 } },
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

enum { TILE = 128 };

/* Of the T token rows those whose logits are held at once. The number depends only on the model and
 * the shape, so that the order of the sums does not depend on the layout, but for the context
 * ranks: about 2^25 elements over the whole vocabulary, and 3 2^27 in 16-bit types, since GEMMs on
 * GPUs need many rows; chunks are equal and made of whole tiles. */
static int64_t
head_rows(const struct sizes *z)
{
	bool half = dtype_size(z->shape->dtype) == 2;
	int64_t most = (half ? (int64_t)3 << 27 : (int64_t)1 << 25) / z->model->vocab_size, chunks;

	if (most < TILE)
		most = TILE;
	if (most >= z->tokens || !half)
		return int64_min(most, z->tokens);
	chunks = int64_div_up(z->tokens, most);
	return int64_div_up(int64_div_up(z->tokens, chunks), TILE) * TILE;
}

/* The norm's output is made in the pass over the rows that reads the last block's output. */
static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	bool means = model_norm_means(z->model), best = z->shape->likeliest;
	int64_t t = z->tokens, r = z->rows, h = z->hidden, n = head_rows(z),
		ranks = z->layout->tensor_model_parallel_size;
	const struct buffer_row rows[] = {
		{ "final norm input", HEAD_INPUT, HEADS, true, RESIDUAL, { r, h } },
		{ "final norm mean", HEAD_NORM_MEAN, HEADS, means, COMPUTE, { r } },
		{ "final norm rstd", HEAD_NORM_RSTD, HEADS, true, COMPUTE, { r } },
		/* of the final norm's output */
		{ "head gradient", HEAD_GRAD, HEADS, z->trains, ACT, { r, h } },
		{ "final norm output", HEAD_NORM_OUT, STEP, true, ACT, { r, h }, FWD | HEAD },
		{ "logits", HEAD_LOGITS, STEP, true, ACT, { n, z->vocab }, HEAD },
		{ "softmax statistics", HEAD_STATS, STEP, ranks > 1, COMPUTE, { n * ranks, 3 },
		    HEAD },
		{ "token loss", HEAD_LOSS, STEP, true, COMPUTE, { t }, HEAD },
		{ "token z-loss", HEAD_ZLOSS, STEP, true, COMPUTE, { t }, HEAD },
		/* of this rank's columns */
		{ "largest logit", HEAD_BEST, STEP, best, COMPUTE, { t }, HEAD },
		{ "likeliest token", HEAD_BEST_TOKEN, STEP, best, I32, { t }, HEAD },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

static const struct block_norm norm = { HEAD_NORM, HEAD_NORM_BIAS, HEAD_NORM_MEAN, HEAD_NORM_RSTD,
	HEAD_INPUT, HEAD_NORM_OUT };

/* After the layers, and at the end of each layer that predicts later tokens. */
static bool
in(const struct model_config *c, int64_t layer)
{
	return layer >= c->num_layers && layer <= model_end(c);
}

/* The loss reads the logits, of a long row once more what the chip's memory does not hold, and
 * writes their gradients (docs/gpu.md 3). */
static void
work(struct work *w, const struct sizes *z)
{
	enum { ON_CHIP = 113 << 10 }; /* elements of a row, of 16 bits */
	int64_t rows = z->tokens, v = z->vocab;

	work_gemm(w, rows, v, z->hidden);
	w->gemm[0].count = int64_div_up(rows, head_rows(z));
	work_norm(w, z);
	w->backward.act += (double)(2 * v + (v > ON_CHIP ? v - ON_CHIP : 0)) * (double)rows;
	w->backward.kernels += 2 * (int)w->gemm[0].count;
	if (z->model->logits_scaling > 0) {
		w->forward.act += (double)(2 * v) * (double)rows;
		w->backward.act += (double)(2 * v) * (double)rows;
		w->backward.kernels += 2 * (int)w->gemm[0].count;
	}
	w->reductions = 1;
	w->scatters = 2;
}

const struct block_kind block_head = { "head", in, params, buffers, HEAD_INPUT, &norm, NULL, NULL,
	work };
