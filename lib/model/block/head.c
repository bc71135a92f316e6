/* head.c - the head: what final norm, output table and loss hold */
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

#include <stddef.h>

static const struct param_row params[] = {
	{ "decoder.final_layernorm.weight", ROLE_FINAL_NORM, ALWAYS, { D_HIDDEN }, SHARD_NONE, 0,
	    INIT_ONE, 0, { 0, SUM_TENSOR } },
	{ "decoder.final_layernorm.bias", ROLE_FINAL_NORM_BIAS, IF_LAYERNORM, { D_HIDDEN },
	    SHARD_NONE, 0, INIT_ZERO, 0, { 0, SUM_TENSOR } },
	{ "output_layer.weight", ROLE_OUTPUT, IF_UNTIED, { D_VOCAB, D_HIDDEN }, SHARD_VOCAB, 0,
	    INIT_NORMAL, 0, { 0, 0 } },
	{ .name = NULL },
};

static const struct named_row buffers[] = {
	{ "final norm input", BUF_FINAL_INPUT, SLOT, ALWAYS, STREAM, { D_ROWS, D_HIDDEN }, 0 },
	{ "final norm mean", BUF_FINAL_MEAN, SLOT, IF_LAYERNORM, REAL, { D_ROWS, D_ONE }, 0 },
	{ "final norm rstd", BUF_FINAL_RSTD, SLOT, ALWAYS, REAL, { D_ROWS, D_ONE }, 0 },
	/* of the final norm's output */
	{ "head gradient", BUF_HEAD_GRAD, SLOT, IF_TRAINING, ACT, { D_ROWS, D_HIDDEN }, 0 },
	/* made in the pass over the rows that reads the last block's output */
	{ "final norm output", BUF_FINAL_OUT, STEP, ALWAYS, ACT, { D_ROWS, D_HIDDEN }, FWD | HEAD },
	{ "logits", BUF_LOGITS, STEP, ALWAYS, ACT, { D_HEAD_ROWS, D_VOCAB }, HEAD },
	{ "softmax statistics", BUF_STATS, STEP, IF_TENSOR, REAL, { D_STAT_ROWS, D_THREE }, HEAD },
	{ "token loss", BUF_LOSS, STEP, ALWAYS, REAL, { D_TOKENS, D_ONE }, HEAD },
	{ "token z-loss", BUF_ZLOSS, STEP, ALWAYS, REAL, { D_TOKENS, D_ONE }, HEAD },
	{ .name = NULL },
};

static const struct block_norm norm = { ROLE_FINAL_NORM, ROLE_FINAL_NORM_BIAS, BUF_FINAL_MEAN,
	BUF_FINAL_RSTD, BUF_FINAL_INPUT, BUF_FINAL_OUT };

/* After the layers. */
static bool
in(const struct model_config *c, int64_t layer)
{
	return layer == c->num_layers;
}

/* The loss reads and writes the logits. */
static void
work(struct work *w, const struct model_config *c, const int64_t *dim)
{
	int64_t rows = dim[D_TOKENS], v = dim[D_VOCAB];

	(void)c;
	work_gemm(w, rows, v, dim[D_HIDDEN]);
	w->elements = 8 * (double)v * (double)rows;
	w->reductions = 1;
	w->scatters = 2;
}

const struct block_kind block_head = { "head", in, params, buffers, BUF_FINAL_INPUT, &norm, NULL,
	NULL, work };
