/*
 * mtp.c - the beginning of a layer after the head: what the norms of the hidden state and of the
 * next token's embedding, and their projection, hold
 *
 * The layer continues with attention and an MLP or experts, as the model's last one has them, and
 * ends with a head. Norms and projection are whole on every tensor rank, and each projects its own
 * rows. Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.2; core/transformer/
 * multi_token_prediction.py in Megatron-LM; docs/math.md 2.11.
 */
#include "lib/model/block/mtp.h"
#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

static void
params(struct param_list *to, const struct model_config *c)
{
	bool biased = model_norm_biases(c);
	int64_t h = c->hidden_size;
	const struct param_row rows[] = {
		NORM_ROWS("enorm", MTP_EMBEDDING_NORM, true, biased, h, 0),
		NORM_ROWS("hnorm", MTP_HIDDEN_NORM, true, biased, h, 0),
		{ "eh_proj.weight", MTP_PROJECTION, true, { h, 2 * h }, SHARD_NONE, 0, INIT_NORMAL,
		    0, { 0, SUM_TENSOR } },
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

/* The backward pass writes gradients over the norms' outputs, when it has read them. */
static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	bool means = model_norm_means(z->model);
	int64_t r = z->rows, h = z->hidden;
	const struct buffer_row rows[] = {
		{ "mtp hidden state", MTP_HIDDEN, LATER, true, RESIDUAL, { r, h } },
		{ "mtp hnorm mean", MTP_HIDDEN_MEAN, LATER, means, COMPUTE, { r } },
		{ "mtp hnorm rstd", MTP_HIDDEN_RSTD, LATER, true, COMPUTE, { r } },
		{ "mtp embedding", MTP_EMBEDDING, LATER, true, ACT, { r, h } },
		{ "mtp enorm mean", MTP_EMBEDDING_MEAN, LATER, means, COMPUTE, { r } },
		{ "mtp enorm rstd", MTP_EMBEDDING_RSTD, LATER, true, COMPUTE, { r } },
		{ "mtp norm outputs", MTP_NORMED, LATER, true, ACT, { r, 2 * h } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

static bool
in(const struct model_config *c, int64_t layer)
{
	return layer > c->num_layers && layer <= model_end(c);
}

/* The hidden state is copied. Either norm reads a row and writes one, and backward reads two and
 * writes one; rows of the table as in embedding.c. */
static void
work(struct work *w, const struct sizes *z)
{
	double rows = (double)z->hidden * (double)z->rows,
	       all = (double)z->hidden * (double)z->tokens;

	work_gemm(w, z->rows, z->hidden, 2 * z->hidden);
	w->forward.act = 2 * all + 6 * rows;
	w->forward.kernels = 4;
	w->backward.act = 2 * all + 6 * rows;
	w->backward.kernels = 6;
	w->reductions = 1;
	w->scatters = 2;
}

const struct block_kind block_mtp = { "mtp", in, params, buffers, MTP_HIDDEN, NULL, NULL, NULL,
	work };
