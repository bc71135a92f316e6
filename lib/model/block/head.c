/* head.c - the head: what final norm, output table and loss hold */
#include "lib/model/block/head.h"
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

#include <stddef.h>

enum { HEAD_TILE = 128 };

/* About 2^25 elements over the whole vocabulary, and 3 2^27 in the 16-bit types of GPUs, whose
 * products need many rows, in chunks that are alike and of whole tiles. */
int64_t
head_rows(const struct model_config *c, const struct train_shape *s)
{
	bool half = dtype_size(s->dtype) == 2;
	int64_t most = (half ? (int64_t)3 << 27 : (int64_t)1 << 25) / c->vocab_size,
		tokens = s->seq_length * s->micro_batch_size, chunks;

	if (most < HEAD_TILE)
		most = HEAD_TILE;
	if (most >= tokens || !half)
		return most < tokens ? most : tokens;
	chunks = (tokens + most - 1) / most;
	return ((tokens + chunks - 1) / chunks + HEAD_TILE - 1) / HEAD_TILE * HEAD_TILE;
}

static const struct param_row params[] = {
	{ "decoder.final_layernorm.weight", ROLE_FINAL_NORM, ALWAYS, { D_HIDDEN }, SHARD_NONE, 0,
	    INIT_ONE, 0, 0 },
	{ "decoder.final_layernorm.bias", ROLE_FINAL_NORM_BIAS, IF_LAYERNORM, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0, 0 },
	{ "output_layer.weight", ROLE_OUTPUT, IF_UNTIED, { D_VOCAB, D_HIDDEN }, SHARD_VOCAB, 0,
	    INIT_NORMAL, 0, 0 },
	{ .name = NULL },
};

static const struct buffer_row buffers[] = {
	{ "final norm input", BUF_FINAL_INPUT, SLOT, ALWAYS, ACT, { D_TOKENS, D_HIDDEN }, 0 },
	{ "final norm mean", BUF_FINAL_MEAN, SLOT, IF_LAYERNORM, REAL, { D_TOKENS, D_ONE }, 0 },
	{ "final norm rstd", BUF_FINAL_RSTD, SLOT, ALWAYS, REAL, { D_TOKENS, D_ONE }, 0 },
	/* of the final norm's output */
	{ "head gradient", BUF_HEAD_GRAD, SLOT, IF_TRAINING, ACT, { D_TOKENS, D_HIDDEN }, 0 },
	{ "final norm output", BUF_FINAL_OUT, STEP, ALWAYS, ACT, { D_TOKENS, D_HIDDEN }, HEAD },
	{ "logits", BUF_LOGITS, STEP, ALWAYS, ACT, { D_HEAD_ROWS, D_VOCAB }, HEAD },
	{ "softmax statistics", BUF_STATS, STEP, IF_TENSOR, REAL, { D_STAT_ROWS, D_THREE }, HEAD },
	{ "token loss", BUF_LOSS, STEP, ALWAYS, REAL, { D_TOKENS, D_ONE }, HEAD },
	{ "token z-loss", BUF_ZLOSS, STEP, ALWAYS, REAL, { D_TOKENS, D_ONE }, HEAD },
	{ .name = NULL },
};

static const struct block_norm norm = { ROLE_FINAL_NORM, ROLE_FINAL_NORM_BIAS, BUF_FINAL_MEAN,
	BUF_FINAL_RSTD, BUF_FINAL_OUT };

/* The loss goes over the logits. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], v = dim[D_VOCAB];

	(void)c;
	work_product(w, rows, v, dim[D_HIDDEN]);
	w->elements = 8 * (double)v * (double)rows;
	w->reductions = 1;
}

const struct block_kind block_head = { "head", params, buffers, BUF_FINAL_INPUT, &norm, NULL,
	work };
